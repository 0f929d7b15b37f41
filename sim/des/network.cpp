#include "sim/des/network.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "sim/des/network_parts.h"

namespace peerbed::sim {
namespace {

std::size_t index_of(const NameIndex& index, std::string_view name, const char* what) {
  const auto found = index.find(std::string(name));
  PEERBED_CHECK(found != index.end(), what);
  return found->second;
}

}  // namespace

Tally Conservation::dropped_in_all() const {
  Tally sum;
  for (const Tally& tally : dropped) sum += tally;
  return sum;
}

bool Conservation::holds() const {
  Tally out = delivered;
  out += dropped_in_all();
  out += in_flight;
  return out == made && on_links == on_links_by_counters;
}

std::string Conservation::to_string() const {
  std::string text = fmt::format("made {} ({} B) = delivered {} ({} B) + in flight {} ({} B)", made.packets, made.bytes,
                                 delivered.packets, delivered.bytes, in_flight.packets, in_flight.bytes);
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    if (dropped[i].packets == 0) continue;
    text += fmt::format(" + {} {} ({} B)", sim::to_string(static_cast<DropReason>(i)), dropped[i].packets, dropped[i].bytes);
  }
  return text + fmt::format("; on links {} ({} B), by their counters {} ({} B)", on_links.packets, on_links.bytes,
                            on_links_by_counters.packets, on_links_by_counters.bytes);
}

Network::Network(std::uint64_t seed) : parts_(std::make_unique<Parts>()) { parts_->engine.seed = seed; }
Network::~Network() = default;

// ---- time ----------------------------------------------------------------------------------------------------------

TimePoint Network::now() const { return parts_->engine.now; }

void Network::run_until(TimePoint until) {
  Engine& engine = parts_->engine;
  Event event;
  while (engine.scheduler.pop_until(until, event)) dispatch(event);
  if (until > engine.now && until != kNever) engine.now = until;
}

std::uint64_t Network::run_events(std::uint64_t most) {
  Event event;
  std::uint64_t done = 0;
  while (done < most && parts_->engine.scheduler.pop_until(kNever, event)) {
    dispatch(event);
    ++done;
  }
  return done;
}

std::optional<TimePoint> Network::next_event_time() { return parts_->engine.scheduler.next_time(); }

void Network::at(TimePoint when, std::function<void()> call) {
  Parts& parts = *parts_;
  std::size_t index = parts.driver_calls.size();
  if (parts.free_calls.empty()) {
    parts.driver_calls.push_back(std::move(call));
  } else {
    index = parts.free_calls.back();
    parts.free_calls.pop_back();
    parts.driver_calls[index] = std::move(call);
  }
  parts.engine.scheduler.schedule(std::max(when, parts.engine.now), static_cast<std::uint8_t>(EventKind::driver), index);
}

/// With thousands of hosts nearly every event meets cold memory, and the next events are known: their packets, links, elements and
/// what these need are fetched in stages, so that the waiting overlaps.
void Network::look_ahead() const {
  const Scheduler& scheduler = parts_->engine.scheduler;
  constexpr std::size_t kStages = 9, kStep = 2;
  for (unsigned stage = 0; stage < kStages; ++stage) {
    const QueueEntry* entry = scheduler.glimpse(kStep * (kStages - stage));
    if (entry == nullptr) continue;
    const auto kind = static_cast<EventKind>(Scheduler::kind_of(*entry));
    if (stage == 0) {
      scheduler.prefetch(*entry);
      continue;
    }
    const auto payload = scheduler.payload_of(*entry);
    if (!payload) continue;
    const auto at = static_cast<std::uintptr_t>(*payload);
    if (stage == 1) {
      prefetch_lines(reinterpret_cast<const void*>(at), kind == EventKind::driver ? 0 : 128);
    } else if (kind == EventKind::target) {
      reinterpret_cast<const EventTarget*>(at)->prefetch(stage - 2);
    } else if (kind == EventKind::link_end || kind == EventKind::link_entry) {
      const Packet& packet = *reinterpret_cast<const Packet*>(at);
      if (stage == 2) {
        prefetch_lines(packet.link, 128);
      } else if (stage == 3) {
        prefetch_lines(packet.link->far_end(), 128);
      } else {
        packet.link->far_end()->prefetch(&packet, stage - 4);
      }
    }
  }
}

