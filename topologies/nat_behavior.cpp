#include "topologies/nat_behavior.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "topologies/suggest.h"

namespace peerbed {
namespace {

using enum Dependence;

constexpr std::array<std::string_view, 3> kMappings{"eim", "adm", "apdm"};  // in the order of Dependence
constexpr std::array<std::string_view, 3> kFilterings{"eif", "adf", "apdf"};

constexpr NatBehavior pair_of(Dependence mapping, Dependence filtering) {
  NatBehavior behavior;
  behavior.mapping = mapping;
  behavior.filtering = filtering;
  return behavior;
}

constexpr NatBehavior behave() {
  NatBehavior behavior = pair_of(endpoint_independent, endpoint_independent);
  behavior.udp_timeout = 300s;
  behavior.hairpin = true;
  return behavior;
}

constexpr NatBehavior linux_masquerade() {
  NatBehavior behavior = pair_of(endpoint_independent, address_and_port_dependent);
  behavior.udp_unreplied_timeout = 30s;
  behavior.tcp_established_timeout = 432'000s;
  behavior.tcp_transitory_timeout = 120s;
  behavior.icmp_timeout = 30s;
  return behavior;
}

constexpr NatBehavior pf() {
  NatBehavior behavior = pair_of(address_and_port_dependent, address_and_port_dependent);
  behavior.allocation = PortAllocation::random;
  behavior.first_port = 50001;
  behavior.udp_timeout = 60s;
  behavior.tcp_established_timeout = 86'400s;
  behavior.tcp_transitory_timeout = 120s;
  behavior.icmp_timeout = 20s;
  return behavior;
}

constexpr NatBehavior cellular() {
  NatBehavior behavior = pair_of(address_and_port_dependent, address_and_port_dependent);
  behavior.allocation = PortAllocation::random;
  behavior.udp_timeout = 65s;
  return behavior;
}

// A new NAT type is a line here.
constexpr std::array kNamedNats{
    NamedNat{"behave", "what RFC 4787 asks for: eim/eif, UDP 5 min, hairpin", behave()},
    NamedNat{"full-cone", "eim/eif: once a host has sent anything, anyone may answer",
             pair_of(endpoint_independent, endpoint_independent)},
    NamedNat{"restricted-cone", "eim/adf: answers from the addresses that were sent to",
             pair_of(endpoint_independent, address_dependent)},
    NamedNat{"port-restricted", "eim/apdf: answers from the endpoints that were sent to",
             pair_of(endpoint_independent, address_and_port_dependent)},
    NamedNat{"symmetric", "apdm/apdf: another external port for every endpoint that is sent to",
             pair_of(address_and_port_dependent, address_and_port_dependent)},
    NamedNat{
        "linux",
        "nftables masquerade on an idle router: eim/apdf, preserves ports, UDP 30 s, 120 s once answered; its port "
        "change on collisions and its early-inbound race are not modelled",
        linux_masquerade()},
    NamedNat{"pf", "OpenBSD pf, pfSense, OPNsense: apdm/apdf, random ports 50001-65535, UDP 60 s", pf()},
    NamedNat{"cellular",
             "a mobile carrier's symmetric NAT: apdm/apdf, random ports, UDP 65 s (median of Richter et al., IMC 2016)",
             cellular()},
};

}  // namespace

Result<NatBehavior> parse_nat_behavior(std::string_view text) {
  std::string word(text);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos) {
    std::vector<std::string_view> names;
    for (const NamedNat& nat : kNamedNats) {
      if (nat.name == word) return nat.behavior;
      names.push_back(nat.name);
    }
    return bad_input(fmt::format("'{}' is no NAT type{}{}", text, did_you_mean(text, names),
                                 nearest(text, names) ? "" : "; or write mapping/filtering, such as 'eim/apdf'"));
  }
  const std::string_view mapping = std::string_view(word).substr(0, slash),
                         filtering = std::string_view(word).substr(slash + 1);
  const auto known_mapping = std::find(kMappings.begin(), kMappings.end(), mapping);
  if (known_mapping == kMappings.end()) {
    return bad_input(fmt::format("'{}' is no NAT mapping{}", mapping, did_you_mean(mapping, kMappings)));
  }
  const auto known_filtering = std::find(kFilterings.begin(), kFilterings.end(), filtering);
  if (known_filtering == kFilterings.end()) {
    return bad_input(fmt::format("'{}' is no NAT filtering{}", filtering, did_you_mean(filtering, kFilterings)));
  }
  return pair_of(static_cast<Dependence>(known_mapping - kMappings.begin()),
                 static_cast<Dependence>(known_filtering - kFilterings.begin()));
}

std::string to_string(const NatBehavior& behavior) {
  return fmt::format("{}/{}", kMappings[static_cast<std::size_t>(behavior.mapping)],
                     kFilterings[static_cast<std::size_t>(behavior.filtering)]);
}

std::span<const NamedNat> named_nats() { return kNamedNats; }

}  // namespace peerbed
