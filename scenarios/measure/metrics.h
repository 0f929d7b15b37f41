// What a run measured, by dotted name: single values, texts, and distributions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace peerbed {

/// Sorted samples; the summary that files show is taken from them.
struct Distribution {
  std::vector<double> sorted;
  double mean = 0;
};

struct Metric {
  std::string unit;  ///< "s", "B", "bit/s", "1/s" or "" (a plain number, a text)
  std::variant<double, std::string, Distribution> value;
};

class Metrics {
 public:
  void set_number(std::string name, std::string_view unit, double value);
  void set_text(std::string name, std::string value);
  /// Without samples the metric is absent: a distribution of nothing has no percentiles.
  void set_samples(std::string name, std::string_view unit, std::vector<double> samples);

  [[nodiscard]] const Metric* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, Metric, std::less<>>& all() const { return by_name_; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, Metric, std::less<>> by_name_;
};

}  // namespace peerbed
