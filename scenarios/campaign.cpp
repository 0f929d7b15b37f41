#include "scenarios/campaign.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <filesystem>

#include "core/base/bytes.h"
#include "scenarios/json_text.h"
#include "scenarios/measure/statistics.h"
#include "scenarios/project.h"
#include "scenarios/run_folder.h"
#include "scenarios/scenario_file.h"
#include "scenarios/workers.h"

namespace peerbed {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

/// What the campaign is made of: two that differ in anything are two campaigns.
std::string campaign_inputs(const SweepPlan& plan, const Scenario& first, std::string_view backend) {
  YAML::Node header;
  header["schema"] = "peerbed.inputs/1";
  header["version"] = std::string(kVersion);
  header["scenario"] = plan.name;
  header["backend"] = std::string(backend);
  for (const auto& [key, value] : plan.base.set) header["set"][key] = value;
  YAML::Node sweep;
  sweep["repeat"] = plan.repeat;
  for (const auto& axis : plan.axes)
    for (const auto& value : axis.values) sweep[axis.key].push_back(value);
  YAML::Node root;
  root["run"] = header;
  root["sweep"] = sweep;
  YAML::Node scenario = YAML::Load(first.resolved);
  scenario["seed"] = std::to_string(plan.seed);
  for (const auto& entry : scenario) root[entry.first.Scalar()] = entry.second;
  return YAML::Dump(root) + "\n";
}

std::string short_hash(const std::string& text) {
  std::array<std::uint8_t, 32> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return to_hex(digest).substr(0, 8);
}

class Campaign {
 public:
  Campaign(const SweepPlan& plan, const CampaignOptions& options) : plan_(plan), options_(options) {
    repeat_ = static_cast<std::size_t>(plan.repeat);
  }

