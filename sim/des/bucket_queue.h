// The queue for very many pending events: a row of time buckets, filled unsorted, and sorted one at a time when its turn comes (a
// ladder queue: Tang, Goh and Thng 2005). A push touches one or two cache lines however many events wait.
//
//   run      the open bucket, sorted, latest first: popped from its back
//   early    a heap of what was pushed later but belongs into or before the open bucket
//   buckets  equal widths from the end of the open bucket to the end of the row
//   far      beyond the row; when the row is used up, a new one is laid over what is here, as wide as its times ask for
#pragma once

#include <cstdint>
#include <vector>

#include "sim/des/entry_heap.h"
#include "sim/des/event.h"

namespace peerbed::sim {

class BucketQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void push(const QueueEntry& entry) {
    ++size_;
    if (entry.time < open_end_) {
      early_.push(entry);
    } else if (entry.time < row_end_) {
      put(static_cast<std::size_t>((entry.time - row_start_) >> width_log2_), entry);
    } else {
      far_.push_back(entry);
    }
  }

  /// The queue must not be empty.
  [[nodiscard]] const QueueEntry& top() {
    if (run_.empty() && early_.empty()) open_next();
    top_is_early_ = !early_.empty() && (run_.empty() || early_.top() < run_.back());
    return top_is_early_ ? early_.top() : run_.back();
  }

  /// Takes the top out; top() must have been called since the last pop.
  void pop() {
    --size_;
    if (top_is_early_) {
      early_.pop();
    } else {
      run_.pop_back();
    }
  }

  /// The entry that comes `ahead` places after the top, if that is already known and nothing is put before it; for prefetching.
  [[nodiscard]] const QueueEntry* glimpse(std::size_t ahead) const {
    return ahead < run_.size() ? &run_[run_.size() - 1 - ahead] : nullptr;
  }
  [[nodiscard]] std::size_t memory_bytes() const;

  /// Moves all entries, in no order, to the end of `out`.
  void drain_to(std::vector<QueueEntry>& out);
  /// Takes over `entries`, in any order; the queue must be empty.
  void assign(const std::vector<QueueEntry>& entries);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kPerChunk = 10;
  struct Chunk {
    QueueEntry entries[kPerChunk];
    std::uint32_t next = kNone;
    std::uint32_t count = 0;
  };

  void put(std::size_t bucket, const QueueEntry& entry) {
    std::uint32_t head = heads_[bucket];
    if (head == kNone || chunks_[head].count == kPerChunk) head = grow(bucket);
    Chunk& chunk = chunks_[head];
    chunk.entries[chunk.count++] = entry;
  }
  std::uint32_t grow(std::size_t bucket);
  void take(std::size_t bucket, std::vector<QueueEntry>& out);
  void open_next();
  void lay_row();

  std::vector<QueueEntry> run_;
  EntryHeap early_;
  std::vector<std::uint32_t> heads_;  ///< first chunk of each bucket
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> free_chunks_;
  std::vector<QueueEntry> far_, spare_;
  std::vector<std::uint64_t> sample_;
  std::size_t next_bucket_ = 0;
  std::uint64_t open_end_ = 0, row_start_ = 0, row_end_ = 0;
  unsigned width_log2_ = 0;
  bool top_is_early_ = false;
  std::size_t size_ = 0;
};

}  // namespace peerbed::sim
