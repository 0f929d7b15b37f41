// A number with its dimension, as expectations compare them: 3 s is not 3 Mbit/s, but 1 MB / 1 s is 8 Mbit/s.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace peerbed {

/// Value in bits and seconds; the exponents say of which power. A plain number has none.
struct Quantity {
  double value = 0;
  int bits = 0, seconds = 0;

  [[nodiscard]] static Quantity plain(double v) { return {v, 0, 0}; }
  [[nodiscard]] static Quantity time(double s) { return {s, 0, 1}; }
  [[nodiscard]] static Quantity size(double bytes) { return {bytes * 8, 1, 0}; }
  [[nodiscard]] static Quantity rate(double bits_per_second) { return {bits_per_second, 1, -1}; }
  /// A metric's value: `unit` is "", "s", "B", "bit/s" or "1/s".
  [[nodiscard]] static Quantity of(double v, std::string_view unit);

  [[nodiscard]] bool same_dimension(const Quantity& other) const { return bits == other.bits && seconds == other.seconds; }
};

/// For people: "1.25 s", "9.41 Mbit/s", "12.3 MB", "42".
[[nodiscard]] std::string to_string(const Quantity& quantity);
[[nodiscard]] std::string format_metric(double value, std::string_view unit);
/// "a time", "a rate", …: for sentences.
[[nodiscard]] std::string_view dimension_name(const Quantity& quantity);

/// The units that quantities are written in, such as "ms", with their factor.
struct UnitName {
  std::string_view name;
  Quantity one;
};
/// The longest unit that `text` begins with and that ends there as a word; nothing if there is none.
[[nodiscard]] const UnitName* unit_at(std::string_view text);

}  // namespace peerbed
