#include "sim/des/host_tcp.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "sim/des/host.h"
#include "sim/des/tcp_connection.h"

namespace peerbed::sim {
namespace {

TcpParameters for_family(TcpParameters parameters, Family family) {
  parameters.header_size = static_cast<std::uint16_t>(header_size(family, Protocol::tcp));
  const auto largest = static_cast<std::uint16_t>(kMtu - parameters.header_size);
  parameters.max_segment_size = std::min(parameters.max_segment_size, largest);
  return parameters;
}

void add(TcpCounters& to, const TcpCounters& from) {
  to.segments_sent += from.segments_sent;
  to.segments_received += from.segments_received;
  to.bytes_sent += from.bytes_sent;
  to.segments_retransmitted += from.segments_retransmitted;
  to.fast_recoveries += from.fast_recoveries;
  to.timeouts += from.timeouts;
  to.window_probes += from.window_probes;
  to.duplicates_received += from.duplicates_received;
}

}  // namespace

// ---- one connection ------------------------------------------------------------------------------------------------

class TcpStream;

class TcpEnd final : public EventTarget {
 public:
  TcpEnd(TcpPorts& p, const TcpPorts::Pair& with, const TcpParameters& parameters, std::uint32_t initial_sequence)
      : ports(p), pair(with), machine(parameters, initial_sequence) {}
  void on_event(TimePoint now) override;  ///< the machine's deadline

  TcpPorts& ports;
  TcpPorts::Pair pair;
  TcpConnection machine;
  TcpStream* stream = nullptr;        ///< the application's handle, while it holds one
  TcpListener* acceptor = nullptr;    ///< of a passive open, until it is accepted
  EventHandle timeout{};
  TimePoint timeout_at{};
  bool touched = false, detached = false;
};

class TcpStream final : public StreamSocket {
 public:
  TcpStream(TcpEnd& end, StreamHandler* handler) : end_(&end), handler_(handler), pair_(end.pair) { end.stream = this; }
  ~TcpStream() override {
    if (end_ == nullptr) return;
    end_->stream = nullptr;
    end_->machine.release();
    end_->ports.touch(*end_);
  }
  void set_handler(StreamHandler& handler) override { handler_ = &handler; }
  [[nodiscard]] Endpoint local_endpoint() const override { return pair_.local; }
  [[nodiscard]] Endpoint remote_endpoint() const override { return pair_.remote; }
  std::size_t send(std::span<const BytesView> slices) override {
    if (end_ == nullptr) return 0;
    std::size_t taken = 0;
    for (const BytesView slice : slices) {
      if (slice.empty()) continue;
      const std::size_t n = end_->machine.write(slice);
      taken += n;
      if (n < slice.size()) break;
    }
    end_->ports.touch(*end_);
    return taken;
  }
  ReceiveResult receive(MutableBytes into) override {
    if (end_ == nullptr) return {};
    const ReceiveResult result = end_->machine.read(into);
    end_->ports.touch(*end_);
    return result;
  }
  void shutdown_send() override {
    if (end_ == nullptr) return;
    end_->machine.shutdown_send();
    end_->ports.touch(*end_);
  }

 private:
  friend class TcpPorts;
  TcpEnd* end_;  ///< none: the network is gone
  StreamHandler* handler_;
  TcpPorts::Pair pair_;
};

class TcpListener final : public StreamListener {
 public:
  TcpListener(TcpPorts& ports, const Endpoint& local, ListenerHandler& handler) : ports_(&ports), handler_(handler), local_(local) {}
  ~TcpListener() override {
    if (ports_ != nullptr) ports_->close(*this);
  }
  [[nodiscard]] Endpoint local_endpoint() const override { return local_; }

