// The inside of UdpTransport: links, and the driver that moves their machines.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include "core/transport/connection.h"
#include "core/transport/deadline_heap.h"
#include "core/transport/send_batch.h"
#include "core/transport/udp_transport.h"

namespace peerbed {

class UdpTransport::Driver final : private TimerHandler {
 public:
  Driver(Environment& environment, const KeyPair& keys, const TransportConfig& config, UdpTransportHandler& handler);
  ~Driver();

  [[nodiscard]] Result<void> open_socket(const Endpoint& local);
  [[nodiscard]] std::optional<Endpoint> local_endpoint(Family family) const;
  Link& dial(TimePoint now, const std::optional<PeerId>& expected, const Path& path, LinkHandler& handler);
  void set_circuit_sender(CircuitSender* sender) { circuit_sender_ = sender; }
  void on_circuit_datagram(TimePoint now, std::uint32_t circuit, BytesView payload);
  bool send_other(TimePoint now, const Endpoint& to, BytesView payload, std::uint8_t ttl);
  [[nodiscard]] const UdpTransportStats& stats() const { return stats_; }

 private:
  class UdpLink final : public Link, public DeadlineNode {
   public:
    UdpLink(Driver& owner, TimePoint now, const ConnectionSetup& setup, LinkHandler* link_handler)
        : driver(owner), connection(now, setup), handler(link_handler) {}

    void set_handler(LinkHandler& link_handler) override { handler = &link_handler; }
    LinkKind kind() const override { return LinkKind::udp; }
    bool initiator() const override { return connection.initiator(); }
    bool established() const override { return connection.established(); }
    const PeerId& remote() const override { return connection.remote(); }
    Path path() const override { return connection.path(); }
    std::uint64_t session() const override { return connection.session(); }
    StreamId open_stream(TimePoint now) override;
    std::size_t write(TimePoint now, StreamId stream, std::span<const BytesView> slices) override;
    StreamRead read(TimePoint now, StreamId stream, MutableBytes into) override;
    void finish(TimePoint now, StreamId stream) override;
    bool send_datagram(TimePoint now, BytesView payload) override;
    std::size_t max_datagram_payload() const override { return connection.max_datagram_payload(); }
    void probe_path(TimePoint now, const Path& path) override;
    bool use_path(TimePoint now, const Path& path) override;
    void close(TimePoint now) override;
    LinkStats stats() const override { return connection.stats(); }

    Driver& driver;
    Connection connection;
    LinkHandler* handler;
    std::uint64_t initiate_key = 0;  // incoming: how a repeated first message is recognised
    bool dirty = false, waiting = false, dead = false;
  };

  struct Socket final : DatagramHandler {
    explicit Socket(Driver& owner) : driver(owner) {}
    void on_datagrams(TimePoint now, std::span<const IncomingDatagram> datagrams) override;
    void on_writable(TimePoint now) override;
    void on_unreachable(TimePoint now, const Unreachable& error) override;

    Driver& driver;
    std::unique_ptr<DatagramSocket> socket;
    SendBatch batch;
    bool blocked = false;
    std::vector<UdpLink*> waiting;  // for on_writable
  };

  /// The last datagram of a link that was closed here, for a peer that did not get it.
  struct Farewell {
    ConnectionId id = 0;
    Bytes datagram;
    Path path;
    TimePoint until{};
    int left = 3;
  };

  void on_timer(TimePoint now) override;
  void route(TimePoint now, const Path& from, Ecn ecn, BytesView datagram);
  void on_first_message(TimePoint now, const Path& from, Ecn ecn, BytesView datagram, const PacketView& packet);
  UdpLink& make_link(TimePoint now, bool initiator, const Path& path, const std::optional<PeerId>& expected,
                     LinkHandler* handler);
  UdpLink* find(ConnectionId id);
  void touch(TimePoint now, UdpLink& link);
  void wake(TimePoint now);
  void settle(TimePoint now);
  void deliver_events(TimePoint now, UdpLink& link);
  void flush(TimePoint now, UdpLink& link);
  bool transmit_one(TimePoint now, UdpLink& link);
  void send_out(Socket& socket);
  void update_deadline(TimePoint now, UdpLink& link);
  void bury(TimePoint now, UdpLink& link);
  void release_dead();
  void say_farewell(TimePoint now, ConnectionId id, const Path& from);
  void remember_farewell(TimePoint now, UdpLink& link);
  Socket* socket_for(const Path& path);
  [[nodiscard]] std::size_t max_circuit_datagram() const;

  Environment& environment_;
  const KeyPair& keys_;
  const TransportConfig config_;
  UdpTransportHandler& handler_;
  const Bytes prologue_;
  std::unique_ptr<Timer> timer_;
  TimePoint armed_ = kNever;
  std::unique_ptr<Socket> v4_, v6_;
  CircuitSender* circuit_sender_ = nullptr;
  boost::unordered_flat_map<ConnectionId, std::unique_ptr<UdpLink>> links_;  // looked up, never iterated for behaviour
  boost::unordered_flat_map<std::uint64_t, UdpLink*> initiates_;
  DeadlineHeap deadlines_;
  std::vector<UdpLink*> dirty_, to_flush_;
  std::vector<UdpLink*> graveyard_;
  std::vector<Farewell> farewells_;
  LinkEvents delivering_;
  Bytes circuit_buffer_;
  std::uint64_t next_serial_ = 0;
  std::size_t incoming_ = 0;
  bool busy_ = false;
  UdpTransportStats stats_;
};

}  // namespace peerbed
