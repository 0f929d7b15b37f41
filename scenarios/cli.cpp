#include "scenarios/cli.h"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/congestion/controller.h"
#include "scenarios/backend.h"
#include "scenarios/loader.h"
#include "scenarios/project.h"
#include "scenarios/results.h"
#include "scenarios/scenario_file.h"
#include "scenarios/workloads/workload.h"
#include "topologies/loader.h"
#include "topologies/suggest.h"

namespace peerbed {

namespace {

constexpr const char* kExamples = R"(Examples:
  peerbed run punch-matrix                     81 pairs of NATs, as a table
  peerbed run punch-relay-fallback --seed 7    one run, into runs/
  peerbed run lossy-bulk --set links.wan.loss='[0.1 %, 1 %]' --repeat 5 --jobs 4
  peerbed replay runs/punch-relay-fallback-0123abcd
  peerbed report runs/lossy-bulk-0123abcd      a report.html beside the results
  peerbed list workloads

Exit codes: 0 expectations hold, 1 an expectation failed, 2 usage or bad input, 3 the run is invalid,
124 time limit, 127 not available here, 130 interrupted.)";

constexpr const char* kRunExamples = R"(Examples:
  peerbed run punch-relay-fallback
  peerbed run punch-relay-fallback --set nodes.bob.nat=eim/eif --set seed=3
  peerbed run my/scenario.yaml --set 'links.wan.loss=[0 %, 1 %, 5 %]' --repeat 20
  peerbed run small-messages --backend sockets --json

A key is dotted: nodes.NAME.SETTING, links.NAME.KNOB, hosts.NAME.SETTING, workload.NAME.PARAMETER, seed, duration, topology.
A list as its value sweeps it. Runs of a sweep go to a campaign folder, a single run to a run folder, both below runs/.)";

void add_run(CLI::App& app, RunCommand& command) {
  auto* run = app.add_subcommand("run", "Run a scenario: one run, or a campaign where it sweeps");
  run->add_option("scenario", command.scenario, "Name in the catalogue, or a path")->required()->type_name("SCENARIO");
  run->add_option("--backend", command.backend, "sim, sockets (ns3 and netem are not in this build)")->type_name("NAME");
  run->add_option("--seed", command.seed, "First seed, instead of the scenario's")->type_name("N");
  run->add_option("--set", command.set, "Change a key of the scenario or its topology; may be given often")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->trigger_on_parse(false);
  run->add_option("--out", command.out, "The run's folder, instead of runs/NAME-DIGEST")->type_name("DIR");
  run->add_option("--repeat", command.repeat, "Runs per point, with seeds N, N+1, ...")->type_name("N")->check(CLI::Range(1, 100000));
  run->add_option("--jobs", command.jobs, "Worker processes; default: the cores")->type_name("N")->check(CLI::Range(1, 1024));
  run->add_option("--events", command.events, "What events.jsonl holds: none, summary, all; the digest is the same")
      ->type_name("HOW")
      ->check(CLI::IsMember({"none", "summary", "all"}));
  run->add_option("--time-limit", command.time_limit, "Wall-clock limit, such as '90 s'; ends with 124")->type_name("TIME");
  run->add_option("--executor", command.executor, "local (slurm is not in this build)")->type_name("NAME");
  run->add_option("--emulator", command.emulator, "Of the backend netem, which is not in this build")->type_name("NAME");
  run->add_flag("--json", command.json, "Print results.json on standard output");
  run->add_flag("--resume", command.resume, "Keep the finished runs of a campaign, run the rest");
  run->add_flag("--quiet", command.quiet, "No progress, no table; errors and failed expectations only");
  run->add_flag("--pcap", command.pcap, "Not in this build");
  run->add_flag("--qlog", command.qlog, "Not in this build");
  run->footer(kRunExamples);
}

/// A scenario has a workload, a topology has not.
Result<std::string> validate_file(const std::string& file) {
  std::string path = file;
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    auto found = find_scenario(file);
    if (!found) found = find_in_catalog("topologies/catalog", "scenario or topology", file, "");
    if (!found) return found.error();
    path = *found;
  }
  const auto yaml = YamlFile::load(path);
  if (!yaml) return yaml.error();
  bool scenario = false;
  for (const auto& [key, value] : yaml->value().entries()) scenario |= key == "workload" || key == "topology" || key == "expect";
  if (!scenario) {
    const auto topology = parse_topology(yaml->to_text(), path);
    // The text of the file itself has the right line numbers.
    const auto text = read_file(path);
    const auto exact = text ? parse_topology(*text, path) : topology;
    if (!exact) return exact.error();
    return fmt::format("a topology of {} nodes and {} links", exact->nodes.size(), exact->links.size());
  }
  if (path.find('/') == std::string::npos) path = "./" + path;
  ScenarioRequest request;
  request.name_or_path = path;
  const auto plan = plan_sweep(request);
  if (!plan) return plan.error();
  return fmt::format("a scenario of {} point{}, {} run{} each", plan->points(), plan->points() == 1 ? "" : "s", plan->repeat,
                     plan->repeat == 1 ? "" : "s");
}

