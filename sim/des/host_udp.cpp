#include "sim/des/host_udp.h"

#include <algorithm>
#include <cstring>

#include "sim/des/host.h"

namespace peerbed::sim {

class UdpSocket final : public DatagramSocket {
 public:
  UdpSocket(UdpPorts& ports, const Endpoint& local, bool dont_fragment, DatagramHandler& handler)
      : ports_(&ports), handler_(handler), local_(local), dont_fragment_(dont_fragment) {}
  ~UdpSocket() override {
    if (ports_ != nullptr) ports_->close(*this);
  }

  [[nodiscard]] Endpoint local_endpoint() const override { return local_; }
  std::size_t send(std::span<const OutgoingDatagram> batch) override;

 private:
  friend class UdpPorts;
  void send_one(Host& host, const OutgoingDatagram& datagram);

  UdpPorts* ports_;  ///< none: the network is gone
  DatagramHandler& handler_;
  Endpoint local_;
  bool dont_fragment_;
};

namespace {

/// What the fragments of one datagram add up to: every one of them has an IP header.
std::uint32_t size_with_fragments(Family family, std::size_t payload) {
  const std::uint32_t ip = ip_header_size(family) + (family == Family::v6 ? 8 : 0);
  const std::uint32_t content = static_cast<std::uint32_t>(payload) + 8;
  const std::uint32_t per_fragment = (kMtu - ip) / 8 * 8;
  return content + (content + per_fragment - 1) / per_fragment * ip;
}

}  // namespace

// ---- sending -------------------------------------------------------------------------------------------------------

std::size_t UdpSocket::send(std::span<const OutgoingDatagram> batch) {
  if (ports_ == nullptr || batch.empty()) return 0;
  Host& host = ports_->host_;
  std::uint64_t room = host.room();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t size = batch[i].payload.size() + header_size(local_.address.family, Protocol::udp);
    if (size > room && size <= kMtu) {
      ports_->wait_for_room(*this);
      return i;
    }
    room -= std::min(room, size);
    send_one(host, batch[i]);
  }
  return batch.size();
}

void UdpSocket::send_one(Host& host, const OutgoingDatagram& datagram) {
  Engine& engine = host.engine();
  const Family family = local_.address.family;
  std::optional<IpAddress> source = local_.address;
  if (local_.address.is_any()) source = host.source_for(datagram.to.address);
  std::uint32_t size = static_cast<std::uint32_t>(datagram.payload.size()) + header_size(family, Protocol::udp);
  const bool mismatched = datagram.to.address.family != family || !source;
  const bool oversized = datagram.payload.size() > kLargestUdpPayload || (size > kMtu && dont_fragment_);
  if (mismatched || oversized) {
    engine.made.add(size);
    engine.dropped[static_cast<std::size_t>(oversized ? DropReason::too_big : DropReason::no_route)].add(size);
    if (oversized && !mismatched) {
      host.send_error_to_self({UnreachableReason::too_big, static_cast<std::uint16_t>(kMtu), Protocol::udp,
                               {*source, local_.port}, datagram.to});
    }
    return;
  }
  if (size > kMtu) size = size_with_fragments(family, datagram.payload.size());
  Packet* packet = engine.packets.make(datagram.payload.size());
  packet->source = {*source, local_.port};
  packet->destination = datagram.to;
  packet->ecn = datagram.ecn;
  packet->dont_fragment = dont_fragment_;
  packet->size = size;
  if (datagram.ttl != 0) packet->ttl = datagram.ttl;
  if (!datagram.payload.empty()) std::memcpy(packet->payload().data(), datagram.payload.data(), datagram.payload.size());
  host.send(packet);
}

void UdpPorts::wait_for_room(UdpSocket& socket) {
  if (std::find(refused_.begin(), refused_.end(), &socket) == refused_.end()) refused_.push_back(&socket);
  Engine& engine = host_.engine();
  // The outbox is not in the link's queue yet, so the time is only guessed here and looked at again then.
  if (!engine.scheduler.is_pending(room_event_)) room_event_ = engine.schedule(host_.time_of_room(), *this);
}

void UdpPorts::on_event(TimePoint now) {
  if (host_.room() < Host::kSendBuffer / 2) {
    room_event_ = host_.engine().schedule(std::max(host_.time_of_room(), now + 1us), *this);
    return;
  }
  host_.enter([&] {
    // One at a time, from the front: a callback may close sockets, or be refused again and queue up at the end.
    for (std::size_t n = refused_.size(); n > 0 && !refused_.empty(); --n) {
      UdpSocket* socket = refused_.front();
      refused_.erase(refused_.begin());
      socket->handler_.on_writable(now);
    }
  });
  if (!refused_.empty() && !host_.engine().scheduler.is_pending(room_event_)) {
    room_event_ = host_.engine().schedule(host_.time_of_room(), *this);
  }
}

