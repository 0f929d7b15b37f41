// Two processes on one machine, a node each, over the kernel's loopback: what the whole stack costs, end to end.
// bench/README.md says what is measured and how to read it.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench/loopback_processes.h"

namespace {

using namespace peerbed;
using namespace peerbed::bench;

struct Options {
  std::vector<std::string> modes;
  std::string transport = "both";
  std::string congestion = "cubic";
  double seconds = 3, warmup = 0.5;
  std::uint64_t count = 0;
  std::size_t size = 0, burst = 0;
  int runs = 3;
  bool sweep = false, json = false, check_all = false;
};

constexpr std::array<std::size_t, 7> kSweep{16, 64, 256, 1024, 4096, 16384, 65536};

struct Outcome {
  Plan plan;
  std::vector<RunReport> runs;  ///< by rate, ascending; failed ones first
  [[nodiscard]] const RunReport& median() const { return runs[runs.size() / 2]; }
  [[nodiscard]] bool ok() const {
    return std::all_of(runs.begin(), runs.end(), [](const RunReport& r) { return r.ok(); });
  }
};

std::string_view to_text(LinkKind kind) { return kind == LinkKind::udp ? "udp" : "tcp"; }

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one;
  file >> one;
  return one.empty() ? "unknown" : one;
}

std::size_t default_size(Mode mode) { return mode == Mode::bulk ? 65536 : 64; }

std::vector<Plan> make_plans(const Options& options) {
  std::vector<Plan> plans;
  const auto wants = [&options](Mode mode) {
    const auto named = [mode](const std::string& name) { return name == "all" || name == to_string(mode); };
    return std::any_of(options.modes.begin(), options.modes.end(), named);
  };
  for (const Mode mode : {Mode::messages, Mode::bulk, Mode::roundtrips, Mode::handshakes}) {
    if (!wants(mode)) continue;
    std::vector<std::size_t> sizes{options.size > 0 ? options.size : default_size(mode)};
    if (options.sweep && mode != Mode::handshakes) sizes.assign(kSweep.begin(), kSweep.end());
    for (const LinkKind kind : {LinkKind::udp, LinkKind::tcp}) {
      if (options.transport != "both" && options.transport != to_text(kind)) continue;
      for (const std::size_t size : sizes) {
        Plan plan;
        plan.mode = mode;
        plan.transport = kind;
        plan.size = mode == Mode::handshakes ? 1 : size;
        plan.duration = from_seconds(options.seconds);
        plan.warmup = from_seconds(options.warmup);
        plan.count = options.count;
        plan.burst = options.burst;
        plan.congestion = options.congestion;
        plan.check_all = options.check_all;
        plans.push_back(plan);
      }
    }
  }
  return plans;
}

Outcome run_plan(const Plan& plan, int runs) {
  Outcome outcome{plan, {}};
  for (int i = 0; i < runs; ++i) {
    outcome.runs.push_back(run_processes(plan));
    if (!outcome.runs.back().ok()) {
      fmt::print(stderr, "loopback: {} over {}, {} bytes, run {}: {}\n", to_string(plan.mode), to_text(plan.transport),
                 plan.size, i + 1, outcome.runs.back().error);
    }
  }
  std::stable_sort(outcome.runs.begin(), outcome.runs.end(), [](const RunReport& a, const RunReport& b) {
    return std::pair(a.ok(), a.rate()) < std::pair(b.ok(), b.rate());
  });
  return outcome;
}

// ---- for people ----------------------------------------------------------------------------------------------------

double per(double amount, double units) { return units > 0 ? amount / units : 0; }

std::string spread(const Outcome& o, double scale, int digits) {
  return fmt::format("{:.{}f}-{:.{}f}", o.runs.front().rate() * scale, digits, o.runs.back().rate() * scale, digits);
}

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1048576; }

void print_start(const Outcome& o) {
  fmt::print("{:<10} {:<4} {:>6} ", to_string(o.plan.mode), to_text(o.plan.transport), o.plan.size);
}

