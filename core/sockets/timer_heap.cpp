#include "core/sockets/timer_heap.h"

#include <algorithm>

namespace peerbed {

void TimerHeap::arm(Entry& entry, TimePoint deadline) {
  entry.deadline = deadline;
  entry.sequence = next_sequence_++;
  if (entry.place == kNowhere) {
    heap_.push_back(&entry);
    sift_up(heap_.size() - 1, entry);
    return;
  }
  // The new key is either smaller than its parent's or not smaller than its old one: one of the two does nothing.
  sift_up(entry.place, entry);
  sift_down(entry.place, entry);
}

void TimerHeap::disarm(Entry& entry) {
  if (entry.place == kNowhere) return;
  const std::size_t hole = entry.place;
  Entry* const last = heap_.back();
  heap_.pop_back();
  entry.place = kNowhere;
  if (last == &entry) return;
  put(hole, *last);
  sift_up(hole, *last);
  sift_down(last->place, *last);
}

void TimerHeap::sift_up(std::size_t place, Entry& entry) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / kArity;
    if (!before(entry, *heap_[parent])) break;
    put(place, *heap_[parent]);
    place = parent;
  }
  put(place, entry);
}

void TimerHeap::sift_down(std::size_t place, Entry& entry) {
  for (;;) {
    const std::size_t first_child = place * kArity + 1;
    if (first_child >= heap_.size()) break;
    std::size_t smallest = first_child;
    const std::size_t end = std::min(first_child + kArity, heap_.size());
    for (std::size_t child = first_child + 1; child < end; ++child) {
      if (before(*heap_[child], *heap_[smallest])) smallest = child;
    }
    if (!before(*heap_[smallest], entry)) break;
    put(place, *heap_[smallest]);
    place = smallest;
  }
  put(place, entry);
}

}  // namespace peerbed
