// Spreads a window over a round trip (RFC 9002 §7.7) by a leaky bucket that keeps its time remainder exactly: no byte is
// lost to rounding, and a sender wakes at most about once per burst.
#pragma once

#include "core/base/int128.h"
#include "core/base/units.h"

namespace peerbed {

class Pacer {
 public:
  explicit Pacer(DataSize burst) : burst_(burst) {}

  /// Zero rate switches pacing off.
  void set_rate(DataRate rate) { rate_ = rate; }
  void set_burst(DataSize burst) { burst_ = burst; }
  /// When `size` bytes may leave; `now` or earlier means at once.
  [[nodiscard]] TimePoint next_send(TimePoint now, DataSize size) const;
  void on_sent(TimePoint now, DataSize size);
  [[nodiscard]] DataRate rate() const { return rate_; }

 private:
  DataRate rate_{};
  DataSize burst_;
  TimePoint last_{};
  Int128 credit_bits_ns_ = 0;  ///< in bit-nanoseconds per second: exact at any rate
  bool started_ = false;
};

}  // namespace peerbed
