#include "scenarios/runner.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sodium.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/check.h"
#include "scenarios/project.h"
#include "scenarios/run_folder.h"
#include "scenarios/scenario_file.h"

namespace peerbed {

namespace {

constexpr Duration kSlice = 20ms;         // how often the end, the clock and Ctrl-C are looked at
constexpr Duration kSampleEvery = 100ms;  // series.csv

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Starts the high-water mark of resident memory anew, so that a worker's second run does not report its first.
void reset_peak_memory() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5";
}

std::uint64_t peak_memory() {
  std::ifstream in("/proc/self/status");
  std::string word;
  while (in >> word) {
    if (word != "VmHWM:") continue;
    std::uint64_t kibibytes = 0;
    in >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// In virtual time a node is the same one in every run of a seed; in real time keys come from the kernel.
KeyPair identity_of(std::uint64_t seed, const std::string& host, bool virtual_time) {
  SecretKey secret{};
  if (virtual_time) {
    const std::string text = fmt::format("peerbed identity {} {}", seed, host);
    crypto_generichash(secret.data(), secret.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  } else {
    randombytes_buf(secret.data(), secret.size());
  }
  return make_key_pair(secret);
}

/// The nodes of a run and the loop that drives them.
class Run final : public Directory {
 public:
  Run(Scenario& scenario, World& world, Recorder& recorder)
      : scenario_(scenario), world_(world), log_(recorder.log_of("-")), start_(world.now()), series_(start_) {}

  Result<void> start() {
    for (const auto& fault : scenario_.faults)
      if (!world_.supports(fault.kind)) return unsupported(fmt::format("this backend has no way to make the fault at {} ('{}')", to_string(fault.at), fault.target));
    for (const auto& workload : scenario_.workloads) workload->prepare(scenario_.topology, scenario_.seed);
    const auto hosts = scenario_.hosts();
    for (const auto* host : hosts) {
      NodeConfig config = scenario_.node_config(*host);
      config.identity = identity_of(scenario_.seed, host->name, world_.virtual_time());
      config.bind = world_.bind_address(host->name);
      auto node = std::make_unique<Node>(world_.environment(host->name), std::move(config));
      index_.emplace(host->name, nodes_.size());
      nodes_.push_back(std::move(node));
    }
    for (std::size_t i = 0; i < hosts.size(); ++i)
      for (const auto& workload : scenario_.workloads) workload->attach(*hosts[i], *nodes_[i], *this);
    for (std::size_t i = 0; i < hosts.size(); ++i)
      if (auto started = nodes_[i]->start(start_); !started)
        return Error{started.error().kind, fmt::format("node {} does not start: {}", hosts[i]->name, started.error().message)};
    faults_ = scenario_.faults;
    std::stable_sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
    return {};
  }

  Result<RunEnd> drive(const RunControls& controls, double wall_start) {
    const TimePoint end = start_ + scenario_.duration;
    TimePoint now = start_, sample_at = start_;
    std::size_t next_fault = 0;
    while (true) {
      if (now >= sample_at) {
        for (const auto& workload : scenario_.workloads) workload->sample(now, series_);
        sample_at = now + kSampleEvery;
      }
      for (; next_fault < faults_.size() && start_ + faults_[next_fault].at <= now; ++next_fault)
        if (auto applied = apply(faults_[next_fault], now); !applied) return applied.error();
      const bool faults_over = next_fault == faults_.size();
      const auto done = [](const auto& workload) { return workload->done(); };
      if (now >= end || (faults_over && std::all_of(scenario_.workloads.begin(), scenario_.workloads.end(), done))) break;
      if (controls.interrupted && controls.interrupted()) return RunEnd::interrupted;
      if (controls.deadline_s && steady_seconds() > *controls.deadline_s) return RunEnd::time_limit;
      if (controls.progress) controls.progress({now - start_, scenario_.duration, world_.counters().events, steady_seconds() - wall_start});
      TimePoint next = std::min(now + kSlice, end);
      if (!faults_over) next = std::min(next, start_ + faults_[next_fault].at);
      world_.run_until(next);
      now = world_.virtual_time() ? next : world_.now();
    }
    ended_ = now;
    return RunEnd::finished;
  }

  void report(Metrics& metrics) const {
    std::vector<double> connect_times;
    std::size_t failed = 0;
    for (const auto& workload : scenario_.workloads) {
      workload->report(metrics);
      const auto times = workload->connect_times();
      connect_times.insert(connect_times.end(), times.begin(), times.end());
      failed += workload->failed_dials();
    }
    metrics.set_number("connect.failed", "", static_cast<double>(failed));
    metrics.set_samples("connect.time", "s", std::move(connect_times));
    world_.report(metrics);
  }

  [[nodiscard]] PeerId id_of(std::string_view host) const override { return node(host).id(); }
  [[nodiscard]] PeerAddress address_of(std::string_view host) const override { return node(host).address(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] Duration elapsed() const { return ended_ - start_; }
  [[nodiscard]] const Series& series() const { return series_; }

 private:
  [[nodiscard]] Node& node(std::string_view host) const {
    const auto found = index_.find(host);
    PEERBED_CHECK(found != index_.end(), "a workload asks for a host that the topology does not have");
    return *nodes_[found->second];
  }

  Result<void> apply(const Fault& fault, TimePoint now) {
    static constexpr std::string_view kNames[] = {"fault.rebind", "fault.link", "fault.stop"};
    log_.record(now, kNames[static_cast<std::size_t>(fault.kind)], {{"target", std::string_view(fault.target)}});
    if (fault.kind == Fault::Kind::rebind) return world_.rebind(fault.target);
    if (fault.kind == Fault::Kind::link) return world_.change_link(fault.target, fault.change);
    node(fault.target).stop(now);
    return {};
  }

  Scenario& scenario_;
  World& world_;
  EventLog& log_;
  TimePoint start_, ended_{};
  Series series_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Fault> faults_;
};

void check_expectations(const Scenario& scenario, std::string_view backend, RunResult& result) {
  for (const auto& expectation : scenario.expectations) {
    const auto& on = expectation.on;
    if (!on.empty() && std::find(on.begin(), on.end(), backend) == on.end()) continue;
    CheckedExpectation checked{expectation.that.text(), expectation.origin, {}};
    checked.outcome = expectation.that.evaluate(result.metrics, [&](std::string_view name) { return scenario.lookup(expectation, name); });
    if (!checked.outcome.ok) result.verdict = Verdict::fail;
    result.expectations.push_back(std::move(checked));
  }
}

/// The scenario in full, under a header that says what run this was.
std::string inputs_yaml(const Scenario& scenario, const RunResult& result) {
  YAML::Node header;
  header["schema"] = "peerbed.inputs/1";
  header["version"] = std::string(kVersion);
  header["scenario"] = result.scenario;
  header["backend"] = result.backend;
  for (const auto& [key, value] : result.set) header["set"][key] = value;
  YAML::Node root;
  root["run"] = header;
  return YAML::Dump(root) + "\n" + scenario.resolved;
}

}  // namespace

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result<FinishedRun> run_scenario(Scenario& scenario, const Backend& backend, const RunControls& controls, const std::string& events_path) {
  reset_peak_memory();
  const double wall_start = steady_seconds(), cpu_start = cpu_seconds();
  const std::size_t heap_start = heap_bytes();
  Recorder recorder(controls.events, events_path);
  auto realised = backend.realise(scenario.topology, scenario.seed, recorder);
  if (!realised) return realised.error();
  World& world = **realised;

  FinishedRun finished;
  RunResult& result = finished.result;
  result.scenario = scenario.name;
  result.title = scenario.title;
  result.backend = backend.name;
  result.seed = scenario.seed;
  result.set = scenario.set;
  result.figures = scenario.figures;
  result.not_emulated = world.not_emulated();
  {
    Run run(scenario, world, recorder);
    if (auto started = run.start(); !started) return started.error();
    const auto end = run.drive(controls, wall_start);
    if (!end) return end.error();
    finished.end = *end;
    if (finished.end != RunEnd::finished) return finished;
    run.report(result.metrics);
    if (!run.series().empty()) finished.series_csv = run.series().to_csv();
    result.engine.nodes = run.nodes();
    result.engine.sim_s = to_seconds(run.elapsed());
    const double heap = static_cast<double>(heap_bytes()) - static_cast<double>(heap_start);
    result.engine.bytes_per_node = std::max(0.0, heap / static_cast<double>(std::max<std::size_t>(1, run.nodes())));
  }
  const auto counters = world.counters();
  result.engine.events = counters.events;
  result.engine.packets = counters.packets;
  result.engine.recorded_events = recorder.recorded();
  const auto digest = recorder.finish(world.trace_hash());
  if (!digest) return digest.error();
  result.digest = *digest;
  check_expectations(scenario, backend.name, result);
  if (const auto reason = world.invalid()) {
    result.verdict = Verdict::invalid;
    result.invalid_reason = *reason;
  }
  result.engine.wall_s = steady_seconds() - wall_start;
  result.engine.cpu_s = cpu_seconds() - cpu_start;
  result.engine.peak_rss_bytes = peak_memory();
  return finished;
}

Result<StoredRun> run_into_folder(Scenario& scenario, const Backend& backend, const RunControls& controls, const std::optional<std::string>& out) {
  namespace fs = std::filesystem;
  const std::string parent = out ? fs::absolute(*out).lexically_normal().parent_path().string() : "runs";
  remove_stale(parent);
  auto folder = RunFolder::open(parent);
  if (!folder) return folder.error();
  auto finished = run_scenario(scenario, backend, controls, folder->path() + "/events.jsonl");
  if (!finished) return finished.error();
  StoredRun stored{finished->end, std::move(finished->result), ""};
  if (stored.end != RunEnd::finished) return stored;
  const std::pair<std::string_view, std::string> files[] = {
      {"inputs.yaml", inputs_yaml(scenario, stored.result)},
      {"series.csv", finished->series_csv.empty() ? "time_s,name,value\n" : finished->series_csv},
      {"junit.xml", junit_xml(stored.result)},
      {"results.json", results_json(stored.result)},
  };
  for (const auto& [name, text] : files)
    if (auto written = folder->write(name, text); !written) return written.error();
  stored.folder = out ? *out : fmt::format("runs/{}-{}", scenario.name, stored.result.digest.substr(0, 8));
  if (auto committed = folder->commit(stored.folder); !committed) return committed.error();
  return stored;
}

}  // namespace peerbed
