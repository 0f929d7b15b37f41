// IP addresses and endpoints of both families as plain values with a total order (used for deterministic iteration).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace peerbed {

enum class Family : std::uint8_t { v4 = 4, v6 = 6 };

struct IpAddress {
  Family family = Family::v4;
  std::array<std::uint8_t, 16> octets{};  ///< network order; an IPv4 address uses the first four, the rest are zero

  constexpr auto operator<=>(const IpAddress&) const = default;

  [[nodiscard]] static constexpr IpAddress v4(std::uint32_t host_order) {
    IpAddress a;
    for (std::size_t i = 0; i < 4; ++i) a.octets[i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
    return a;
  }
  [[nodiscard]] static constexpr IpAddress v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    return v4((std::uint32_t{a} << 24) | (std::uint32_t{b} << 16) | (std::uint32_t{c} << 8) | d);
  }
  [[nodiscard]] static constexpr IpAddress v6(const std::array<std::uint8_t, 16>& octets) { return {Family::v6, octets}; }
  [[nodiscard]] static constexpr IpAddress any(Family f) { return {f, {}}; }
  [[nodiscard]] static constexpr IpAddress loopback(Family f) {
    IpAddress a = any(f);
    if (f == Family::v4) { a.octets[0] = 127; a.octets[3] = 1; } else { a.octets[15] = 1; }
    return a;
  }
  [[nodiscard]] static Result<IpAddress> parse(std::string_view text);

  [[nodiscard]] constexpr std::size_t size() const { return family == Family::v4 ? 4 : 16; }
  [[nodiscard]] constexpr std::uint32_t v4_value() const {
    return (std::uint32_t{octets[0]} << 24) | (std::uint32_t{octets[1]} << 16) | (std::uint32_t{octets[2]} << 8) | octets[3];
  }
  [[nodiscard]] constexpr bool is_any() const { return octets == std::array<std::uint8_t, 16>{}; }
  [[nodiscard]] bool is_loopback() const;
  /// RFC 1918, RFC 6598 (shared), RFC 3927 (link local), RFC 4193 (unique local), fe80::/10 and loopback.
  [[nodiscard]] bool is_private() const;
  [[nodiscard]] std::string to_string() const;
};

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  constexpr auto operator<=>(const Endpoint&) const = default;
  [[nodiscard]] static Result<Endpoint> parse(std::string_view text);  ///< "192.0.2.1:80" or "[2001:db8::1]:80"
  [[nodiscard]] std::string to_string() const;
};

[[nodiscard]] std::uint64_t hash_value(const IpAddress& a);  ///< equal on every compiler and run
[[nodiscard]] std::uint64_t hash_value(const Endpoint& e);

struct EndpointHash {
  using is_avalanching = void;  // tells Boost's flat maps not to mix again
  std::size_t operator()(const Endpoint& e) const { return static_cast<std::size_t>(hash_value(e)); }
  std::size_t operator()(const IpAddress& a) const { return static_cast<std::size_t>(hash_value(a)); }
};

}  // namespace peerbed