 private:
  friend class TcpPorts;
  TcpPorts* ports_;
  ListenerHandler& handler_;
  Endpoint local_;
};

void TcpEnd::on_event(TimePoint now) {
  timeout = {};
  ports.host_.enter([&] {
    // A deadline that moved back leaves its event where it was: this may be early, and then only arms anew.
    const auto due = machine.next_timeout();
    if (due && *due <= now) machine.on_timeout(now);
    ports.touch(*this);
  });
}

// ---- ports ---------------------------------------------------------------------------------------------------------

std::size_t TcpPorts::PairHash::operator()(const Pair& pair) const {
  return static_cast<std::size_t>(hash_value(pair.local) * 0x9e3779b97f4a7c15ULL ^ hash_value(pair.remote));
}

TcpPorts::TcpPorts(Host& host)
    : host_(host), sequence_random_(host.engine().seed, stream_owner(host.name()), "tcp initial sequence") {}

TcpPorts::~TcpPorts() {
  for (auto& [pair, end] : ends_) {  // order: does not matter because nothing is called
    if (end->stream != nullptr) end->stream->end_ = nullptr;
  }
  for (auto& end : detached_) {
    if (end->stream != nullptr) end->stream->end_ = nullptr;
  }
  for (TcpListener* listener : listeners_) listener->ports_ = nullptr;
}

TcpEnd* TcpPorts::find(const Pair& pair) const {
  const auto found = ends_.find(pair);
  return found == ends_.end() ? nullptr : found->second.get();
}

TcpListener* TcpPorts::find_listener(const Endpoint& local) const {
  TcpListener* any = nullptr;
  for (TcpListener* listener : listeners_) {
    const Endpoint& at = listener->local_;
    if (at.port != local.port || at.address.family != local.address.family) continue;
    if (at.address == local.address) return listener;
    if (at.address.is_any()) any = listener;
  }
  return any;
}

TcpEnd* TcpPorts::open(const Pair& pair) {
  const auto initial_sequence = static_cast<std::uint32_t>(sequence_random_.next());
  auto end = std::make_unique<TcpEnd>(*this, pair, for_family(parameters_, pair.local.address.family), initial_sequence);
  return ends_.emplace(pair, std::move(end)).first->second.get();
}

/// A port that nobody listens on and that has no connection to `remote` yet.
std::optional<std::uint16_t> TcpPorts::choose_port(const Endpoint& remote, const IpAddress& local) const {
  const std::uint16_t first = host_.first_ephemeral_port();
  std::uint16_t port = first;
  do {
    const Endpoint candidate{local, port};
    if (find_listener(candidate) == nullptr && (remote.port == 0 || find({candidate, remote}) == nullptr)) return port;
    port = port == Host::kLastEphemeral ? Host::kFirstEphemeral : static_cast<std::uint16_t>(port + 1);
  } while (port != first);
  return std::nullopt;
}

Result<std::unique_ptr<StreamSocket>> TcpPorts::connect(const ConnectOptions& options, StreamHandler& handler) {
  const Endpoint& remote = options.remote;
  if (remote.port == 0 || remote.address.is_any()) return bad_input(remote.to_string() + " is no endpoint to connect to");
  Endpoint local = options.local.value_or(Endpoint{IpAddress::any(remote.address.family), 0});
  if (local.address.family != remote.address.family) {
    return bad_input("a connection from " + local.to_string() + " to " + remote.to_string() + " mixes IPv4 and IPv6");
  }
  if (!host_.has_route(remote.address)) {
    return unavailable("on " + host_.name() + " there is no route to " + remote.address.to_string());
  }
  if (local.address.is_any()) {
    const auto source = host_.source_for(remote.address);
    if (!source) return unavailable(host_.name() + " has no address to reach " + remote.address.to_string() + " from");
    local.address = *source;
  } else if (!host_.owns(local.address)) {
    return unavailable(host_.name() + " does not have the address " + local.address.to_string());
  }
  if (local.port == 0) {
    const auto port = choose_port(remote, local.address);
    if (!port) return unavailable(host_.name() + " has no TCP port left");
    local.port = *port;
  }
  const Pair pair{local, remote};
  if (TcpEnd* old = find(pair)) {
    if (!old->machine.done()) {
      return unavailable("on " + host_.name() + " there is a connection from " + local.to_string() + " to " + remote.to_string());
    }
    // It may be the very one whose callback runs: it is removed when it is served next.
    detach(*old);
    touch(*old);
  }
  TcpEnd* end = open(pair);
  auto stream = std::make_unique<TcpStream>(*end, &handler);
  end->machine.open_active(host_.engine().now);
  touch(*end);
  return std::unique_ptr<StreamSocket>(std::move(stream));
}

Result<std::unique_ptr<StreamListener>> TcpPorts::listen(const Endpoint& wanted, ListenerHandler& handler) {
  Endpoint local = wanted;
  if (!local.address.is_any() && !host_.owns(local.address)) {
    return unavailable(host_.name() + " does not have the address " + local.address.to_string());
  }
  const auto overlaps = [&](const TcpListener* other) {
    const Endpoint& at = other->local_;
    return at.port == local.port && at.address.family == local.address.family &&
           (at.address == local.address || at.address.is_any() || local.address.is_any());
  };
  if (local.port == 0) {
    const auto port = choose_port({IpAddress::any(local.address.family), 0}, local.address);
    if (!port) return unavailable(host_.name() + " has no TCP port left");
    local.port = *port;
  }
  if (std::any_of(listeners_.begin(), listeners_.end(), overlaps)) {
    return unavailable("on " + host_.name() + " the TCP address " + local.to_string() + " is in use");
  }
  auto listener = std::make_unique<TcpListener>(*this, local, handler);
  listeners_.push_back(listener.get());
  return std::unique_ptr<StreamListener>(std::move(listener));
}

void TcpPorts::close(TcpListener& listener) {
  std::erase(listeners_, &listener);
  // Half-open connections of this listener are nobody's now. In the order of their endpoints, not of the hash.
  std::vector<TcpEnd*> orphans;
  for (auto& [pair, end] : ends_) {  // order: does not matter because they are sorted
    if (end->acceptor == &listener) orphans.push_back(end.get());
  }
  std::sort(orphans.begin(), orphans.end(), [](const TcpEnd* a, const TcpEnd* b) { return a->pair.remote < b->pair.remote; });
  for (TcpEnd* end : orphans) {
    end->acceptor = nullptr;
    end->machine.release();
    touch(*end);
  }
}

// ---- segments ------------------------------------------------------------------------------------------------------

void TcpPorts::on_packet(Packet* packet) {
  Engine& engine = host_.engine();
  const Pair pair{packet->destination, packet->source};
  TcpSegment segment = packet->tcp;
  segment.payload = BytesView(packet->payload());
  TcpEnd* end = find(pair);
  const bool is_first_syn = segment.syn && !segment.ack && !segment.rst;
  if (end != nullptr && is_first_syn && end->stream == nullptr && end->machine.may_be_replaced_by(segment) &&
      find_listener(pair.local) != nullptr) {
    remove(*end);
    end = nullptr;
  }
  if (end != nullptr) {
    end->machine.on_segment(engine.now, segment);
    touch(*end);
    engine.deliver(packet);
    return;
  }
  if (TcpListener* listener = is_first_syn ? find_listener(pair.local) : nullptr) {
    end = open(pair);
    end->acceptor = listener;
    end->machine.open_passive(engine.now, segment);
    touch(*end);
    engine.deliver(packet);
    return;
  }
  if (const auto answer = answer_of_closed_port(segment)) transmit(pair, *answer);
  engine.drop(packet, DropReason::no_port);
}

bool TcpPorts::on_error(const IcmpError& error) {
  TcpEnd* end = find({error.from, error.to});
  if (end == nullptr) return false;
  end->machine.on_unreachable(host_.engine().now, {error.to, error.reason, error.mtu});
  touch(*end);
  return true;
}

void TcpPorts::transmit(const Pair& pair, const TcpSegment& segment) {
  Packet* packet = host_.engine().packets.make(segment.payload.size());
  packet->protocol = Protocol::tcp;
  packet->source = pair.local;
  packet->destination = pair.remote;
  packet->size = static_cast<std::uint32_t>(segment.payload.size()) + header_size(pair.local.address.family, Protocol::tcp);
  packet->tcp = segment;
  packet->tcp.payload = {};
  if (!segment.payload.empty()) std::memcpy(packet->payload().data(), segment.payload.data(), segment.payload.size());
  host_.send(packet);
}

// ---- the owner's loop ----------------------------------------------------------------------------------------------

void TcpPorts::touch(TcpEnd& end) {
  if (!end.touched) {
    end.touched = true;
    touched_.push_back(&end);
  }
  host_.changed();
}

void TcpPorts::settle() {
  // By index: serving one may touch others, and itself again.
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    TcpEnd* end = touched_[i];
    if (end == nullptr) continue;
    end->touched = false;
    touched_[i] = nullptr;
    serve(*end);
  }
  touched_.clear();
}

