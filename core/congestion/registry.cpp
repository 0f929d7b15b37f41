#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/congestion/controller.h"
#include "core/congestion/cubic.h"
#include "core/congestion/newreno.h"

namespace peerbed {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<CongestionController> (*make)(const ControllerConfig& config);
};

template <class Controller>
std::unique_ptr<CongestionController> make(const ControllerConfig& config) {
  return std::make_unique<Controller>(config);
}

// A new controller is a line here; tests/core/congestion/contract_test.cpp then holds it to the common contract.
constexpr std::array kEntries = {
    Entry{"newreno", make<NewReno>},
    Entry{"cubic", make<Cubic>},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kEntries.size()> names;
  for (std::size_t i = 0; i < kEntries.size(); ++i) names[i] = kEntries[i].name;
  return names;
}();

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Error unknown(std::string_view name) {
  std::string text = "there is no congestion controller \"" + std::string(name) + "\"";
  std::string_view nearest = kNames[0];
  for (const std::string_view known : kNames) {
    if (edit_distance(name, known) < edit_distance(name, nearest)) nearest = known;
  }
  text += edit_distance(name, nearest) <= 3 ? "; did you mean \"" + std::string(nearest) + "\"? Known: " : "; known: ";
  for (std::size_t i = 0; i < kNames.size(); ++i) text += (i > 0 ? ", " : "") + std::string(kNames[i]);
  return bad_input(std::move(text));
}

}  // namespace

Result<std::unique_ptr<CongestionController>> make_controller(std::string_view name, const ControllerConfig& config) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.make(config);
  }
  return unknown(name);
}

std::span<const std::string_view> controller_names() { return kNames; }

}  // namespace peerbed
