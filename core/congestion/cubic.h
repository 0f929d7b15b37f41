// CUBIC: RFC 9438, with fast convergence and the Reno-friendly region. Slow start is the common one; no HyStart++.
#pragma once

#include "core/congestion/loss_based.h"

namespace peerbed {

inline constexpr double kCubicC = 0.4;     // RFC 9438 §5.1, in segments per second cubed
inline constexpr double kCubicBeta = 0.7;  // §4.6
/// Growth of the Reno estimate in segments per window, so that it loses as much as Reno does on average (§4.3).
inline constexpr double kCubicAlpha = 3.0 * (1.0 - kCubicBeta) / (1.0 + kCubicBeta);

/// The time from the start of the epoch to the plateau at `maximum` segments (equation 2). 0 if already there.
[[nodiscard]] double cubic_plateau_time(double maximum, double at_start);
/// W_cubic(t) in segments (equation 1).
[[nodiscard]] double cubic_window(double t, double plateau_time, double maximum);

class Cubic final : public LossBasedController {
 public:
  using LossBasedController::LossBasedController;
  [[nodiscard]] std::string_view name() const override { return "cubic"; }
  void on_sent(TimePoint now, DataSize bytes, DataSize in_flight) override;

 private:
  /// All in segments, as the RFC counts. An epoch is one stage of congestion avoidance.
  struct Curve {
    double maximum = 0;         ///< W_max; 0: no congestion seen yet, or forgotten by a timeout
    double prior = 0;           ///< cwnd_prior: the window at the latest congestion
    bool in_epoch = false;
    TimePoint epoch_start{};    ///< moves along while the application is the limit: that time does not count (§5.8)
    TimePoint counted_until{};  ///< the latest time that was either counted or excluded
    double plateau_time = 0;    ///< K
    double origin = 0;          ///< W_max of this epoch's curve
    double estimate = 0;        ///< W_est of the Reno-friendly region
    double carry = 0;           ///< growth below a byte
  };

  DataSize grown(const AckedPackets& acked, DataSize bytes) override;
  void on_no_growth(TimePoint now) override { exclude_until(now); }
  DataSize reduced(DataSize of) const override {
    return {static_cast<std::int64_t>(static_cast<double>(of.bytes) * kCubicBeta)};
  }
  void on_reduction(bool timeout) override;
  void save() override { saved_ = curve_; }
  void restore() override { curve_ = saved_; }
  void reset() override { curve_ = {}; }

  [[nodiscard]] double segments(DataSize size) const {
    return static_cast<double>(size.bytes) / static_cast<double>(max_datagram_size().bytes);
  }
  void start_epoch(TimePoint now);
  void exclude_until(TimePoint now);

  Curve curve_;
  Curve saved_;
};

}  // namespace peerbed
