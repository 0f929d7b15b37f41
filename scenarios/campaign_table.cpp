// The table at the end of a campaign.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "scenarios/campaign.h"
#include "scenarios/measure/quantity.h"

namespace peerbed {

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Columns as wide as their widest cell; the first row is the header.
std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> distinct(const CampaignResult& result, std::size_t axis) {
  std::vector<std::string> values;
  for (const auto& point : result.points)
    if (std::find(values.begin(), values.end(), point.set[axis].second) == values.end()) values.push_back(point.set[axis].second);
  return values;
}

/// The metric whose text is the outcome of a point, if there is one.
std::optional<std::string> outcome_metric(const CampaignResult& result) {
  for (const auto& [name, metric] : result.points.front().metrics)
    if (!metric.texts.empty()) return name;
  return std::nullopt;
}

std::string cell(const CampaignPoint& point, const std::string& metric) {
  const auto found = point.metrics.find(metric);
  std::string text = "??";
  if (found != point.metrics.end() && !found->second.texts.empty()) {
    const auto& texts = found->second.texts;
    const auto direct = texts.find("direct");
    if (texts.size() > 1) text = fmt::format("{}/{}", direct == texts.end() ? 0 : direct->second, found->second.n);
    else if (direct != texts.end()) text = "ok";
    else text = texts.contains("relayed") ? "--" : texts.begin()->first;
  }
  return point.verdict == Verdict::pass ? text : text + "!";
}

std::string matrix(const CampaignResult& result, const std::string& metric) {
  const auto down = distinct(result, 0), across = distinct(result, 1);
  Rows rows{{""}};
  rows[0].insert(rows[0].end(), across.begin(), across.end());
  for (const auto& value : down) {
    std::vector<std::string> row{value};
    for (const auto& other : across) {
      const auto found = std::find_if(result.points.begin(), result.points.end(),
                                      [&](const CampaignPoint& p) { return p.set[0].second == value && p.set[1].second == other; });
      row.push_back(found == result.points.end() ? "" : cell(*found, metric));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("{}: down {}, across {}\n\n{}\nok direct   -- relayed   ! not as expected\n", metric, result.points.front().set[0].first,
                     result.points.front().set[1].first, aligned(rows));
}

/// The metrics that expectations speak of; without any, those of flows and punches.
std::vector<std::string> shown_metrics(const CampaignResult& result) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names;
  const auto& point = result.points.front();
  for (const auto& [name, metric] : point.metrics) {
    const bool expected = std::any_of(point.expressions.begin(), point.expressions.end(), [&sought = name](const std::string& expression) {
      const auto at = expression.find(sought);
      const auto end = at + sought.size();
      return at != std::string::npos && (end == expression.size() || expression[end] == ' ' || expression[end] == ')');
    });
    if (expected && names.size() < kMost) names.push_back(name);
  }
  if (!names.empty()) return names;
  for (const auto& [name, metric] : point.metrics)
    if (names.size() < kMost && (name.ends_with(".goodput") || name.ends_with(".outcome") || name.ends_with(".p50"))) names.push_back(name);
  return names;
}

std::string shown(const PointMetric& metric) {
  if (!metric.texts.empty()) {
    std::string out;
    for (const auto& [text, count] : metric.texts) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, text);
    return out;
  }
  std::string out = format_metric(metric.mean, metric.unit);
  if (metric.ci95 && metric.ci95->second > metric.ci95->first)
    out += fmt::format(" +-{}", format_metric((metric.ci95->second - metric.ci95->first) / 2, metric.unit));
  return out;
}

std::string list(const CampaignResult& result) {
  const auto metrics = shown_metrics(result);
  Rows rows{{}};
  for (const auto& [key, value] : result.points.front().set) rows[0].push_back(key);
  rows[0].push_back("runs");
  rows[0].push_back("verdict");
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  for (const auto& point : result.points) {
    std::vector<std::string> row;
    for (const auto& [key, value] : point.set) row.push_back(value);
    row.push_back(std::to_string(point.runs.size()));
    row.emplace_back(to_string(point.verdict));
    for (const auto& name : metrics) {
      const auto found = point.metrics.find(name);
      row.push_back(found == point.metrics.end() ? "" : shown(found->second));
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

}  // namespace

std::string campaign_table(const CampaignResult& result) {
  if (result.points.empty()) return "";
  const auto outcome = outcome_metric(result);
  if (result.points.front().set.size() == 2 && outcome) return matrix(result, *outcome);
  return list(result);
}

}  // namespace peerbed
