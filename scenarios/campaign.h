// A campaign: every point of a sweep with every seed, in worker processes, each run a folder of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "scenarios/backend.h"
#include "scenarios/loader.h"
#include "scenarios/results.h"
#include "scenarios/runner.h"

namespace peerbed {

struct CampaignOptions {
  const Backend* backend = nullptr;
  EventDetail events = EventDetail::all;
  std::optional<std::string> out;
  std::size_t jobs = 1;
  bool resume = false;
  std::optional<double> deadline_s;  ///< of the steady clock
  std::function<bool()> interrupted;
  std::function<void(std::size_t done, std::size_t all, double wall_s)> progress;
};

/// A metric over the runs of a point.
struct PointMetric {
  std::string unit;
  std::size_t n = 0;
  double mean = 0, min = 0, p50 = 0, max = 0, deviation = 0;
  std::optional<std::pair<double, double>> ci95;
  std::map<std::string, std::size_t> texts;  ///< of a text: how many runs had which
};

struct CampaignPoint {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> runs;  ///< folders, relative to the campaign's
  std::vector<std::string> failed;  ///< "seed 3: …", of expectations and of runs that ended without a result
  Verdict verdict = Verdict::pass;
  std::map<std::string, PointMetric> metrics;
  std::vector<std::string> expressions;
  double wall_s = 0;
};

struct CampaignResult {
  RunEnd end = RunEnd::finished;
  std::string folder, scenario, title, backend;
  Verdict verdict = Verdict::pass;
  std::size_t executed = 0, kept = 0;  ///< runs of now, and those found finished
  std::vector<CampaignPoint> points;
  std::optional<Error> error;  ///< the same at every run, such as a backend that refuses the topology
  double wall_s = 0;
};

[[nodiscard]] Result<CampaignResult> run_campaign(const SweepPlan& plan, const CampaignOptions& options);

[[nodiscard]] std::string campaign_json(const CampaignResult& result);
[[nodiscard]] std::string campaign_junit(const CampaignResult& result);

/// For people: a matrix where two keys were swept and the outcome is a text, else a list.
[[nodiscard]] std::string campaign_table(const CampaignResult& result);

/// Over the runs of one point, by metric.
[[nodiscard]] std::map<std::string, PointMetric> aggregate(const std::vector<RunSummary>& runs);

}  // namespace peerbed
