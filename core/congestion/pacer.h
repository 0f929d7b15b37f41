// Spreads a window over a round trip (RFC 9002 §7.7) by a leaky bucket that keeps its time remainder exactly: no byte is
// lost to rounding, and a sender wakes at most about once per burst.
#pragma once

#include "core/base/int128.h"
#include "core/base/units.h"

namespace peerbed {

/// The rate for a controller that names none: twice the window per round trip in slow start, which doubles it, and 1.25
/// times after that, so that a steady window is always used up (RFC 9002 §7.7). At least 1 bit/s.
[[nodiscard]] DataRate pacing_rate(DataSize window, Duration smoothed_rtt, bool in_slow_start);

class Pacer {
 public:
  explicit Pacer(DataSize burst) : burst_(burst) {}

  /// Zero rate switches pacing off. It counts from the last on_sent(): the bucket fills only between packets.
  void set_rate(DataRate rate) { rate_ = rate; }
  void set_burst(DataSize burst) { burst_ = burst; }
  /// When `size` bytes may leave; `now` or earlier means at once. At that time they do fit: nobody wakes twice for one
  /// packet. A packet above the burst goes when the bucket is full, and the ones after it wait for its excess.
  [[nodiscard]] TimePoint next_send(TimePoint now, DataSize size) const;
  void on_sent(TimePoint now, DataSize size);
  [[nodiscard]] DataRate rate() const { return rate_; }

 private:
  [[nodiscard]] Int128 credit_at(TimePoint now) const;

  DataRate rate_{};
  DataSize burst_;
  TimePoint last_{};
  Int128 credit_bits_ns_ = 0;  ///< in bit-nanoseconds per second: exact at any rate
  bool started_ = false;
};

}  // namespace peerbed
