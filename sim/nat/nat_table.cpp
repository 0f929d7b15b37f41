#include "sim/nat/nat_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/check.h"

namespace peerbed::sim {
namespace {

/// One space of 65 536 ports: a protocol on an external address. Shifted so that a port (or a port's word) fits below.
std::uint64_t port_space(Protocol protocol, std::uint16_t address) {
  return (std::uint64_t{static_cast<std::uint8_t>(protocol)} << 32) | (std::uint64_t{address} << 16);
}

Endpoint reduced(const Endpoint& outside, Dependence dependence) {
  switch (dependence) {
    case Dependence::endpoint_independent: return {};
    case Dependence::address_dependent: return {outside.address, 0};
    case Dependence::address_and_port_dependent: break;
  }
  return outside;
}

constexpr std::uint32_t kFirstUserPort = 1024;

}  // namespace

std::string_view to_string(NatDrop drop) {
  switch (drop) {
    case NatDrop::none: return "none";
    case NatDrop::no_mapping: return "no_mapping";
    case NatDrop::expired: return "expired";
    case NatDrop::filtered: return "filtered";
    case NatDrop::out_of_ports: return "out_of_ports";
    case NatDrop::hairpin_off: return "hairpin_off";
  }
  return "unknown";
}

std::size_t NatTable::Hash::operator()(const MappingKey& key) const {
  std::uint64_t h = hash_value(key.inside) + static_cast<std::uint64_t>(key.protocol);
  if (key.outside != Endpoint{}) h += hash_value(key.outside) * 0x9e3779b97f4a7c15ULL;
  return (*this)(h);
}

std::size_t NatTable::Hash::operator()(const SessionKey& key) const {
  return (*this)(hash_value(key.outside) + (std::uint64_t{key.mapping} << 1) + (key.permission ? 1 : 0));
}

std::size_t NatTable::Hash::operator()(std::uint64_t key) const {
  key *= 0x9e3779b97f4a7c15ULL;
  key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93ULL;
  return static_cast<std::size_t>(key ^ (key >> 32));
}

NatTable::NatTable(const NatBehavior& behavior, std::vector<IpAddress> external_addresses, RandomStream random)
    : behavior_(behavior), external_addresses_(std::move(external_addresses)), random_(random) {
  PEERBED_CHECK(!external_addresses_.empty(), "a NAT needs an external address");
  PEERBED_CHECK(behavior_.first_port <= behavior_.last_port, "a NAT's port range must not be empty");
  shortest_timeout_ =
      std::min({behavior_.udp_timeout, behavior_.udp_unreplied_timeout.value_or(behavior_.udp_timeout),
                behavior_.tcp_established_timeout, behavior_.tcp_transitory_timeout, behavior_.icmp_timeout});
  PEERBED_CHECK(shortest_timeout_ > Duration::zero(), "a NAT's timers must be above zero");
  taken_.assign(external_addresses_.size() * kProtocols, 0);
  last_port_.assign(external_addresses_.size() * kProtocols, 0);
}

bool NatTable::is_external(const IpAddress& address) const {
  return std::find(external_addresses_.begin(), external_addresses_.end(), address) != external_addresses_.end();
}

std::optional<Endpoint> NatTable::outbound(Protocol protocol, const Endpoint& inside, const Endpoint& outside,
                                           TimePoint now, TcpFlags flags) {
  expire(now);
  const Index mapping = mapping_for(protocol, inside, outside, now);
  if (mapping == kNone) return refuse(NatDrop::out_of_ports);
  note(mapping, outside, now, flags, true);
  ++counters_.outbound;
  last_drop_ = NatDrop::none;
  return external_of(mappings_[mapping]);
}

std::optional<Endpoint> NatTable::inbound(Protocol protocol, const Endpoint& outside, const Endpoint& external,
                                          TimePoint now, TcpFlags flags) {
  expire(now);
  const Index mapping = find_mapping(protocol, external);
  if (mapping == kNone) return refuse(why_missing(protocol, external));
  // What the filter drops refreshes nothing (RFC 7857 §8).
  if (!passes_filter(mapping, outside)) return refuse(NatDrop::filtered);
  note(mapping, outside, now, flags, false);
  ++counters_.inbound;
  last_drop_ = NatDrop::none;
  return mappings_[mapping].inside;
}

std::optional<NatTable::Hairpin> NatTable::hairpin(Protocol protocol, const Endpoint& inside, const Endpoint& external,
                                                   TimePoint now, TcpFlags flags) {
  expire(now);
  if (!behavior_.hairpin) return refuse(NatDrop::hairpin_off);
  // The way out comes first and stays, even if the way back in is then refused: two hosts behind one NAT punch like
  // that.
  const Index source = mapping_for(protocol, inside, external, now);
  if (source == kNone) return refuse(NatDrop::out_of_ports);
  note(source, external, now, flags, true);
  const Endpoint presented = external_of(mappings_[source]);
  const Index destination = find_mapping(protocol, external);
  if (destination == kNone) return refuse(why_missing(protocol, external));
  if (!passes_filter(destination, presented)) return refuse(NatDrop::filtered);
  note(destination, presented, now, flags, false);
  ++counters_.hairpinned;
  last_drop_ = NatDrop::none;
  return Hairpin{presented, mappings_[destination].inside};
}

std::optional<Endpoint> NatTable::inside_of(Protocol protocol, const Endpoint& external, TimePoint now) {
  expire(now);
  const Index mapping = find_mapping(protocol, external);
  if (mapping == kNone) return std::nullopt;
  return mappings_[mapping].inside;
}

void NatTable::rebind(TimePoint now, std::optional<std::vector<IpAddress>> addresses) {
  expire(now);
  if (addresses) {
    PEERBED_CHECK(!addresses->empty(), "a NAT needs an external address");
    external_addresses_ = std::move(*addresses);
  }
  mappings_.clear();
  sessions_.clear();
  free_mappings_.clear();
  free_sessions_.clear();
  wakes_.clear();
  by_inside_.clear();
  by_external_.clear();
  by_session_.clear();
  ports_.clear();
  pairing_.clear();
  taken_.assign(external_addresses_.size() * kProtocols, 0);
  last_port_.resize(external_addresses_.size() * kProtocols, 0);  // a sequential NAT goes on counting
  live_mappings_ = live_sessions_ = 0;
}

std::size_t NatTable::mappings(TimePoint now) {
  expire(now);
  return live_mappings_;
}

std::size_t NatTable::sessions(TimePoint now) {
  expire(now);
  return live_sessions_;
}

std::size_t NatTable::memory_bytes() const {
  const auto of = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  const auto in = [](const auto& map) { return map.bucket_count() * (sizeof(*map.begin()) + 1); };
  return sizeof(*this) + of(external_addresses_) + of(mappings_) + of(sessions_) + of(free_mappings_) +
         of(free_sessions_) + of(wakes_) + of(taken_) + of(last_port_) + in(by_inside_) + in(by_external_) +
         in(by_session_) + in(ports_) + in(pairing_);
}

std::nullopt_t NatTable::refuse(NatDrop reason) {
  ++counters_.drops[static_cast<std::size_t>(reason)];
  last_drop_ = reason;
  return std::nullopt;
}

Endpoint NatTable::external_of(const Mapping& mapping) const {
  return {external_addresses_[mapping.address], mapping.port};
}

Dependence NatTable::filtering(Protocol protocol) const {
  // A query's answer has no port of its own: an outside is an address (RFC 5508 REQ-1a).
  if (protocol == Protocol::icmp && behavior_.filtering != Dependence::endpoint_independent) {
    return Dependence::address_dependent;
  }
  return behavior_.filtering;
}

Duration NatTable::query_timeout(Protocol protocol, bool replied) const {
  if (protocol == Protocol::icmp) return behavior_.icmp_timeout;
  return replied ? behavior_.udp_timeout : behavior_.udp_unreplied_timeout.value_or(behavior_.udp_timeout);
}

// Mappings ------------------------------------------------------------------------------------------------------------

NatTable::Index NatTable::mapping_for(Protocol protocol, const Endpoint& inside, const Endpoint& outside,
                                      TimePoint now) {
  const Dependence dependence = protocol == Protocol::icmp ? Dependence::endpoint_independent : behavior_.mapping;
  const MappingKey key{inside, reduced(outside, dependence), protocol};
  if (const auto found = by_inside_.find(key); found != by_inside_.end()) return found->second;

  const std::uint16_t address = paired_address(inside.address);
  const auto port = take_port(protocol, address, inside.port);
  if (!port) return kNone;

  Index index = kNone;
  if (free_mappings_.empty()) {
    index = static_cast<Index>(mappings_.size());
    mappings_.emplace_back();
  } else {
    index = free_mappings_.back();
    free_mappings_.pop_back();
  }
  Mapping& mapping = mappings_[index];
  mapping = {};
  mapping.inside = key.inside;
  mapping.outside = key.outside;
  mapping.expires =
      now + (protocol == Protocol::tcp ? behavior_.tcp_transitory_timeout : query_timeout(protocol, false));
  mapping.address = address;
  mapping.port = *port;
  mapping.protocol = protocol;
  mapping.live = true;
  by_inside_.emplace(key, index);
  by_external_.emplace(port_space(protocol, address) | *port, index);
  watch(mapping.expires, now, index, false);
  ++live_mappings_;
  ++counters_.mappings_made;
  return index;
}

NatTable::Index NatTable::find_mapping(Protocol protocol, const Endpoint& external) const {
  for (std::size_t i = 0; i < external_addresses_.size(); ++i) {  // one address in nearly every NAT
    if (external_addresses_[i] != external.address) continue;
    const auto found = by_external_.find(port_space(protocol, static_cast<std::uint16_t>(i)) | external.port);
    return found == by_external_.end() ? kNone : found->second;
  }
  return kNone;
}

NatDrop NatTable::why_missing(Protocol protocol, const Endpoint& external) const {
  for (std::size_t i = 0; i < external_addresses_.size(); ++i) {
    if (external_addresses_[i] != external.address) continue;
    const auto word = ports_.find(port_space(protocol, static_cast<std::uint16_t>(i)) | (external.port >> 6));
    const bool was_given = word != ports_.end() && ((word->second.ever >> (external.port & 63)) & 1) != 0;
    return was_given ? NatDrop::expired : NatDrop::no_mapping;
  }
  return NatDrop::no_mapping;
}

std::uint16_t NatTable::paired_address(const IpAddress& inside) {
  if (external_addresses_.size() == 1) return 0;
  const auto next = static_cast<std::uint16_t>(pairing_.size() % external_addresses_.size());
  return pairing_.emplace(inside, next).first->second;  // RFC 4787 REQ-2: paired
}

void NatTable::release(Index index) {
  Mapping& mapping = mappings_[index];
  while (mapping.first_session != kNone) close_session(mapping.first_session);
  const std::uint64_t space = port_space(mapping.protocol, mapping.address);
  by_inside_.erase(MappingKey{mapping.inside, mapping.outside, mapping.protocol});
  by_external_.erase(space | mapping.port);
  ports_.find(space | (mapping.port >> 6))->second.taken &= ~(std::uint64_t{1} << (mapping.port & 63));
  --taken_[static_cast<std::size_t>(mapping.address) * kProtocols + static_cast<std::size_t>(mapping.protocol)];
  mapping.live = false;
  free_mappings_.push_back(index);
  --live_mappings_;
  ++counters_.mappings_expired;
}

// Sessions: filter entries and TCP connections ------------------------------------------------------------------------

NatTable::Index NatTable::find_session(Index mapping, const Endpoint& outside, bool permission) const {
  const auto found = by_session_.find(SessionKey{outside, mapping, permission});
  return found == by_session_.end() ? kNone : found->second;
}

bool NatTable::passes_filter(Index index, const Endpoint& outside) const {
  const Protocol protocol = mappings_[index].protocol;
  const Dependence dependence = filtering(protocol);
  if (dependence == Dependence::endpoint_independent) return true;
  const bool permission = protocol != Protocol::tcp || dependence == Dependence::address_dependent;
  return find_session(index, reduced(outside, dependence), permission) != kNone;
}

NatTable::Index NatTable::open_session(Index mapping, const Endpoint& outside, bool permission, TimePoint expires,
                                       TimePoint now) {
  Index index = kNone;
  if (free_sessions_.empty()) {
    index = static_cast<Index>(sessions_.size());
    sessions_.emplace_back();
  } else {
    index = free_sessions_.back();
    free_sessions_.pop_back();
  }
  Mapping& owner = mappings_[mapping];
  Session& session = sessions_[index];
  session = {};
  session.outside = outside;
  session.expires = expires;
  session.mapping = mapping;
  session.permission = permission;
  session.live = true;
  session.next = owner.first_session;
  if (session.next != kNone) sessions_[session.next].previous = index;
  owner.first_session = index;
  owner.expires = std::max(owner.expires, expires);
  by_session_.emplace(SessionKey{outside, mapping, permission}, index);
  watch(expires, now, index, true);
  ++live_sessions_;
  return index;
}

void NatTable::close_session(Index index) {
  Session& session = sessions_[index];
  by_session_.erase(SessionKey{session.outside, session.mapping, session.permission});
  if (session.next != kNone) sessions_[session.next].previous = session.previous;
  (session.previous != kNone ? sessions_[session.previous].next : mappings_[session.mapping].first_session) =
      session.next;
  session.live = false;
  free_sessions_.push_back(index);
  --live_sessions_;
}

void NatTable::note(Index mapping, const Endpoint& outside, TimePoint now, TcpFlags flags, bool from_inside) {
  if (mappings_[mapping].protocol == Protocol::tcp) {
    note_tcp(mapping, outside, now, flags, from_inside);
  } else {
    note_query(mapping, outside, now, from_inside);
  }
}

/// UDP and ICMP. A mapping never ends before one of its sessions.
void NatTable::note_query(Index index, const Endpoint& outside, TimePoint now, bool from_inside) {
  Mapping& mapping = mappings_[index];
  const bool refreshes =
      mapping.protocol == Protocol::icmp || (from_inside ? behavior_.outbound_refresh : behavior_.inbound_refresh);
  const auto refresh = [&](auto& entry) {
    entry.replied = entry.replied || !from_inside;
    if (refreshes) entry.expires = std::max(entry.expires, now + query_timeout(mapping.protocol, entry.replied));
  };
  const Dependence dependence = filtering(mapping.protocol);
  if (dependence == Dependence::endpoint_independent) {
    refresh(mapping);
    return;
  }
  const Endpoint allowed = reduced(outside, dependence);
  const Index session = find_session(index, allowed, true);
  if (session == kNone) {
    open_session(index, allowed, true, now + query_timeout(mapping.protocol, false), now);
    return;
  }
  refresh(sessions_[session]);
  mapping.expires = std::max(mapping.expires, sessions_[session].expires);
}

/// RFC 6146 §3.5.2.2. Half-closed connections count as established: RFC 5382 §5 lets the closing phase begin with the
/// second FIN.
void NatTable::note_tcp(Index index, const Endpoint& outside, TimePoint now, TcpFlags flags, bool from_inside) {
  using enum TcpState;
  const TimePoint soon = now + behavior_.tcp_transitory_timeout, late = now + behavior_.tcp_established_timeout;
  const TcpState opened = from_inside ? opened_inside : opened_outside;
  const bool opens = flags.syn && !flags.ack && !flags.rst;

  const Index found = find_session(index, outside, false);
  if (found == kNone) {
    if (flags.rst) return;  // the end of something unknown is not the start of anything
    // Without a SYN it is an old connection that outlived its mapping: taken up on trust, as Linux does.
    const Index fresh = open_session(index, outside, false, soon, now);
    sessions_[fresh].state = opens ? opened : transitory;
    allow_address(index, outside, soon, now);
    return;
  }
  Session& session = sessions_[found];
  TimePoint expires = session.expires;
  if (flags.rst) {
    // RFC 7857 §2.2: a reset, which may be forged, leaves the mapping 4 minutes; it never lengthens its life.
    expires = std::min(expires, soon);
    if (session.state != closing) session.state = transitory;
  } else if (opens && (session.state == closing || session.state == transitory)) {
    session.state = opened;
    expires = std::max(expires, soon);
  } else if (session.state == opened_inside || session.state == opened_outside) {
    const bool answered =
        flags.syn && session.state != opened;  // by SYN-ACK, or by the other SYN of a simultaneous open
    if (answered) session.state = established;
    expires = std::max(expires, answered ? late : soon);
  } else if (session.state == transitory) {
    session.state = established;
    expires = late;
  } else if (session.state != closing) {
    const TcpState ours = from_inside ? fin_inside : fin_outside;
    if (flags.fin && session.state != established && session.state != ours) {
      session.state = closing;
      expires = soon;
    } else {
      if (flags.fin) session.state = ours;
      expires = late;
    }
  }
  if (expires < session.expires) {
    shorten_tcp(index, found, expires);
  } else if (expires > session.expires) {
    session.expires = expires;
    mappings_[index].expires = std::max(mappings_[index].expires, expires);
    allow_address(index, outside, expires, now);
  }
}

/// Address-dependent filtering of TCP keeps one entry per address beside the connections.
void NatTable::allow_address(Index index, const Endpoint& outside, TimePoint expires, TimePoint now) {
  if (behavior_.filtering != Dependence::address_dependent) return;
  const Endpoint allowed = reduced(outside, Dependence::address_dependent);
  const Index session = find_session(index, allowed, true);
  if (session == kNone) {
    open_session(index, allowed, true, expires, now);
  } else {
    sessions_[session].expires = std::max(sessions_[session].expires, expires);
  }
}

/// The only way by which a life gets shorter: what hangs on the connection takes the longest of what is left.
void NatTable::shorten_tcp(Index index, Index shortened, TimePoint expires) {
  sessions_[shortened].expires = expires;
  const IpAddress address = sessions_[shortened].outside.address;
  TimePoint mapping_expires = expires, address_expires = expires;
  Index permission = kNone;
  for (Index i = mappings_[index].first_session; i != kNone; i = sessions_[i].next) {
    const Session& other = sessions_[i];
    if (other.permission) {
      if (other.outside.address == address) permission = i;
      continue;
    }
    mapping_expires = std::max(mapping_expires, other.expires);
    if (other.outside.address == address) address_expires = std::max(address_expires, other.expires);
  }
  mappings_[index].expires = mapping_expires;
  if (permission != kNone) sessions_[permission].expires = address_expires;
}

// Ports ---------------------------------------------------------------------------------------------------------------

std::optional<std::uint16_t> NatTable::take_port(Protocol protocol, std::uint16_t address, std::uint16_t wanted) {
  const std::size_t slot = static_cast<std::size_t>(address) * kProtocols + static_cast<std::size_t>(protocol);
  const std::uint64_t space = port_space(protocol, address);
  const std::uint32_t first = behavior_.first_port, last = behavior_.last_port;
  if (taken_[slot] > last - first) return std::nullopt;

  const auto search = [&](std::uint32_t low, std::uint32_t high) -> std::optional<std::uint32_t> {
    if (low > high) return std::nullopt;
    if (behavior_.allocation == PortAllocation::random) return random_free(space, low, high);
    std::uint32_t from = behavior_.allocation == PortAllocation::preserve ? wanted : last_port_[slot] + 1;
    if (from < low || from > high) from = low;
    const auto above = next_free(space, from, high);
    return above || from == low ? above : next_free(space, low, from - 1);
  };
  // RFC 4787 REQ-3a: well-known ports stay well-known and the others stay others, as long as there are any.
  const bool well_known = wanted < kFirstUserPort && protocol != Protocol::icmp;
  auto port =
      well_known ? search(first, std::min(last, kFirstUserPort - 1)) : search(std::max(first, kFirstUserPort), last);
  if (!port) port = search(first, last);
  PEERBED_CHECK(port.has_value(), "a NAT that is not out of ports must find a free one");

  PortWord& word = ports_[space | (*port >> 6)];
  const std::uint64_t bit = std::uint64_t{1} << (*port & 63);
  word.taken |= bit;
  word.ever |= bit;
  ++taken_[slot];
  last_port_[slot] = *port;
  return static_cast<std::uint16_t>(*port);
}

bool NatTable::is_taken(std::uint64_t space, std::uint32_t port) const {
  const auto word = ports_.find(space | (port >> 6));
  return word != ports_.end() && ((word->second.taken >> (port & 63)) & 1) != 0;
}

std::optional<std::uint32_t> NatTable::next_free(std::uint64_t space, std::uint32_t from, std::uint32_t to) const {
  for (std::uint32_t base = from & ~63U; base <= to; base += 64) {
    const auto word = ports_.find(space | (base >> 6));
    std::uint64_t free = word == ports_.end() ? ~std::uint64_t{0} : ~word->second.taken;
    if (base < from) free &= ~std::uint64_t{0} << (from - base);
    if (free == 0) continue;
    const std::uint32_t port = base + static_cast<std::uint32_t>(std::countr_zero(free));
    return port <= to ? std::optional(port) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> NatTable::random_free(std::uint64_t space, std::uint32_t low, std::uint32_t high) {
  for (int draw = 0; draw < 16; ++draw) {
    const auto port = low + static_cast<std::uint32_t>(random_.below(high - low + 1));
    if (!is_taken(space, port)) return port;
  }
  // Crowded: count the free ones and draw among them, so that every free port stays equally likely.
  const auto free_in = [&](std::uint32_t base) {
    const auto word = ports_.find(space | (base >> 6));
    std::uint64_t free = word == ports_.end() ? ~std::uint64_t{0} : ~word->second.taken;
    if (base < low) free &= ~std::uint64_t{0} << (low - base);
    if (high - base < 63) free &= ~std::uint64_t{0} >> (63 - (high - base));
    return free;
  };
  std::uint64_t count = 0;
  for (std::uint32_t base = low & ~63U; base <= high; base += 64)
    count += static_cast<std::uint64_t>(std::popcount(free_in(base)));
  if (count == 0) return std::nullopt;
  std::uint64_t rank = random_.below(count);
  for (std::uint32_t base = low & ~63U; base <= high; base += 64) {
    std::uint64_t free = free_in(base);
    const auto here = static_cast<std::uint64_t>(std::popcount(free));
    if (rank >= here) {
      rank -= here;
      continue;
    }
    for (; rank > 0; --rank) free &= free - 1;
    return base + static_cast<std::uint32_t>(std::countr_zero(free));
  }
  return std::nullopt;
}

// Time ----------------------------------------------------------------------------------------------------------------

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) {
  if (a.at != b.at) return a.at > b.at;
  if (a.index != b.index) return a.index > b.index;
  return a.session && !b.session;
};
}  // namespace

/// Every live entry has exactly one wake, at or before its end. Lives are lengthened without touching the heap, and no
/// life is ever shortened below now + shortest timeout; so looking again that often is often enough, and expiry is
/// exact.
void NatTable::watch(TimePoint expires, TimePoint now, Index index, bool session) {
  wakes_.push_back({std::min(expires, now + shortest_timeout_), index, session});
  std::push_heap(wakes_.begin(), wakes_.end(), kLater);
}

void NatTable::expire(TimePoint now) {
  while (!wakes_.empty() && wakes_.front().at <= now) {
    const Wake wake = wakes_.front();
    std::pop_heap(wakes_.begin(), wakes_.end(), kLater);
    wakes_.pop_back();
    // An entry can be gone already: a mapping takes its sessions along, and all of them end at or before it.
    const bool live = wake.session ? sessions_[wake.index].live : mappings_[wake.index].live;
    if (!live) continue;
    const TimePoint expires = wake.session ? sessions_[wake.index].expires : mappings_[wake.index].expires;
    if (expires > now) {
      watch(expires, now, wake.index, wake.session);
    } else if (wake.session) {
      close_session(wake.index);
    } else {
      release(wake.index);
    }
  }
}

}  // namespace peerbed::sim
