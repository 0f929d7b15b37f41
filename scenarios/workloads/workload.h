// A workload is what nodes do in a scenario. It attaches a subsystem to each node that takes part, and afterwards says
// what it saw. Adding one: a file beside this one, a line in registry.cpp, a test.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/env/random_stream.h"
#include "core/node/node.h"
#include "scenarios/measure/metrics.h"
#include "scenarios/measure/series.h"
#include "topologies/model.h"
#include "topologies/yaml_reader.h"

namespace peerbed {

/// Where a workload finds the other nodes. Addresses are known once every node has started.
class Directory {
 public:
  [[nodiscard]] virtual PeerId id_of(std::string_view host) const = 0;
  [[nodiscard]] virtual PeerAddress address_of(std::string_view host) const = 0;

 protected:
  ~Directory() = default;
};

class Workload {
 public:
  virtual ~Workload() = default;

  /// Before any node is attached: draws what is random about it from `seed`.
  virtual void prepare(const Topology& topology, std::uint64_t seed) {
    (void)topology;
    (void)seed;
  }
  /// Once per host, in the topology's order, before that node starts. Nodes and `directory` outlive the subsystems.
  virtual void attach(const NodeSpec& host, Node& node, const Directory& directory) = 0;
  /// Nothing more will come of it: a run ends early when all its workloads are done.
  [[nodiscard]] virtual bool done() const = 0;
  virtual void report(Metrics& metrics) const = 0;
  /// Direct dials: how long each took until the peer was there, in seconds, and how many failed.
  [[nodiscard]] virtual std::vector<double> connect_times() const { return {}; }
  [[nodiscard]] virtual std::size_t failed_dials() const { return 0; }
  /// Called about ten times per second of the run, for series.csv.
  virtual void sample(TimePoint now, Series& series) {
    (void)now;
    (void)series;
  }
};

/// Reads the names of hosts in a workload's parameters and refuses those that the topology does not have.
class WorkloadReader {
 public:
  WorkloadReader(YamlMap parameters, const Topology& topology, std::string label);

  [[nodiscard]] YamlMap& parameters() { return parameters_; }
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] std::string host(std::string_view key);                          ///< required
  [[nodiscard]] std::optional<std::string> optional_host(std::string_view key);
  [[nodiscard]] std::vector<std::string> group(std::string_view key);            ///< a group or glob; absent: all hosts
  [[nodiscard]] Duration at() { return parameters_.duration("at").value_or(Duration{}); }

 private:
  void check_host(std::string_view key, const std::string& name);
  YamlMap parameters_;
  const Topology& topology_;
  std::string label_;
};

struct WorkloadKind {
  std::string_view name, description;
  std::unique_ptr<Workload> (*make)(WorkloadReader& reader);  ///< errors are noted in the file
};
[[nodiscard]] std::span<const WorkloadKind> workload_kinds();

/// "- punch: {…}" as a workload; nothing if an error was noted. `labels` are those of earlier entries: each must be unlike.
[[nodiscard]] std::unique_ptr<Workload> read_workload(const YamlValue& entry, const Topology& topology,
                                                      std::vector<std::string>& labels);

}  // namespace peerbed
