// What a run leaves behind: results.json (schema peerbed.results/1), junit.xml.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "scenarios/measure/expectation.h"
#include "scenarios/measure/metrics.h"

namespace peerbed {

enum class Verdict : std::uint8_t { pass, fail, invalid };
[[nodiscard]] std::string_view to_string(Verdict verdict);

struct CheckedExpectation {
  std::string expr, origin;
  ExpectationOutcome outcome;
};

struct EngineFigures {
  std::uint64_t events = 0, packets = 0, recorded_events = 0;
  double sim_s = 0, wall_s = 0, cpu_s = 0;
  std::uint64_t peak_rss_bytes = 0;
  double bytes_per_node = 0;  ///< heap of network and nodes, at the end of the run
  std::size_t nodes = 0;
};

struct RunResult {
  std::string scenario, title, backend, digest, invalid_reason;
  std::uint64_t seed = 0;
  Verdict verdict = Verdict::pass;
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<CheckedExpectation> expectations;
  std::vector<std::string> not_emulated, figures;
  Metrics metrics;
  EngineFigures engine;
};

[[nodiscard]] std::string results_json(const RunResult& result);
[[nodiscard]] std::string junit_xml(const RunResult& result);

/// One test of a JUnit file.
struct JunitCase {
  std::string name, failure;  ///< failure empty: passed
  double seconds = 0;
};
[[nodiscard]] std::string junit_xml(const std::string& suite, const std::vector<JunitCase>& cases);

/// What a campaign needs of a finished run, read back from its results.json.
struct RunSummary {
  std::string folder, digest;
  Verdict verdict = Verdict::invalid;
  struct Value {
    std::string name, unit;
    double number = 0;
    std::string text;
    bool is_text = false;
  };
  std::vector<Value> values;  ///< single values, and of distributions NAME.mean, .p50, .p99 and the like
  std::vector<std::string> failed;  ///< expectations that did not hold, as sentences
  std::vector<std::string> expressions;
  double wall_s = 0;
};
[[nodiscard]] Result<RunSummary> read_run_summary(const std::string& folder);

/// "flow.bulk.goodput >= 5 Mbit/s: 4.2 Mbit/s, bound 5 Mbit/s".
[[nodiscard]] std::string describe(const CheckedExpectation& expectation);

[[nodiscard]] std::string compiler_name();

}  // namespace peerbed
