// Topology files: docs/topologies.md says what may stand in them. Every error is one sentence with file and line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "topologies/model.h"
#include "topologies/yaml_reader.h"

namespace peerbed {

[[nodiscard]] Result<Topology> parse_topology(std::string_view text, const std::string& file_name,
                                              std::span<const YamlOverride> overrides = {});

/// A path (it has a slash or ends in .yaml) or the name of a catalog topology.
[[nodiscard]] Result<Topology> load_topology(const std::string& path_or_name,
                                             std::span<const YamlOverride> overrides = {});

/// The path of a catalog topology; the error names the nearest.
[[nodiscard]] Result<std::string> find_catalog_topology(std::string_view name);

struct CatalogEntry {
  std::string name, title, path;
};
[[nodiscard]] std::vector<CatalogEntry> catalog_topologies();  ///< sorted by name

}  // namespace peerbed
