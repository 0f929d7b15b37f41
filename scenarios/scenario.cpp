#include "scenarios/scenario.h"

#include <algorithm>

namespace peerbed {

namespace {

bool glob(std::string_view pattern, std::string_view text) {
  // Iterative with one backtracking point: linear in practice, and no recursion on input from a file.
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<ExpectationValue> link_knob(const Topology& topology, std::string_view name) {
  constexpr std::string_view kLinks = "links.";
  if (!name.starts_with(kLinks)) return std::nullopt;
  const auto dot = name.rfind('.');
  if (dot < kLinks.size()) return std::nullopt;
  const LinkSpec* link = topology.find_link(name.substr(kLinks.size(), dot - kLinks.size()));
  if (link == nullptr) return std::nullopt;
  const auto& knobs = link->a_to_b;
  const auto knob = name.substr(dot + 1);
  if (knob == "rate" && knobs.rate) return Quantity::rate(static_cast<double>(knobs.rate->bits_per_second));
  if (knob == "delay") return Quantity::time(to_seconds(knobs.delay));
  if (knob == "jitter") return Quantity::time(to_seconds(knobs.jitter));
  if (knob == "loss") return Quantity::plain(knobs.loss);
  return std::nullopt;
}

}  // namespace

bool selects(std::string_view selector, const NodeSpec& node) {
  return selector == node.name || (!node.group.empty() && selector == node.group) || glob(selector, node.name);
}

NodeConfig Scenario::node_config(const NodeSpec& host) const {
  NodeConfig config;
  for (const auto& setting : nodes) {
    if (!selects(setting.selector, host)) continue;
    if (setting.congestion) config.congestion = *setting.congestion;
    if (setting.udp) config.udp = *setting.udp;
    if (setting.tcp) config.tcp = *setting.tcp;
    if (setting.relay) config.relay = *setting.relay;
    if (setting.keepalive) config.keepalive = *setting.keepalive;
    if (setting.idle_timeout) config.idle_timeout = *setting.idle_timeout;
    if (setting.punch_attempts) config.punch_attempts = *setting.punch_attempts;
    if (setting.max_peers) config.max_peers = *setting.max_peers;
  }
  return config;
}

std::optional<ExpectationValue> Scenario::lookup(const ScenarioExpectation& expectation, std::string_view key) const {
  for (const auto& [given, value] : expectation.given)
    if (given == key) return parse_value(value);
  for (auto change = set.rbegin(); change != set.rend(); ++change)
    if (change->first == key) return parse_value(change->second);
  if (auto knob = link_knob(topology, key)) return knob;
  if (key == "seed") return Quantity::plain(static_cast<double>(seed));
  if (key == "duration") return Quantity::time(to_seconds(duration));
  return std::nullopt;
}

std::vector<const NodeSpec*> Scenario::hosts() const {
  std::vector<const NodeSpec*> out;
  for (const auto& node : topology.nodes)
    if (node.kind == NodeKind::host) out.push_back(&node);
  return out;
}

}  // namespace peerbed
