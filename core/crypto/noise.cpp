#include "core/crypto/noise.h"

#include <algorithm>
#include <string_view>

#include "core/base/check.h"
#include "core/crypto/sodium.h"

namespace peerbed {
namespace {

using Hash = std::array<std::uint8_t, 32>;

constexpr std::size_t kKeySize = 32;
constexpr std::size_t kSealedKeySize = kKeySize + kAeadTagSize;
// Exactly 32 bytes, so the first hash is the name itself (Noise specification §5.2, InitializeSymmetric).
constexpr std::string_view kProtocolName = "Noise_XX_25519_ChaChaPoly_SHA256";
static_assert(kProtocolName.size() == kKeySize);

template <std::size_t N>
void wipe(std::array<std::uint8_t, N>& secret) {
  sodium_memzero(secret.data(), secret.size());
}

Hash hmac(const Hash& key, BytesView first, BytesView second = {}) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha256_update(&state, first.data(), first.size());
  crypto_auth_hmacsha256_update(&state, second.data(), second.size());
  Hash out{};
  crypto_auth_hmacsha256_final(&state, out.data());
  sodium_memzero(&state, sizeof state);
  return out;
}

struct TwoKeys {
  Hash first, second;
};

/// HKDF with two outputs (Noise specification §4.3).
TwoKeys hkdf(const Hash& chaining_key, BytesView input) {
  constexpr std::array<std::uint8_t, 1> kOne{1}, kTwo{2};
  Hash temporary = hmac(chaining_key, input);
  TwoKeys keys;
  keys.first = hmac(temporary, kOne);
  keys.second = hmac(temporary, keys.first, kTwo);
  wipe(temporary);
  return keys;
}

/// X25519; false for a point of small order, whose result is all zeros whatever the secret (RFC 7748 §6.1).
bool x25519(const SecretKey& secret, const PeerId& point, SecretKey& shared) {
  return crypto_scalarmult(shared.data(), secret.data(), point.key.data()) == 0;
}

}  // namespace

NoiseXX::NoiseXX(NoiseRole role, const KeyPair& static_keys, BytesView prologue, const SecretKey& ephemeral_secret)
    : role_(role), static_keys_(static_keys), ephemeral_(make_key_pair(ephemeral_secret)) {
  std::copy(kProtocolName.begin(), kProtocolName.end(), hash_.begin());
  chaining_key_ = hash_;
  mix_hash(prologue);
}

NoiseXX::~NoiseXX() {
  wipe(static_keys_.secret);
  wipe(ephemeral_.secret);
  wipe(early_ee_);
  wipe(chaining_key_);
  wipe(key_.bytes);
}

bool NoiseXX::my_turn() const { return !complete() && (messages_ % 2 == 0) == (role_ == NoiseRole::initiator); }

void NoiseXX::mix_hash(BytesView data) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, hash_.data(), hash_.size());
  crypto_hash_sha256_update(&state, data.data(), data.size());
  crypto_hash_sha256_final(&state, hash_.data());
}

void NoiseXX::mix_key(const SecretKey& shared) {
  TwoKeys keys = hkdf(chaining_key_, shared);
  chaining_key_ = keys.first;
  key_.bytes = keys.second;
  nonce_ = 0;
  wipe(keys.first);
  wipe(keys.second);
}

bool NoiseXX::mix_dh(const KeyPair& mine, const PeerId& theirs) {
  SecretKey shared{};
  const bool valid = x25519(mine.secret, theirs, shared);
  if (valid) mix_key(shared);
  wipe(shared);
  return valid;
}

// In XX the first key comes with `ee`, so exactly message 1 goes in clear and is not asked for here.
void NoiseXX::encrypt_and_hash(BytesView plaintext, MutableBytes out) {
  const MutableBytes sealed = out.first(plaintext.size() + kAeadTagSize);
  seal(key_, nonce_++, hash_, plaintext, sealed);
  mix_hash(sealed);
}

bool NoiseXX::decrypt_and_hash(BytesView sealed, MutableBytes out) {
  if (!open(key_, nonce_++, hash_, sealed, out.first(sealed.size() - kAeadTagSize))) return false;
  mix_hash(sealed);
  return true;
}

Result<std::size_t> NoiseXX::write_message(BytesView payload, MutableBytes out) {
  NoiseXX next = *this;
  Result<std::size_t> size = next.next_write(payload, out);
  if (size) *this = next;
  return size;
}

