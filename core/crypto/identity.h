// The key pair that a node is, and the file that keeps it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/crypto/peer_id.h"

namespace peerbed {

using SecretKey = std::array<std::uint8_t, 32>;

struct KeyPair {
  PeerId public_key;
  SecretKey secret{};
};

/// The X25519 key pair of 32 secret bytes (RFC 7748 clamps them).
[[nodiscard]] KeyPair make_key_pair(const SecretKey& secret);

/// Text file, mode 0600, written to a temporary beside it and renamed. Load refuses a file that others can read.
[[nodiscard]] Result<KeyPair> load_identity(const std::string& path);
[[nodiscard]] Result<void> save_identity(const std::string& path, const KeyPair& keys);

}  // namespace peerbed
