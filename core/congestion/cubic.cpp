#include "core/congestion/cubic.h"

#include <algorithm>
#include <cmath>

namespace peerbed {

double cubic_plateau_time(double maximum, double at_start) {
  return maximum > at_start ? std::cbrt((maximum - at_start) / kCubicC) : 0.0;
}

double cubic_window(double t, double plateau_time, double maximum) {
  const double distance = t - plateau_time;
  return kCubicC * distance * distance * distance + maximum;
}

void Cubic::start_epoch(TimePoint now) {
  const double current = segments(window());
  curve_.in_epoch = true;
  curve_.epoch_start = curve_.counted_until = now;
  // Above the old maximum (after slow start without loss, or after a timeout) the curve starts at its plateau (§4.8).
  curve_.origin = std::max(curve_.maximum, current);
  curve_.plateau_time = cubic_plateau_time(curve_.origin, current);
  curve_.estimate = current;
  curve_.carry = 0;
}

void Cubic::exclude_until(TimePoint now) {
  if (!curve_.in_epoch || now <= curve_.counted_until) return;
  curve_.epoch_start += now - curve_.counted_until;
  curve_.counted_until = now;
}

void Cubic::on_sent(TimePoint now, DataSize bytes, DataSize in_flight) {
  // Nothing was in flight: the time since the last acknowledgement was idle, and the curve did not run.
  if (in_flight <= bytes) exclude_until(now);
  LossBasedController::on_sent(now, bytes, in_flight);
}

DataSize Cubic::grown(const AckedPackets& acked, DataSize bytes) {
  if (!curve_.in_epoch) start_epoch(acked.now);
  curve_.counted_until = acked.now;

  const double current = segments(window());
  const double share = segments(bytes) / current;  // of a window
  const double t = to_seconds(acked.now - curve_.epoch_start);

  // §4.3: as Reno would have it; once it is back at the old window, as fast as Reno.
  const double alpha = curve_.estimate >= curve_.prior ? 1.0 : kCubicAlpha;
  curve_.estimate += alpha * share;
  double next = current;
  if (cubic_window(t, curve_.plateau_time, curve_.origin) < curve_.estimate) {
    next = std::max(current, curve_.estimate);
    curve_.carry = 0;  // the estimate keeps its own fractions
  } else {
    // §4.2: towards where the curve will be in one round trip, and never more than half a window per round trip.
    const double ahead = t + to_seconds(acked.smoothed_rtt);
    const double target =
        std::clamp(cubic_window(ahead, curve_.plateau_time, curve_.origin), current, 1.5 * current);
    next = current + (target - current) * std::min(share, 1.0);
  }
  const double growth = (next - current) * static_cast<double>(max_datagram_size().bytes) + curve_.carry;
  const auto whole = static_cast<std::int64_t>(growth);
  curve_.carry = growth - static_cast<double>(whole);
  return window() + DataSize{whole};
}

void Cubic::on_reduction(bool timeout) {
  const double current = segments(window());
  curve_.in_epoch = false;
  if (timeout) {
    curve_.maximum = 0;  // §4.8: the next stage starts from its own window
    curve_.prior = std::max(curve_.prior, current);
    return;
  }
  curve_.prior = current;
  // Fast convergence (§4.7): a flow that did not get back to its old maximum gives way to newcomers.
  curve_.maximum = current < curve_.maximum ? current * (1.0 + kCubicBeta) / 2.0 : current;
}

}  // namespace peerbed
