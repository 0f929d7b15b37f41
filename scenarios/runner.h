// Runs one scenario on one backend, from the first event to the verdict.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "scenarios/backend.h"
#include "scenarios/measure/series.h"
#include "scenarios/recorder.h"
#include "scenarios/results.h"
#include "scenarios/scenario.h"

namespace peerbed {

/// How far a run is; told now and then.
struct RunProgress {
  Duration elapsed{}, duration{};
  std::uint64_t events = 0;
  double wall_s = 0;
};

struct RunControls {
  EventDetail events = EventDetail::all;
  std::optional<double> deadline_s;  ///< of the steady clock; see steady_seconds()
  std::function<void(const RunProgress&)> progress;
  std::function<bool()> interrupted;
};

enum class RunEnd : std::uint8_t { finished, time_limit, interrupted };

struct FinishedRun {
  RunEnd end = RunEnd::finished;
  RunResult result;  ///< of a run that finished
  std::string series_csv;
};

[[nodiscard]] double steady_seconds();

/// `events_path`: where events.jsonl goes; empty: nowhere.
[[nodiscard]] Result<FinishedRun> run_scenario(Scenario& scenario, const Backend& backend, const RunControls& controls,
                                               const std::string& events_path);

/// As above, into a folder: runs/<name>-<digest8> or `out`. Gives the folder's path (empty: the run did not finish).
struct StoredRun {
  RunEnd end = RunEnd::finished;
  RunResult result;
  std::string folder;
};
[[nodiscard]] Result<StoredRun> run_into_folder(Scenario& scenario, const Backend& backend, const RunControls& controls,
                                                const std::optional<std::string>& out);

}  // namespace peerbed
