// The congestion controller interface. A controller is a pure state machine: it is told what happened, it answers with
// a window. Loss detection, RTT estimation and pacing are beside it, not in it. It serves the UDP transport and the TCP
// model of sim/des alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace peerbed {

/// What one acknowledgement told, summed over the packets that it newly acknowledged.
struct AckedPackets {
  TimePoint now;
  DataSize bytes;               ///< newly acknowledged, as counted in flight
  TimePoint largest_sent_time;  ///< send time of the largest newly acknowledged packet
  Duration latest_rtt{};
  Duration min_rtt{};
  Duration smoothed_rtt{};
  DataSize in_flight;       ///< after this acknowledgement
  bool app_limited = false; ///< the window was not the limit while these were in flight: it must not grow (RFC 9002 §7.8)
};

/// One loss report: the packets that one pass of loss detection declared lost.
struct LostPackets {
  TimePoint now;
  DataSize bytes;
  TimePoint largest_sent_time;  ///< send time of the latest lost packet: one reduction per round trip hangs on it
  DataSize in_flight;           ///< after removing the lost packets
  bool persistent_congestion = false;  ///< RFC 9002 §7.6
};

class CongestionController {
 public:
  virtual ~CongestionController() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  virtual void on_sent(TimePoint now, DataSize bytes, DataSize in_flight) = 0;  ///< in_flight includes `bytes`
  virtual void on_acked(const AckedPackets& acked) = 0;
  virtual void on_lost(const LostPackets& lost) = 0;
  /// Every packet of the latest loss event arrived after all: it was reordering, and the reduction is to be taken back
  /// (window and ssthresh as before it, RFC 9438 §4.9.2).
  virtual void on_spurious_loss(TimePoint now) { static_cast<void>(now); }
  virtual void on_ecn_ce(TimePoint now, TimePoint largest_sent_time) = 0;
  /// TCP's retransmission timeout (RFC 5681 §3.1): one segment, back to slow start. The UDP transport never calls it.
  virtual void on_retransmission_timeout(TimePoint now) = 0;
  /// The path changed (RFC 9000 §9.4): all that was learnt of the old one is void.
  virtual void on_path_changed(TimePoint now) = 0;

  [[nodiscard]] virtual DataSize window() const = 0;
  [[nodiscard]] virtual bool in_slow_start() const = 0;
  /// Nothing: the pacer uses window / smoothed RTT times a gain.
  [[nodiscard]] virtual std::optional<DataRate> pacing_rate() const { return std::nullopt; }
  /// ssthresh in bytes; nothing while it is infinite.
  [[nodiscard]] virtual std::optional<DataSize> slow_start_threshold() const = 0;
};

struct ControllerConfig {
  DataSize max_datagram_size{1200};
  /// Nothing: RFC 9002 §7.2, min(10 x size, max(14 720 B, 2 x size)).
  std::optional<DataSize> initial_window;
};

/// Registry: "newreno", "cubic". The error names the known ones.
[[nodiscard]] Result<std::unique_ptr<CongestionController>> make_controller(std::string_view name,
                                                                            const ControllerConfig& config);
[[nodiscard]] std::span<const std::string_view> controller_names();

}  // namespace peerbed
