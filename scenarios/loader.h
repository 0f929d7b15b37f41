// Scenario files: docs/scenarios.md says what may stand in them. Every error is one sentence with file and line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "scenarios/scenario.h"

namespace peerbed {

/// What is asked for: a file, and changes by dotted key ("nodes.alice.nat", "links.wan.loss", "workload.bulk.size").
struct ScenarioRequest {
  std::string name_or_path;
  std::vector<std::pair<std::string, std::string>> set;
  std::optional<std::uint64_t> seed;
  std::optional<int> repeat;
};

[[nodiscard]] Result<Scenario> load_scenario(const ScenarioRequest& request);

struct SweepAxis {
  std::string key;
  std::vector<std::string> values;  ///< as YAML
};

/// What `sweep`, `--set key=[a, b]` and `--repeat` make of a request.
struct SweepPlan {
  std::string name, title;
  std::uint64_t seed = 1;
  int repeat = 1;
  bool campaign = false;            ///< more than the one run was asked for, be it by a sweep of one point
  std::vector<SweepAxis> axes;      ///< the first is the slowest
  ScenarioRequest base;             ///< with the changes that are the same at every point

  [[nodiscard]] std::size_t points() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> values_of(std::size_t point) const;
  [[nodiscard]] ScenarioRequest request(std::size_t point, std::uint64_t run_seed) const;
};
[[nodiscard]] Result<SweepPlan> plan_sweep(const ScenarioRequest& request);

/// The file of a scenario name or path.
[[nodiscard]] Result<std::string> find_scenario(const std::string& name_or_path);

}  // namespace peerbed
