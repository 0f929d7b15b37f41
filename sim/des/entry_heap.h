// A 4-ary heap of queue entries, earliest on top. Four children lie in one or two cache lines, and the tree is half as deep as a
// binary one. A pop leaves a hole at the root: the push that most often follows fills it with one sift instead of two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/des/event.h"

namespace peerbed::sim {

class EntryHeap {
 public:
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return entries_.size() - (hole_ ? 1 : 0); }

  void push(const QueueEntry& entry) {
    if (hole_) {
      hole_ = false;
      sift_down(entry);
      return;
    }
    entries_.push_back(entry);
    sift_up(entries_.size() - 1, entry);
  }

  /// The heap must not be empty.
  [[nodiscard]] const QueueEntry& top() {
    close_hole();
    return entries_.front();
  }

  /// Takes the top out; top() must have been called since the last pop.
  void pop() { hole_ = true; }

  [[nodiscard]] std::size_t memory_bytes() const { return entries_.capacity() * sizeof(QueueEntry); }

  /// Moves all entries, in no order, to the end of `out`.
  void drain_to(std::vector<QueueEntry>& out) {
    close_hole();
    out.insert(out.end(), entries_.begin(), entries_.end());
    entries_.clear();
  }

  /// Takes over `entries`, in any order.
  void assign(const std::vector<QueueEntry>& entries) {
    entries_.assign(entries.begin(), entries.end());
    hole_ = false;
    std::sort(entries_.begin(), entries_.end());  // a sorted array is a heap
  }

 private:
  void close_hole() {
    if (!hole_) return;
    hole_ = false;
    const QueueEntry last = entries_.back();
    entries_.pop_back();
    if (!entries_.empty()) sift_down(last);
  }

  void sift_up(std::size_t at, const QueueEntry& entry) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!(entry < entries_[parent])) break;
      entries_[at] = entries_[parent];
      at = parent;
    }
    entries_[at] = entry;
  }

  /// Puts `entry` into the free place at the root.
  void sift_down(const QueueEntry& entry) {
    QueueEntry* const e = entries_.data();
    const std::size_t n = entries_.size();
    std::size_t at = 0;
    for (;;) {
      const std::size_t first = 4 * at + 1;
      if (first + 3 < n) {
        const std::size_t left = e[first + 1] < e[first] ? first + 1 : first;
        const std::size_t right = e[first + 3] < e[first + 2] ? first + 3 : first + 2;
        const std::size_t least = e[right] < e[left] ? right : left;
        if (!(e[least] < entry)) break;
        e[at] = e[least];
        at = least;
        continue;
      }
      if (first >= n) break;
      std::size_t least = first;
      for (std::size_t i = first + 1; i < n; ++i) least = e[i] < e[least] ? i : least;
      if (!(e[least] < entry)) break;
      e[at] = e[least];
      at = least;
    }
    e[at] = entry;
  }

  std::vector<QueueEntry> entries_;
  bool hole_ = false;
};

}  // namespace peerbed::sim
