// Values over time, as series.csv keeps them: one row per (time, name).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace peerbed {

class Series {
 public:
  explicit Series(TimePoint origin = {}) : origin_(origin) {}  ///< times are written as since then
  void add(TimePoint at, std::string_view name, double value);
  [[nodiscard]] bool empty() const { return points_.empty(); }
  /// "time_s,name,value" and one line per point, in the order in which they were added.
  [[nodiscard]] std::string to_csv() const;

 private:
  struct Point {
    TimePoint at;
    std::size_t name;
    double value;
  };
  TimePoint origin_;
  std::vector<std::string> names_;
  std::vector<Point> points_;
};

}  // namespace peerbed
