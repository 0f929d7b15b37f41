// A folder that comes into being whole: it is filled under another name beside its place and renamed at the end, so that
// whoever is killed leaves either all of it or nothing of that name.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace peerbed {

class RunFolder {
 public:
  /// Makes the temporary folder in `parent`, which is made as well.
  [[nodiscard]] static Result<RunFolder> open(const std::string& parent);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();  ///< an uncommitted one is removed

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Result<void> write(std::string_view file, std::string_view text) const;
  /// Gives the folder its name; a run folder that was there is replaced.
  [[nodiscard]] Result<void> commit(const std::string& final_path);

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Removes what processes that are gone left unfinished in `parent`.
void remove_stale(const std::string& parent);

/// Writes beside, then renames.
[[nodiscard]] Result<void> write_file_atomically(const std::string& path, std::string_view text);

/// May a run be put there? Nothing is there, or an empty folder, or an earlier run or campaign.
[[nodiscard]] Result<void> check_output(const std::string& path);

}  // namespace peerbed
