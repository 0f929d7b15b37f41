// Units live in types: Duration (ns), TimePoint, DataSize (bytes), DataRate (bits per second).
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/int128.h"
#include "core/base/result.h"

namespace peerbed {

/// A tag, not a clock: it has no now(). A time can be held and compared, but only be learnt by being handed it.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock, duration>;
  static constexpr bool is_steady = true;
};
using Duration = Clock::duration;
using TimePoint = Clock::time_point;  ///< since the start of the run (virtual time) or of the process (real time)

using namespace std::chrono_literals;

inline constexpr TimePoint kNever = TimePoint::max();

[[nodiscard]] constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
[[nodiscard]] constexpr Duration from_seconds(double s) { return Duration(static_cast<std::int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5))); }

/// A number of bytes. Never negative where it names a size; differences may be.
struct DataSize {
  std::int64_t bytes = 0;
  constexpr auto operator<=>(const DataSize&) const = default;
  constexpr DataSize& operator+=(DataSize o) { bytes += o.bytes; return *this; }
  constexpr DataSize& operator-=(DataSize o) { bytes -= o.bytes; return *this; }
  friend constexpr DataSize operator+(DataSize a, DataSize b) { return {a.bytes + b.bytes}; }
  friend constexpr DataSize operator-(DataSize a, DataSize b) { return {a.bytes - b.bytes}; }
  friend constexpr DataSize operator*(DataSize a, std::int64_t n) { return {a.bytes * n}; }
};

/// Bits per second. Zero means "no limit" only where a field's comment says so.
struct DataRate {
  std::int64_t bits_per_second = 0;
  constexpr auto operator<=>(const DataRate&) const = default;

  /// Time to serialise `size` at this rate, rounded up to whole nanoseconds; the rate must be positive.
  [[nodiscard]] constexpr Duration time_for(DataSize size) const {
    const auto bits = static_cast<Int128>(size.bytes) * 8 * 1'000'000'000;
    return Duration(static_cast<std::int64_t>((bits + bits_per_second - 1) / bits_per_second));
  }
};

// Text form. A number, an optional space, and a unit: units are required ("10 ms", "5 Mbit/s", "1.5 KiB", "0.1 %").
// Errors are one sentence that names the accepted units.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);  ///< ns, us, ms, s, min, h; not negative
[[nodiscard]] Result<DataSize> parse_data_size(std::string_view text);  ///< B, kB, MB, GB (10^3), KiB, MiB, GiB (2^10)
[[nodiscard]] Result<DataRate> parse_data_rate(std::string_view text);  ///< bit/s, kbit/s, Mbit/s, Gbit/s; positive
[[nodiscard]] Result<double> parse_fraction(std::string_view text);     ///< "1 %" or "0.01": a value from 0 to 1

[[nodiscard]] std::string to_string(Duration d);   ///< shortest exact form, such as "1.5 ms"
[[nodiscard]] std::string to_string(DataSize s);   ///< "1.5 KiB", "64 kB"
[[nodiscard]] std::string to_string(DataRate r);   ///< "5 Mbit/s"

}  // namespace peerbed
