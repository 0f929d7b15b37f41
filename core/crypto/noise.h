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
  /// Noise specification §3.
  static constexpr std::size_t kMaxMessageSize = 65535;
  /// Bytes that a message adds to its payload, by message number 0, 1, 2.
  static constexpr std::array<std::size_t, 3> kOverhead{32, 32 + 48 + 16, 48 + 16};

  NoiseXX(NoiseRole role, const KeyPair& static_keys, BytesView prologue, const SecretKey& ephemeral_secret);

  NoiseXX(const NoiseXX&) = default;
  NoiseXX& operator=(const NoiseXX&) = default;
  ~NoiseXX();  ///< wipes the secrets

  /// Writes the next message if it is this side's turn; returns its size. `out` must hold payload.size() + kOverhead
  /// and not overlap `payload`. After an error the machine is unchanged.
  [[nodiscard]] Result<std::size_t> write_message(BytesView payload, MutableBytes out);
  /// Reads the peer's next message; returns the payload's size. After an error the machine is unchanged: a forged
  /// message cannot end a handshake. `payload` must hold message.size() - kOverhead and not overlap `message`.
  [[nodiscard]] Result<std::size_t> read_message(BytesView message, MutableBytes payload);

  [[nodiscard]] bool my_turn() const;
  [[nodiscard]] bool complete() const { return messages_ == 3; }
  /// Known after the message that carries s; all zeros before.
  [[nodiscard]] const PeerId& remote_static() const { return remote_static_; }
  [[nodiscard]] const std::array<std::uint8_t, 32>& handshake_hash() const { return hash_; }
  [[nodiscard]] NoiseKeys split() const;  ///< once complete

 private:
  NoiseRole role_;
  KeyPair static_keys_, ephemeral_;
  PeerId remote_static_{}, remote_ephemeral_{};
  std::array<std::uint8_t, 32> chaining_key_{}, hash_{};
  // `ee` on the responder's side is computed when message 1 comes, so that a bad point is refused then, and mixed in
  // when message 2 goes.
  SecretKey early_ee_{};
  AeadKey key_{};
  std::uint64_t nonce_ = 0;
  int messages_ = 0;

  void mix_hash(BytesView data);
  void mix_key(const SecretKey& shared);
  void encrypt_and_hash(BytesView plaintext, MutableBytes out);
  [[nodiscard]] bool decrypt_and_hash(BytesView sealed, MutableBytes out);
  [[nodiscard]] bool mix_dh(const KeyPair& mine, const PeerId& theirs);
  [[nodiscard]] Result<std::size_t> next_write(BytesView payload, MutableBytes out);
  [[nodiscard]] Result<std::size_t> next_read(BytesView message, MutableBytes payload);
};

}  // namespace peerbed