void list_line(std::string_view name, std::string_view text) { fmt::print("{:<24}{}\n", name, text); }

int list_scenarios() {
  for (const auto& name : catalog_names("scenarios/catalog")) {
    const auto path = find_scenario(name);
    const auto file = YamlFile::load(*path);
    list_line(name, file ? text_at(file->value().node(), "title").value_or("") : file.error().message);
  }
  return kExitPass;
}

}  // namespace

int say_error(const Error& error) {
  fmt::print(stderr, "peerbed: {}\n", error.message);
  return error.kind == ErrorKind::unsupported || error.kind == ErrorKind::unavailable ? kExitUnavailable : kExitUsage;
}

int validate_command(const std::vector<std::string>& files) {
  int code = kExitPass;
  for (const auto& file : files) {
    const auto found = validate_file(file);
    if (found) fmt::print("{}: {}\n", file, *found);
    else code = std::max(code, say_error(found.error()));
  }
  return code;
}

int list_command(const std::string& what) {
  if (what == "scenarios") return list_scenarios();
  if (what == "topologies")
    for (const auto& entry : catalog_topologies()) list_line(entry.name, entry.title);
  if (what == "nats")
    for (const auto& nat : named_nats()) list_line(nat.name, fmt::format("{}  {}", to_string(nat.behavior), nat.description));
  if (what == "congestion")
    for (const auto& name : controller_names()) fmt::print("{}\n", name);
  if (what == "workloads")
    for (const auto& kind : workload_kinds()) list_line(kind.name, kind.description);
  if (what == "queues") list_line("drop-tail", "limited in packets or bytes: queue: {packets: 100}");
  if (what == "backends")
    for (const auto& backend : backends()) list_line(backend.name, backend.description);
  if (what == "peers") list_line("peerbed", "this program's own node");
  return kExitPass;
}

int analysis_command(const std::string& verb, const std::vector<std::string>& arguments) {
  const char* chosen = std::getenv("PEERBED_PYTHON");
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "/usr/bin/python3";
  const char* before = std::getenv("PYTHONPATH");
  const std::string path = project_root() + (before != nullptr && *before != '\0' ? std::string(":") + before : "");
  setenv("PYTHONPATH", path.c_str(), 1);
  std::vector<std::string> words{python, "-m", "analysis", verb};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execvp(python.c_str(), argv.data());
  return say_error(unavailable(fmt::format("{} cannot be started, and '{}' is its work", python, verb)));
}

int peerbed_main(int argc, char** argv) {
  if (sodium_init() < 0) return say_error(unavailable("libsodium cannot be initialised"));
  CLI::App app("Runs real peer-to-peer protocol code on virtual and real networks, and measures it.", "peerbed");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);

  RunCommand command;
  add_run(app, command);
  std::vector<std::string> files, analysis_arguments;
  std::string what, folder;
  auto* validate = app.add_subcommand("validate", "Check scenario and topology files without running them");
  validate->add_option("file", files, "Files, or names in the catalogues")->required()->type_name("FILE");
  auto* list = app.add_subcommand("list", "What there is to choose from");
  list->add_option("what", what, "scenarios, topologies, nats, congestion, workloads, queues, backends, peers")
      ->required()
      ->type_name("WHAT")
      ->check(CLI::IsMember({"scenarios", "topologies", "nats", "congestion", "workloads", "queues", "backends", "peers"}));
  auto* replay = app.add_subcommand("replay", "Run a run folder's inputs again, and say whether the digest is equal");
  replay->add_option("folder", folder, "A run folder")->required()->type_name("RUN_DIR");
  std::vector<std::pair<std::string, CLI::App*>> analysis;
  for (const auto& [verb, text] : {std::pair<std::string, std::string>{"report", "Write report.html of run and campaign folders"},
                                   {"plot", "Draw the figures of run and campaign folders"},
                                   {"compare", "Compare two run or campaign folders"}}) {
    auto* sub = app.add_subcommand(verb, text);
    sub->prefix_command();  // all that follows is the analysis program's
    sub->set_help_flag();
    analysis.emplace_back(verb, sub);
  }
  std::vector<std::pair<std::string, CLI::App*>> absent;
  for (const std::string verb : {"fidelity", "perf", "agent", "doctor"}) {
    auto* sub = app.add_subcommand(verb, "Not in this build");
    sub->prefix_command();
    absent.emplace_back(verb, sub);
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    const int code = app.exit(problem, std::cout, std::cerr);
    return code == 0 ? kExitPass : kExitUsage;
  }
  if (app.got_subcommand("run")) {
    command.backend_given = app.get_subcommand("run")->count("--backend") > 0;
    return run_command(command);
  }
  if (validate->parsed()) return validate_command(files);
  if (list->parsed()) return list_command(what);
  if (replay->parsed()) return replay_command(folder);
  for (const auto& [verb, sub] : analysis)
    if (sub->parsed()) return analysis_command(verb, sub->remaining());
  for (const auto& [verb, sub] : absent)
    if (sub->parsed()) return say_error(unsupported(fmt::format("'{}' is not in this build", verb)));
  return kExitUsage;
}

}  // namespace peerbed