Result<std::size_t> NoiseXX::read_message(BytesView message, MutableBytes payload) {
  NoiseXX next = *this;
  Result<std::size_t> size = next.next_read(message, payload);
  if (size) *this = next;
  return size;
}

Result<std::size_t> NoiseXX::next_write(BytesView payload, MutableBytes out) {
  if (!my_turn()) return protocol_error("it is not this side's turn to write a handshake message");
  const std::size_t overhead = kOverhead[static_cast<std::size_t>(messages_)];
  if (payload.size() > kMaxMessageSize - overhead) return protocol_error("the handshake payload is too large");
  const std::size_t size = payload.size() + overhead;
  if (out.size() < size) return protocol_error("the handshake message does not fit its buffer");

  const BytesView ephemeral = ephemeral_.public_key.key;
  switch (messages_) {
    case 0:  // -> e
      std::copy(ephemeral.begin(), ephemeral.end(), out.begin());
      mix_hash(ephemeral);
      std::copy(payload.begin(), payload.end(), out.begin() + kKeySize);
      mix_hash(payload);
      break;
    case 1:  // <- e, ee, s, es
      std::copy(ephemeral.begin(), ephemeral.end(), out.begin());
      mix_hash(ephemeral);
      mix_key(early_ee_);
      wipe(early_ee_);
      encrypt_and_hash(static_keys_.public_key.key, out.subspan(kKeySize));
      if (!mix_dh(static_keys_, remote_ephemeral_)) return protocol_error("the peer's ephemeral key has small order");
      encrypt_and_hash(payload, out.subspan(kKeySize + kSealedKeySize));
      break;
    default:  // -> s, se
      encrypt_and_hash(static_keys_.public_key.key, out);
      if (!mix_dh(static_keys_, remote_ephemeral_)) return protocol_error("the peer's ephemeral key has small order");
      encrypt_and_hash(payload, out.subspan(kSealedKeySize));
      break;
  }
  ++messages_;
  return size;
}

Result<std::size_t> NoiseXX::next_read(BytesView message, MutableBytes payload) {
  if (complete() || my_turn()) return protocol_error("no handshake message is due from the peer");
  const std::size_t overhead = kOverhead[static_cast<std::size_t>(messages_)];
  if (message.size() < overhead || message.size() > kMaxMessageSize) {
    return protocol_error("the handshake message has an impossible size");
  }
  const std::size_t size = message.size() - overhead;
  if (payload.size() < size) return protocol_error("the handshake payload does not fit its buffer");

  std::size_t at = 0;
  if (messages_ != 2) {  // e
    const BytesView key = message.first(kKeySize);
    std::copy(key.begin(), key.end(), remote_ephemeral_.key.begin());
    mix_hash(key);
    at = kKeySize;
  }
  if (messages_ == 0) {
    if (!x25519(ephemeral_.secret, remote_ephemeral_, early_ee_)) {
      return protocol_error("the peer's ephemeral key has small order");
    }
    const BytesView clear = message.subspan(at);
    std::copy(clear.begin(), clear.end(), payload.begin());
    mix_hash(clear);
  } else {
    if (messages_ == 1 && !mix_dh(ephemeral_, remote_ephemeral_)) {  // ee
      return protocol_error("the peer's ephemeral key has small order");
    }
    if (!decrypt_and_hash(message.subspan(at, kSealedKeySize), remote_static_.key)) {  // s
      return protocol_error("the peer's static key does not authenticate");
    }
    if (!mix_dh(ephemeral_, remote_static_)) {  // es, or se when read by the responder: our e with their s
      return protocol_error("the peer's static key has small order");
    }
    if (!decrypt_and_hash(message.subspan(at + kSealedKeySize), payload)) {
      return protocol_error("the handshake payload does not authenticate");
    }
  }
  ++messages_;
  return size;
}

NoiseKeys NoiseXX::split() const {
  PEERBED_CHECK(complete(), "transport keys exist only after the whole handshake");
  TwoKeys keys = hkdf(chaining_key_, {});
  NoiseKeys result;
  result.send.bytes = role_ == NoiseRole::initiator ? keys.first : keys.second;
  result.receive.bytes = role_ == NoiseRole::initiator ? keys.second : keys.first;
  wipe(keys.first);
  wipe(keys.second);
  return result;
}

}  // namespace peerbed
