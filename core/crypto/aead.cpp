#include "core/crypto/aead.h"

#include "core/base/check.h"
#include "core/crypto/sodium.h"

namespace peerbed {
namespace {

using Nonce = std::array<std::uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

Nonce noise_nonce(std::uint64_t counter) {
  Nonce nonce{};
  for (std::size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<std::uint8_t>(counter >> (8 * i));
  return nonce;
}

}  // namespace

void seal(const AeadKey& key, std::uint64_t nonce, BytesView associated, BytesView plaintext, MutableBytes out) {
  detail::sodium_ready();
  PEERBED_CHECK(out.size() >= plaintext.size() + kAeadTagSize, "a sealed text needs room for its tag");
  const Nonce bytes = noise_nonce(nonce);
  crypto_aead_chacha20poly1305_ietf_encrypt(out.data(), nullptr, plaintext.data(), plaintext.size(), associated.data(),
                                            associated.size(), nullptr, bytes.data(), key.bytes.data());
}

bool open(const AeadKey& key, std::uint64_t nonce, BytesView associated, BytesView sealed, MutableBytes out) {
  detail::sodium_ready();
  if (sealed.size() < kAeadTagSize) return false;
  PEERBED_CHECK(out.size() >= sealed.size() - kAeadTagSize, "an opened text needs room for its plaintext");
  const Nonce bytes = noise_nonce(nonce);
  return crypto_aead_chacha20poly1305_ietf_decrypt(out.data(), nullptr, nullptr, sealed.data(), sealed.size(),
                                                   associated.data(), associated.size(), bytes.data(),
                                                   key.bytes.data()) == 0;
}

}  // namespace peerbed
