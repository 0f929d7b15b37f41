// Runs scenarios in process, from the catalogue or from text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "scenarios/loader.h"
#include "scenarios/runner.h"

namespace peerbed::test {

inline RunResult run_request(const ScenarioRequest& request) {
  auto scenario = load_scenario(request);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  if (!scenario) return {};
  RunControls controls;
  controls.events = EventDetail::none;
  auto finished = run_scenario(*scenario, **find_backend("sim"), controls, "");
  EXPECT_TRUE(finished.has_value()) << finished.error().message;
  return finished ? std::move(finished->result) : RunResult{};
}

inline RunResult run_text(const std::string& text, std::uint64_t seed = 1) {
  const auto path = std::filesystem::temp_directory_path() / ("peerbed-world-" + std::to_string(getpid()) + ".yaml");
  std::ofstream(path) << text;
  ScenarioRequest request;
  request.name_or_path = path.string();
  request.seed = seed;
  auto result = run_request(request);
  std::filesystem::remove(path);
  return result;
}

inline RunResult run_catalog(const std::string& name, std::uint64_t seed = 1, std::vector<std::pair<std::string, std::string>> set = {}) {
  ScenarioRequest request;
  request.name_or_path = name;
  request.seed = seed;
  request.set = std::move(set);
  return run_request(request);
}

/// All that failed, as one text; empty: all held.
inline std::string failures(const RunResult& result) {
  std::string out;
  for (const auto& expectation : result.expectations)
    if (!expectation.outcome.ok) out += describe(expectation) + "\n";
  if (result.expectations.empty()) out += "nothing was expected\n";
  return out;
}

}  // namespace peerbed::test
