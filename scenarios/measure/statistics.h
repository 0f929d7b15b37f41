// Summaries of samples and of repeated runs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace peerbed {

/// Linear interpolation between closest ranks (Hyndman and Fan 1996, type 7: what NumPy does). `sorted` must not be
/// empty; `fraction` is from 0 to 1.
[[nodiscard]] double percentile(std::span<const double> sorted, double fraction);

/// Summed in order with compensation (Kahan), so that a million small samples lose nothing.
[[nodiscard]] double mean(std::span<const double> values);
/// Of a sample: divided by n - 1. Zero for fewer than two values.
[[nodiscard]] double standard_deviation(std::span<const double> values);

/// The 95 % confidence interval of the mean by Student's t with n - 1 degrees of freedom. One run says nothing about its
/// spread: no interval.
[[nodiscard]] std::optional<std::pair<double, double>> confidence_interval_95(std::span<const double> values);

}  // namespace peerbed
