#include "scenarios/measure/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace peerbed {

void Series::add(TimePoint at, std::string_view name, double value) {
  auto found = std::find(names_.begin(), names_.end(), name);  // a handful of names: a scan is enough
  if (found == names_.end()) found = names_.insert(names_.end(), std::string(name));
  points_.push_back({at, static_cast<std::size_t>(found - names_.begin()), value});
}

std::string Series::to_csv() const {
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "time_s,name,value\n");
  for (const auto& point : points_)
    fmt::format_to(std::back_inserter(out), "{:.9g},{},{:.10g}\n", to_seconds(point.at - origin_), names_[point.name],
                   point.value);
  return fmt::to_string(out);
}

}  // namespace peerbed
