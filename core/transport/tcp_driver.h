// The inside of TcpTransport: links on stream sockets, and the driver that moves their sessions.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include "core/transport/deadline_heap.h"
#include "core/transport/tcp_session.h"
#include "core/transport/tcp_transport.h"

namespace peerbed {

class TcpTransport::Driver final : private TimerHandler {
 public:
  Driver(Environment& environment, const KeyPair& keys, const TransportConfig& config, TcpTransportHandler& handler);
  ~Driver();

  [[nodiscard]] Result<Endpoint> listen(const Endpoint& local);
  [[nodiscard]] std::optional<Endpoint> local_endpoint(Family family) const;
  Link& dial(TimePoint now, const Endpoint& remote, const TcpDialOptions& options, LinkHandler& handler);
  [[nodiscard]] std::size_t links() const { return open_links_; }

 private:
  class TcpLink final : public Link, public DeadlineNode, public StreamHandler {
   public:
    TcpLink(Driver& owner, TimePoint now, const TcpSessionSetup& setup, LinkHandler* link_handler)
        : driver(owner), machine(now, setup), handler(link_handler) {}

    void set_handler(LinkHandler& link_handler) override { handler = &link_handler; }
    LinkKind kind() const override { return LinkKind::tcp; }
    bool initiator() const override { return machine.initiator(); }
    bool established() const override { return machine.established(); }
    const PeerId& remote() const override { return machine.remote(); }
    Path path() const override { return Path{machine.remote_endpoint(), 0}; }
    std::uint64_t session() const override { return machine.session(); }
    StreamId open_stream(TimePoint now) override;
    std::size_t write(TimePoint now, StreamId stream, std::span<const BytesView> slices) override;
    StreamRead read(TimePoint now, StreamId stream, MutableBytes into) override;
    void finish(TimePoint now, StreamId stream) override;
    bool send_datagram(TimePoint now, BytesView payload) override;
    std::size_t max_datagram_payload() const override { return machine.max_datagram_payload(); }
    void probe_path(TimePoint, const Path&) override {}
    bool use_path(TimePoint, const Path& path) override { return path == this->path(); }
    void close(TimePoint now) override;
    LinkStats stats() const override { return machine.stats(); }

    void on_connected(TimePoint now) override;
    void on_readable(TimePoint now) override;
    void on_writable(TimePoint now) override;
    void on_closed(TimePoint now, CloseReason reason) override;

    Driver& driver;
    TcpSession machine;
    LinkHandler* handler;
    std::unique_ptr<StreamSocket> socket;
    Bytes leftover;                 // of a record that the socket took in part
    std::size_t leftover_sent = 0;
    bool dirty = false, blocked = false, socket_closed = false, peer_ended = false;
    bool dead = false;       // on_link_closed was delivered; the socket may linger to bring CLOSE across
    bool shut_down = false, buried = false;
    bool dialled = false;
  };

  struct Listener final : ListenerHandler {
    explicit Listener(Driver& owner) : driver(owner) {}
    void on_accepted(TimePoint now, std::unique_ptr<StreamSocket> socket) override;
    Driver& driver;
    std::unique_ptr<StreamListener> listener;
  };

  void on_timer(TimePoint now) override;
  TcpLink& make_link(TimePoint now, bool initiator, const Endpoint& remote, const std::optional<PeerId>& expected,
                     LinkHandler* handler);
  void touch(TimePoint now, TcpLink& link);
  void settle(TimePoint now);
  void receive_all(TimePoint now, TcpLink& link);
  void deliver_events(TimePoint now, TcpLink& link);
  void flush(TimePoint now, TcpLink& link);
  bool send_leftover(TcpLink& link);
  void finish_closing(TimePoint now, TcpLink& link);
  void bury(TcpLink& link);
  void release_dead();

  Environment& environment_;
  const KeyPair& keys_;
  const TransportConfig config_;
  TcpTransportHandler& handler_;
  const Bytes prologue_;
  std::unique_ptr<Timer> timer_;
  TimePoint armed_ = kNever;
  std::unique_ptr<Listener> v4_, v6_;
  boost::unordered_flat_map<std::uint64_t, std::unique_ptr<TcpLink>> links_;  // by serial; never iterated for behaviour
  DeadlineHeap deadlines_;
  std::vector<TcpLink*> dirty_, graveyard_;
  LinkEvents delivering_;
  Bytes input_, output_;  // shared by all links, made when the first one needs them
  std::uint64_t next_serial_ = 0;
  std::size_t incoming_ = 0, open_links_ = 0;
  bool busy_ = false;
};

}  // namespace peerbed