// ---- receiving -----------------------------------------------------------------------------------------------------

Packet* UdpPorts::on_packets(Packet* train) {
  Engine& engine = host_.engine();
  const Binding* binding = find(train->destination);
  if (binding == nullptr) {
    Packet* rest = train->next;
    host_.send_error(*train, UnreachableReason::port);
    engine.drop(train, DropReason::no_port);
    return rest;
  }
  std::vector<IncomingDatagram>& batch = engine.incoming;
  batch.clear();
  Packet* end = train;
  for (; end != nullptr && end->protocol == Protocol::udp && end->destination == train->destination; end = end->next) {
    batch.push_back({end->source, end->destination.address, BytesView(end->payload()), end->ecn});
  }
  binding->handler->on_datagrams(engine.now, batch);
  while (train != end) {
    Packet* packet = train;
    train = packet->next;
    engine.deliver(packet);
  }
  return end;
}

bool UdpPorts::on_error(const IcmpError& error) {
  const Binding* binding = find(error.from);
  if (binding == nullptr) return false;
  binding->handler->on_unreachable(host_.engine().now, {error.to, error.reason, error.mtu});
  return true;
}

// ---- ports ---------------------------------------------------------------------------------------------------------

UdpPorts::~UdpPorts() {
  for (const Binding& binding : bindings_) binding.socket->ports_ = nullptr;
}

void UdpPorts::prefetch(unsigned stage) const {
  if (stage == 1) {
    prefetch_lines(bindings_.data(), sizeof(Binding));
  } else if (!bindings_.empty()) {
    prefetch_lines(bindings_.front().handler, 128);
  }
}

const UdpPorts::Binding* UdpPorts::find(const Endpoint& local) const {
  const auto first = bindings_.size() == 1 ? bindings_.begin()
                                           : std::lower_bound(bindings_.begin(), bindings_.end(), local.port,
                                                              [](const Binding& b, std::uint16_t port) { return b.local.port < port; });
  const Binding* any = nullptr;
  for (auto at = first; at != bindings_.end() && at->local.port == local.port; ++at) {
    if (at->local.address == local.address) return &*at;
    if (at->local.address.is_any() && at->local.address.family == local.address.family) any = &*at;
  }
  return any;
}

bool UdpPorts::is_taken(const Endpoint& local) const {
  return std::any_of(bindings_.begin(), bindings_.end(), [&](const Binding& b) {
    const IpAddress& address = b.local.address;
    return b.local.port == local.port && address.family == local.address.family &&
           (address == local.address || address.is_any() || local.address.is_any());
  });
}

std::uint16_t UdpPorts::choose_port(const IpAddress& local) {
  const std::uint16_t first = host_.first_ephemeral_port();
  std::uint16_t port = first;
  do {
    if (!is_taken({local, port})) return port;
    port = port == Host::kLastEphemeral ? Host::kFirstEphemeral : static_cast<std::uint16_t>(port + 1);
  } while (port != first);
  return 0;
}

Result<std::unique_ptr<DatagramSocket>> UdpPorts::open(const DatagramOptions& options, DatagramHandler& handler) {
  Endpoint local = options.local;
  if (!local.address.is_any() && !host_.owns(local.address)) {
    return unavailable(host_.name() + " does not have the address " + local.address.to_string());
  }
  if (local.port == 0) {
    local.port = choose_port(local.address);
    if (local.port == 0) return unavailable(host_.name() + " has no UDP port left");
  } else if (is_taken(local)) {
    return unavailable("on " + host_.name() + " the UDP address " + local.to_string() + " is in use");
  }
  auto socket = std::make_unique<UdpSocket>(*this, local, options.dont_fragment, handler);
  const auto at = std::upper_bound(bindings_.begin(), bindings_.end(), local.port,
                                   [](std::uint16_t port, const Binding& b) { return port < b.local.port; });
  bindings_.insert(at, {local, socket.get(), &handler});
  return std::unique_ptr<DatagramSocket>(std::move(socket));
}

void UdpPorts::close(UdpSocket& socket) {
  std::erase_if(bindings_, [&](const Binding& b) { return b.socket == &socket; });
  std::erase(refused_, &socket);
}

}  // namespace peerbed::sim
