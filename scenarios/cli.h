// The command line (DESIGN.md §6). Exit codes: 0 expectations hold, 1 one failed, 2 usage or bad input, 3 run invalid,
// 124 time limit, 127 not available here; 130 interrupted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace peerbed {

enum ExitCode : int {
  kExitPass = 0,
  kExitFail = 1,
  kExitUsage = 2,
  kExitInvalid = 3,
  kExitTimeLimit = 124,
  kExitUnavailable = 127,
  kExitInterrupted = 130,
};

struct RunCommand {
  std::string scenario, backend = "sim", events = "all";
  std::vector<std::string> set;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> out, time_limit, executor, emulator;
  std::optional<int> repeat;
  std::size_t jobs = 0;  ///< 0: the cores
  bool json = false, resume = false, pcap = false, qlog = false, quiet = false;
  bool backend_given = false;
};

[[nodiscard]] int run_command(const RunCommand& command);
[[nodiscard]] int replay_command(const std::string& folder);
[[nodiscard]] int validate_command(const std::vector<std::string>& files);
[[nodiscard]] int list_command(const std::string& what);
/// Becomes the Python program: report, plot, compare.
[[nodiscard]] int analysis_command(const std::string& verb, const std::vector<std::string>& arguments);

/// Says the sentence and gives the exit code of its kind.
[[nodiscard]] int say_error(const Error& error);

[[nodiscard]] int peerbed_main(int argc, char** argv);

}  // namespace peerbed
