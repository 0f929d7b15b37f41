// ChaCha20-Poly1305 (RFC 8439) with the nonce layout of the Noise specification §12: 32 zero bits, then a 64-bit
// little-endian counter.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/bytes.h"

namespace peerbed {

inline constexpr std::size_t kAeadTagSize = 16;

struct AeadKey {
  std::array<std::uint8_t, 32> bytes{};
};

/// `out` holds plaintext.size() + kAeadTagSize bytes; it may start where the plaintext starts.
void seal(const AeadKey& key, std::uint64_t nonce, BytesView associated, BytesView plaintext, MutableBytes out);

/// False if the tag does not fit; `out` (sealed.size() - kAeadTagSize bytes, may start where `sealed` starts) is then
/// unspecified.
[[nodiscard]] bool open(const AeadKey& key, std::uint64_t nonce, BytesView associated, BytesView sealed,
                        MutableBytes out);

}  // namespace peerbed
