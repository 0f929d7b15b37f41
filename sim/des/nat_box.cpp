#include "sim/des/nat_box.h"

#include <algorithm>

namespace peerbed::sim {
namespace {

TcpFlags flags_of(const Packet& packet) {
  if (packet.protocol != Protocol::tcp) return {};
  return {packet.tcp.syn, packet.tcp.ack, packet.tcp.fin, packet.tcp.rst};
}

}  // namespace

NatBox::NatBox(Engine& engine, Routes& routes, std::string_view name, const NodeSpec& spec, RouterId inside)
    : engine_(engine),
      routes_(routes),
      table_(spec.nat, spec.addresses, RandomStream(engine.seed, stream_owner(name), "nat ports")),
      router_(inside),
      inside_realm_(routes.realm_of(inside)),
      inside_(*this, engine, routes, inside),
      outside_(*this) {
  note_families();
}

void NatBox::connect_outside(Link& link, RealmId realm, AttachmentId at) {
  outside_link_ = &link;
  outside_realm_ = realm;
  outside_at_ = at;
}

bool NatBox::rebind(std::optional<std::vector<IpAddress>> addresses) {
  if (addresses) {
    for (const IpAddress& address : *addresses) {
      if (!table_.is_external(address) && routes_.find(outside_realm_, address) != kNoAttachment) return false;
    }
    for (const IpAddress& address : table_.external_addresses()) routes_.remove_address(outside_realm_, address);
    for (const IpAddress& address : *addresses) (void)routes_.add_address(outside_realm_, address, outside_at_);
  }
  table_.rebind(engine_.now, std::move(addresses));
  note_families();
  return true;
}

void NatBox::note_families() {
  has_v4_ = has_v6_ = false;
  for (const IpAddress& address : table_.external_addresses()) (address.family == Family::v4 ? has_v4_ : has_v6_) = true;
}

void NatBox::prefetch(unsigned stage, bool inbound) const {
  if (stage == 0) {
    prefetch_lines(this, sizeof(NatBox));
  } else if (stage == 1) {
    table_.prefetch();
    routes_.prefetch(inside_realm_);
    prefetch_lines(inbound ? inside_link_ : outside_link_, 128);
  } else if (inbound && inside_link_ != nullptr) {
    if (stage == 2) {
      prefetch_lines(inside_link_->far_end(), 256);
    } else if (inside_link_->delay() == Duration{}) {
      inside_link_->far_end()->prefetch(nullptr, stage - 3);  // the packet goes on at once
    }
  }
}

DropReason NatBox::why() const {
  switch (table_.last_drop()) {
    case NatDrop::expired: return DropReason::nat_expired;
    case NatDrop::filtered: return DropReason::nat_filtered;
    case NatDrop::out_of_ports: return DropReason::nat_no_port;
    case NatDrop::hairpin_off: return DropReason::nat_hairpin_off;
    case NatDrop::none:
    case NatDrop::no_mapping: break;
  }
  return DropReason::nat_no_mapping;
}

// ---- from inside ---------------------------------------------------------------------------------------------------

void NatBox::Inside::refuse(Packet* packet, UnreachableReason reason, DropReason drop) {
  icmp_.send_error(*packet, reason, id_);
  engine_.drop(packet, drop);
}

void NatBox::Inside::forward(Packet* packet) {
  Link* link = routes_.next_link(id_, packet->attachment);
  if (link == nullptr) {
    engine_.drop(packet, DropReason::no_route);
    return;
  }
  link->accept(packet);
}

void NatBox::Inside::accept(Packet* train) {
  while (train != nullptr) {
    Packet* packet = train;
    train = packet->next;
    packet->next = nullptr;
    // As on Linux the TTL is looked at before a mapping is made: a packet that dies here opens nothing.
    if (packet->ttl <= 1) {
      refuse(packet, UnreachableReason::ttl_exceeded, DropReason::ttl_expired);
      continue;
    }
    --packet->ttl;
    if (!routes_.is_way_out(box_.inside_realm_, packet->attachment)) {
      forward(packet);
      continue;
    }
    packet->attachment = routes_.resolve(box_.outside_realm_, packet->destination.address);
    if (packet->attachment == box_.outside_at_) {
      turn_round(packet);
    } else {
      send_out(packet);
    }
  }
}

void NatBox::Inside::send_out(Packet* packet) {
  if (packet->attachment == kNoAttachment || !box_.translates(packet->destination.address.family)) {
    refuse(packet, UnreachableReason::network, DropReason::no_route);
    return;
  }
  if (packet->protocol == Protocol::icmp) {
    // An error about a packet that came in: its destination is an inside endpoint of ours, whose mapping therefore exists.
    const auto external = box_.table_.outbound(packet->icmp.protocol, packet->icmp.to, packet->icmp.from, engine_.now);
    if (!external) {
      engine_.drop(packet, DropReason::stray_icmp);
      return;
    }
    packet->icmp.to = *external;
    packet->source = {external->address, 0};
    box_.outside_link_->accept(packet);
    return;
  }
  const auto external = box_.table_.outbound(packet->protocol, packet->source, packet->destination, engine_.now, flags_of(*packet));
  if (!external) {
    refuse(packet, UnreachableReason::prohibited, box_.why());
    return;
  }
  packet->source = *external;
  box_.outside_link_->accept(packet);
}

void NatBox::Inside::turn_round(Packet* packet) {
  if (packet->protocol == Protocol::icmp) {
    turn_error_round(packet);
    return;
  }
  const auto turned = box_.table_.hairpin(packet->protocol, packet->source, packet->destination, engine_.now, flags_of(*packet));
  if (!turned) {
    engine_.drop(packet, box_.why());
    return;
  }
  packet->source = turned->source;
  packet->destination = turned->destination;
  packet->attachment = routes_.find(box_.inside_realm_, packet->destination.address);
  if (packet->attachment == kNoAttachment) {
    engine_.drop(packet, DropReason::no_route);
    return;
  }
  forward(packet);
}

/// An error of one inside host about a packet that another one sent through the outside: both its endpoints are translated.
void NatBox::Inside::turn_error_round(Packet* packet) {
  const auto sender = box_.table_.inside_of(packet->icmp.protocol, packet->icmp.from, engine_.now);
  const auto seen_as = box_.table_.outbound(packet->icmp.protocol, packet->icmp.to, packet->icmp.from, engine_.now);
  packet->attachment = sender ? routes_.find(box_.inside_realm_, sender->address) : kNoAttachment;
  if (!seen_as || packet->attachment == kNoAttachment) {
    engine_.drop(packet, DropReason::stray_icmp);
    return;
  }
  packet->icmp.from = *sender;
  packet->icmp.to = *seen_as;
  packet->destination = {sender->address, 0};
  forward(packet);
}

// ---- from outside --------------------------------------------------------------------------------------------------

void NatBox::Outside::accept(Packet* train) {
  while (train != nullptr) {
    Packet* packet = train;
    train = packet->next;
    packet->next = nullptr;
    let_in(packet);
  }
}

void NatBox::Outside::let_in(Packet* packet) {
  if (packet->ttl <= 1) {
    box_.engine_.drop(packet, DropReason::ttl_expired);
    return;
  }
  --packet->ttl;
  if (packet->protocol == Protocol::icmp) {
    if (!translate_error(packet)) return;
  } else {
    const auto inside =
        box_.table_.inbound(packet->protocol, packet->source, packet->destination, box_.engine_.now, flags_of(*packet));
    if (!inside) {
      // It was on its way when the device lost this address.
      const bool ours = box_.table_.is_external(packet->destination.address);
      box_.engine_.drop(packet, ours ? box_.why() : DropReason::no_host);
      return;
    }
    packet->destination = *inside;
  }
  packet->attachment = box_.routes_.find(box_.inside_realm_, packet->destination.address);
  if (packet->attachment == kNoAttachment) {
    box_.engine_.drop(packet, DropReason::no_route);
    return;
  }
  box_.inside_.forward(packet);
}

bool NatBox::Outside::translate_error(Packet* packet) {
  const auto inside = box_.table_.inside_of(packet->icmp.protocol, packet->icmp.from, box_.engine_.now);
  if (!inside) {
    box_.engine_.drop(packet, DropReason::stray_icmp);
    return false;
  }
  packet->icmp.from = *inside;
  packet->destination = {inside->address, 0};
  return true;
}

}  // namespace peerbed::sim
