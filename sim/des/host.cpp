#include "sim/des/host.h"

#include <algorithm>

#include "core/base/check.h"
#include "sim/des/host_tcp.h"
#include "sim/des/host_udp.h"

namespace peerbed::sim {
namespace {

/// A node that floods an unlimited link is stopped for this long: about 17 Gbit/s.
constexpr Duration kUnlimitedPause = 100us;

}  // namespace

Host::Host(Engine& engine, const Routes& routes, const std::string& name, std::vector<IpAddress> addresses)
    : engine_(engine), routes_(routes), name_(name), addresses_(std::move(addresses)) {}

Host::~Host() = default;

bool Host::owns(const IpAddress& address) const {
  return std::find(addresses_.begin(), addresses_.end(), address) != addresses_.end() || address.is_loopback();
}

UdpPorts& Host::udp() {
  if (!udp_) udp_ = std::make_unique<UdpPorts>(*this);
  return *udp_;
}

TcpPorts& Host::tcp() {
  if (!tcp_) tcp_ = std::make_unique<TcpPorts>(*this);
  return *tcp_;
}

std::uint16_t Host::first_ephemeral_port() {
  if (!port_random_) port_random_.emplace(engine_.seed, stream_owner(name_), "ephemeral ports");
  return static_cast<std::uint16_t>(port_random_->between(kFirstEphemeral, kLastEphemeral));
}

void Host::prefetch(const Packet*, unsigned stage) const { prefetch(stage, false); }

void Host::prefetch(unsigned stage, bool sends) const {
  if (stage == 0) {
    prefetch_lines(udp_.get(), sizeof(UdpPorts));
    if (sends) prefetch_lines(uplinks_.data(), sizeof(Uplink));
  } else if (sends && !uplinks_.empty()) {
    const Link* out = uplinks_.front().out;
    if (stage == 1) {
      prefetch_lines(out, 128);
      routes_.prefetch(uplinks_.front().realm);
    } else if (stage == 2) {
      prefetch_lines(out->far_end(), 128);
    } else if (out->delay() == Duration{}) {
      out->far_end()->prefetch(nullptr, stage - 3);  // the packet goes on at once
    }
  } else if (!sends && udp_) {
    udp_->prefetch(stage);
  }
}

// ---- receiving -----------------------------------------------------------------------------------------------------

void Host::accept(Packet* train) {
  enter([&] {
    while (train != nullptr) {
      Packet* packet = train;
      if (up_) [[likely]] {
        train = deliver(packet);  // routes bring only what is for this host's addresses, and these never change
        continue;
      }
      train = packet->next;
      engine_.drop(packet, DropReason::host_down);
    }
  });
}

/// Takes one packet, or as many as go into one batch, and returns the rest of the train.
Packet* Host::deliver(Packet* packet) {
  if (packet->protocol == Protocol::udp) return udp().on_packets(packet);
  Packet* rest = packet->next;
  if (packet->protocol == Protocol::tcp) {
    tcp().on_packet(packet);
  } else {
    const bool known = packet->icmp.protocol == Protocol::udp ? udp().on_error(packet->icmp) : tcp().on_error(packet->icmp);
    if (known) {
      engine_.deliver(packet);
    } else {
      engine_.drop(packet, DropReason::stray_icmp);
    }
  }
  return rest;
}

// ---- sending -------------------------------------------------------------------------------------------------------

void Host::changed() {
  if (busy_ || engine_.scheduler.is_pending(settle_event_)) return;
  settle_event_ = engine_.schedule(engine_.now, settle_);
}

void Host::Settle::on_event(TimePoint) {
  host.enter([] {});
}

void Host::settle() {
  if (tcp_) tcp_->settle();
  if (first_out_ == nullptr) return;
  engine_.is_sending = true;
  while (first_out_ != nullptr) {
    Packet* packet = first_out_;
    first_out_ = packet->next;
    packet->next = nullptr;
    put_out(packet);
  }
  engine_.is_sending = false;
  last_out_ = nullptr;
  outbox_bytes_ = 0;
}

void Host::put_out(Packet* packet) {
  if (packet->attachment != kNoAttachment && up_) {
    packet->link->accept(packet);
  } else if (packet->attachment == kNoAttachment) {
    engine_.schedule(engine_.now, EventKind::self, packet);
  } else {
    engine_.drop(packet, DropReason::host_down);
  }
}

std::optional<IpAddress> Host::source_for(const IpAddress& remote) const {
  if (owns(remote)) return remote;
  for (const IpAddress& address : addresses_) {
    if (address.family == remote.family) return address;
  }
  return std::nullopt;
}

bool Host::is_own(AttachmentId at) const {
  return std::any_of(uplinks_.begin(), uplinks_.end(), [&](const Uplink& uplink) { return uplink.at == at; });
}

/// An uplink into the realm that has the address, else the first that leads on. False: there is none.
bool Host::route(Packet* packet) const {
  const IpAddress& to = packet->destination.address;
  if (to.is_loopback()) {
    packet->attachment = kNoAttachment;
    return true;
  }
  const bool single = uplinks_.size() == 1;
  for (const bool exact : {true, false}) {
    for (const Uplink& uplink : uplinks_) {
      const AttachmentId at = exact && !single ? routes_.find(uplink.realm, to) : routes_.resolve(uplink.realm, to);
      if (at == kNoAttachment) continue;
      packet->attachment = is_own(at) ? kNoAttachment : at;
      packet->link = uplink.out;
      return true;
    }
    if (single) break;
  }
  return owns(to);
}

bool Host::has_route(const IpAddress& remote) const {
  if (owns(remote)) return true;
  return std::any_of(uplinks_.begin(), uplinks_.end(),
                     [&](const Uplink& uplink) { return routes_.resolve(uplink.realm, remote) != kNoAttachment; });
}

void Host::send(Packet* packet) {
  engine_.account(*packet);
  if (!route(packet)) {
    const IcmpError error{UnreachableReason::network, 0, packet->protocol, packet->source, packet->destination};
    const bool tell = packet->protocol != Protocol::icmp;
    engine_.drop(packet, DropReason::no_route);
    if (tell) send_error_to_self(error);
    return;
  }
  if (packet->attachment == kNoAttachment) packet->host = this;
  packet->next = nullptr;
  (last_out_ == nullptr ? first_out_ : last_out_->next) = packet;
  last_out_ = packet;
  outbox_bytes_ += packet->size;
  changed();
}

Packet* Host::make_error(const IcmpError& error, const Endpoint& source, const IpAddress& destination) {
  Packet* packet = engine_.packets.make(0);
  packet->protocol = Protocol::icmp;
  packet->source = source;
  packet->destination = {destination, 0};
  packet->size = 2 * ip_header_size(destination.family) + 16;
  packet->icmp = error;
  return packet;
}

void Host::send_error_to_self(const IcmpError& error) {
  send(make_error(error, {error.from.address, 0}, error.from.address));
}

void Host::send_error(const Packet& about, UnreachableReason reason) {
  send(make_error({reason, 0, about.protocol, about.source, about.destination}, {about.destination.address, 0},
                  about.source.address));
}

std::uint64_t Host::room() {
  std::uint64_t used = outbox_bytes_;
  for (const Uplink& uplink : uplinks_) used += uplink.out->waiting().bytes;
  return used < kSendBuffer ? kSendBuffer - used : 0;
}

TimePoint Host::time_of_room() {
  TimePoint at = engine_.now + kUnlimitedPause;
  for (const Uplink& uplink : uplinks_) at = std::max(at, uplink.out->time_of_backlog(kSendBuffer / 2));
  return at;
}

}  // namespace peerbed::sim
