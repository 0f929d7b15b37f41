#include "scenarios/measure/formulas.h"

#include <algorithm>
#include <cmath>

namespace peerbed {

double mathis(const LossPath& path) {
  return path.mss_bytes * 8 / path.rtt_s * std::sqrt(3 / (2 * path.acked_per_ack * path.loss));
}

double pftk(const LossPath& path) {
  const double p = path.loss, b = path.acked_per_ack;
  const double per_packet =
      path.rtt_s * std::sqrt(2 * b * p / 3) + path.rto_s * std::min(1.0, 3 * std::sqrt(3 * b * p / 8)) * p * (1 + 32 * p * p);
  return path.mss_bytes * 8 / per_packet;
}

}  // namespace peerbed