void TcpPorts::serve(TcpEnd& end) {
  Engine& engine = host_.engine();
  const TimePoint now = engine.now;
  while (const auto segment = end.machine.poll_transmit(now)) transmit(end.pair, *segment);
  while (const auto event = end.machine.poll_event()) {
    if (event->kind == TcpEvent::Kind::connected && end.acceptor != nullptr) {
      ListenerHandler& handler = end.acceptor->handler_;
      end.acceptor = nullptr;
      handler.on_accepted(now, std::make_unique<TcpStream>(end, nullptr));
      continue;
    }
    if (event->kind == TcpEvent::Kind::closed) end.acceptor = nullptr;
    if (end.stream == nullptr || end.stream->handler_ == nullptr) continue;
    StreamHandler& handler = *end.stream->handler_;
    switch (event->kind) {
      case TcpEvent::Kind::connected: handler.on_connected(now); break;
      case TcpEvent::Kind::readable: handler.on_readable(now); break;
      case TcpEvent::Kind::writable: handler.on_writable(now); break;
      case TcpEvent::Kind::closed: handler.on_closed(now, event->reason); break;
    }
  }
  if (end.touched) return;  // a callback did something: it is served again, and armed then
  const auto due = end.machine.next_timeout();
  if (due && (!engine.scheduler.is_pending(end.timeout) || *due < end.timeout_at)) {
    engine.scheduler.cancel(end.timeout);
    end.timeout_at = std::max(*due, now);
    end.timeout = engine.schedule(end.timeout_at, end);
  }
  if (!end.machine.done()) return;
  if (end.stream == nullptr) {
    remove(end);
  } else if (!end.detached) {
    detach(end);
  }
}

void TcpPorts::detach(TcpEnd& end) {
  const auto found = ends_.find(end.pair);
  detached_.push_back(std::move(found->second));
  ends_.erase(found);
  end.detached = true;
}

void TcpPorts::remove(TcpEnd& end) {
  host_.engine().scheduler.cancel(end.timeout);
  if (end.touched) std::replace(touched_.begin(), touched_.end(), &end, static_cast<TcpEnd*>(nullptr));
  add(ended_, end.machine.counters());
  if (end.detached) {
    std::erase_if(detached_, [&](const auto& held) { return held.get() == &end; });
  } else {
    ends_.erase(Pair(end.pair));
  }
}

TcpCounters TcpPorts::counters() const {
  TcpCounters sum = ended_;
  for (const auto& [pair, end] : ends_) add(sum, end->machine.counters());  // order: does not matter because it is a sum
  for (const auto& end : detached_) add(sum, end->machine.counters());
  return sum;
}

}  // namespace peerbed::sim