void print_flow(const Outcome& o) {
  const RunReport& run = o.median();
  const ProcessReport &client = run.client, &server = run.server;
  const auto units = static_cast<double>(client.units), gigabytes = run.bytes() / 1e9;
  const auto packets = static_cast<double>(client.usage.link_packets_sent);
  print_start(o);
  fmt::print("{:>11.1f} {:>15} {:>8.1f} ", run.rate() / 1000, spread(o, 1e-3, 1),
             per(run.bytes(), client.elapsed_s) / 1e6);
  fmt::print("{:>6.2f} ({:.2f} + {:.2f}) ", per(run.cpu_s(), gigabytes), per(client.usage.cpu_s(), gigabytes),
             per(server.usage.cpu_s(), gigabytes));
  fmt::print("{:>6.2f} {:>7.3f} + {:<7.3f} ", per(run.cpu_s(), units / 1e6),
             per(static_cast<double>(client.usage.sockets.system_calls), units),
             per(static_cast<double>(server.usage.sockets.system_calls), units));
  fmt::print("{:>7.3f} {:>7.3f}% {:>5.1f} + {:<5.1f}\n", per(packets, units),
             100 * per(static_cast<double>(client.usage.link_packets_lost), packets), mebibytes(client.peak_resident),
             mebibytes(server.peak_resident));
}

void print_latency(const Outcome& o) {
  const RunReport& run = o.median();
  const Latency& l = run.client.latency;
  const auto units = static_cast<double>(run.client.units);
  print_start(o);
  fmt::print("{:>11.0f} {:>15} {:>7.1f} {:>7.1f} {:>7.1f} {:>8.1f} {:>8.1f} ", run.rate(), spread(o, 1, 0), l.p50_us,
             l.p90_us, l.p99_us, l.p999_us, l.max_us);
  fmt::print("{:>9.1f} {:>9} {:>5.1f} + {:<5.1f}\n", per(run.cpu_s() * 1e6, units), run.client.failures,
             mebibytes(run.client.peak_resident), mebibytes(run.server.peak_resident));
}

bool one_way(const Plan& plan) { return plan.mode == Mode::messages || plan.mode == Mode::bulk; }

void print_heads(const Outcome& o, bool& flow_head, bool& latency_head) {
  bool& head = one_way(o.plan) ? flow_head : latency_head;
  if (head) return;
  head = true;
  fmt::print("{:<10} {:<4} {:>6} ", "mode", "over", "bytes");
  if (one_way(o.plan)) {
    fmt::print("{:>11} {:>15} {:>8} {:>6} {:<13} ", "k msg/s", "min-max", "MB/s", "CPU s/GB", "(client+srv)");
    fmt::print("{:>6} {:>17} {:>7} {:>8} {:>13}\n", "s/Mmsg", "calls/msg c + s", "pkt/msg", "lost", "peak MiB c+s");
  } else {
    fmt::print("{:>11} {:>15} {:>7} {:>7} {:>7} {:>8} {:>8} ", "per second", "min-max", "p50 us", "p90", "p99", "p99.9",
               "max");
    fmt::print("{:>9} {:>9} {:>13}\n", "CPU us", "failures", "peak MiB c+s");
  }
}

void print_row(const Outcome& o, bool& flow_head, bool& latency_head) {
  print_heads(o, flow_head, latency_head);
  if (!o.median().ok()) {
    print_start(o);
    fmt::print("FAILED: {}\n", o.median().error);
  } else if (one_way(o.plan)) {
    print_flow(o);
  } else {
    print_latency(o);
  }
  std::fflush(stdout);
}

// ---- for programs --------------------------------------------------------------------------------------------------

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string process_json(const ProcessReport& p) {
  const Usage& u = p.usage;
  const SocketCounters& s = u.sockets;
  std::string out = fmt::format(
      R"({{"units": {}, "bytes": {}, "total_units": {}, "total_bytes": {}, "elapsed_s": {:.6f}, )", p.units, p.bytes,
      p.total_units, p.total_bytes, p.elapsed_s);
  out += fmt::format(R"("user_s": {:.6f}, "system_s": {:.6f}, "preempted": {}, "wakeups": {}, "system_calls": {}, )",
                     u.user_s, u.system_s, u.preempted, s.wakeups, s.system_calls);
  out += fmt::format(R"("datagrams_sent": {}, "send_calls": {}, "segmented_datagrams": {}, "datagrams_refused": {}, )",
                     s.datagrams_sent, s.send_calls, s.segmented_datagrams, s.datagrams_refused);
  out += fmt::format(R"("datagrams_received": {}, "receive_calls": {}, )", s.datagrams_received, s.receive_calls);
  out += fmt::format(R"("link_packets_sent": {}, "link_packets_lost": {}, )", u.link_packets_sent, u.link_packets_lost);
  out += fmt::format(R"("link_bytes_sent": {}, "resident_bytes": {}, "peak_resident_bytes": {}}})", u.link_bytes_sent,
                     p.resident, p.peak_resident);
  return out;
}

