// The commands run and replay.
#include <fmt/format.h>
#include <sched.h>

#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>

#include "scenarios/campaign.h"
#include "scenarios/cli.h"
#include "scenarios/console.h"
#include "scenarios/loader.h"
#include "scenarios/project.h"
#include "scenarios/run_folder.h"
#include "scenarios/runner.h"

namespace peerbed {

namespace {

std::size_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&cores)));
}

int exit_of(Verdict verdict) {
  return verdict == Verdict::pass ? kExitPass : verdict == Verdict::fail ? kExitFail : kExitInvalid;
}

/// What this build cannot do is said before anything starts.
std::optional<Error> not_here(const RunCommand& command) {
  if (command.pcap) return unsupported("--pcap is not in this build");
  if (command.qlog) return unsupported("--qlog is not in this build");
  if (command.emulator) return unsupported("--emulator belongs to the backend netem, which is not in this build");
  if (command.executor && *command.executor == "slurm") return unsupported("--executor slurm is not in this build; use local");
  if (command.executor && *command.executor != "local") return bad_input(fmt::format("there is no executor '{}'; known is local", *command.executor));
  return std::nullopt;
}

Result<ScenarioRequest> request_of(const RunCommand& command) {
  ScenarioRequest request;
  request.name_or_path = command.scenario;
  request.seed = command.seed;
  request.repeat = command.repeat;
  for (const auto& text : command.set) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return bad_input(fmt::format("--set {}: write KEY=VALUE", text));
    request.set.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return request;
}

EventDetail detail_of(const std::string& text) {
  return text == "none" ? EventDetail::none : text == "summary" ? EventDetail::summary : EventDetail::all;
}

void say_not_emulated(const std::vector<std::string>& sentences) {
  for (const auto& sentence : sentences) fmt::print(stderr, "peerbed: ATTENTION: {}\n", sentence);
}

int ended_early(RunEnd end, const std::string& hint) {
  if (end == RunEnd::time_limit) {
    fmt::print(stderr, "peerbed: the time limit is over{}\n", hint);
    return kExitTimeLimit;
  }
  fmt::print(stderr, "peerbed: interrupted{}\n", hint);
  return kExitInterrupted;
}

void say_run(const StoredRun& run, bool quiet) {
  const RunResult& result = run.result;
  if (!quiet) {
    fmt::print(stderr, "{}: {}\n", result.scenario, result.title);
    for (const auto& [key, value] : result.set) fmt::print(stderr, "  {} = {}\n", key, value);
  }
  bool failed = false;
  for (const auto& expectation : result.expectations) {
    failed |= !expectation.outcome.ok;
    if (!quiet || !expectation.outcome.ok) fmt::print(stderr, "  {}  {}\n", expectation.outcome.ok ? "ok  " : "FAIL", describe(expectation));
  }
  if (!result.invalid_reason.empty()) fmt::print(stderr, "  INVALID  {}\n", result.invalid_reason);
  if (!quiet) {
    fmt::print(stderr, "{}  backend {}, seed {}, {} nodes, {:.3f} s in {:.3f} s, {} events, digest {}\n", to_string(result.verdict), result.backend, result.seed,
               result.engine.nodes, result.engine.sim_s, result.engine.wall_s, result.engine.events, result.digest.substr(0, 8));
    fmt::print(stderr, "{}\n", run.folder);
  }
  if (failed) fmt::print(stderr, "again: peerbed replay {}\n", shell_word(run.folder));
}

int run_single(const RunCommand& command, const ScenarioRequest& request, const Backend& backend, std::optional<double> deadline) {
  auto scenario = load_scenario(request);
  if (!scenario) return say_error(scenario.error());
  RunControls controls;
  controls.events = detail_of(command.events);
  controls.deadline_s = deadline;
  controls.interrupted = interrupted;
  ProgressDisplay display;
  if (!command.quiet) controls.progress = [&](const RunProgress& progress) { display.show(progress); };
  const auto run = run_into_folder(*scenario, backend, controls, command.out);
  display.clear();
  if (!run) return say_error(run.error());
  if (run->end != RunEnd::finished) return ended_early(run->end, "; nothing was kept");
  say_not_emulated(run->result.not_emulated);
  say_run(*run, command.quiet);
  if (command.json) fmt::print("{}", results_json(run->result));
  return exit_of(run->result.verdict);
}

