#include "sim/des/router.h"

#include <algorithm>

namespace peerbed::sim {
namespace {

/// Routers of the plane have no addresses. RFC 7600 §6 and RFC 6666 have these for such senders.
IpAddress unnumbered(Family family) {
  if (family == Family::v4) return IpAddress::v4(192, 0, 0, 8);
  return IpAddress::v6({0x01, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

}  // namespace

void IcmpSender::send_error(const Packet& about, UnreachableReason reason, RouterId from) {
  if (about.protocol == Protocol::icmp) return;
  const AttachmentId back = routes_.resolve(routes_.realm_of(from), about.source.address);
  if (back == kNoAttachment) return;
  Link* link = routes_.next_link(from, back);
  if (link == nullptr) return;
  Packet* error = engine_.packets.make(0);
  const Family family = about.source.address.family;
  error->protocol = Protocol::icmp;
  error->source = {unnumbered(family), 0};
  error->destination = {about.source.address, 0};
  error->size = 2 * ip_header_size(family) + 16;  // ICMP header, and the header and first 8 bytes of what it is about
  error->attachment = back;
  error->icmp = {reason, 0, about.protocol, about.source, about.destination};
  engine_.account(*error);
  link->accept(error);
}

Link* Router::next_hop(Packet* packet) {
  if (packet->ttl <= 1) {
    icmp_.send_error(*packet, UnreachableReason::ttl_exceeded, id_);
    engine_.drop(packet, DropReason::ttl_expired);
    return nullptr;
  }
  --packet->ttl;
  Link* link = routes_.next_link(id_, packet->attachment);
  if (link == nullptr) {
    icmp_.send_error(*packet, UnreachableReason::network, id_);
    engine_.drop(packet, DropReason::no_route);
  }
  return link;
}

void Router::prefetch(const Packet* packet, unsigned stage) const {
  if (packet == nullptr || packet->attachment == kNoAttachment) return;
  if (stage == 0) {
    routes_.prefetch_place(packet->attachment);
  } else if (stage == 1) {
    prefetch_lines(routes_.next_link(id_, packet->attachment), 128);
  }
}

void Router::accept(Packet* train) {
  while (train != nullptr) {
    Packet* packet = train;
    train = packet->next;
    packet->next = nullptr;
    if (Link* link = next_hop(packet)) link->accept(packet);
  }
}

Cloud::Cloud(Engine& engine, const Routes& routes, RouterId id, const CloudSpec& spec)
    : Router(engine, routes, id),
      regions_(std::max<std::size_t>(spec.delay.size(), 1)),
      jitter_(spec.jitter),
      loss_(spec.loss),
      loss_random_(engine.seed, stream_owner(spec.name), "cloud loss"),
      jitter_random_(engine.seed, stream_owner(spec.name), "cloud jitter") {
  for (const auto& row : spec.delay) delay_.insert(delay_.end(), row.begin(), row.end());
  if (delay_.empty()) delay_.push_back({});
  for (const std::size_t region : spec.region_of) region_of_.push_back(static_cast<std::uint32_t>(region));
}

void Cloud::accept(Packet* train) {
  while (train != nullptr) {
    Packet* packet = train;
    train = packet->next;
    packet->next = nullptr;
    const std::uint32_t entered_by = packet->link->exit_port();
    if (Link* out = next_hop(packet)) {
      if (loss_ > 0 && loss_random_.chance(loss_)) {
        engine_.drop(packet, DropReason::loss);
        continue;
      }
      TimePoint due = engine_.now + delay_[region_of_[entered_by] * regions_ + region_of_[out->entry_port()]];
      if (jitter_.count() > 0) {
        due += Duration(jitter_random_.between(0, jitter_.count()));
        due = in_order((std::uint64_t{entered_by} << 32) | out->entry_port(), due);
      }
      packet->link = out;
      packet->place = Place::cloud;
      engine_.schedule(due, EventKind::link_entry, packet);
    }
  }
}

/// Not before the last packet of the same pair. Only pairs with packets inside the cloud matter, so the others are swept out when
/// the table has doubled: constant work per packet.
TimePoint Cloud::in_order(std::uint64_t pair, TimePoint due) {
  if (last_due_.size() >= sweep_at_) {
    boost::unordered::erase_if(last_due_, [this](const auto& entry) { return entry.second < engine_.now; });
    sweep_at_ = std::max<std::size_t>(1024, 2 * last_due_.size());
  }
  TimePoint& last = last_due_[pair];
  last = std::max(last, due);
  return last;
}

}  // namespace peerbed::sim
