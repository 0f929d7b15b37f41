// A 4-ary heap of timers ordered by (deadline, order of arming): rule 3 of the seam is the second key.
#pragma once

#include <cstdint>
#include <vector>

#include "core/env/environment.h"

namespace peerbed {

class TimerHeap {
 public:
  struct Entry {
    TimerHandler* handler = nullptr;
    TimePoint deadline;
    std::uint64_t sequence = 0;  ///< of the last arming
    std::size_t place = kNowhere;
  };

  /// Arms or arms again; an entry stays where it is in memory while it is armed.
  void arm(Entry& entry, TimePoint deadline);
  void disarm(Entry& entry);
  [[nodiscard]] Entry* first() const { return heap_.empty() ? nullptr : heap_.front(); }
  [[nodiscard]] TimePoint earliest() const { return heap_.empty() ? kNever : heap_.front()->deadline; }
  /// The sequence that the next arming gets.
  [[nodiscard]] std::uint64_t next_sequence() const { return next_sequence_; }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  static constexpr std::size_t kArity = 4;

  static bool before(const Entry& a, const Entry& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : a.sequence < b.sequence;
  }
  void put(std::size_t place, Entry& entry) {
    heap_[place] = &entry;
    entry.place = place;
  }
  void sift_up(std::size_t place, Entry& entry);
  void sift_down(std::size_t place, Entry& entry);

  std::vector<Entry*> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace peerbed
