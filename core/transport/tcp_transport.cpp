#include "core/transport/tcp_transport.h"

#include <algorithm>

#include "core/transport/tcp_driver.h"

namespace peerbed {
namespace {

constexpr std::size_t kInputSize = 64 * 1024;
constexpr Duration kLinger = 5s;  // for CLOSE to arrive before the socket goes
constexpr int kReadsPerTurn = 8;  // then the reader gets its turn: what waits for it stays small

LinkCloseReason link_reason(CloseReason reason) {
  switch (reason) {
    case CloseReason::finished: return LinkCloseReason::remote;
    case CloseReason::refused: return LinkCloseReason::refused;
    case CloseReason::reset: return LinkCloseReason::reset;
    case CloseReason::timed_out: return LinkCloseReason::timed_out;
    case CloseReason::unreachable: return LinkCloseReason::timed_out;
    case CloseReason::local_error: return LinkCloseReason::reset;
  }
  return LinkCloseReason::reset;
}

}  // namespace

// ---- links ---------------------------------------------------------------------------------------------------------

StreamId TcpTransport::Driver::TcpLink::open_stream(TimePoint) { return machine.streams().open(); }

std::size_t TcpTransport::Driver::TcpLink::write(TimePoint now, StreamId stream, std::span<const BytesView> slices) {
  const std::size_t taken = machine.write(stream, slices);
  if (taken > 0) driver.touch(now, *this);
  return taken;
}

StreamRead TcpTransport::Driver::TcpLink::read(TimePoint now, StreamId stream, MutableBytes into) {
  const StreamRead result = machine.streams().read(now, stream, into);
  if (result.bytes > 0) driver.touch(now, *this);
  return result;
}

void TcpTransport::Driver::TcpLink::finish(TimePoint now, StreamId stream) {
  machine.streams().finish(stream);
  driver.touch(now, *this);
}

bool TcpTransport::Driver::TcpLink::send_datagram(TimePoint now, BytesView payload) {
  if (!machine.send_datagram(payload)) return false;
  driver.touch(now, *this);
  return true;
}

void TcpTransport::Driver::TcpLink::close(TimePoint now) {
  machine.close(now);
  driver.touch(now, *this);
}

// ---- the socket's callbacks ----------------------------------------------------------------------------------------

void TcpTransport::Driver::TcpLink::on_connected(TimePoint now) {
  driver.busy_ = true;
  blocked = false;
  machine.on_connected(now);
  driver.touch(now, *this);
  driver.settle(now);
}

void TcpTransport::Driver::TcpLink::on_readable(TimePoint now) {
  driver.busy_ = true;
  driver.receive_all(now, *this);
  driver.touch(now, *this);
  driver.settle(now);
}

void TcpTransport::Driver::TcpLink::on_writable(TimePoint now) {
  driver.busy_ = true;
  blocked = false;
  driver.touch(now, *this);
  driver.settle(now);
}

void TcpTransport::Driver::TcpLink::on_closed(TimePoint now, CloseReason reason) {
  driver.busy_ = true;
  socket_closed = true;
  machine.abandon(link_reason(reason));
  driver.touch(now, *this);
  driver.settle(now);
}

void TcpTransport::Driver::Listener::on_accepted(TimePoint now, std::unique_ptr<StreamSocket> socket) {
  driver.busy_ = true;
  if (driver.incoming_ < driver.config_.max_incoming) {
    TcpLink& link = driver.make_link(now, false, socket->remote_endpoint(), std::nullopt, nullptr);
    socket->set_handler(link);
    link.socket = std::move(socket);
    link.blocked = false;
    link.machine.on_connected(now);
    driver.touch(now, link);
  }  // else it is reset by its destruction: the peer is told `refused` by TCP
  driver.settle(now);
}

// ---- the driver ----------------------------------------------------------------------------------------------------

TcpTransport::Driver::Driver(Environment& environment, const KeyPair& keys, const TransportConfig& config,
                             TcpTransportHandler& handler)
    : environment_(environment),
      keys_(keys),
      config_(config),
      handler_(handler),
      prologue_(handshake_prologue(config.application)),
      timer_(environment.make_timer(*this)) {}

TcpTransport::Driver::~Driver() {
  for (TcpLink* link : dirty_) {  // what was closed in the last event still says so
    if (link->machine.closed() && !link->blocked && !link->buried) flush(TimePoint{}, *link);
  }
}

Result<Endpoint> TcpTransport::Driver::listen(const Endpoint& local) {
  auto listener = std::make_unique<Listener>(*this);
  auto opened = environment_.listen_stream(local, *listener);
  if (!opened) return opened.error();
  listener->listener = std::move(opened).value();
  const Endpoint bound = listener->listener->local_endpoint();
  (local.address.family == Family::v4 ? v4_ : v6_) = std::move(listener);
  return bound;
}

std::optional<Endpoint> TcpTransport::Driver::local_endpoint(Family family) const {
  const Listener* listener = family == Family::v4 ? v4_.get() : v6_.get();
  if (listener == nullptr) return std::nullopt;
  return listener->listener->local_endpoint();
}

TcpTransport::Driver::TcpLink& TcpTransport::Driver::make_link(TimePoint now, bool initiator, const Endpoint& remote,
                                                               const std::optional<PeerId>& expected, LinkHandler* handler) {
  TcpSessionSetup setup;
  setup.initiator = initiator;
  setup.keys = &keys_;
  setup.config = &config_;
  setup.prologue = prologue_;
  setup.remote = remote;
  setup.expected = expected;
  environment_.fill_secret(setup.ephemeral);
  auto link = std::make_unique<TcpLink>(*this, now, setup, handler);
  link->serial = next_serial_++;
  link->blocked = true;  // until it is connected
  ++open_links_;
  link->dialled = handler != nullptr;
  if (!link->dialled) ++incoming_;
  return *links_.emplace(link->serial, std::move(link)).first->second;
}

Link& TcpTransport::Driver::dial(TimePoint now, const Endpoint& remote, const TcpDialOptions& options, LinkHandler& handler) {
  TcpLink& link = make_link(now, !options.responder, remote, options.expected, &handler);
  ConnectOptions connect;
  connect.remote = remote;
  connect.local = options.local;
  auto socket = environment_.connect_stream(connect, link);
  if (socket) {
    link.socket = std::move(socket).value();
  } else {
    link.machine.abandon(LinkCloseReason::refused);
  }
  touch(now, link);
  return link;
}

void TcpTransport::Driver::touch(TimePoint now, TcpLink& link) {
  if (link.dirty || link.buried) return;
  link.dirty = true;
  dirty_.push_back(&link);
  if (busy_ || armed_ <= now) return;
  armed_ = now;
  timer_->arm(now);
}

void TcpTransport::Driver::on_timer(TimePoint now) {
  busy_ = true;
  armed_ = kNever;
  while (deadlines_.next() <= now) {
    auto& link = static_cast<TcpLink&>(deadlines_.front());
    deadlines_.remove(link);
    if (link.dead) {
      bury(link);  // it has lingered long enough
      continue;
    }
    link.machine.on_timeout(now);
    touch(now, link);
  }
  settle(now);
}

void TcpTransport::Driver::settle(TimePoint now) {
  busy_ = true;
  for (std::size_t i = 0; i < dirty_.size(); ++i) {  // grows while handlers act
    TcpLink& link = *dirty_[i];
    link.dirty = false;
    if (link.buried) continue;
    deliver_events(now, link);
    flush(now, link);
    if (!link.machine.events().empty()) touch(now, link);  // sending makes room for a writer
    if (link.dead) {
      finish_closing(now, link);
    } else {
      const auto next = link.machine.next_timeout();
      deadlines_.set(link, !next ? kNever : *next > now ? *next : now + 1ms);
    }
  }
  dirty_.clear();
  release_dead();
  busy_ = false;
  const TimePoint next = deadlines_.next();
  if (next < armed_) {
    armed_ = next;
    timer_->arm(next);
  }
}

void TcpTransport::Driver::receive_all(TimePoint now, TcpLink& link) {
  if (input_.empty()) input_.resize(kInputSize);
  for (int reads = 1; link.socket && !link.socket_closed; ++reads) {
    const ReceiveResult result = link.socket->receive(input_);
    if (result.bytes > 0 && !link.dead) link.machine.on_bytes(now, BytesView(input_).first(result.bytes));
    if (result.end) {
      link.peer_ended = true;
      link.machine.abandon(LinkCloseReason::remote);
      return;
    }
    if (result.bytes == 0) return;
    if (reads % kReadsPerTurn == 0) deliver_events(now, link);
  }
}

void TcpTransport::Driver::deliver_events(TimePoint now, TcpLink& link) {
  while (!link.machine.events().empty() && !link.dead) {
    LinkEvents batch;
    std::swap(batch, delivering_);
    link.machine.events().take(batch);
    for (std::size_t i = 0; i < batch.size() && !link.dead; ++i) {
      const LinkEvent& event = batch[i];
      if (event.kind == LinkEvent::Kind::closed) {
        link.dead = true;
        --open_links_;
      } else if (event.kind == LinkEvent::Kind::established && link.handler == nullptr) {
        handler_.on_incoming_link(now, link);
        if (link.handler == nullptr) link.machine.close(now);
        continue;
      }
      if (link.handler != nullptr) deliver(now, event, batch.payload(event), link, *link.handler);
    }
    batch.clear();
    std::swap(batch, delivering_);
  }
}

bool TcpTransport::Driver::send_leftover(TcpLink& link) {
  if (link.leftover.empty()) return true;
  const BytesView rest = BytesView(link.leftover).subspan(link.leftover_sent);
  link.leftover_sent += link.socket->send(std::span(&rest, 1));
  if (link.leftover_sent < link.leftover.size()) {
    link.blocked = true;
    return false;
  }
  Bytes().swap(link.leftover);
  link.leftover_sent = 0;
  return true;
}

void TcpTransport::Driver::flush(TimePoint now, TcpLink& link) {
  if (!link.socket || link.socket_closed || link.blocked || !send_leftover(link)) return;
  if (output_.empty()) output_.resize(TcpSession::kMaxRecord);
  while (const std::size_t size = link.machine.poll_record(now, output_)) {
    const BytesView record = BytesView(output_).first(size);
    const std::size_t taken = link.socket->send(std::span(&record, 1));
    if (taken == size) continue;
    link.leftover.assign(record.begin() + static_cast<std::ptrdiff_t>(taken), record.end());
    link.blocked = true;
    return;
  }
}

/// The user is done with the link; the socket lives until CLOSE is over there and the peer has ended, or for kLinger.
void TcpTransport::Driver::finish_closing(TimePoint now, TcpLink& link) {
  const bool sent = link.leftover.empty();
  if (!link.socket || link.socket_closed || (link.peer_ended && sent) || !link.machine.ever_established()) return bury(link);
  if (sent && !link.shut_down) {
    link.shut_down = true;
    link.socket->shutdown_send();
  }
  if (link.place == DeadlineNode::kAbsent || link.deadline > now + kLinger) deadlines_.set(link, now + kLinger);
}

void TcpTransport::Driver::bury(TcpLink& link) {
  if (link.buried) return;
  link.buried = true;
  deadlines_.remove(link);
  graveyard_.push_back(&link);
}

void TcpTransport::Driver::release_dead() {
  for (TcpLink* link : graveyard_) {
    if (!link->dialled) --incoming_;
    links_.erase(link->serial);
  }
  graveyard_.clear();
}

// ---- the public face -----------------------------------------------------------------------------------------------

TcpTransport::TcpTransport(Environment& environment, const KeyPair& keys, const TransportConfig& config,
                           TcpTransportHandler& handler)
    : driver_(std::make_unique<Driver>(environment, keys, config, handler)) {}
TcpTransport::~TcpTransport() = default;

Result<Endpoint> TcpTransport::listen(const Endpoint& local) { return driver_->listen(local); }
std::optional<Endpoint> TcpTransport::local_endpoint(Family family) const { return driver_->local_endpoint(family); }
Link& TcpTransport::dial(TimePoint now, const Endpoint& remote, const TcpDialOptions& options, LinkHandler& handler) {
  return driver_->dial(now, remote, options, handler);
}
std::size_t TcpTransport::links() const { return driver_->links(); }

}  // namespace peerbed
