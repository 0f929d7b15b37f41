// JSON as people read it: two spaces, one key per line, short lists and objects on one line.
#pragma once

#include <boost/json.hpp>
#include <string>

namespace peerbed {

[[nodiscard]] std::string pretty(const boost::json::value& value);

/// A number without a fraction is written as an integer, so that counts look like counts.
[[nodiscard]] boost::json::value json_number(double value);

}  // namespace peerbed
