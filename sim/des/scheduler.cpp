#include "sim/des/scheduler.h"

namespace peerbed::sim {

EventHandle Scheduler::schedule_cancellable(TimePoint at, std::uint8_t kind, std::uint64_t payload) {
  std::uint32_t index = free_slot_;
  if (index == kNoSlot) {
    index = static_cast<std::uint32_t>(slots_.size());
    PEERBED_CHECK(index != kNoSlot, "more than 2^32 cancellable events are pending");
    slots_.emplace_back();
  } else {
    free_slot_ = slots_[index].next_free;
  }
  Slot& slot = slots_[index];
  slot.payload = payload;
  push({ordered(at), next_sequence() | kCancellable | kind, (std::uint64_t{index} << 32) | slot.generation});
  return {index, slot.generation};
}

std::uint64_t Scheduler::release_slot(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (++slot.generation == 0) slot.generation = 1;
  slot.next_free = free_slot_;
  free_slot_ = index;
  return slot.payload;
}

void Scheduler::cancel(EventHandle handle) {
  if (!is_pending(handle)) return;
  release_slot(handle.slot);
  ++stale_;
  // Amortised: a sweep costs as much as the cancellations that made it due.
  if (stale_ > 1024 && stale_ > pending()) drop_stale();
}

void Scheduler::drop_stale() {
  moving_.clear();
  if (bucketed_) {
    buckets_.drain_to(moving_);
  } else {
    heap_.drain_to(moving_);
  }
  std::erase_if(moving_, [this](const QueueEntry& entry) { return is_stale(entry); });
  stale_ = 0;
  bucketed_ = moving_.size() > kManyPending;
  if (bucketed_) {
    buckets_.assign(moving_);
  } else {
    heap_.assign(moving_);
  }
}

void Scheduler::use_buckets() {
  moving_.clear();
  heap_.drain_to(moving_);
  buckets_.assign(moving_);
  bucketed_ = true;
}

void Scheduler::use_heap() {
  moving_.clear();
  buckets_.drain_to(moving_);
  heap_.assign(moving_);
  bucketed_ = false;
}

std::size_t Scheduler::memory_bytes() const {
  return heap_.memory_bytes() + buckets_.memory_bytes() + slots_.capacity() * sizeof(Slot) +
         moving_.capacity() * sizeof(QueueEntry);
}

}  // namespace peerbed::sim
