// Where the catalogues are, and what they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace peerbed {

inline constexpr std::string_view kVersion = "0.1.0";

/// PEERBED_ROOT, else the source folder that the program was built from.
[[nodiscard]] std::string project_root();

/// The names in `folder` ("topologies/catalog") without ".yaml", sorted.
[[nodiscard]] std::vector<std::string> catalog_names(std::string_view folder);

/// A name of the catalogue or a path, as users write it, to the file's path. A path is anything with a slash or an ending
/// and is relative to `base` (empty: the working directory).
[[nodiscard]] Result<std::string> find_in_catalog(std::string_view folder, std::string_view kind, std::string_view name,
                                                  const std::string& base);

[[nodiscard]] Result<std::string> read_file(const std::string& path);

}  // namespace peerbed
