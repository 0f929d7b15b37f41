// The inside of a node: what the parts share. Private to core/node.
//
//   node.cpp       life cycle, the facade, and the agenda of deferred work
//   links.cpp      links become peers: dialing, adoption, duplicates, loss
//   traversal.cpp  relays and hole punching
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/nat/punch_session.h"
#include "core/nat/relay_client.h"
#include "core/nat/relay_server.h"
#include "core/node/node.h"
#include "core/transport/dialer.h"
#include "core/transport/tcp_transport.h"
#include "core/transport/udp_transport.h"
#include "core/wire/channel_set.h"

namespace peerbed {

/// A hole punch towards one peer, from connect_via (or the peer's first word) to the verdict.
struct Traversal {
  TimePoint started;
  std::uint64_t serial = 0;  ///< tells a stale agenda entry from a fresh one
  std::optional<PunchSession> session;  ///< nothing until the relayed link is up
  bool initiator = false, reported = false;
};

class Node::Core final : public Peers,
                         public Services,
                         public UdpTransportHandler,
                         public TcpTransportHandler,
                         public DialHandler,
                         public CircuitSender,
                         public RelayServerPort,
                         public TimerHandler {
 public:
  Core(Environment& environment, NodeConfig config);
  ~Core();

  void attach(std::unique_ptr<Subsystem> subsystem);
  Result<void> start(TimePoint now);
  void stop(TimePoint now);
  [[nodiscard]] PeerAddress address() const;

  // Peers
  ChannelId register_channel(std::string_view name, Subsystem& owner, ChannelOptions options) override;
  void connect(TimePoint now, const PeerAddress& address) override;
  void connect_via(TimePoint now, const PeerId& target, const PeerId& relay) override;
  void disconnect(TimePoint now, const PeerId& peer) override;
  SendStatus send(TimePoint now, const PeerId& peer, ChannelId channel, BytesView message) override;
  void pause(TimePoint now, const PeerId& peer, ChannelId channel, bool paused) override;
  [[nodiscard]] bool connected(const PeerId& peer) const override;
  [[nodiscard]] std::vector<PeerId> connected_peers() const override;
  [[nodiscard]] const Link* link(const PeerId& peer) const override;

  // Services
  [[nodiscard]] Environment& environment() override { return environment_; }
  [[nodiscard]] const PeerId& self() const override { return config_.identity.public_key; }
  [[nodiscard]] std::vector<Endpoint> listen_endpoints() const override;
  [[nodiscard]] std::vector<Endpoint> observed_endpoints() const override;

 private:
  /// A link with its channels; hears for both and tells the core.
  class PeerLink final : public LinkHandler, public ChannelSink {
   public:
    explicit PeerLink(Core& core) : core_(core) {}
    void bind(Link& link);
    [[nodiscard]] Link& link() const { return *link_; }
    [[nodiscard]] bool bound() const { return link_ != nullptr; }
    [[nodiscard]] ChannelSet& channels() { return *channels_; }

    void on_link_established(TimePoint now, Link& link) override;
    void on_stream_opened(TimePoint now, Link& link, StreamId stream) override;
    void on_stream_readable(TimePoint now, Link& link, StreamId stream) override;
    void on_stream_writable(TimePoint now, Link& link, StreamId stream) override;
    void on_datagram(TimePoint now, Link& link, BytesView payload) override;
    void on_observed_address(TimePoint now, Link& link, const Endpoint& ours) override;
    void on_path_validated(TimePoint now, Link& link, const Path& path, Duration rtt) override;
    void on_path_changed(TimePoint now, Link& link, const Path& path) override;
    void on_link_closed(TimePoint now, Link& link, LinkCloseReason reason) override;
    void on_channel_message(TimePoint now, Link& link, ChannelId channel, BytesView message) override;
    void on_channel_writable(TimePoint now, Link& link, ChannelId channel) override;
    void on_channel_fault(TimePoint now, Link& link, std::string_view reason) override;

    std::optional<PeerId> relayed_target;  ///< set while it is being dialed through a relay

   private:
    Core& core_;
    Link* link_ = nullptr;
    std::optional<ChannelSet> channels_;
  };

  struct PeerState {
    std::vector<PeerLink*> links;  ///< established, in order of establishment
    PeerLink* active = nullptr;    ///< the one that sends
    std::optional<DialId> dial;
    std::optional<Traversal> traversal;
    [[nodiscard]] bool idle() const { return links.empty() && !dial && !traversal; }
  };

  using Task = std::function<void(TimePoint)>;

  // node.cpp
  void later(TimePoint at, Task task);  ///< runs from the event loop, never inside this call
  void on_timer(TimePoint now) override;
  void each_subsystem(const std::function<void(Subsystem&)>& tell);
  void log(TimePoint now, std::string_view name, const PeerId& peer, std::initializer_list<EventField> more);

  // links.cpp
  void on_incoming_link(TimePoint now, Link& link) override;
  void on_other_datagram(TimePoint, const IncomingDatagram&) override {}
  void on_other_unreachable(TimePoint, const Unreachable&) override {}
  void on_dial_succeeded(TimePoint now, DialId dial, Link& link) override;
  void on_dial_failed(TimePoint now, DialId dial, LinkCloseReason reason) override;
  PeerLink& make_link();
  void adopt(TimePoint now, PeerLink& fresh);
  void resolve_duplicate(TimePoint now, PeerState& state, PeerLink& fresh);
  [[nodiscard]] bool preferred(const PeerLink& a, const PeerLink& b) const;
  void link_closed(TimePoint now, PeerLink& link, LinkCloseReason reason);
  void peer_lost(TimePoint now, const PeerId& peer, LinkCloseReason reason);
  void message(TimePoint now, const PeerId& from, ChannelId channel, BytesView bytes);
  void forget_if_idle(const PeerId& peer);
  [[nodiscard]] PeerState* find(const PeerId& peer);
  [[nodiscard]] const PeerState* find(const PeerId& peer) const;

  // traversal.cpp
  bool send_on_circuit(TimePoint now, std::uint32_t circuit, BytesView payload) override;
  [[nodiscard]] std::size_t max_circuit_datagram() const override;
  [[nodiscard]] bool can_relay_to(const PeerId& peer) const override;
  void send_relay_message(TimePoint now, const PeerId& to, const RelayMessage& message) override;
  bool send_relay_datagram(TimePoint now, const PeerId& to, BytesView datagram) override;
  void on_relay_message(TimePoint now, const PeerId& from, BytesView bytes);
  void on_relay_event(TimePoint now, const RelayEvent& event);
  void on_relayed_datagram(TimePoint now, const PeerId& from, BytesView datagram);
  void on_punch_message(TimePoint now, const PeerId& from, BytesView bytes);
  void relayed_link_up(TimePoint now, const PeerId& peer);
  void relayed_dial_failed(TimePoint now, const PeerId& peer, LinkCloseReason reason);
  void path_validated(TimePoint now, PeerLink& link, const Path& path);
  void begin_session(TimePoint now, const PeerId& peer, Traversal& traversal, PunchSession::Role role);
  void drive(TimePoint now, const PeerId& peer);
  void report(TimePoint now, const PeerId& peer, PunchOutcome outcome, std::string_view reason);
  void drop_circuit(TimePoint now, std::uint32_t circuit);
  [[nodiscard]] std::vector<Endpoint> candidates() const;

  struct Observation {
    PeerId reporter;
    Endpoint endpoint;
  };

  Environment& environment_;
  NodeConfig config_;
  bool started_ = false, stopped_ = false;

  ChannelRegistry registry_;
  std::vector<Subsystem*> channel_owners_;  ///< by ChannelId; null for the node's own channels
  std::vector<std::unique_ptr<Subsystem>> subsystems_;
  ChannelId relay_channel_, punch_channel_;

  std::map<std::pair<TimePoint, std::uint64_t>, Task> agenda_;
  std::uint64_t next_serial_ = 1;
  std::unique_ptr<Timer> timer_;

  std::map<PeerId, PeerState> peers_;
  std::size_t connected_ = 0;
  std::map<DialId, PeerId> dials_;
  std::vector<Observation> observations_;  ///< most recent first
  RelayServer relay_server_;
  RelayClient relay_client_;

  std::vector<std::uint8_t> scratch_;
  // Links and their handlers end together: transports are destroyed before the handlers they call.
  std::list<std::unique_ptr<PeerLink>> links_, buried_;
  std::unique_ptr<UdpTransport> udp_;
  std::unique_ptr<TcpTransport> tcp_;
  std::unique_ptr<Dialer> dialer_;
};

}  // namespace peerbed