void Network::dispatch(const Event& event) {
  Engine& engine = parts_->engine;
  look_ahead();
  engine.now = event.time;
  ++engine.counters.events;
  const auto packet = [&] { return reinterpret_cast<Packet*>(static_cast<std::uintptr_t>(event.payload)); };
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::link_end: {
      Packet* train = packet();
      train->link->on_arrival(train);
      break;
    }
    case EventKind::link_entry: {
      Packet* one = packet();
      one->link->accept(one);
      break;
    }
    case EventKind::self: {
      Packet* one = packet();
      one->host->accept(one);
      break;
    }
    case EventKind::target:
      reinterpret_cast<EventTarget*>(static_cast<std::uintptr_t>(event.payload))->on_event(event.time);
      break;
    case EventKind::driver: {
      const auto index = static_cast<std::size_t>(event.payload);
      const std::function<void()> call = std::move(parts_->driver_calls[index]);
      parts_->driver_calls[index] = nullptr;
      parts_->free_calls.push_back(index);
      call();
      break;
    }
  }
}

// ---- hosts, links, NATs --------------------------------------------------------------------------------------------

const std::vector<std::string>& Network::host_names() const { return parts_->host_names; }

bool Network::has_host(std::string_view name) const { return parts_->hosts_by_name.contains(std::string(name)); }

SimEnvironment& Network::environment(std::size_t host_index) {
  PEERBED_CHECK(host_index < parts_->hosts.size(), "the network has no host of this index");
  return parts_->hosts[host_index].environment;
}

SimEnvironment& Network::environment(std::string_view host) {
  return environment(index_of(parts_->hosts_by_name, host, "the network has no host of this name"));
}

void Network::set_host_up(std::string_view host, bool up) { environment(host).host().set_up(up); }

void Network::set_link(std::string_view name, const LinkDirection& a_to_b, const LinkDirection& b_to_a) {
  const std::size_t index = index_of(parts_->links_by_name, name, "the network has no link of this name");
  parts_->link_specs[index].a_to_b = a_to_b;
  parts_->link_specs[index].b_to_a = b_to_a;
  parts_->links[2 * index].set(a_to_b);
  parts_->links[2 * index + 1].set(b_to_a);
}

const LinkSpec& Network::link(std::string_view name) const {
  return parts_->link_specs[index_of(parts_->links_by_name, name, "the network has no link of this name")];
}

NatTable& Network::nat(std::string_view name) {
  return parts_->nats[index_of(parts_->nats_by_name, name, "the network has no NAT of this name")].table();
}

Result<void> Network::rebind_nat(std::string_view name, std::optional<std::vector<IpAddress>> addresses) {
  NatBox& box = parts_->nats[index_of(parts_->nats_by_name, name, "the network has no NAT of this name")];
  if (addresses && addresses->empty()) return bad_input(fmt::format("NAT '{}' needs at least one outside address", name));
  if (!box.rebind(std::move(addresses))) {
    return bad_input(fmt::format("NAT '{}' cannot take an outside address that somebody else has", name));
  }
  return {};
}

// ---- watching ------------------------------------------------------------------------------------------------------

const std::vector<std::string>& Network::link_names() const { return parts_->link_names; }

LinkCounters Network::link_counters(std::string_view name, bool a_to_b) const {
  const std::size_t index = index_of(parts_->links_by_name, name, "the network has no link of this name");
  return parts_->links[2 * index + (a_to_b ? 0 : 1)].counters();
}

Conservation Network::conservation() const {
  const Engine& engine = parts_->engine;
  Conservation found;
  found.made = engine.made;
  found.delivered = engine.delivered;
  found.dropped = engine.dropped;
  const auto census = engine.packets.census();
  for (const Place place : {Place::host, Place::link, Place::cloud}) found.in_flight += census[static_cast<std::size_t>(place)];
  found.on_links = census[static_cast<std::size_t>(Place::link)];
  for (const Link& link : parts_->links) found.on_links_by_counters += link.counters().in_transit();
  return found;
}

const DropTallies& Network::drops() const { return parts_->engine.dropped; }
Tally Network::packets_made() const { return parts_->engine.made; }
Tally Network::packets_delivered() const { return parts_->engine.delivered; }
const EngineCounters& Network::counters() const { return parts_->engine.counters; }
std::uint64_t Network::trace_hash() const { return parts_->engine.trace_hash(); }
std::size_t Network::pending_events() const { return parts_->engine.scheduler.pending(); }
void Network::set_tap(std::function<void(const Hop&)> tap) { parts_->engine.tap = std::move(tap); }

}  // namespace peerbed::sim
