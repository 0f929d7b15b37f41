#include "scenarios/measure/quantity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/base/check.h"

namespace peerbed {

namespace {

constexpr double kKibi = 1024;

const std::array<UnitName, 20> kUnits{{
    {"ns", {1e-9, 0, 1}},
    {"us", {1e-6, 0, 1}},
    {"ms", {1e-3, 0, 1}},
    {"s", {1, 0, 1}},
    {"min", {60, 0, 1}},
    {"h", {3600, 0, 1}},
    {"B", {8, 1, 0}},
    {"kB", {8e3, 1, 0}},
    {"MB", {8e6, 1, 0}},
    {"GB", {8e9, 1, 0}},
    {"KiB", {8 * kKibi, 1, 0}},
    {"MiB", {8 * kKibi * kKibi, 1, 0}},
    {"GiB", {8 * kKibi * kKibi * kKibi, 1, 0}},
    {"bit/s", {1, 1, -1}},
    {"kbit/s", {1e3, 1, -1}},
    {"Mbit/s", {1e6, 1, -1}},
    {"Gbit/s", {1e9, 1, -1}},
    {"/s", {1, 0, -1}},
    {"1/s", {1, 0, -1}},
    {"%", {0.01, 0, 0}},
}};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

std::string scaled(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 4> kPrefixes{"", "k", "M", "G"};
  std::size_t step = 0;
  while (std::abs(value) >= 1000 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{:.4g} {}{}", value, kPrefixes[step], unit);
}

std::string scaled_time(double s) {
  const double size = std::abs(s);
  if (size == 0 || size >= 1) return fmt::format("{:.4g} s", s);
  if (size >= 1e-3) return fmt::format("{:.4g} ms", s * 1e3);
  if (size >= 1e-6) return fmt::format("{:.4g} us", s * 1e6);
  return fmt::format("{:.4g} ns", s * 1e9);
}

}  // namespace

Quantity Quantity::of(double v, std::string_view unit) {
  if (unit == "s") return time(v);
  if (unit == "B") return size(v);
  if (unit == "bit/s") return rate(v);
  if (unit == "1/s") return {v, 0, -1};
  PEERBED_CHECK(unit.empty(), "a metric has a unit that nobody knows");
  return plain(v);
}

std::string to_string(const Quantity& quantity) {
  if (quantity.bits == 0 && quantity.seconds == 0) return fmt::format("{:.6g}", quantity.value);
  if (quantity.bits == 0 && quantity.seconds == 1) return scaled_time(quantity.value);
  if (quantity.bits == 1 && quantity.seconds == 0) return scaled(quantity.value / 8, "B");
  if (quantity.bits == 1 && quantity.seconds == -1) return scaled(quantity.value, "bit/s");
  if (quantity.bits == 0 && quantity.seconds == -1) return fmt::format("{:.6g}/s", quantity.value);
  return fmt::format("{:.6g} bit^{} s^{}", quantity.value, quantity.bits, quantity.seconds);
}

std::string format_metric(double value, std::string_view unit) { return to_string(Quantity::of(value, unit)); }

std::string_view dimension_name(const Quantity& quantity) {
  if (quantity.bits == 0 && quantity.seconds == 0) return "a plain number";
  if (quantity.bits == 0 && quantity.seconds == 1) return "a time";
  if (quantity.bits == 1 && quantity.seconds == 0) return "a size";
  if (quantity.bits == 1 && quantity.seconds == -1) return "a rate";
  if (quantity.bits == 0 && quantity.seconds == -1) return "a number per second";
  return "a product of units that has no name";
}

const UnitName* unit_at(std::string_view text) {
  const UnitName* best = nullptr;
  for (const auto& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    if (text.size() > unit.name.size() && is_word(text[unit.name.size()])) continue;
    if (best == nullptr || unit.name.size() > best->name.size()) best = &unit;
  }
  return best;
}

}  // namespace peerbed
