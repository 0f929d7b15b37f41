// Which packet numbers were received: feeds ACK frames and is the replay window.
#pragma once

#include "core/transport/interval_set.h"

namespace peerbed {

class AckRanges {
 public:
  static constexpr std::size_t kMaxRanges = 256;

  /// False: seen before, or so old that it cannot be told. Nothing may be done with such a packet.
  bool add(std::uint64_t number) {
    if (seen(number)) return false;
    ranges_.insert(number, number + 1);
    if (ranges_.size() > kMaxRanges) {
      floor_ = ranges_.front().end;
      ranges_.pop_front();
    }
    return true;
  }
  [[nodiscard]] bool seen(std::uint64_t number) const { return number < floor_ || ranges_.contains(number); }

  /// The peer knows that all up to here was acknowledged (RFC 9000 §13.2.4); older packets will not be taken any more.
  void forget_below(std::uint64_t number) {
    if (ranges_.empty()) return;
    number = std::min(number, ranges_.back().end - 1);  // the largest stays: an ACK frame cannot be empty
    if (number <= floor_) return;
    floor_ = number;
    ranges_.erase(0, number);
  }

  [[nodiscard]] const IntervalSet& ranges() const { return ranges_; }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::uint64_t next_expected() const { return ranges_.empty() ? floor_ : ranges_.back().end; }

 private:
  IntervalSet ranges_;
  std::uint64_t floor_ = 0;
};

}  // namespace peerbed
