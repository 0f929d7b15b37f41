// The embedded network: a realised topology in virtual time. Made by realise() (sim/des/realise.h), driven by run_until() or
// run_events(); nodes see it through environment(name).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/des/engine.h"
#include "sim/des/link.h"
#include "sim/des/sim_environment.h"
#include "sim/nat/nat_table.h"
#include "topologies/model.h"

namespace peerbed::sim {

/// What every packet's fate adds up to. `in_flight` is found by looking at all packets there are, not computed from the rest.
struct Conservation {
  Tally made, delivered, in_flight;
  DropTallies dropped{};
  Tally on_links_by_counters, on_links;  ///< what the links believe, and what is there
  [[nodiscard]] Tally dropped_in_all() const;
  /// in = out + drops by reason + in flight, in packets and in bytes, for the whole and for the links.
  [[nodiscard]] bool holds() const;
  [[nodiscard]] std::string to_string() const;
};

class Network {
 public:
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Time.
  [[nodiscard]] TimePoint now() const;
  /// Everything up to and including `until` happens; afterwards it is then.
  void run_until(TimePoint until);
  /// At most `most` events; returns how many there were.
  std::uint64_t run_events(std::uint64_t most);
  /// The time of the next event; nothing when all is quiet.
  [[nodiscard]] std::optional<TimePoint> next_event_time();
  /// `call` runs in virtual time, outside of any node's callback.
  void at(TimePoint when, std::function<void()> call);

  // Hosts. The topology knows the names: an unknown one is our bug.
  [[nodiscard]] const std::vector<std::string>& host_names() const;  ///< in topology order
  [[nodiscard]] bool has_host(std::string_view name) const;
  [[nodiscard]] SimEnvironment& environment(std::string_view host);
  [[nodiscard]] SimEnvironment& environment(std::size_t host_index);
  void set_host_up(std::string_view host, bool up);

  // Links and NATs in time.
  void set_link(std::string_view name, const LinkDirection& a_to_b, const LinkDirection& b_to_a);
  [[nodiscard]] const LinkSpec& link(std::string_view name) const;  ///< as it is now
  [[nodiscard]] NatTable& nat(std::string_view name);
  /// The NAT forgets its mappings and, with `addresses`, has new external ones.
  [[nodiscard]] Result<void> rebind_nat(std::string_view name, std::optional<std::vector<IpAddress>> addresses = std::nullopt);

  // Watching.
  [[nodiscard]] const std::vector<std::string>& link_names() const;
  [[nodiscard]] LinkCounters link_counters(std::string_view name, bool a_to_b) const;
  [[nodiscard]] Conservation conservation() const;
  [[nodiscard]] const DropTallies& drops() const;
  [[nodiscard]] Tally packets_made() const;
  [[nodiscard]] Tally packets_delivered() const;
  [[nodiscard]] const EngineCounters& counters() const;
  [[nodiscard]] std::uint64_t trace_hash() const;
  [[nodiscard]] std::size_t pending_events() const;
  /// Called for every packet at the end of every link.
  void set_tap(std::function<void(const Hop&)> tap);

 private:
  friend class Realiser;
  struct Parts;
  explicit Network(std::uint64_t seed);
  void dispatch(const Event& event);
  void look_ahead() const;
  std::unique_ptr<Parts> parts_;
};

}  // namespace peerbed::sim