  Result<CampaignResult> run() {
    const double wall_start = steady_seconds();
    const auto first = load_scenario(plan_.request(0, plan_.seed));
    if (!first) return first.error();
    const std::string inputs = campaign_inputs(plan_, *first, options_.backend->name);
    result_.scenario = plan_.name;
    result_.title = plan_.title;
    result_.backend = options_.backend->name;
    result_.folder = options_.out ? *options_.out : fmt::format("runs/{}-{}", plan_.name, short_hash(inputs));
    if (auto ready = prepare_folder(inputs); !ready) return ready.error();

    std::vector<std::size_t> todo;
    for (std::size_t job = 0; job < plan_.points() * repeat_; ++job)
      if (!fs::exists(folder_of(job) + "/results.json")) todo.push_back(job);
    result_.kept = plan_.points() * repeat_ - todo.size();
    failures_.resize(plan_.points() * repeat_);
    if (auto ended = execute(todo, wall_start); !ended) return ended.error();
    result_.wall_s = steady_seconds() - wall_start;
    if (result_.end != RunEnd::finished || result_.error) {
      for (std::size_t point = 0; point < plan_.points(); ++point) remove_stale(fmt::format("{}/points/{}", result_.folder, point));
      return std::move(result_);
    }
    if (auto collected = collect(); !collected) return collected.error();
    if (auto written = write_file_atomically(result_.folder + "/junit.xml", campaign_junit(result_)); !written) return written.error();
    if (auto written = write_file_atomically(result_.folder + "/results.json", campaign_json(result_)); !written) return written.error();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::uint64_t seed_of(std::size_t job) const { return plan_.seed + job % repeat_; }
  [[nodiscard]] std::string relative_folder(std::size_t job) const { return fmt::format("points/{}/{}", job / repeat_, seed_of(job)); }
  [[nodiscard]] std::string folder_of(std::size_t job) const { return fmt::format("{}/{}", result_.folder, relative_folder(job)); }

  Result<void> prepare_folder(const std::string& inputs) const {
    const std::string path = result_.folder + "/inputs.yaml";
    std::error_code problem;
    if (options_.resume && fs::exists(path, problem)) {
      const auto before = read_file(path);
      if (!before) return before.error();
      if (*before != inputs) return bad_input(fmt::format("{} was made by another scenario, version or setting; --resume cannot go on there", result_.folder));
      return {};
    }
    if (fs::exists(result_.folder, problem)) fs::remove_all(result_.folder, problem);
    fs::create_directories(result_.folder + "/points", problem);
    if (problem) return bad_input(fmt::format("{} cannot be made: {}", result_.folder, problem.message()));
    return write_file_atomically(path, inputs);
  }

  std::optional<Error> run_one(std::size_t job) const {
    auto scenario = load_scenario(plan_.request(job / repeat_, seed_of(job)));
    if (!scenario) return scenario.error();
    RunControls controls;
    controls.events = options_.events;
    const auto stored = run_into_folder(*scenario, *options_.backend, controls, folder_of(job));
    if (!stored) return stored.error();
    return std::nullopt;
  }

  Result<void> execute(const std::vector<std::size_t>& todo, double wall_start) {
    if (todo.empty()) return {};
    std::size_t done = 0;
    WorkerPlan work;
    work.jobs = todo.size();
    work.workers = options_.jobs;
    work.run = [&](std::size_t index) { return run_one(todo[index]); };
    work.on_outcome = [&](const JobOutcome& outcome) {
      ++done;
      if (outcome.failure.empty()) {
        ++result_.executed;
      } else if (outcome.kind == ErrorKind::unsupported && !outcome.crashed) {
        result_.error = Error{outcome.kind, outcome.failure};  // it would be the same at every other point
        return false;
      } else {
        failures_[todo[outcome.job]] = outcome.failure;
      }
      if (options_.progress) options_.progress(done, todo.size(), steady_seconds() - wall_start);
      return true;
    };
    work.go_on = [&] {
      if (options_.interrupted && options_.interrupted()) result_.end = RunEnd::interrupted;
      if (options_.deadline_s && steady_seconds() > *options_.deadline_s) result_.end = RunEnd::time_limit;
      return result_.end == RunEnd::finished;
    };
    const auto ended = run_workers(work);
    if (!ended) return ended.error();
    return {};
  }

  Result<void> collect() {
    bool any_failed = false, any_invalid = false;
    for (std::size_t point = 0; point < plan_.points(); ++point) {
      CampaignPoint out;
      out.set = plan_.values_of(point);
      std::vector<RunSummary> runs;
      for (std::size_t i = 0; i < repeat_; ++i) {
        const std::size_t job = point * repeat_ + i;
        if (!failures_[job].empty()) {
          out.failed.push_back(fmt::format("seed {}: {}", seed_of(job), failures_[job]));
          out.verdict = out.verdict == Verdict::fail ? Verdict::fail : Verdict::invalid;
          continue;
        }
        auto summary = read_run_summary(folder_of(job));
        if (!summary) return summary.error();
        out.runs.push_back(relative_folder(job));
        for (const auto& sentence : summary->failed) out.failed.push_back(fmt::format("seed {}: {}", seed_of(job), sentence));
        if (summary->verdict == Verdict::fail) out.verdict = Verdict::fail;
        if (summary->verdict == Verdict::invalid && out.verdict != Verdict::fail) out.verdict = Verdict::invalid;
        out.wall_s += summary->wall_s;
        if (out.expressions.empty()) out.expressions = summary->expressions;
        runs.push_back(std::move(*summary));
      }
      out.metrics = aggregate(runs);
      any_failed |= out.verdict == Verdict::fail;
      any_invalid |= out.verdict == Verdict::invalid;
      result_.points.push_back(std::move(out));
    }
    result_.verdict = any_failed ? Verdict::fail : any_invalid ? Verdict::invalid : Verdict::pass;
    return {};
  }

  const SweepPlan& plan_;
  const CampaignOptions& options_;
  std::size_t repeat_ = 1;
  std::vector<std::string> failures_;  ///< by job; empty: there is a run folder
  CampaignResult result_;
};

json::value point_metric_json(const PointMetric& metric) {
  json::object out;
  out["unit"] = metric.unit;
  out["n"] = metric.n;
  if (!metric.texts.empty()) {
    json::object counts;
    for (const auto& [text, count] : metric.texts) counts[text] = count;
    out["counts"] = std::move(counts);
    return out;
  }
  out["mean"] = json_number(metric.mean);
  if (metric.ci95) out["ci95"] = json::array{json_number(metric.ci95->first), json_number(metric.ci95->second)};
  else out["ci95"] = nullptr;
  out["min"] = json_number(metric.min);
  out["p50"] = json_number(metric.p50);
  out["max"] = json_number(metric.max);
  out["deviation"] = json_number(metric.deviation);
  return out;
}

}  // namespace

std::map<std::string, PointMetric> aggregate(const std::vector<RunSummary>& runs) {
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, PointMetric> out;
  for (const auto& run : runs) {
    for (const auto& value : run.values) {
      auto& metric = out[value.name];
      metric.unit = value.unit;
      ++metric.n;
      if (value.is_text) ++metric.texts[value.text];
      else numbers[value.name].push_back(value.number);
    }
  }
  for (auto& [name, values] : numbers) {
    auto& metric = out[name];
    metric.mean = mean(values);
    metric.deviation = standard_deviation(values);
    metric.ci95 = confidence_interval_95(values);
    std::sort(values.begin(), values.end());
    metric.min = values.front();
    metric.p50 = percentile(values, 0.5);
    metric.max = values.back();
  }
  return out;
}

Result<CampaignResult> run_campaign(const SweepPlan& plan, const CampaignOptions& options) { return Campaign(plan, options).run(); }

std::string campaign_json(const CampaignResult& result) {
  json::object out;
  out["schema"] = "peerbed.campaign/1";
  out["scenario"] = result.scenario;
  out["title"] = result.title;
  out["backend"] = result.backend;
  out["version"] = kVersion;
  out["verdict"] = to_string(result.verdict);
  json::array points;
  for (const auto& point : result.points) {
    json::object entry, set, metrics;
    for (const auto& [key, value] : point.set) set[key] = value;
    for (const auto& [name, metric] : point.metrics) metrics[name] = point_metric_json(metric);
    entry["set"] = std::move(set);
    entry["runs"] = json::value_from(point.runs);
    entry["verdict"] = to_string(point.verdict);
    if (!point.failed.empty()) entry["failed"] = json::value_from(point.failed);
    entry["metrics"] = std::move(metrics);
    points.push_back(std::move(entry));
  }
  out["points"] = std::move(points);
  out["wall_s"] = result.wall_s;
  return pretty(out);
}

std::string campaign_junit(const CampaignResult& result) {
  std::vector<JunitCase> cases;
  for (const auto& point : result.points) {
    JunitCase each;
    for (const auto& [key, value] : point.set) each.name += fmt::format("{}{}={}", each.name.empty() ? "" : " ", key, value);
    if (each.name.empty()) each.name = "all runs";
    each.seconds = point.wall_s;
    if (point.verdict != Verdict::pass) {
      each.failure = point.failed.empty() ? std::string(to_string(point.verdict)) : point.failed.front();
      if (point.failed.size() > 1) each.failure += fmt::format(" (and {} more)", point.failed.size() - 1);
    }
    cases.push_back(std::move(each));
  }
  return junit_xml(result.scenario, cases);
}

}  // namespace peerbed
