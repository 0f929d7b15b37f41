// All UDP links of a node over one socket per address family: one NAT mapping serves peers, STUN and DHT alike.
//
// The transport is the driver of `Connection` machines: it finds the connection of a datagram, keeps all their deadlines
// in one heap behind one timer, sends in batches at the end of an event, and delivers their events afterwards. It owns its
// links; a `Link&` is valid until its on_link_closed has returned. It must not be destroyed inside one of its callbacks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/crypto/identity.h"
#include "core/env/environment.h"
#include "core/transport/link.h"
#include "core/transport/transport_config.h"

namespace peerbed {

/// Carries datagrams of links whose path is a relay circuit. Implemented by the relay layer.
class CircuitSender {
 public:
  /// False: no such circuit, or no room; the datagram is lost, and loss recovery sees to it.
  virtual bool send_on_circuit(TimePoint now, std::uint32_t circuit, BytesView payload) = 0;
  [[nodiscard]] virtual std::size_t max_circuit_datagram() const = 0;

 protected:
  ~CircuitSender() = default;
};

class UdpTransportHandler {
 public:
  /// A peer's link has completed its handshake: remote() is authenticated. The handler calls link.set_handler() inside,
  /// or else the link is closed. on_link_established does not follow: this is it.
  virtual void on_incoming_link(TimePoint now, Link& link) = 0;
  /// A datagram that is none of ours by its first byte: STUN (0x00..0x3f) or bencoding ('d', 0x64).
  virtual void on_other_datagram(TimePoint now, const IncomingDatagram& datagram) = 0;
  /// An ICMP error for a datagram that left these sockets, a link's or another; unauthenticated, so links ignore it.
  virtual void on_other_unreachable(TimePoint now, const Unreachable& error) = 0;

 protected:
  ~UdpTransportHandler() = default;
};

struct UdpTransportStats {
  std::uint64_t datagrams_sent = 0, datagrams_received = 0;
  std::uint64_t unknown_connection = 0;    ///< sealed packets for a connection id that is not here
  std::uint64_t handshakes_refused = 0;    ///< max_incoming was reached
  std::uint64_t handshakes_incoming = 0;   ///< first messages that opened a state
  std::uint64_t handshakes_malformed = 0;  ///< too short to be padded, unparsable, or not ours
  std::uint64_t timer_wakeups = 0;
  std::uint64_t datagrams_dropped = 0;      ///< no socket of that family, no circuit, or the socket stayed blocked
  std::size_t links = 0;
};

class UdpTransport {
 public:
  /// One local endpoint per family at most; port 0 chooses one. The handlers, keys and environment must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<UdpTransport>> open(Environment& environment, const KeyPair& keys,
                                                                  const TransportConfig& config,
                                                                  std::span<const Endpoint> locals,
                                                                  UdpTransportHandler& handler);
  ~UdpTransport();

  [[nodiscard]] std::optional<Endpoint> local_endpoint(Family family) const;

  /// Starts a handshake; all that follows comes by the handler. With `expected`, any other identity fails it.
  Link& dial(TimePoint now, const std::optional<PeerId>& expected, const Path& path, LinkHandler& handler);

  /// Relayed paths. Without a sender, paths with a circuit cannot be used.
  void set_circuit_sender(CircuitSender* sender);
  void on_circuit_datagram(TimePoint now, std::uint32_t circuit, BytesView payload);

  /// Sends something that is not ours (STUN, DHT) from the same socket, after what is queued. False: no socket of that
  /// family. `ttl` 0 is the system's default.
  bool send_other(TimePoint now, const Endpoint& to, BytesView payload, std::uint8_t ttl = 0);

  [[nodiscard]] const UdpTransportStats& stats() const;

 private:
  class Driver;
  explicit UdpTransport(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

}  // namespace peerbed
