// Pending events in the order (time, scheduling). A heap while few wait, buckets when many do; which of the two holds them is
// invisible from outside. A cancelled event stays as a stale entry until it comes up or until stale ones are the majority.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "sim/des/bucket_queue.h"
#include "sim/des/entry_heap.h"
#include "sim/des/event.h"

namespace peerbed::sim {

class Scheduler {
 public:
  static constexpr std::size_t kManyPending = 256;  ///< above: buckets
  static constexpr std::size_t kFewPending = 32;    ///< below: heap again

  /// Equal times fire in scheduling order. `kind` is below 128; it comes back with the payload.
  void schedule(TimePoint at, std::uint8_t kind, std::uint64_t payload) {
    push({ordered(at), next_sequence() | kind, payload});
  }
  [[nodiscard]] EventHandle schedule_cancellable(TimePoint at, std::uint8_t kind, std::uint64_t payload);
  /// Does nothing if the event has fired or was cancelled.
  void cancel(EventHandle handle);
  [[nodiscard]] bool is_pending(EventHandle handle) const {
    return handle && handle.slot < slots_.size() && slots_[handle.slot].generation == handle.generation;
  }

  /// The time of the next event. Nothing: none is pending.
  [[nodiscard]] std::optional<TimePoint> next_time() {
    const QueueEntry* entry = first_live();
    if (entry == nullptr) return std::nullopt;
    return time_of(*entry);
  }
  /// Takes the next event out, if it is not later than `limit`.
  [[nodiscard]] bool pop_until(TimePoint limit, Event& out) {
    const QueueEntry* entry = first_live();
    if (entry == nullptr || time_of(*entry) > limit) return false;
    take(*entry, out);
    return true;
  }
  /// About what comes after the next `ahead` events. A hint for prefetching: there may be nothing, and it may turn out otherwise.
  [[nodiscard]] const QueueEntry* glimpse(std::size_t ahead) const { return bucketed_ ? buckets_.glimpse(ahead) : nullptr; }
  void prefetch(const QueueEntry& entry) const {
    if ((entry.sequence & kCancellable) != 0) __builtin_prefetch(&slots_[entry.payload >> 32], 1);
  }
  [[nodiscard]] static std::uint8_t kind_of(const QueueEntry& entry) { return static_cast<std::uint8_t>(entry.sequence & 0x7f); }
  /// Nothing: the event was cancelled.
  [[nodiscard]] std::optional<std::uint64_t> payload_of(const QueueEntry& entry) const {
    if ((entry.sequence & kCancellable) == 0) return entry.payload;
    if (is_stale(entry)) return std::nullopt;
    return slots_[entry.payload >> 32].payload;
  }
  [[nodiscard]] std::size_t pending() const { return bucketed_ ? buckets_.size() - stale_ : heap_.size() - stale_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint64_t kCancellable = 0x80;
  struct Slot {
    std::uint64_t payload = 0;
    std::uint32_t generation = 1;
    std::uint32_t next_free = 0;
  };

  static std::uint64_t ordered(TimePoint at) {
    PEERBED_CHECK(at >= TimePoint{}, "an event was scheduled before the start of time");
    return static_cast<std::uint64_t>(at.time_since_epoch().count());
  }
  static TimePoint time_of(const QueueEntry& entry) { return TimePoint(Duration(static_cast<std::int64_t>(entry.time))); }
  std::uint64_t next_sequence() { return ++sequence_ << 8; }

  void push(const QueueEntry& entry) {
    if (bucketed_) {
      buckets_.push(entry);
    } else {
      heap_.push(entry);
      if (heap_.size() > kManyPending) use_buckets();
    }
  }
  [[nodiscard]] bool is_stale(const QueueEntry& entry) const {
    return (entry.sequence & kCancellable) != 0 &&
           slots_[entry.payload >> 32].generation != static_cast<std::uint32_t>(entry.payload);
  }
  [[nodiscard]] const QueueEntry* first_live() {
    for (;;) {
      if (bucketed_ ? buckets_.empty() : heap_.empty()) return nullptr;
      const QueueEntry& entry = bucketed_ ? buckets_.top() : heap_.top();
      if (!is_stale(entry)) [[likely]] return &entry;
      remove_top();
      --stale_;
    }
  }
  void remove_top() {
    if (!bucketed_) {
      heap_.pop();
      return;
    }
    buckets_.pop();
    if (buckets_.size() < kFewPending) use_heap();
  }
  void take(const QueueEntry& entry, Event& out) {
    out.time = time_of(entry);
    out.kind = static_cast<std::uint8_t>(entry.sequence & 0x7f);
    out.payload = (entry.sequence & kCancellable) != 0 ? release_slot(static_cast<std::uint32_t>(entry.payload >> 32)) : entry.payload;
    remove_top();
  }
  std::uint64_t release_slot(std::uint32_t slot);
  void use_buckets();
  void use_heap();
  void drop_stale();

  EntryHeap heap_;
  BucketQueue buckets_;
  bool bucketed_ = false;
  std::uint64_t sequence_ = 0;
  std::size_t stale_ = 0;
  std::vector<Slot> slots_;
  std::uint32_t free_slot_ = kNoSlot;
  std::vector<QueueEntry> moving_;
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
};

}  // namespace peerbed::sim
