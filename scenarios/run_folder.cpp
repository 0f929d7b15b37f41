#include "scenarios/run_folder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace peerbed {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = ".unfinished-";

std::string fresh_name() {
  static unsigned counter = 0;
  return fmt::format("{}{}-{}", kPrefix, getpid(), counter++);
}

Error cannot_write(const std::string& path, const std::string& why) { return bad_input(fmt::format("{} cannot be written: {}", path, why)); }

}  // namespace

Result<RunFolder> RunFolder::open(const std::string& parent) {
  std::error_code problem;
  fs::create_directories(parent, problem);
  if (problem) return cannot_write(parent, problem.message());
  const auto path = (fs::path(parent) / fresh_name()).string();
  fs::remove_all(path, problem);  // a process of this number may have left one
  fs::create_directory(path, problem);
  if (problem) return cannot_write(path, problem.message());
  return RunFolder(path);
}

RunFolder::RunFolder(RunFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<void> RunFolder::write(std::string_view file, std::string_view text) const {
  const auto path = (fs::path(path_) / file).string();
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return cannot_write(path, std::strerror(errno));
  return {};
}

Result<void> RunFolder::commit(const std::string& final_path) {
  std::error_code problem;
  fs::create_directories(fs::path(final_path).parent_path(), problem);
  const auto old = (fs::path(path_).parent_path() / fresh_name()).string();
  fs::rename(final_path, old, problem);  // nothing there: that is an error to ignore
  problem.clear();
  fs::rename(path_, final_path, problem);
  if (problem) return cannot_write(final_path, problem.message());
  path_.clear();
  fs::remove_all(old, problem);
  return {};
}

void remove_stale(const std::string& parent) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(parent, problem)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    pid_t owner = 0;
    const char* const begin = name.data() + kPrefix.size();
    const auto [end, wrong] = std::from_chars(begin, name.data() + name.size(), owner);
    if (wrong != std::errc{} || end == begin || owner <= 0) continue;
    std::error_code ignored;
    if (kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

Result<void> write_file_atomically(const std::string& path, std::string_view text) {
  const auto beside = (fs::path(path).parent_path() / fresh_name()).string();
  {
    std::ofstream out(beside, std::ios::binary);
    out << text;
    out.close();
    if (!out) return cannot_write(path, std::strerror(errno));
  }
  std::error_code problem;
  fs::rename(beside, path, problem);
  if (problem) return cannot_write(path, problem.message());
  return {};
}

Result<void> check_output(const std::string& path) {
  std::error_code problem;
  if (!fs::exists(path, problem)) return {};
  if (!fs::is_directory(path, problem)) return bad_input(fmt::format("{} is there already and is not a folder", path));
  if (fs::is_empty(path, problem) || fs::exists(fs::path(path) / "inputs.yaml", problem)) return {};
  return bad_input(fmt::format("{} is there already and is no run folder; nothing of it was touched", path));
}

}  // namespace peerbed
