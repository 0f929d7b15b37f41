#include "core/transport/udp_transport.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/transport/udp_driver.h"

namespace peerbed {
namespace {

constexpr std::size_t kSmallestInitiate = 1200;  // RFC 9000 §8.1: so that an answer of three times that is no attack
constexpr std::size_t kMostFarewells = 64;

/// What a repetition of a first message has in common with it: the sender's id and the start of its ephemeral key.
std::uint64_t initiate_key(const PacketView& packet) {
  ByteReader reader(packet.message);
  return packet.source ^ reader.u64();
}

}  // namespace

// ---- links ---------------------------------------------------------------------------------------------------------

StreamId UdpTransport::Driver::UdpLink::open_stream(TimePoint) { return connection.open_stream(); }

std::size_t UdpTransport::Driver::UdpLink::write(TimePoint now, StreamId stream, std::span<const BytesView> slices) {
  const std::size_t taken = connection.write(stream, slices);
  if (taken > 0) driver.touch(now, *this);
  return taken;
}

StreamRead UdpTransport::Driver::UdpLink::read(TimePoint now, StreamId stream, MutableBytes into) {
  const StreamRead result = connection.read(now, stream, into);
  if (result.bytes > 0) driver.touch(now, *this);
  return result;
}

void UdpTransport::Driver::UdpLink::finish(TimePoint now, StreamId stream) {
  connection.finish(stream);
  driver.touch(now, *this);
}

bool UdpTransport::Driver::UdpLink::send_datagram(TimePoint now, BytesView payload) {
  if (!connection.send_datagram(payload)) return false;
  driver.touch(now, *this);
  return true;
}

void UdpTransport::Driver::UdpLink::probe_path(TimePoint now, const Path& path) {
  connection.set_max_circuit_datagram(driver.max_circuit_datagram());
  connection.probe_path(now, path);
  driver.touch(now, *this);
}

bool UdpTransport::Driver::UdpLink::use_path(TimePoint now, const Path& path) {
  const bool moved = connection.use_path(now, path);
  driver.touch(now, *this);
  return moved;
}

void UdpTransport::Driver::UdpLink::close(TimePoint now) {
  connection.close(now);
  driver.touch(now, *this);
}

// ---- sockets -------------------------------------------------------------------------------------------------------

void UdpTransport::Driver::Socket::on_datagrams(TimePoint now, std::span<const IncomingDatagram> datagrams) {
  driver.busy_ = true;
  driver.stats_.datagrams_received += datagrams.size();
  for (const IncomingDatagram& datagram : datagrams) {
    if (is_peerbed_datagram(datagram.payload)) {
      driver.route(now, Path{datagram.from, 0}, datagram.ecn, datagram.payload);
    } else {
      driver.handler_.on_other_datagram(now, datagram);
    }
  }
  driver.settle(now);
}

void UdpTransport::Driver::Socket::on_writable(TimePoint now) {
  driver.busy_ = true;
  blocked = false;
  driver.send_out(*this);
  std::vector<UdpLink*> links;
  links.swap(waiting);
  for (UdpLink* link : links) {
    link->waiting = false;
    driver.touch(now, *link);
  }
  driver.settle(now);
}

void UdpTransport::Driver::Socket::on_unreachable(TimePoint now, const Unreachable& error) {
  driver.busy_ = true;
  driver.handler_.on_other_unreachable(now, error);
  driver.settle(now);
}

// ---- the driver ----------------------------------------------------------------------------------------------------

UdpTransport::Driver::Driver(Environment& environment, const KeyPair& keys, const TransportConfig& config,
                             UdpTransportHandler& handler)
    : environment_(environment),
      keys_(keys),
      config_(config),
      handler_(handler),
      prologue_(handshake_prologue(config.application)),
      timer_(environment.make_timer(*this)) {}

UdpTransport::Driver::~Driver() {
  circuit_sender_ = nullptr;  // may be gone already
  // What was closed in the last event still says so; the order is that of the calls.
  for (UdpLink* link : dirty_) {
    if (!link->connection.closed()) continue;
    while (transmit_one(TimePoint{}, *link)) {}
  }
  for (Socket* socket : {v4_.get(), v6_.get()}) {
    if (socket != nullptr && !socket->blocked) send_out(*socket);
  }
}

Result<void> UdpTransport::Driver::open_socket(const Endpoint& local) {
  auto socket = std::make_unique<Socket>(*this);
  DatagramOptions options;
  options.local = local;
  auto opened = environment_.open_datagram_socket(options, *socket);
  if (!opened) return opened.error();
  socket->socket = std::move(opened).value();
  (local.address.family == Family::v4 ? v4_ : v6_) = std::move(socket);
  return {};
}

std::optional<Endpoint> UdpTransport::Driver::local_endpoint(Family family) const {
  const Socket* socket = family == Family::v4 ? v4_.get() : v6_.get();
  if (socket == nullptr) return std::nullopt;
  return socket->socket->local_endpoint();
}

UdpTransport::Driver::Socket* UdpTransport::Driver::socket_for(const Path& path) {
  if (path.relayed()) return nullptr;
  return path.remote.address.family == Family::v4 ? v4_.get() : v6_.get();
}

std::size_t UdpTransport::Driver::max_circuit_datagram() const {
  return circuit_sender_ == nullptr ? 0 : std::min(circuit_sender_->max_circuit_datagram(), kMaxDatagram);
}

UdpTransport::Driver::UdpLink* UdpTransport::Driver::find(ConnectionId id) {
  const auto it = links_.find(id);
  return it == links_.end() ? nullptr : it->second.get();
}

UdpTransport::Driver::UdpLink& UdpTransport::Driver::make_link(TimePoint now, bool initiator, const Path& path,
                                                               const std::optional<PeerId>& expected, LinkHandler* handler) {
  ConnectionSetup setup;
  setup.initiator = initiator;
  setup.keys = &keys_;
  setup.config = &config_;
  setup.prologue = prologue_;
  setup.path = path;
  setup.expected = expected;
  setup.max_circuit_datagram = max_circuit_datagram();
  std::array<std::uint8_t, 8> id_bytes;
  do {
    environment_.fill_secret(id_bytes);
    setup.id = ByteReader(id_bytes).u64();
  } while (setup.id == 0 || find(setup.id) != nullptr);
  environment_.fill_secret(setup.ephemeral);
  environment_.fill_secret(setup.path_secret.bytes);
  auto link = std::make_unique<UdpLink>(*this, now, setup, handler);
  link->serial = next_serial_++;
  ++stats_.links;
  return *links_.emplace(setup.id, std::move(link)).first->second;
}

Link& UdpTransport::Driver::dial(TimePoint now, const std::optional<PeerId>& expected, const Path& path, LinkHandler& handler) {
  UdpLink& link = make_link(now, true, path, expected, &handler);
  const bool reachable = path.relayed() ? max_circuit_datagram() > 0 : socket_for(path) != nullptr;
  if (!reachable) link.connection.abandon(LinkCloseReason::refused);
  touch(now, link);
  return link;
}

bool UdpTransport::Driver::send_other(TimePoint now, const Endpoint& to, BytesView payload, std::uint8_t ttl) {
  Socket* socket = socket_for(Path{to, 0});
  if (socket == nullptr || payload.size() > kMaxDatagram || socket->batch.overflowing()) {
    ++stats_.datagrams_dropped;
    return false;
  }
  std::copy(payload.begin(), payload.end(), socket->batch.tail().begin());
  socket->batch.commit(to, payload.size(), Ecn::not_ect, ttl);
  if (socket->batch.full() && !socket->blocked) send_out(*socket);
  if (!busy_) wake(now);
  return true;
}

// ---- receiving -----------------------------------------------------------------------------------------------------

void UdpTransport::Driver::route(TimePoint now, const Path& from, Ecn ecn, BytesView datagram) {
  BytesView rest = datagram;
  const auto packet = take_packet(rest);
  if (!packet) {
    ++stats_.handshakes_malformed;
    return;
  }
  if (!packet->sealed && packet->type == HandshakeType::initiate) return on_first_message(now, from, ecn, datagram, *packet);
  UdpLink* link = find(packet->destination);
  if (link == nullptr || link->dead) {
    ++stats_.unknown_connection;
    if (packet->sealed) say_farewell(now, packet->destination, from);
    return;
  }
  link->connection.on_datagram(now, from, ecn, datagram);
  touch(now, *link);
}

void UdpTransport::Driver::on_first_message(TimePoint now, const Path& from, Ecn ecn, BytesView datagram,
                                            const PacketView& packet) {
  const std::size_t smallest = from.relayed() ? std::min(kSmallestInitiate, max_circuit_datagram()) : kSmallestInitiate;
  if (datagram.size() < smallest || packet.message.size() != NoiseXX::kOverhead[0] + kInitiatePayloadSize) {
    ++stats_.handshakes_malformed;
    return;
  }
  const std::uint64_t key = initiate_key(packet);
  if (const auto known = initiates_.find(key); known != initiates_.end()) {
    known->second->connection.on_datagram(now, from, ecn, datagram);
    return touch(now, *known->second);
  }
  if (incoming_ >= config_.max_incoming) {
    ++stats_.handshakes_refused;
    return;
  }
  UdpLink& link = make_link(now, false, from, std::nullopt, nullptr);
  link.initiate_key = key;
  initiates_.emplace(key, &link);
  ++incoming_;
  ++stats_.handshakes_incoming;
  link.connection.on_datagram(now, from, ecn, datagram);
  touch(now, link);
}

void UdpTransport::Driver::on_circuit_datagram(TimePoint now, std::uint32_t circuit, BytesView payload) {
  if (circuit != 0 && is_peerbed_datagram(payload)) route(now, Path{{}, circuit}, Ecn::not_ect, payload);
}

// ---- the end of an event -------------------------------------------------------------------------------------------

void UdpTransport::Driver::touch(TimePoint now, UdpLink& link) {
  if (link.dead || link.dirty) return;
  link.dirty = true;
  dirty_.push_back(&link);
  if (!busy_) wake(now);
}

void UdpTransport::Driver::wake(TimePoint now) {
  if (armed_ <= now) return;
  armed_ = now;
  timer_->arm(now);
}

void UdpTransport::Driver::on_timer(TimePoint now) {
  busy_ = true;
  armed_ = kNever;
  ++stats_.timer_wakeups;
  while (deadlines_.next() <= now) {
    auto& link = static_cast<UdpLink&>(deadlines_.front());
    deadlines_.remove(link);
    link.connection.on_timeout(now);
    touch(now, link);
  }
  settle(now);
}

/// Delivers events until there are none, then lets everything that changed send, and sets the timer.
void UdpTransport::Driver::settle(TimePoint now) {
  busy_ = true;
  while (!dirty_.empty()) {
    for (std::size_t i = 0; i < dirty_.size(); ++i) {  // grows while handlers act
      UdpLink& link = *dirty_[i];
      link.dirty = false;
      deliver_events(now, link);
      if (!link.waiting) {
        link.waiting = true;  // queued to flush: once, however often it was touched
        to_flush_.push_back(&link);
      }
    }
    dirty_.clear();
    for (std::size_t i = 0; i < to_flush_.size(); ++i) {
      UdpLink& link = *to_flush_[i];
      link.waiting = false;
      if (!link.dead) flush(now, link);
    }
    to_flush_.clear();
  }
  for (Socket* socket : {v4_.get(), v6_.get()}) {
    if (socket != nullptr && !socket->blocked) send_out(*socket);
  }
  release_dead();
  busy_ = false;
  const TimePoint next = deadlines_.next();
  if (next < armed_) {
    armed_ = next;
    timer_->arm(next);
  }
}

void UdpTransport::Driver::deliver_events(TimePoint now, UdpLink& link) {
  while (!link.connection.events().empty() && !link.dead) {
    LinkEvents batch;
    std::swap(batch, delivering_);  // keeps its storage; a handler cannot get at it
    link.connection.events().take(batch);
    for (std::size_t i = 0; i < batch.size() && !link.dead; ++i) {
      const LinkEvent& event = batch[i];
      if (event.kind == LinkEvent::Kind::closed) {
        bury(now, link);
      } else if (event.kind == LinkEvent::Kind::established && !link.connection.initiator()) {
        handler_.on_incoming_link(now, link);
        if (link.handler == nullptr) link.connection.close(now);
        continue;
      }
      if (link.handler != nullptr) deliver(now, event, batch.payload(event), link, *link.handler);
    }
    batch.clear();
    std::swap(batch, delivering_);
  }
}

void UdpTransport::Driver::flush(TimePoint now, UdpLink& link) {
  while (true) {
    Socket* socket = socket_for(link.connection.path());
    if (socket != nullptr && socket->blocked) {
      if (!link.waiting) socket->waiting.push_back(&link);
      link.waiting = true;
      break;
    }
    if (!transmit_one(now, link)) break;
  }
  update_deadline(now, link);
}

bool UdpTransport::Driver::transmit_one(TimePoint now, UdpLink& link) {
  Socket* socket = socket_for(link.connection.path());
  if (socket == nullptr) circuit_buffer_.resize(kMaxDatagram);
  const MutableBytes out = socket != nullptr ? socket->batch.tail() : MutableBytes(circuit_buffer_);
  const auto transmit = link.connection.poll_transmit(now, out);
  if (!transmit) return false;
  if (transmit->path.relayed()) {
    const bool sent = circuit_sender_ != nullptr &&
                      circuit_sender_->send_on_circuit(now, transmit->path.circuit, out.first(transmit->size));
    if (!sent) ++stats_.datagrams_dropped;
    return true;
  }
  Socket* target = socket_for(transmit->path);
  if (target == nullptr || target->batch.overflowing()) {
    ++stats_.datagrams_dropped;
    return true;
  }
  if (target != socket) {  // a probe to the other family, or off a circuit
    const MutableBytes tail = target->batch.tail();
    std::copy_n(out.begin(), transmit->size, tail.begin());
  }
  target->batch.commit(transmit->path.remote, transmit->size, transmit->ecn);
  if (target->batch.full() && !target->blocked) send_out(*target);
  return true;
}

void UdpTransport::Driver::send_out(Socket& socket) {
  if (socket.batch.empty()) return;
  stats_.datagrams_sent += socket.batch.send(*socket.socket);
  socket.blocked = !socket.batch.empty();
}

void UdpTransport::Driver::update_deadline(TimePoint now, UdpLink& link) {
  const auto next = link.connection.next_timeout();
  // A deadline that could not be served now (the socket is blocked) is tried again after the timer granularity of
  // RFC 9002 §6.1.2, not in a spin.
  deadlines_.set(link, !next ? kNever : *next > now ? *next : now + 1ms);
}

// ---- ends ----------------------------------------------------------------------------------------------------------

void UdpTransport::Driver::bury(TimePoint now, UdpLink& link) {
  remember_farewell(now, link);
  link.dead = true;
  deadlines_.remove(link);
  if (!link.connection.initiator()) --incoming_;
  graveyard_.push_back(&link);
}

void UdpTransport::Driver::remember_farewell(TimePoint now, UdpLink& link) {
  if (circuit_buffer_.size() < kMaxDatagram) circuit_buffer_.resize(kMaxDatagram);
  const auto transmit = link.connection.poll_transmit(now, circuit_buffer_);
  if (!transmit) return;
  Farewell farewell;
  farewell.id = link.connection.id();
  farewell.path = transmit->path;
  farewell.datagram.assign(circuit_buffer_.begin(), circuit_buffer_.begin() + static_cast<std::ptrdiff_t>(transmit->size));
  farewell.until = now + 3 * std::max(link.connection.stats().smoothed_rtt, Duration(100ms));
  farewell.left = 4;
  if (farewells_.size() == kMostFarewells) farewells_.erase(farewells_.begin());
  farewells_.push_back(std::move(farewell));
  say_farewell(now, link.connection.id(), transmit->path);
}

void UdpTransport::Driver::say_farewell(TimePoint now, ConnectionId id, const Path& from) {
  const auto it = std::find_if(farewells_.begin(), farewells_.end(), [id](const Farewell& f) { return f.id == id; });
  if (it == farewells_.end()) return;
  if (it->until < now || it->path != from || it->left-- <= 0) {
    if (it->until < now) farewells_.erase(it);
    return;
  }
  if (from.relayed()) {
    if (circuit_sender_ != nullptr) circuit_sender_->send_on_circuit(now, from.circuit, it->datagram);
  } else {
    send_other(now, from.remote, it->datagram, 0);
  }
}

void UdpTransport::Driver::release_dead() {
  for (UdpLink* link : graveyard_) {
    for (Socket* socket : {v4_.get(), v6_.get()}) {
      if (socket != nullptr) std::erase(socket->waiting, link);
    }
    if (!link->connection.initiator()) initiates_.erase(link->initiate_key);
    links_.erase(link->connection.id());
    --stats_.links;
  }
  graveyard_.clear();
}

// ---- the public face -----------------------------------------------------------------------------------------------

UdpTransport::UdpTransport(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
UdpTransport::~UdpTransport() = default;

Result<std::unique_ptr<UdpTransport>> UdpTransport::open(Environment& environment, const KeyPair& keys,
                                                         const TransportConfig& config, std::span<const Endpoint> locals,
                                                         UdpTransportHandler& handler) {
  if (auto controller = make_controller(config.congestion, {}); !controller) return controller.error();
  if (config.max_direct_datagram < kSmallestInitiate || config.max_direct_datagram > kMaxDatagram) {
    return bad_input("max_direct_datagram must be between 1200 and 1500 bytes");
  }
  auto driver = std::make_unique<Driver>(environment, keys, config, handler);
  for (const Endpoint& local : locals) {
    if (auto opened = driver->open_socket(local); !opened) return opened.error();
  }
  return std::unique_ptr<UdpTransport>(new UdpTransport(std::move(driver)));
}

std::optional<Endpoint> UdpTransport::local_endpoint(Family family) const { return driver_->local_endpoint(family); }
Link& UdpTransport::dial(TimePoint now, const std::optional<PeerId>& expected, const Path& path, LinkHandler& handler) {
  return driver_->dial(now, expected, path, handler);
}
void UdpTransport::set_circuit_sender(CircuitSender* sender) { driver_->set_circuit_sender(sender); }
void UdpTransport::on_circuit_datagram(TimePoint now, std::uint32_t circuit, BytesView payload) {
  driver_->on_circuit_datagram(now, circuit, payload);
}
bool UdpTransport::send_other(TimePoint now, const Endpoint& to, BytesView payload, std::uint8_t ttl) {
  return driver_->send_other(now, to, payload, ttl);
}
const UdpTransportStats& UdpTransport::stats() const { return driver_->stats(); }

}  // namespace peerbed
