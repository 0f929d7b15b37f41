// A byte ring addressed by stream offset: holds [base, base + capacity). It grows by doubling as far as its owner lets it
// and gives large memory back when it runs empty.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "core/base/bytes.h"
#include "core/base/check.h"

namespace peerbed {

class OffsetRing {
 public:
  /// Copies `data` to `offset`, growing as needed; nothing below the base may be written.
  void write(std::uint64_t offset, BytesView data) {
    if (data.empty()) return;
    reserve(static_cast<std::size_t>(offset + data.size() - base_));
    const std::size_t at = static_cast<std::size_t>(offset) & (capacity_ - 1);
    const std::size_t first = std::min(data.size(), capacity_ - at);
    std::memcpy(bytes_.get() + at, data.data(), first);
    if (first < data.size()) std::memcpy(bytes_.get(), data.data() + first, data.size() - first);
    high_ = std::max(high_, offset + data.size());
  }
  void read(std::uint64_t offset, MutableBytes out) const {
    if (out.empty()) return;
    const std::size_t at = static_cast<std::size_t>(offset) & (capacity_ - 1);
    const std::size_t first = std::min(out.size(), capacity_ - at);
    std::memcpy(out.data(), bytes_.get() + at, first);
    if (first < out.size()) std::memcpy(out.data() + first, bytes_.get(), out.size() - first);
  }
  void release_below(std::uint64_t base) {
    base_ = std::max(base_, base);
    if (base_ < high_ || capacity_ <= kKeep) return;
    bytes_.reset();
    capacity_ = 0;
  }
  void clear() {
    base_ = std::max(base_, high_);
    bytes_.reset();
    capacity_ = 0;
  }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  static constexpr std::size_t kSmallest = 1024, kKeep = 128 * 1024;

  void reserve(std::size_t size) {
    if (size <= capacity_) return;
    const std::size_t larger = std::max(kSmallest, std::bit_ceil(size));
    auto bytes = std::make_unique_for_overwrite<std::uint8_t[]>(larger);
    for (std::uint64_t at = base_; at < high_;) {  // piecewise, since both rings wrap
      const std::size_t from = static_cast<std::size_t>(at) & (capacity_ - 1);
      const std::size_t to = static_cast<std::size_t>(at) & (larger - 1);
      const std::size_t n = std::min({static_cast<std::size_t>(high_ - at), capacity_ - from, larger - to});
      std::memcpy(bytes.get() + to, bytes_.get() + from, n);
      at += n;
    }
    bytes_ = std::move(bytes);
    capacity_ = larger;
  }

  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t capacity_ = 0;  // a power of two
  std::uint64_t base_ = 0, high_ = 0;
};

}  // namespace peerbed