std::string run_json(const RunReport& run) {
  const Latency& l = run.client.latency;
  std::string out = fmt::format(R"({{"ok": {}, "error": {}, "rate_per_s": {:.3f}, "bytes": {:.0f}, "cpu_s": {:.6f}, )",
                                run.ok(), json_text(run.error), run.rate(), run.bytes(), run.cpu_s());
  out += fmt::format(R"("failures": {}, "latency_us": {{"p50": {:.3f}, "p90": {:.3f}, "p99": {:.3f}, )",
                     run.client.failures, l.p50_us, l.p90_us, l.p99_us);
  out += fmt::format(R"("p99.9": {:.3f}, "max": {:.3f}}}, "client": {}, "server": {}}})", l.p999_us, l.max_us,
                     process_json(run.client), process_json(run.server));
  return out;
}

std::string outcome_json(const Outcome& o) {
  std::string runs;
  for (const RunReport& run : o.runs) runs += fmt::format("{}\n      {}", runs.empty() ? "" : ",", run_json(run));
  const RunReport& median = o.median();
  std::string out = fmt::format(R"(    {{"mode": "{}", "transport": "{}", "message_bytes": {}, "duration_s": {}, )",
                                to_string(o.plan.mode), to_text(o.plan.transport), o.plan.size,
                                to_seconds(o.plan.duration));
  out += fmt::format(R"("warmup_s": {}, "burst": {}, "congestion": {}, )", to_seconds(o.plan.warmup), o.plan.burst,
                     json_text(o.plan.congestion));
  out += fmt::format(R"("median": {{"rate_per_s": {:.3f}, "cpu_s_per_gb": {:.4f}, "cpu_s_per_million": {:.4f}}}, )",
                     median.rate(), per(median.cpu_s(), median.bytes() / 1e9),
                     per(median.cpu_s(), static_cast<double>(median.client.units) / 1e6));
  return out + fmt::format(R"("runs": [{}]}})", runs);
}

int run(const Options& options) {
  const std::string load = load_average();
  if (!options.json) {
    fmt::print("{} runs each, the median run by rate; {} s after {} s of warm-up; load average {}; ", options.runs,
               options.seconds, options.warmup, load);
    fmt::print("congestion control over udp: {}; burst: {}\n", options.congestion,
               options.burst > 0 ? std::to_string(options.burst) : "until the channel is full");
  }
  bool ok = true, flow_head = false, latency_head = false;
  std::vector<std::string> json;
  for (const Plan& plan : make_plans(options)) {
    const Outcome outcome = run_plan(plan, options.runs);
    ok = ok && outcome.ok();
    if (options.json) json.push_back(outcome_json(outcome));
    else print_row(outcome, flow_head, latency_head);
  }
  if (options.json) {
    fmt::print("{{\"schema\": \"peerbed.loopback/1\", \"load_average\": {}, \"outcomes\": [\n{}\n]}}\n",
               json_text(load), fmt::join(json, ",\n"));
  }
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures two nodes in two processes over loopback. Every run checks what arrived.", "loopback");
  Options o;
  app.add_option("mode", o.modes,
                 "messages (64 B one way), bulk (64 KiB one way), roundtrips, handshakes, all (default)")
      ->check(CLI::IsMember({"messages", "bulk", "roundtrips", "handshakes", "all"}));
  app.add_option("--transport", o.transport, "udp, tcp or both")
      ->check(CLI::IsMember({"udp", "tcp", "both"}))
      ->capture_default_str();
  app.add_option("--size", o.size, "message size in bytes, 16 to 1048576; default: the mode's")
      ->check(CLI::Range(kSmallestMessage, kLargestMessage));
  app.add_flag("--sweep", o.sweep, "message sizes 16 B to 64 KiB instead of one");
  app.add_option("--seconds", o.seconds, "measured time of each run")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  app.add_option("--count", o.count, "end a run after so many messages, round trips or handshakes instead");
  app.add_option("--warmup", o.warmup, "seconds of the same traffic before, not measured")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--burst", o.burst,
                 "messages per event of the sender's loop; 1: nothing is coalesced; "
                 "default: until the channel is full");
  app.add_option("--congestion", o.congestion, "congestion control over udp")->capture_default_str();
  app.add_option("--runs", o.runs, "runs of each measurement")->check(CLI::Range(1, 99))->capture_default_str();
  app.add_flag("--check", o.check_all, "compare every byte of every message, not only its number at both ends");
  app.add_flag("--json", o.json, "all runs as JSON");
  CLI11_PARSE(app, argc, argv);
  if (o.modes.empty()) o.modes.push_back("all");
  return run(o);
}
