// A peer is its static Curve25519 public key; its text form is what users type.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace peerbed {

struct PeerId {
  std::array<std::uint8_t, 32> key{};

  constexpr auto operator<=>(const PeerId&) const = default;
  /// RFC 4648 base32, lower case, no padding: 52 characters.
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] std::string short_string() const;  ///< the first 8 characters, for people
  [[nodiscard]] static Result<PeerId> parse(std::string_view text);
};

}  // namespace peerbed
