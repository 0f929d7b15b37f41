// What a subsystem (an application, a workload, later the DHT or PubSub) sees of a node: three narrow interfaces.
// Peers is what it can do, the on_ functions are what it is told, Services is what it may use. It owns no thread and
// reads no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/env/environment.h"
#include "core/transport/link.h"
#include "core/wire/channel.h"

namespace peerbed {

struct PeerAddress {
  PeerId peer;
  std::vector<Endpoint> endpoints;
};

enum class PunchOutcome : std::uint8_t {
  direct,   ///< a direct path was validated and is in use
  relayed,  ///< no direct path was found; the connection stays on the relay
  failed,   ///< not even the relay could connect the two
};
[[nodiscard]] std::string_view to_string(PunchOutcome outcome);

struct PunchReport {
  PeerId peer;
  PunchOutcome outcome = PunchOutcome::failed;
  int attempts = 0;         ///< rounds of probes; 0 if it did not come to a round
  Duration elapsed{};       ///< since connect_via() here, or since the relayed link came up at the other side
  std::string_view reason;  ///< why it failed: "refused", "timed out", …; empty otherwise
  bool initiator = false;
};

enum class DialFailure : std::uint8_t { no_address, refused, timed_out, unreachable, wrong_identity };
[[nodiscard]] std::string_view to_string(DialFailure failure);

class Subsystem;

/// What a subsystem can do with peers.
class Peers {
 public:
  /// Before start only. Messages of that channel go to `owner`. A name can be registered once.
  virtual ChannelId register_channel(std::string_view name, Subsystem& owner, ChannelOptions options = {}) = 0;

  /// Dials all endpoints over UDP and TCP and keeps the first link; on_peer_connected or on_dial_failed follows.
  /// Already connected: on_peer_connected follows as well.
  virtual void connect(TimePoint now, const PeerAddress& address) = 0;
  /// Reaches `target` through `relay` (connected, or failed at once), then punches a direct path;
  /// on_peer_connected when the relayed link is up, on_punch_finished when the verdict stands.
  virtual void connect_via(TimePoint now, const PeerId& target, const PeerId& relay) = 0;
  virtual void disconnect(TimePoint now, const PeerId& peer) = 0;

  /// Whole message or nothing. Small messages of one event are coalesced into full packets.
  virtual SendStatus send(TimePoint now, const PeerId& peer, ChannelId channel, BytesView message) = 0;
  /// While paused, messages of that channel from that peer are not delivered and flow control slows the sender.
  virtual void pause(TimePoint now, const PeerId& peer, ChannelId channel, bool paused) = 0;

  [[nodiscard]] virtual bool connected(const PeerId& peer) const = 0;
  [[nodiscard]] virtual std::vector<PeerId> connected_peers() const = 0;  ///< in ascending order
  /// The link in use; nothing if not connected. For statistics and paths: it may go at the next event.
  [[nodiscard]] virtual const Link* link(const PeerId& peer) const = 0;

 protected:
  ~Peers() = default;
};

/// What a subsystem may use.
class Services {
 public:
  [[nodiscard]] virtual Environment& environment() = 0;
  [[nodiscard]] virtual const PeerId& self() const = 0;
  [[nodiscard]] virtual std::vector<Endpoint> listen_endpoints() const = 0;    ///< with the host's addresses, not any
  [[nodiscard]] virtual std::vector<Endpoint> observed_endpoints() const = 0;  ///< as peers see this node, most recent first

 protected:
  ~Services() = default;
};

class Subsystem {
 public:
  virtual ~Subsystem() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Register channels here; keep the references.
  virtual void on_attach(Peers& peers, Services& services) = 0;
  virtual void on_start(TimePoint now) = 0;

  virtual void on_peer_connected(TimePoint, const PeerId&) {}
  virtual void on_peer_disconnected(TimePoint, const PeerId&, LinkCloseReason) {}
  virtual void on_dial_failed(TimePoint, const PeerId&, DialFailure) {}
  virtual void on_path_changed(TimePoint, const PeerId&, const Path&) {}
  virtual void on_punch_finished(TimePoint, const PunchReport&) {}
  /// `message` is valid during the call.
  virtual void on_message(TimePoint, const PeerId&, ChannelId, BytesView message) { (void)message; }
  virtual void on_channel_writable(TimePoint, const PeerId&, ChannelId) {}
};

}  // namespace peerbed
