// What the window-halving family has in common: slow start, one reduction per round trip, persistent congestion, the
// retransmission timeout, and taking a reduction back (RFC 9002 §7 and appendix B, RFC 5681 §3.1). NewReno and CUBIC
// only say how they grow in congestion avoidance and how far they fall.
#pragma once

#include "core/congestion/controller.h"

namespace peerbed {

class LossBasedController : public CongestionController {
 public:
  explicit LossBasedController(const ControllerConfig& config);

  void on_sent(TimePoint now, DataSize bytes, DataSize in_flight) override;
  void on_acked(const AckedPackets& acked) final;
  void on_lost(const LostPackets& lost) final;
  void on_spurious_loss(TimePoint now) final;
  void on_ecn_ce(TimePoint now, TimePoint largest_sent_time) final;
  void on_retransmission_timeout(TimePoint now) final;
  void on_path_changed(TimePoint now) final;

  [[nodiscard]] DataSize window() const final { return state_.window; }
  [[nodiscard]] bool in_slow_start() const final { return !state_.threshold || state_.window < *state_.threshold; }
  [[nodiscard]] std::optional<DataSize> slow_start_threshold() const final { return state_.threshold; }

 protected:
  /// Congestion avoidance: `bytes` were acknowledged while the window was the limit. The new window, not below the old.
  [[nodiscard]] virtual DataSize grown(const AckedPackets& acked, DataSize bytes) = 0;
  /// An acknowledgement that must not grow the window: in recovery, or the application was the limit.
  virtual void on_no_growth(TimePoint now) = 0;
  /// What remains of `of` (a window, or what was in flight at a timeout) after congestion.
  [[nodiscard]] virtual DataSize reduced(DataSize of) const = 0;
  /// Before the window falls. `timeout`: all is forgotten but the threshold.
  virtual void on_reduction(bool timeout) = 0;
  virtual void save() = 0;     ///< before a reduction that may be taken back
  virtual void restore() = 0;  ///< take it back
  virtual void reset() = 0;    ///< a new path

  [[nodiscard]] DataSize max_datagram_size() const { return config_.max_datagram_size; }

 private:
  struct State {
    DataSize window;
    std::optional<DataSize> threshold;        ///< nothing: infinite
    std::optional<TimePoint> recovery_start;  ///< packets sent up to here belong to the reduction that was made then
  };

  void on_congestion_event(TimePoint now, TimePoint sent_time);
  [[nodiscard]] bool in_recovery(TimePoint sent_time) const {
    return state_.recovery_start && sent_time <= *state_.recovery_start;
  }
  [[nodiscard]] DataSize minimum_window() const { return config_.max_datagram_size * 2; }

  ControllerConfig config_;
  State state_;
  std::optional<State> before_reduction_;
  DataSize in_flight_{};
  bool timed_out_ = false;  ///< a timeout, and nothing acknowledged since
};

}  // namespace peerbed
