// The key of one direction, renewed as it is used: every 2^bits packets the next key is REKEY of the last (Noise
// specification §11.3), and the packet number says which one is meant. Nothing is negotiated, and whoever learns a key
// learns nothing of what was sent before it.
#pragma once

#include <algorithm>
#include <array>

#include "core/crypto/aead.h"

namespace peerbed {

class PacketKeys {
 public:
  /// 2^20 packets are about 1.2 GB; RFC 9001 §6.6 has no limit that would ask for less.
  static constexpr int kDefaultBits = 20;

  PacketKeys() = default;
  PacketKeys(const AeadKey& key, int bits) : current_(key), previous_(key), bits_(bits) {}

  /// As seal() and open() of core/crypto; numbers of one sender grow.
  void seal_next(std::uint64_t number, BytesView associated, BytesView plaintext, MutableBytes out) {
    while (number >> bits_ > epoch_) advance();
    seal(current_, number, associated, plaintext, out);
  }
  /// Takes the current period, the one before it (reordering), and the one after it (its first packet moves on). A number
  /// further ahead cannot be true and costs no derivation.
  [[nodiscard]] bool open_any(std::uint64_t number, BytesView associated, BytesView sealed, MutableBytes out) {
    const std::uint64_t epoch = number >> bits_;
    if (epoch == epoch_) return open(current_, number, associated, sealed, out);
    if (epoch + 1 == epoch_) return open(previous_, number, associated, sealed, out);
    if (epoch != epoch_ + 1 || !open(rekey(current_), number, associated, sealed, out)) return false;
    advance();
    return true;
  }
  [[nodiscard]] std::uint64_t period() const { return epoch_; }

 private:
  [[nodiscard]] static AeadKey rekey(const AeadKey& key) {
    constexpr std::array<std::uint8_t, 32> kZeros{};
    std::array<std::uint8_t, 32 + kAeadTagSize> out;
    seal(key, ~std::uint64_t{0}, {}, kZeros, out);
    AeadKey next;
    std::copy_n(out.begin(), next.bytes.size(), next.bytes.begin());
    return next;
  }
  void advance() {
    previous_ = current_;
    current_ = rekey(current_);
    ++epoch_;
  }

  AeadKey current_, previous_;
  std::uint64_t epoch_ = 0;
  int bits_ = kDefaultBits;
};

}  // namespace peerbed
