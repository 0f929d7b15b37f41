// The ordered log of what nodes and networks did. Its digest is what two equal runs must share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <variant>

#include "core/base/units.h"

namespace peerbed {

/// One named value of an event. Integers and text only: the text of a double is no safe thing to hash.
struct EventField {
  std::string_view key;
  std::variant<std::int64_t, std::string_view> value;
};

/// Where a node reports what happened to it. An implementation stamps the node, orders, hashes and stores.
class EventLog {
 public:
  virtual ~EventLog() = default;
  /// `name` is dotted and static, such as "punch.outcome"; fields keep their order. Views are valid during the call only.
  virtual void record(TimePoint at, std::string_view name, std::span<const EventField> fields) = 0;

  void record(TimePoint at, std::string_view name, std::initializer_list<EventField> fields) {
    record(at, name, std::span(fields.begin(), fields.size()));
  }
};

}  // namespace peerbed
