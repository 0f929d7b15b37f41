// Worker processes that run jobs one after the other: forked, so that a crash costs one job, and kept, so that a cheap
// job costs no process.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace peerbed {

struct JobOutcome {
  std::size_t job = 0;
  std::string failure;  ///< empty: done; else why there is no result
  ErrorKind kind = ErrorKind::bad_input;
  bool crashed = false;  ///< the worker ended; `failure` says how
};

enum class WorkersEnd : std::uint8_t { finished, stopped };

struct WorkerPlan {
  std::size_t jobs = 0, workers = 1;
  /// In the worker. Nothing: done.
  std::function<std::optional<Error>(std::size_t job)> run;
  /// In the parent. False: stop all.
  std::function<bool(const JobOutcome& outcome)> on_outcome;
  /// In the parent, several times a second. False: stop all.
  std::function<bool()> go_on;
};

/// Workers die with this process, whatever ends it.
[[nodiscard]] Result<WorkersEnd> run_workers(const WorkerPlan& plan);

}  // namespace peerbed
