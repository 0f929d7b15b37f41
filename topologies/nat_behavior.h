// NAT behaviour in the words of RFC 4787, and the names that users write for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace peerbed {

/// What a mapping depends on (RFC 4787 §4.1) or what lets an inbound packet pass (§5).
enum class Dependence : std::uint8_t { endpoint_independent, address_dependent, address_and_port_dependent };

enum class PortAllocation : std::uint8_t {
  preserve,    ///< the inside port if it is free, else the next free one above it
  sequential,  ///< the next free port after the last one given
  random,
};

struct NatBehavior {
  Dependence mapping = Dependence::endpoint_independent;
  Dependence filtering = Dependence::address_and_port_dependent;
  PortAllocation allocation = PortAllocation::preserve;
  std::uint16_t first_port = 1024, last_port = 65535;  ///< the external ports that may be given
  Duration udp_timeout = 120s;       ///< RFC 4787 REQ-5 (not below 2 min), Linux "stream" default
  /// Until the first packet comes back; nothing: as udp_timeout. Linux: 30 s.
  std::optional<Duration> udp_unreplied_timeout = std::nullopt;
  bool outbound_refresh = true;      ///< REQ-6
  bool inbound_refresh = true;       ///< REQ-6a; Linux does
  bool hairpin = false;              ///< REQ-9; with the external source (9a)
  Duration tcp_established_timeout = 7440s;  ///< RFC 5382 REQ-5: 2 h 4 min
  Duration tcp_transitory_timeout = 240s;
  Duration icmp_timeout = 60s;  ///< RFC 5508 REQ-2
  bool operator==(const NatBehavior&) const = default;
};

/// "eim/apdf", "adm/eif", … (mapping/filtering), or a registered name ("full-cone", "linux", …).
[[nodiscard]] Result<NatBehavior> parse_nat_behavior(std::string_view text);
[[nodiscard]] std::string to_string(const NatBehavior& behavior);  ///< the "eim/apdf" form

struct NamedNat {
  std::string_view name, description;
  NatBehavior behavior;
};
[[nodiscard]] std::span<const NamedNat> named_nats();

}  // namespace peerbed
