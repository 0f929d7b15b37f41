#include "scenarios/measure/metrics.h"

#include <algorithm>

#include "scenarios/measure/statistics.h"

namespace peerbed {

void Metrics::set_number(std::string name, std::string_view unit, double value) {
  by_name_.insert_or_assign(std::move(name), Metric{std::string(unit), value});
}

void Metrics::set_text(std::string name, std::string value) {
  by_name_.insert_or_assign(std::move(name), Metric{"", std::move(value)});
}

void Metrics::set_samples(std::string name, std::string_view unit, std::vector<double> samples) {
  if (samples.empty()) return;
  std::sort(samples.begin(), samples.end());
  const double centre = mean(samples);
  by_name_.insert_or_assign(std::move(name), Metric{std::string(unit), Distribution{std::move(samples), centre}});
}

const Metric* Metrics::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

std::vector<std::string> Metrics::names() const {
  std::vector<std::string> out;
  out.reserve(by_name_.size());
  for (const auto& [name, metric] : by_name_) out.push_back(name);
  return out;
}

}  // namespace peerbed
