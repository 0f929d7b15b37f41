// Bytes addressed by stream offset, from a base that moves up: blocks of 4 KiB behind a small ring of pointers. Memory
// follows the content, nothing is copied when it grows, and blocks go round in a pool: a stream in steady use allocates
// nothing, and no large allocation is made and given back with every burst.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/check.h"

namespace peerbed {

/// Spare blocks of one link, up to a bound. Outlives the rings that use it.
class BlockPool {
 public:
  static constexpr std::size_t kBlock = 4096;
  using Block = std::array<std::uint8_t, kBlock>;

  [[nodiscard]] std::unique_ptr<Block> take() {
    if (spare_.empty()) return std::make_unique_for_overwrite<Block>();
    std::unique_ptr<Block> block = std::move(spare_.back());
    spare_.pop_back();
    return block;
  }
  void give(std::unique_ptr<Block> block) {
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(block));
  }

 private:
  static constexpr std::size_t kMostSpare = 32;  // 128 KiB: what a link may keep after a burst
  std::vector<std::unique_ptr<Block>> spare_;
};

class OffsetRing {
 public:
  explicit OffsetRing(BlockPool* pool = nullptr) : pool_(pool) {}
  OffsetRing(const OffsetRing&) = delete;
  OffsetRing& operator=(const OffsetRing&) = delete;
  ~OffsetRing() { clear(); }

  /// Copies `data` to `offset`; nothing below the base may be written.
  void write(std::uint64_t offset, BytesView data) {
    if (data.empty()) return;
    high_ = std::max(high_, offset + data.size());
    reserve();
    while (!data.empty()) {
      std::unique_ptr<BlockPool::Block>& block = slot(offset / kBlock);
      if (!block) {
        block = pool_ != nullptr ? pool_->take() : std::make_unique_for_overwrite<BlockPool::Block>();
        ++blocks_;
      }
      const std::size_t at = static_cast<std::size_t>(offset % kBlock), n = std::min(data.size(), kBlock - at);
      std::memcpy(block->data() + at, data.data(), n);
      offset += n;
      data = data.subspan(n);
    }
  }
  /// What is read must have been written.
  void read(std::uint64_t offset, MutableBytes out) const {
    while (!out.empty()) {
      const std::size_t at = static_cast<std::size_t>(offset % kBlock), n = std::min(out.size(), kBlock - at);
      std::memcpy(out.data(), slots_[(offset / kBlock) & (slots_.size() - 1)]->data() + at, n);
      offset += n;
      out = out.subspan(n);
    }
  }
  void release_below(std::uint64_t base) {
    if (base <= base_) return;
    const std::uint64_t first = base_ / kBlock;
    base_ = base;
    if (blocks_ == 0) return;
    // A block that is read to its end goes, and so does one that nothing more has been written to.
    const std::uint64_t end = base >= high_ ? (high_ + kBlock - 1) / kBlock : base / kBlock;
    for (std::uint64_t number = first; number < end; ++number) drop(number);
  }
  void clear() {
    release_below(std::max(base_ + 1, high_));
    slots_.clear();
    slots_.shrink_to_fit();
  }
  [[nodiscard]] std::size_t capacity() const { return blocks_ * kBlock; }

 private:
  static constexpr std::size_t kBlock = BlockPool::kBlock;

  [[nodiscard]] std::unique_ptr<BlockPool::Block>& slot(std::uint64_t number) {
    return slots_[static_cast<std::size_t>(number) & (slots_.size() - 1)];
  }
  void drop(std::uint64_t number) {
    std::unique_ptr<BlockPool::Block>& block = slot(number);
    if (!block) return;
    --blocks_;
    if (pool_ != nullptr) pool_->give(std::move(block));
    block.reset();
  }
  /// Makes the pointers reach from the base's block to the last one.
  void reserve() {
    const std::uint64_t first = base_ / kBlock, last = (high_ - 1) / kBlock;
    const std::size_t needed = static_cast<std::size_t>(last - first + 1);
    if (needed <= slots_.size()) return;
    std::vector<std::unique_ptr<BlockPool::Block>> larger(std::bit_ceil(std::max<std::size_t>(needed, 2)));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const std::uint64_t number = first + i;
      larger[static_cast<std::size_t>(number) & (larger.size() - 1)] = std::move(slot(number));
    }
    slots_.swap(larger);
  }

  BlockPool* pool_;
  std::vector<std::unique_ptr<BlockPool::Block>> slots_;  // a power of two
  std::uint64_t base_ = 0, high_ = 0;
  std::size_t blocks_ = 0;
};

}  // namespace peerbed
