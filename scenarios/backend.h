// A backend makes a world of a topology: a network on which each host has an environment, and time to run it in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/env/environment.h"
#include "scenarios/measure/metrics.h"
#include "scenarios/recorder.h"
#include "scenarios/scenario.h"
#include "topologies/model.h"

namespace peerbed {

struct WorldCounters {
  std::uint64_t events = 0, packets = 0;
};

class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual Environment& environment(const std::string& host) = 0;
  /// Where a host's node must bind, if hosts share a machine.
  [[nodiscard]] virtual std::optional<IpAddress> bind_address(const std::string& host) const {
    (void)host;
    return std::nullopt;
  }
  [[nodiscard]] virtual bool virtual_time() const = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;
  /// Runs what is due until `deadline`; a world in real time may come back a little earlier.
  virtual void run_until(TimePoint deadline) = 0;

  [[nodiscard]] virtual bool supports(Fault::Kind kind) const = 0;
  [[nodiscard]] virtual Result<void> rebind(const std::string& nat) = 0;
  [[nodiscard]] virtual Result<void> change_link(const std::string& link, const LinkChange& change) = 0;

  [[nodiscard]] virtual WorldCounters counters() const = 0;
  virtual void report(Metrics& metrics) const = 0;  ///< link.<name>.…, nat.<name>.…
  [[nodiscard]] virtual std::uint64_t trace_hash() const = 0;
  /// What of the topology this world does not do, as sentences.
  [[nodiscard]] virtual std::vector<std::string> not_emulated() const { return {}; }
  /// Why no number of this run counts: the tool itself was the limit.
  [[nodiscard]] virtual std::optional<std::string> invalid() const { return std::nullopt; }
};

struct Backend {
  std::string_view name, description;
  bool virtual_time;  ///< equal inputs give equal runs
  /// Null: not in this build. `topology` and `recorder` outlive the world.
  Result<std::unique_ptr<World>> (*realise)(const Topology& topology, std::uint64_t seed, Recorder& recorder);
};
[[nodiscard]] std::span<const Backend> backends();
/// Errors: an unknown name (bad input), one that is not in this build (unsupported).
[[nodiscard]] Result<const Backend*> find_backend(std::string_view name);

[[nodiscard]] Result<std::unique_ptr<World>> realise_sim(const Topology& topology, std::uint64_t seed, Recorder& recorder);
[[nodiscard]] Result<std::unique_ptr<World>> realise_sockets(const Topology& topology, std::uint64_t seed, Recorder& recorder);

}  // namespace peerbed
