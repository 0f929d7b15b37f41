#include "scenarios/json_text.h"

#include <fmt/format.h>

#include <cmath>

namespace peerbed {

namespace json = boost::json;

namespace {

constexpr std::size_t kLineWidth = 110;

std::string compact(const json::value& value) {
  // Boost writes 1.5E0; the shortest form that reads back equal is kinder, and as exact.
  if (value.is_double()) return fmt::format("{}", value.get_double());
  if (!value.is_object() && !value.is_array()) return json::serialize(value);
  std::string out;
  bool first = true;
  if (value.is_array()) {
    out = "[";
    for (const auto& item : value.get_array()) {
      if (!first) out += ", ";
      first = false;
      out += compact(item);
    }
    return out + "]";
  }
  out = "{";
  for (const auto& entry : value.get_object()) {
    if (!first) out += ", ";
    first = false;
    out += json::serialize(json::value(entry.key())) + ": " + compact(entry.value());
  }
  return out + "}";
}

void append(std::string& out, const json::value& value, std::size_t indent) {
  const std::string line = compact(value);
  const bool container = value.is_object() || value.is_array();
  if (!container || (indent > 0 && line.size() + indent <= kLineWidth)) {
    out += line;
    return;
  }
  const std::string margin(indent + 2, ' ');
  const bool array = value.is_array();
  out += array ? "[\n" : "{\n";
  bool first = true;
  const auto next = [&] {
    if (!first) out += ",\n";
    first = false;
    out += margin;
  };
  if (array) {
    for (const auto& item : value.get_array()) {
      next();
      append(out, item, indent + 2);
    }
  } else {
    for (const auto& entry : value.get_object()) {
      next();
      out += json::serialize(json::value(entry.key())) + ": ";
      append(out, entry.value(), indent + 2);
    }
  }
  out += "\n" + std::string(indent, ' ') + (array ? "]" : "}");
}

}  // namespace

std::string pretty(const json::value& value) {
  std::string out;
  append(out, value, 0);
  out += "\n";
  return out;
}

json::value json_number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < kExact) return static_cast<std::int64_t>(value);
  if (!std::isfinite(value)) return nullptr;
  return value;
}

}  // namespace peerbed
