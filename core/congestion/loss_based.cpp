#include "core/congestion/loss_based.h"

#include <algorithm>

#include "core/base/check.h"

namespace peerbed {
namespace {

// Far above any path, far below overflow in the sums that are made with it.
constexpr DataSize kMaximumWindow{std::int64_t{1} << 40};

DataSize initial_window(const ControllerConfig& config) {
  if (config.initial_window) return std::max(*config.initial_window, config.max_datagram_size * 2);
  const DataSize size = config.max_datagram_size;
  return std::min(size * 10, std::max(DataSize{14720}, size * 2));  // RFC 9002 §7.2
}

}  // namespace

LossBasedController::LossBasedController(const ControllerConfig& config)
    : config_(config), state_{initial_window(config), std::nullopt, std::nullopt} {
  PEERBED_CHECK(config.max_datagram_size.bytes > 0, "a congestion controller counts datagrams of a positive size");
}

void LossBasedController::on_sent(TimePoint, DataSize, DataSize in_flight) { in_flight_ = in_flight; }

void LossBasedController::on_acked(const AckedPackets& acked) {
  in_flight_ = acked.in_flight;
  timed_out_ = false;
  if (acked.app_limited || in_recovery(acked.largest_sent_time)) {
    on_no_growth(acked.now);
    return;
  }
  DataSize bytes = acked.bytes;
  if (in_slow_start()) {
    // Not past the threshold: what is left over counts for congestion avoidance.
    const DataSize room = state_.threshold ? *state_.threshold - state_.window : bytes;
    const DataSize step = std::min(bytes, room);
    state_.window += step;
    bytes -= step;
  }
  if (bytes.bytes > 0) {
    const DataSize next = grown(acked, bytes);
    PEERBED_CHECK(next >= state_.window, "an acknowledgement does not shrink the window");
    state_.window = next;
  }
  state_.window = std::min(state_.window, kMaximumWindow);
}

void LossBasedController::on_congestion_event(TimePoint now, TimePoint sent_time) {
  if (in_recovery(sent_time)) return;
  before_reduction_ = state_;
  save();
  on_reduction(false);
  state_.window = std::max(reduced(state_.window), minimum_window());
  state_.threshold = state_.window;
  state_.recovery_start = now;
}

void LossBasedController::on_lost(const LostPackets& lost) {
  in_flight_ = lost.in_flight;
  on_congestion_event(lost.now, lost.largest_sent_time);
  if (lost.persistent_congestion) {
    // RFC 9002 §B.8: the minimum window, and the recovery period is over. Unlike its pseudo-code, what was sent before the
    // latest lost packet stays in it: another loss of that old flight would halve the threshold down to the minimum.
    on_reduction(true);
    state_.window = minimum_window();
    state_.recovery_start = lost.largest_sent_time;
    before_reduction_.reset();
  }
}

void LossBasedController::on_ecn_ce(TimePoint now, TimePoint largest_sent_time) {
  if (in_recovery(largest_sent_time)) return;
  on_congestion_event(now, largest_sent_time);
  before_reduction_.reset();  // a mark is never a mistake
}

void LossBasedController::on_spurious_loss(TimePoint) {
  if (!before_reduction_) return;
  // The window may have grown since; the threshold may not fall below what it was.
  before_reduction_->window = std::max(before_reduction_->window, state_.window);
  state_ = *before_reduction_;
  before_reduction_.reset();
  restore();
}

void LossBasedController::on_retransmission_timeout(TimePoint now) {
  // RFC 5681 §3.1, equation 4; a timeout of the same segment again holds the threshold.
  if (!timed_out_) state_.threshold = std::max(reduced(std::min(in_flight_, state_.window)), minimum_window());
  on_reduction(true);
  timed_out_ = true;
  state_.window = config_.max_datagram_size;
  // What was sent before now belongs to this reduction; the retransmission that goes out at this very time does not.
  state_.recovery_start = now - Duration(1);
  before_reduction_.reset();
}

void LossBasedController::on_path_changed(TimePoint) {
  state_ = {initial_window(config_), std::nullopt, std::nullopt};
  before_reduction_.reset();
  in_flight_ = {};
  timed_out_ = false;
  reset();
}

}  // namespace peerbed
