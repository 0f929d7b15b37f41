// A scenario as a value: what the file and the command line say, resolved against its topology. Nothing here runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/node/node.h"
#include "scenarios/measure/expectation.h"
#include "scenarios/workloads/workload.h"
#include "topologies/model.h"
#include "topologies/yaml_reader.h"

namespace peerbed {

/// What one selector (a node, a group, a glob) says of nodes. Later ones win, key by key.
struct NodeSetting {
  std::string selector;
  std::optional<std::string> congestion;
  std::optional<bool> udp, tcp, relay;
  std::optional<Duration> keepalive, idle_timeout;
  std::optional<int> punch_attempts;
  std::optional<std::size_t> max_peers;
};

struct LinkChange {
  enum class Direction : std::uint8_t { both, a_to_b, b_to_a };
  Direction direction = Direction::both;
  std::optional<DataRate> rate;
  std::optional<Duration> delay, jitter;
  std::optional<double> loss;
};

struct Fault {
  enum class Kind : std::uint8_t { rebind, link, stop };
  Kind kind = Kind::rebind;
  Duration at{};
  std::string target;  ///< the NAT, the link, or the host
  LinkChange change;   ///< kind link
};

struct ScenarioExpectation {
  Expectation that;
  std::vector<std::string> on;                             ///< backends on which it must hold; empty: on all
  std::vector<std::pair<std::string, std::string>> given;  ///< names that it uses, from a table's row or by hand
  std::string origin;                                      ///< "FILE:LINE" of the table's row, if there is one
};

struct Scenario {
  std::string name, title, file;
  std::uint64_t seed = 1;
  Duration duration{};
  Topology topology;
  std::vector<NodeSetting> nodes;
  std::vector<std::unique_ptr<Workload>> workloads;
  std::vector<Fault> faults;
  std::vector<ScenarioExpectation> expectations;
  std::vector<std::string> figures;
  std::vector<std::pair<std::string, std::string>> set;  ///< by --set and sweep, in order
  std::optional<std::string> backend;  ///< of the run that wrote the file, where it is an inputs.yaml
  std::string resolved;                ///< everything inline, as YAML that runs again; without the `run` header

  [[nodiscard]] NodeConfig node_config(const NodeSpec& host) const;
  /// What a name in an expectation stands for: a given name, a set key, a knob of a link, seed or duration.
  [[nodiscard]] std::optional<ExpectationValue> lookup(const ScenarioExpectation& expectation, std::string_view name) const;
  [[nodiscard]] std::vector<const NodeSpec*> hosts() const;
};

/// "alice", a group's name, or a glob with * and ?.
[[nodiscard]] bool selects(std::string_view selector, const NodeSpec& node);

}  // namespace peerbed
