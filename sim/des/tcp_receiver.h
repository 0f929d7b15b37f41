// The receiving half of a TCP connection: reassembly, the window, and when to acknowledge. Positions are 64-bit offsets
// from the peer's initial sequence number: the SYN is 0, the first byte of data 1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/env/environment.h"
#include "sim/des/tcp_parameters.h"
#include "sim/des/tcp_ring.h"

namespace peerbed::sim {

class TcpReceiver {
 public:
  struct Range {
    std::int64_t start = 0, end = 0;
  };

  explicit TcpReceiver(const TcpParameters& parameters)
      : buffer_(parameters.receive_buffer), delayed_ack_(parameters.delayed_ack) {}

  void set_segment_size(std::uint16_t bytes) { segment_size_ = bytes; }

  /// RFC 9293 §3.10.7.4, first check. A segment without length may also stand at the right edge, as Linux allows.
  [[nodiscard]] bool acceptable(std::int64_t start, std::int64_t length) const;
  /// Text and FIN of an acceptable segment. False: nothing new in it.
  bool on_text(TimePoint now, std::int64_t start, BytesView payload, bool fin);

  ReceiveResult read(MutableBytes into);

  [[nodiscard]] std::int64_t next() const { return next_; }  ///< RCV.NXT
  [[nodiscard]] bool finished() const { return fin_ && next_ > *fin_; }
  [[nodiscard]] std::size_t readable_bytes() const { return buffer_.size(); }

  // Acknowledging.
  void acknowledge_now() { ack_now_ = true; }
  void on_timeout(TimePoint now) {
    if (ack_deadline_ && *ack_deadline_ <= now) ack_now_ = true;
  }
  [[nodiscard]] bool wants_acknowledgement() const { return ack_now_; }
  [[nodiscard]] std::optional<TimePoint> next_timeout() const { return ack_deadline_; }
  /// A segment with an acknowledgement leaves: returns the window that it announces.
  std::uint32_t acknowledge();
  /// Up to three ranges that are held above next(), the most recently changed first (RFC 2018 §4).
  [[nodiscard]] std::size_t sack_ranges(std::array<Range, 3>& out) const;

 private:
  void store(std::int64_t start, BytesView payload);
  [[nodiscard]] std::int64_t fresh_edge() const;
  [[nodiscard]] std::int64_t worth_announcing() const;

  ByteRing buffer_;
  Duration delayed_ack_;
  std::uint16_t segment_size_ = 536;
  std::int64_t next_ = 1;
  std::int64_t announced_edge_ = 1;     ///< the right edge of the window never moves left (RFC 9293 §3.8.6)
  std::vector<Range> held_;             ///< out of order, sorted, disjoint, not touching
  std::array<std::int64_t, 3> recent_{};  ///< starts of the latest out-of-order arrivals, newest first; 0: none
  std::optional<std::int64_t> fin_;     ///< where the peer's FIN stands
  int unacknowledged_segments_ = 0;
  bool ack_now_ = false;
  std::optional<TimePoint> ack_deadline_;
};

}  // namespace peerbed::sim
