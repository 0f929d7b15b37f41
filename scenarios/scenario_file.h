// A scenario's YAML with changes applied by dotted key: the part of loading that knows how keys are routed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "topologies/yaml_reader.h"

namespace peerbed {

/// The sections that stand in topology files; a scenario may change them, by the same names.
[[nodiscard]] bool is_topology_key(std::string_view dotted_key);

struct ScenarioFile {
  YamlFile yaml;
  std::vector<YamlOverride> topology_changes;  ///< those of --set and sweep; the file's own are still in `yaml`

  [[nodiscard]] static Result<ScenarioFile> load(const std::string& path);
  [[nodiscard]] Result<void> apply(const std::string& key, const std::string& value);
};

/// The text at a dotted key of a YAML tree, where names may hold dots; nothing if there is none.
[[nodiscard]] std::optional<std::string> text_at(const YAML::Node& root, std::string_view key);

/// A scalar as it is written, anything else as one line of YAML.
[[nodiscard]] std::string yaml_text(const YAML::Node& node);

/// A copy that shares nothing: it can be changed without changing the original.
[[nodiscard]] YAML::Node yaml_copy(const YAML::Node& node);

}  // namespace peerbed
