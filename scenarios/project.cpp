#include "scenarios/project.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topologies/suggest.h"

namespace peerbed {

namespace fs = std::filesystem;

std::string project_root() {
  if (const char* root = std::getenv("PEERBED_ROOT"); root != nullptr && *root != '\0') return root;
  return PEERBED_SOURCE_DIR;
}

std::vector<std::string> catalog_names(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(fs::path(project_root()) / folder, problem))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> find_in_catalog(std::string_view folder, std::string_view kind, std::string_view name, const std::string& base) {
  const bool is_path = name.find('/') != std::string_view::npos || name.ends_with(".yaml") || name.ends_with(".yml");
  if (is_path) {
    const fs::path path = fs::path(base) / fs::path(name);
    std::error_code problem;
    if (fs::is_regular_file(path, problem)) return path.lexically_normal().string();
    return bad_input(fmt::format("there is no {} file '{}'", kind, path.lexically_normal().string()));
  }
  const auto names = catalog_names(folder);
  if (std::find(names.begin(), names.end(), name) != names.end())
    return (fs::path(project_root()) / folder / fmt::format("{}.yaml", name)).string();
  return bad_input(fmt::format("there is no {} '{}' in the catalogue{}", kind, name, did_you_mean(name, names)));
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) return bad_input(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  return std::move(text).str();
}

}  // namespace peerbed
