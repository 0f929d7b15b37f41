#include "core/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace peerbed {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kDurationUnits{Unit{"ns", 1},      Unit{"us", 1e3},   Unit{"ms", 1e6},
                                    Unit{"s", 1e9},     Unit{"min", 60e9}, Unit{"h", 3600e9}};
constexpr std::array kSizeUnits{Unit{"B", 1},      Unit{"kB", 1e3},     Unit{"MB", 1e6},         Unit{"GB", 1e9},
                                Unit{"KiB", 1024}, Unit{"MiB", 1048576}, Unit{"GiB", 1073741824}};
constexpr std::array kRateUnits{Unit{"bit/s", 1}, Unit{"kbit/s", 1e3}, Unit{"Mbit/s", 1e6}, Unit{"Gbit/s", 1e9}};
constexpr std::array kFractionUnits{Unit{"%", 0.01}, Unit{"", 1}};

std::string known(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) {
    if (unit.name.empty()) continue;
    if (!text.empty()) text += ", ";
    text += unit.name;
  }
  return text;
}

/// A number in the base unit. `example` is shown to whoever forgot the unit.
Result<double> parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view example) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) {
    return bad_input(fmt::format("'{}' is not a quantity; write for example '{}'", text, example));
  }
  if (number < 0) return bad_input(fmt::format("'{}' is negative", text));
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& candidate : units) {
    if (candidate.name == unit) return number * candidate.factor;
  }
  if (unit.empty()) return bad_input(fmt::format("'{}' has no unit; write for example '{}'", text, example));
  return bad_input(fmt::format("'{}' has an unknown unit '{}'; known are {}", text, unit, known(units)));
}

Result<std::int64_t> to_whole(Result<double> value, std::string_view text) {
  if (!value) return value.error();
  if (*value > 9.2e18) return bad_input(fmt::format("'{}' is too large", text));
  return static_cast<std::int64_t>(std::llround(*value));
}

/// The largest unit in which the value needs at most three decimals.
std::string format_quantity(std::int64_t value, std::span<const Unit> units) {
  if (value == 0) return fmt::format("0 {}", units.front().name);
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    const double scaled = static_cast<double>(value) / unit.factor;
    const double thousandths = scaled * 1000;
    if (std::abs(scaled) >= 1 && unit.factor >= best->factor && thousandths == std::floor(thousandths)) best = &unit;
  }
  return fmt::format("{} {}", static_cast<double>(value) / best->factor, best->name);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const auto value = to_whole(parse_quantity(text, kDurationUnits, "10 ms"), text);
  if (!value) return value.error();
  return Duration(*value);
}

Result<DataSize> parse_data_size(std::string_view text) {
  const auto value = to_whole(parse_quantity(text, kSizeUnits, "64 KiB"), text);
  if (!value) return value.error();
  return DataSize{*value};
}

Result<DataRate> parse_data_rate(std::string_view text) {
  const auto value = to_whole(parse_quantity(text, kRateUnits, "10 Mbit/s"), text);
  if (!value) return value.error();
  if (*value == 0) return bad_input(fmt::format("'{}' is no rate; it must be above zero", text));
  return DataRate{*value};
}

Result<double> parse_fraction(std::string_view text) {
  const auto value = parse_quantity(text, kFractionUnits, "1 %");
  if (value && *value > 1) return bad_input(fmt::format("'{}' is above 100 %", text));
  return value;
}

std::string to_string(Duration d) { return format_quantity(d.count(), std::span(kDurationUnits).first(4)); }
std::string to_string(DataSize s) { return format_quantity(s.bytes, kSizeUnits); }
std::string to_string(DataRate r) { return format_quantity(r.bits_per_second, kRateUnits); }

}  // namespace peerbed
