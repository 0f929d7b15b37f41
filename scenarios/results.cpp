#include "scenarios/results.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "scenarios/json_text.h"
#include "scenarios/measure/statistics.h"
#include "scenarios/project.h"

namespace peerbed {

namespace json = boost::json;

namespace {

struct Percentile {
  std::string_view name;
  double fraction;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};

json::value metric_json(const Metric& metric) {
  json::object out;
  out["unit"] = metric.unit;
  if (const auto* number = std::get_if<double>(&metric.value)) {
    out["value"] = json_number(*number);
  } else if (const auto* text = std::get_if<std::string>(&metric.value)) {
    out["value"] = *text;
  } else {
    const auto& samples = std::get<Distribution>(metric.value);
    out["count"] = samples.sorted.size();
    out["mean"] = json_number(samples.mean);
    out["min"] = json_number(samples.sorted.front());
    for (const auto& [name, fraction] : kPercentiles) out[name] = json_number(percentile(samples.sorted, fraction));
    out["max"] = json_number(samples.sorted.back());
  }
  return out;
}

/// Numbers in the units of metrics: seconds, bytes, bits per second.
json::value value_json(const std::optional<ExpectationValue>& value) {
  if (!value) return nullptr;
  if (const auto* text = std::get_if<std::string>(&*value)) return json::value(*text);
  const auto& quantity = std::get<Quantity>(*value);
  return json_number(quantity.bits == 1 && quantity.seconds == 0 ? quantity.value / 8 : quantity.value);
}

json::value engine_json(const EngineFigures& engine) {
  json::object out;
  out["events"] = engine.events;
  out["packets"] = engine.packets;
  out["recorded_events"] = engine.recorded_events;
  out["nodes"] = engine.nodes;
  out["sim_s"] = json_number(engine.sim_s);
  out["wall_s"] = engine.wall_s;
  out["cpu_s"] = engine.cpu_s;
  out["peak_rss_bytes"] = engine.peak_rss_bytes;
  out["bytes_per_node"] = json_number(engine.bytes_per_node);
  if (engine.cpu_s > 0) {
    out["events_per_cpu_s"] = static_cast<double>(engine.events) / engine.cpu_s;
    out["packets_per_cpu_s"] = static_cast<double>(engine.packets) / engine.cpu_s;
  }
  out["version"] = kVersion;
  out["compiler"] = compiler_name();
  return out;
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

Result<Verdict> verdict_of(std::string_view text) {
  for (const auto verdict : {Verdict::pass, Verdict::fail, Verdict::invalid})
    if (to_string(verdict) == text) return verdict;
  return bad_input(fmt::format("'{}' is not a verdict", text));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::fail: return "fail";
    case Verdict::invalid: return "invalid";
  }
  return "invalid";
}

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string describe(const CheckedExpectation& expectation) {
  const auto& outcome = expectation.outcome;
  std::string out = expectation.expr + ": ";
  if (!outcome.reason.empty()) return out + outcome.reason;
  out += outcome.value ? to_string(*outcome.value) : "nothing";
  if (outcome.bound) out += fmt::format(", bound {}", to_string(*outcome.bound));
  if (!expectation.origin.empty()) out += fmt::format(" ({})", expectation.origin);
  return out;
}

std::string results_json(const RunResult& result) {
  json::object out;
  out["schema"] = "peerbed.results/1";
  out["scenario"] = result.scenario;
  out["title"] = result.title;
  out["backend"] = result.backend;
  out["seed"] = result.seed;
  out["verdict"] = to_string(result.verdict);
  if (!result.invalid_reason.empty()) out["invalid_reason"] = result.invalid_reason;
  out["digest"] = result.digest;
  json::object set;
  for (const auto& [key, value] : result.set) set[key] = value;
  out["set"] = set;
  json::array expectations;
  for (const auto& expectation : result.expectations) {
    json::object entry;
    entry["expr"] = expectation.expr;
    entry["value"] = value_json(expectation.outcome.value);
    entry["bound"] = value_json(expectation.outcome.bound);
    entry["ok"] = expectation.outcome.ok;
    if (!expectation.outcome.reason.empty()) entry["reason"] = expectation.outcome.reason;
    if (!expectation.origin.empty()) entry["from"] = expectation.origin;
    entry["text"] = describe(expectation);
    expectations.push_back(std::move(entry));
  }
  out["expectations"] = std::move(expectations);
  if (!result.not_emulated.empty()) out["not_emulated"] = json::value_from(result.not_emulated);
  if (!result.figures.empty()) out["figures"] = json::value_from(result.figures);
  json::object metrics;
  for (const auto& [name, metric] : result.metrics.all()) metrics[name] = metric_json(metric);
  out["metrics"] = std::move(metrics);
  out["engine"] = engine_json(result.engine);
  return pretty(out);
}

std::string junit_xml(const std::string& suite, const std::vector<JunitCase>& cases) {
  std::size_t failures = 0;
  double seconds = 0;
  for (const auto& each : cases) {
    if (!each.failure.empty()) ++failures;
    seconds += each.seconds;
  }
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{:.3f}\">\n", xml(suite), cases.size(), failures, seconds);
  for (const auto& each : cases) {
    out += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", xml(suite), xml(each.name), each.seconds);
    out += each.failure.empty() ? "/>\n" : fmt::format(">\n      <failure message=\"{}\"/>\n    </testcase>\n", xml(each.failure));
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

std::string junit_xml(const RunResult& result) {
  std::vector<JunitCase> cases;
  for (const auto& expectation : result.expectations)
    cases.push_back({expectation.expr, expectation.outcome.ok ? "" : describe(expectation), 0});
  cases.push_back({"the run is valid", result.invalid_reason, result.engine.wall_s});
  return junit_xml(result.scenario, cases);
}

Result<RunSummary> read_run_summary(const std::string& folder) {
  const auto text = read_file(folder + "/results.json");
  if (!text) return text.error();
  try {
    const json::value parsed = json::parse(*text);
    const auto& root = parsed.as_object();
    if (root.at("schema").as_string() != "peerbed.results/1") return bad_input(fmt::format("{}/results.json has another schema", folder));
    RunSummary out;
    out.folder = folder;
    out.digest = std::string(root.at("digest").as_string());
    const auto verdict = verdict_of(root.at("verdict").as_string());
    if (!verdict) return verdict.error();
    out.verdict = *verdict;
    if (const auto* reason = root.if_contains("invalid_reason")) out.failed.emplace_back(reason->as_string());
    for (const auto& entry : root.at("expectations").as_array()) {
      const auto& expectation = entry.as_object();
      out.expressions.emplace_back(expectation.at("expr").as_string());
      if (!expectation.at("ok").as_bool()) out.failed.emplace_back(expectation.at("text").as_string());
    }
    for (const auto& entry : root.at("metrics").as_object()) {
      const auto& metric = entry.value().as_object();
      const std::string name(entry.key()), unit(metric.at("unit").as_string());
      for (const auto& part : metric) {
        if (part.key() == "unit") continue;
        RunSummary::Value value;
        value.name = part.key() == "value" ? name : fmt::format("{}.{}", name, std::string_view(part.key()));
        value.unit = part.key() == "count" ? "" : unit;
        value.is_text = part.value().is_string();
        if (value.is_text) value.text = std::string(part.value().as_string());
        else if (part.value().is_number()) value.number = part.value().to_number<double>();
        else continue;
        out.values.push_back(std::move(value));
      }
    }
    out.wall_s = root.at("engine").as_object().at("wall_s").to_number<double>();
    return out;
  } catch (const std::exception& problem) {
    return bad_input(fmt::format("{}/results.json cannot be read: {}", folder, problem.what()));
  }
}

}  // namespace peerbed
