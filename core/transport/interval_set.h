// Sorted, disjoint, non-adjacent half-open intervals of 64-bit numbers: received packets, received and acknowledged
// stream bytes. A vector serves: in steady state there is one interval, and nothing is allocated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace peerbed {

struct Interval {
  std::uint64_t begin = 0, end = 0;
  constexpr auto operator<=>(const Interval&) const = default;
  [[nodiscard]] constexpr std::uint64_t size() const { return end - begin; }
};

class IntervalSet {
 public:
  void insert(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    const auto first = first_ending_at_or_after(begin);
    auto last = first;
    for (; last != items_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      items_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      items_.erase(first + 1, last);
    }
  }

  void erase(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    auto it = std::lower_bound(items_.begin(), items_.end(), begin,
                               [](const Interval& i, std::uint64_t value) { return i.end <= value; });
    while (it != items_.end() && it->begin < end) {
      if (it->begin < begin && it->end > end) {
        const Interval tail{end, it->end};
        it->end = begin;
        items_.insert(it + 1, tail);
        return;
      }
      if (it->begin < begin) {
        it->end = begin;
        ++it;
      } else if (it->end > end) {
        it->begin = end;
        return;
      } else {
        it = items_.erase(it);
      }
    }
  }

  [[nodiscard]] bool contains(std::uint64_t value) const {
    const auto it = std::upper_bound(items_.begin(), items_.end(), value,
                                     [](std::uint64_t v, const Interval& i) { return v < i.end; });
    return it != items_.end() && it->begin <= value;
  }

  /// How many numbers of [begin, end) are in the set.
  [[nodiscard]] std::uint64_t covered(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t sum = 0;
    auto it = std::upper_bound(items_.begin(), items_.end(), begin,
                               [](std::uint64_t v, const Interval& i) { return v < i.end; });
    for (; it != items_.end() && it->begin < end; ++it) sum += std::min(it->end, end) - std::max(it->begin, begin);
    return sum;
  }

  void pop_front() { items_.erase(items_.begin()); }
  void clear() { items_.clear(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] const Interval& front() const { return items_.front(); }
  [[nodiscard]] const Interval& back() const { return items_.back(); }
  [[nodiscard]] const Interval& operator[](std::size_t i) const { return items_[i]; }

 private:
  std::vector<Interval>::iterator first_ending_at_or_after(std::uint64_t value) {
    if (items_.empty() || items_.back().end < value) return items_.end();  // in order: the usual case
    return std::lower_bound(items_.begin(), items_.end(), value,
                            [](const Interval& i, std::uint64_t v) { return i.end < v; });
  }
  std::vector<Interval> items_;
};

}  // namespace peerbed