void say_campaign(const CampaignResult& result, bool quiet) {
  constexpr std::size_t kMostShown = 10;
  if (!quiet) fmt::print(stderr, "{}: {}\n\n{}\n", result.scenario, result.title, campaign_table(result));
  std::size_t shown = 0, points_failed = 0;
  for (const auto& point : result.points) {
    if (point.verdict == Verdict::pass) continue;
    ++points_failed;
    if (++shown > kMostShown) continue;
    std::string where;
    for (const auto& [key, value] : point.set) where += fmt::format("{}{}={}", where.empty() ? "" : " ", key, value);
    fmt::print(stderr, "{}  {}{}{}\n", point.verdict == Verdict::fail ? "FAIL" : "INVALID", where, where.empty() ? "" : ": ", point.failed.empty() ? "" : point.failed.front());
    if (!point.runs.empty()) {
      // The run that failed is named by its seed, which is the last part of its folder.
      std::string folder = point.runs.front();
      for (const auto& run : point.runs)
        if (!point.failed.empty() && point.failed.front().starts_with(fmt::format("seed {}:", std::filesystem::path(run).filename().string()))) folder = run;
      fmt::print(stderr, "      again: peerbed replay {}\n", shell_word(result.folder + "/" + folder));
    }
  }
  if (shown > kMostShown) fmt::print(stderr, "... and {} more points\n", shown - kMostShown);
  if (quiet) return;
  fmt::print(stderr, "{}  {} points, {} runs ({} kept from before), {} points not as expected, {:.1f} s\n{}\n", to_string(result.verdict), result.points.size(),
             result.executed + result.kept, result.kept, points_failed, result.wall_s, result.folder);
}

int run_sweep(const RunCommand& command, const SweepPlan& plan, const Backend& backend, std::optional<double> deadline) {
  CampaignOptions options;
  options.backend = &backend;
  options.events = detail_of(command.events);
  options.out = command.out;
  options.jobs = command.jobs > 0 ? command.jobs : usable_cores();
  options.resume = command.resume;
  options.deadline_s = deadline;
  options.interrupted = interrupted;
  ProgressDisplay display;
  if (!command.quiet) options.progress = [&](std::size_t done, std::size_t all, double wall_s) { display.show_campaign(done, all, wall_s); };
  const auto result = run_campaign(plan, options);
  display.clear();
  if (!result) return say_error(result.error());
  if (result->error) return say_error(*result->error);
  if (result->end != RunEnd::finished)
    return ended_early(result->end, fmt::format("; {} finished runs are kept in {}, --resume goes on", result->executed + result->kept, result->folder));
  say_campaign(*result, command.quiet);
  if (command.json) fmt::print("{}", campaign_json(*result));
  return exit_of(result->verdict);
}

}  // namespace

int run_command(const RunCommand& given) {
  RunCommand command = given;
  if (const auto error = not_here(command)) return say_error(*error);
  const auto backend = find_backend(command.backend);
  if (!backend) return say_error(backend.error());
  const auto request = request_of(command);
  if (!request) return say_error(request.error());
  std::optional<double> deadline;
  if (command.time_limit) {
    const auto limit = parse_duration(*command.time_limit);
    if (!limit) return say_error(bad_input(fmt::format("--time-limit: {}", limit.error().message)));
    deadline = steady_seconds() + to_seconds(*limit);
  }
  if (command.out) {
    std::filesystem::path out(*command.out);
    if (!out.has_filename()) out = out.parent_path();
    command.out = out.string();
    if (auto free = check_output(*command.out); !free) return say_error(free.error());
  }
  const auto plan = plan_sweep(*request);
  if (!plan) return say_error(plan.error());
  watch_for_interrupts();
  return plan->campaign ? run_sweep(command, *plan, **backend, deadline) : run_single(command, plan->request(0, plan->seed), **backend, deadline);
}

int replay_command(const std::string& folder) {
  const auto text = read_file(folder + "/results.json");
  if (!text) return say_error(bad_input(fmt::format("{} is no run folder: {}", folder, text.error().message)));
  std::string digest, schema;
  try {
    const auto parsed = boost::json::parse(*text);
    schema = std::string(parsed.as_object().at("schema").as_string());
    if (schema == "peerbed.results/1") digest = std::string(parsed.as_object().at("digest").as_string());
  } catch (const std::exception& problem) {
    return say_error(bad_input(fmt::format("{}/results.json cannot be read: {}", folder, problem.what())));
  }
  if (schema == "peerbed.campaign/1") return say_error(bad_input(fmt::format("{} is a campaign; replay one of its runs, such as {}/points/0/1", folder, folder)));
  ScenarioRequest request;
  request.name_or_path = (std::filesystem::path(folder) / "inputs.yaml").string();
  auto scenario = load_scenario(request);
  if (!scenario) return say_error(scenario.error());
  const auto backend = find_backend(scenario->backend.value_or("sim"));
  if (!backend) return say_error(backend.error());
  if (!(*backend)->virtual_time) return say_error(unsupported("this run was in real time, which is never the same twice: it cannot be replayed"));
  watch_for_interrupts();
  ProgressDisplay display;
  RunControls controls;
  controls.events = EventDetail::none;
  controls.interrupted = interrupted;
  controls.progress = [&](const RunProgress& progress) { display.show(progress); };
  const auto again = run_scenario(*scenario, **backend, controls, "");
  display.clear();
  if (!again) return say_error(again.error());
  if (again->end != RunEnd::finished) return ended_early(again->end, "");
  for (const auto& expectation : again->result.expectations)
    fmt::print(stderr, "  {}  {}\n", expectation.outcome.ok ? "ok  " : "FAIL", describe(expectation));
  if (again->result.digest == digest) {
    fmt::print(stderr, "equal: digest {}\n", digest);
    return kExitPass;
  }
  fmt::print(stderr, "NOT equal: digest {} then, {} now\n", digest, again->result.digest);
  return kExitFail;
}

}  // namespace peerbed
