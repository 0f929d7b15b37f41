// Loss detection and probe timeouts of RFC 9002, with the reordering tolerance of RFC 8985 (RACK): the first packet that
// arrives after it was declared lost ends the packet threshold, and the time threshold grows to what was seen, up to one
// smoothed RTT; both fall back after 16 loss events without another such packet. Jitter that reorders therefore costs at
// most the first reduction, and that one is taken back.
//
// It keeps no congestion state: each call tells what happened, and the connection tells the controller.
#pragma once

#include <optional>

#include "core/base/units.h"
#include "core/congestion/controller.h"
#include "core/congestion/rtt_estimator.h"
#include "core/transport/frames.h"
#include "core/transport/sent_packets.h"

namespace peerbed {

/// Learns the fate of what packets carried.
class RecoverySink {
 public:
  virtual void on_record_acked(const SentRecord& record) = 0;
  virtual void on_record_lost(const SentRecord& record) = 0;

 protected:
  ~RecoverySink() = default;
};

struct RecoveryOutcome {
  bool malformed = false;  ///< acknowledged what was never sent
  bool newly_acked = false;
  bool any_loss = false;      ///< `lost` is for the controller
  bool loss_undone = false;   ///< every packet of the latest loss event has arrived
  AckedPackets acked;         ///< app_limited is the caller's to fill
  std::uint64_t acked_ect = 0;///< newly acknowledged packets, for the validation of ECN counts
  LostPackets lost;
};

struct LossDetectorConfig {
  Duration max_ack_delay = 25ms;
  Duration initial_rtt = 333ms;
};

class LossDetector {
 public:
  static constexpr std::uint64_t kPacketThreshold = 3;                // RFC 9002 §6.1.1
  static constexpr Duration kGranularity = 1ms;                       // RFC 9002 §6.1.2
  static constexpr int kPersistentCongestionThreshold = 3;            // RFC 9002 §7.6.1
  static constexpr int kReorderingPersistence = 16;                   // RFC 8985 §6.2, loss events

  explicit LossDetector(const LossDetectorConfig& config = {}) : config_(config), rtt_(config.initial_rtt) {}

  SentPackets& packets() { return packets_; }
  RttEstimator& rtt() { return rtt_; }
  [[nodiscard]] const RttEstimator& rtt() const { return rtt_; }

  /// The first sample, from a handshake message that was sent once only (Karn's rule).
  void on_handshake_rtt(TimePoint now, Duration rtt);
  /// `in_flight`: counts against the window. A packet that is neither ack-eliciting nor in flight is not tracked.
  void on_sent(TimePoint now, std::size_t size, bool ack_eliciting, bool in_flight, bool exempt);
  RecoveryOutcome on_ack(TimePoint now, const AckFrame& ack, RecoverySink& sink);

  [[nodiscard]] std::optional<TimePoint> timeout() const;
  /// Declares losses by time, or starts a probe timeout: then probes() packets may be sent past the window.
  RecoveryOutcome on_timeout(TimePoint now, RecoverySink& sink);

  [[nodiscard]] int probes() const { return probes_; }
  void on_probe_sent() { if (probes_ > 0) --probes_; }
  /// Hands the contents of the oldest unacknowledged packets out for sending again, without declaring them lost.
  void repeat_oldest(int packets, RecoverySink& sink);

  /// RFC 9000 §9.4: packets of the old path are no evidence about the new one. `rtt`: its first sample, or nothing if
  /// only the port has changed and the estimate holds.
  void on_path_changed(std::optional<Duration> rtt);

  [[nodiscard]] DataSize in_flight() const { return {in_flight_}; }
  [[nodiscard]] Duration probe_timeout() const { return rtt_.probe_timeout(config_.max_ack_delay); }
  [[nodiscard]] std::uint64_t packets_lost() const { return lost_count_; }
  [[nodiscard]] std::uint64_t packets_spuriously_lost() const { return spurious_count_; }
  [[nodiscard]] std::uint64_t probe_timeouts() const { return probe_timeout_count_; }
  [[nodiscard]] Duration loss_delay() const;
  [[nodiscard]] bool reordering_seen() const { return reordering_seen_; }

 private:
  static constexpr std::uint64_t kNone = SentPackets::kNone;
  /// Path probes and bare acknowledgements do not count: they overtake on other paths, or are not tracked at all.
  void note_acked(std::uint64_t number) {
    if (largest_acked_ == kNone || number > largest_acked_) largest_acked_ = number;
  }
  void take_acked(TimePoint now, const AckFrame& ack, RecoverySink& sink, RecoveryOutcome& outcome);
  void take_spurious(TimePoint now, const AckFrame& ack, RecoverySink& sink, RecoveryOutcome& outcome);
  void detect_lost(TimePoint now, RecoverySink& sink, RecoveryOutcome& outcome);
  void declare_lost(std::uint64_t number, TimePoint now, RecoverySink& sink, RecoveryOutcome& outcome);
  [[nodiscard]] bool persistent_congestion(std::uint64_t first, std::uint64_t last) const;
  void forget_old_losses(TimePoint now);
  void widen_reordering_window(TimePoint now, const SentPacket& packet);

  LossDetectorConfig config_;
  RttEstimator rtt_;
  SentPackets packets_;
  std::int64_t in_flight_ = 0;
  std::uint64_t largest_acked_ = kNone;
  std::uint64_t eliciting_in_flight_ = 0;
  TimePoint last_eliciting_sent_{}, first_rtt_sample_ = kNever;
  TimePoint loss_time_ = kNever;
  int probe_count_ = 0, probes_ = 0;

  bool reordering_seen_ = false;
  Duration reordering_window_{};  // beside what RFC 9002 allows
  int events_since_reordering_ = 0;
  std::uint32_t loss_event_ = 0;
  TimePoint loss_event_start_{};
  bool in_loss_event_ = false;
  std::uint64_t event_lost_ = 0, event_spurious_ = 0;
  std::uint64_t lost_count_ = 0, spurious_count_ = 0, probe_timeout_count_ = 0;
};

}  // namespace peerbed
