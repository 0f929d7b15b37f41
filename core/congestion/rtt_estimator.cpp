#include "core/congestion/rtt_estimator.h"

#include <algorithm>

namespace peerbed {

void RttEstimator::on_sample(Duration latest, Duration ack_delay) {
  latest_ = std::max(latest, Duration(1));  // virtual time allows a zero, and others divide by it
  if (!has_sample_) {
    has_sample_ = true;
    minimum_ = smoothed_ = latest_;
    variation_ = latest_ / 2;
    return;
  }
  minimum_ = std::min(minimum_, latest_);  // never corrected by the delay (RFC 9002 §5.2)
  // The peer's word only counts while it leaves a possible round trip (RFC 9002 §5.3).
  const Duration adjusted = latest_ - ack_delay >= minimum_ ? latest_ - ack_delay : latest_;
  // The variation takes the old smoothed value: RFC 6298 (2.3) and the pseudo-code of RFC 9002 §A.7. The text of
  // RFC 9002 §5.3 has the two lines in the other order, which makes the variation an eighth smaller.
  const Duration deviation = smoothed_ > adjusted ? smoothed_ - adjusted : adjusted - smoothed_;
  variation_ = (3 * variation_ + deviation + Duration(2)) / 4;  // to the nearest: truncation would creep downwards
  smoothed_ = (7 * smoothed_ + adjusted + Duration(4)) / 8;
}

Duration RttEstimator::retransmission_timeout(Duration granularity, Duration minimum_rto) const {
  return std::max(smoothed_ + std::max(granularity, 4 * variation_), minimum_rto);
}

Duration RttEstimator::probe_timeout(Duration max_ack_delay) const {
  constexpr Duration granularity = 1ms;  // kGranularity, RFC 9002 §6.1.2
  return smoothed_ + std::max(4 * variation_, granularity) + max_ack_delay;
}

}  // namespace peerbed
