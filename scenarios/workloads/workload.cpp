#include "scenarios/workloads/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/workloads/kinds.h"
#include "topologies/suggest.h"

namespace peerbed {

namespace {

std::vector<std::string> host_names(const Topology& topology) {
  std::vector<std::string> names;
  for (const auto& node : topology.nodes)
    if (node.kind == NodeKind::host) names.push_back(node.name);
  return names;
}

const WorkloadKind* find_kind(std::string_view name) {
  for (const auto& kind : workload_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

/// A label becomes part of metric names, where a dot separates and an operator ends a name.
bool is_label(std::string_view label) {
  return !label.empty() && std::all_of(label.begin(), label.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

WorkloadReader::WorkloadReader(YamlMap parameters, const Topology& topology, std::string label)
    : parameters_(std::move(parameters)), topology_(topology), label_(std::move(label)) {}

std::string WorkloadReader::host(std::string_view key) {
  (void)parameters_.required(key);
  return optional_host(key).value_or("");
}

std::optional<std::string> WorkloadReader::optional_host(std::string_view key) {
  auto name = parameters_.text(key);
  if (name) check_host(key, *name);
  return name;
}

void WorkloadReader::check_host(std::string_view key, const std::string& name) {
  const auto names = host_names(topology_);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  parameters_.value(key).fail(fmt::format("the topology has no host '{}'{}", name, did_you_mean(name, names)));
}

std::vector<std::string> WorkloadReader::group(std::string_view key) {
  const auto name = parameters_.text(key);
  if (!name) return host_names(topology_);
  std::vector<std::string> members, groups;
  for (const auto& node : topology_.nodes) {
    if (node.kind != NodeKind::host) continue;
    if (node.group == *name || node.name == *name) members.push_back(node.name);
    if (!node.group.empty() && std::find(groups.begin(), groups.end(), node.group) == groups.end()) groups.push_back(node.group);
  }
  if (members.empty()) parameters_.value(key).fail(fmt::format("the topology has no group '{}'{}", *name, did_you_mean(*name, groups)));
  return members;
}

std::span<const WorkloadKind> workload_kinds() {
  static constexpr WorkloadKind kKinds[] = {
      {"bulk", "one node sends another a file, or as much as it can for a while", &make_bulk},
      {"flood", "every node connects to some others; one message is flooded to all", &make_flood},
      {"messages", "one node sends another many small messages, within a credit window", &make_messages},
      {"punch", "two nodes meet through a third and punch a direct path", &make_punch},
      {"swarm", "another name of flood", &make_flood},
  };
  return kKinds;
}

std::unique_ptr<Workload> read_workload(const YamlValue& entry, const Topology& topology, std::vector<std::string>& labels) {
  const auto single = entry.single("workload");
  if (!single) return nullptr;
  const auto& [name, value] = *single;
  const WorkloadKind* kind = find_kind(name);
  if (kind == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& each : workload_kinds()) known.push_back(each.name);
    entry.fail_plainly(fmt::format("unknown workload '{}'{}", name, did_you_mean(name, known)));
    return nullptr;
  }
  YamlMap parameters = value.map(fmt::format("workload '{}'", name));
  const auto label = parameters.text("name").value_or(name);
  if (!is_label(label)) parameters.value("name").fail(fmt::format("'{}' must be letters, digits and underscores only", label));
  if (std::find(labels.begin(), labels.end(), label) != labels.end())
    parameters.self().fail_plainly(fmt::format("two workloads are called '{}'; give one a 'name'", label));
  labels.push_back(label);
  WorkloadReader reader(std::move(parameters), topology, label);
  auto workload = kind->make(reader);
  reader.parameters().done();
  return workload;
}

}  // namespace peerbed
