#include "scenarios/measure/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "core/base/check.h"

namespace peerbed {

double percentile(std::span<const double> sorted, double fraction) {
  PEERBED_CHECK(!sorted.empty(), "a percentile needs at least one value");
  const double rank = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0, lost = 0;
  for (const double value : values) {
    const double term = value - lost;
    const double next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  return sum / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::optional<std::pair<double, double>> confidence_interval_95(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const boost::math::students_t_distribution<double> student(n - 1);
  const double half = boost::math::quantile(student, 0.975) * standard_deviation(values) / std::sqrt(n);
  const double centre = mean(values);
  return std::pair{centre - half, centre + half};
}

}  // namespace peerbed
