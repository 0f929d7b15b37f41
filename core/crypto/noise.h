// Noise_XX_25519_ChaChaPoly_SHA256 (Noise specification, revision 34) as a pure machine:
//
//     -> e                      message 1, payload in clear
//     <- e, ee, s, es           message 2, payload sealed
//     -> s, se                  message 3, payload sealed
#pragma once

#include <array>
#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/crypto/aead.h"
#include "core/crypto/identity.h"

namespace peerbed {

enum class NoiseRole : std::uint8_t { initiator, responder };

struct NoiseKeys {
  AeadKey send, receive;
};

class NoiseXX {
 public:
  /// Bytes that a message adds to its payload, by message number 0, 1, 2.
  static constexpr std::array<std::size_t, 3> kOverhead{32, 32 + 48 + 16, 48 + 16};

  NoiseXX(NoiseRole role, const KeyPair& static_keys, BytesView prologue, const SecretKey& ephemeral_secret);

  /// Writes the next message if it is this side's turn; returns its size. `out` must hold payload.size() + kOverhead.
  [[nodiscard]] Result<std::size_t> write_message(BytesView payload, MutableBytes out);
  /// Reads the peer's next message; returns the payload's size. After an error the machine is unchanged: a forged message
  /// cannot end a handshake.
  [[nodiscard]] Result<std::size_t> read_message(BytesView message, MutableBytes payload);

  [[nodiscard]] bool my_turn() const;
  [[nodiscard]] bool complete() const { return messages_ == 3; }
  [[nodiscard]] const PeerId& remote_static() const { return remote_static_; }  ///< known after the message that carries s
  [[nodiscard]] const std::array<std::uint8_t, 32>& handshake_hash() const { return hash_; }
  [[nodiscard]] NoiseKeys split() const;  ///< once complete

 private:
  NoiseRole role_;
  KeyPair static_keys_, ephemeral_;
  PeerId remote_static_{}, remote_ephemeral_{};
  std::array<std::uint8_t, 32> chaining_key_{}, hash_{};
  AeadKey key_{};
  bool has_key_ = false;
  std::uint64_t nonce_ = 0;
  int messages_ = 0;
};

}  // namespace peerbed
