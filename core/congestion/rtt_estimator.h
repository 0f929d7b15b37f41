// Smoothed RTT and its variation: RFC 6298 with the acknowledgement-delay rule of RFC 9002 §5.
#pragma once

#include "core/base/units.h"

namespace peerbed {

class RttEstimator {
 public:
  explicit RttEstimator(Duration initial = 333ms) : smoothed_(initial), variation_(initial / 2) {}  // RFC 9002 §6.2.2

  /// `ack_delay` is what the peer says it held the acknowledgement, already clamped to its max_ack_delay by the caller.
  void on_sample(Duration latest, Duration ack_delay);

  [[nodiscard]] bool has_sample() const { return has_sample_; }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }
  [[nodiscard]] Duration variation() const { return variation_; }
  [[nodiscard]] Duration latest() const { return latest_; }
  [[nodiscard]] Duration minimum() const { return minimum_; }
  /// RFC 6298 (2.3): SRTT + max(G, 4 RTTVAR), not below `minimum_rto`.
  [[nodiscard]] Duration retransmission_timeout(Duration granularity, Duration minimum_rto) const;
  /// RFC 9002 §6.2.1: SRTT + max(4 RTTVAR, 1 ms) + max_ack_delay.
  [[nodiscard]] Duration probe_timeout(Duration max_ack_delay) const;

 private:
  Duration smoothed_, variation_, latest_{}, minimum_{};
  bool has_sample_ = false;
};

}  // namespace peerbed
