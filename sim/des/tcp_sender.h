// The sending half of an established TCP connection: the send buffer, what is in flight, loss detection and recovery,
// the retransmission and the persist timer. Positions are 64-bit offsets from our initial sequence number: the SYN is
// 0, the first byte of data 1, the FIN follows the last byte.
//
// Every segment in flight has a record. With selective acknowledgements loss is found as in RFC 6675; without, duplicate
// acknowledgements stand for the segments that arrived (RFC 5681 §3.2, RFC 6582). Either way a segment may leave while
// what is really in flight is below the congestion window, which is what window inflation says in other words.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/congestion/controller.h"
#include "core/congestion/rtt_estimator.h"
#include "sim/des/tcp_parameters.h"
#include "sim/des/tcp_ring.h"

namespace peerbed::sim {

class TcpSender {
 public:
  struct Range {
    std::int64_t start = 0, end = 0;
  };
  struct Acknowledgement {
    std::int64_t sequence = 0;  ///< of the segment, in the peer's offsets: orders window updates
    std::int64_t acknowledged = 0;
    std::uint32_t window = 0;
    bool has_length = false;  ///< then it is not a duplicate acknowledgement
    std::span<const Range> sacked;
  };
  struct Chunk {
    std::int64_t start = 0;
    BytesView payload;  ///< valid until the next call
    bool fin = false;
  };

  TcpSender(const TcpParameters& parameters, TcpCounters& counters);

  struct Start {
    TimePoint now;
    std::uint16_t segment_size = 536;
    bool selective_ack = false;
    std::int64_t sequence = 0;
    std::uint32_t window = 0;
    std::optional<Duration> rtt;       ///< of the handshake, if none of its segments was repeated (Karn)
    bool handshake_repeated = false;
  };
  void start(const Start& start);

  std::size_t write(BytesView data);
  void finish() { finishing_ = true; }
  [[nodiscard]] bool worth_writing() const { return room() >= limit_ / 4; }

  void free_buffer() { buffer_ = ByteRing(0); }  ///< nothing more will be sent

  void on_acknowledgement(TimePoint now, const Acknowledgement& ack);
  void on_timeout(TimePoint now);
  void reduce_segment_size(TimePoint now, std::uint16_t size);
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;
  [[nodiscard]] std::optional<Chunk> poll(TimePoint now);

  [[nodiscard]] std::int64_t next() const { return next_; }  ///< SND.NXT
  [[nodiscard]] bool finishing() const { return finishing_; }
  [[nodiscard]] bool fin_sent() const { return finishing_ && next_ > fin_position(); }
  [[nodiscard]] bool fin_acknowledged() const { return finishing_ && first_unacknowledged_ > fin_position(); }
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  [[nodiscard]] DataSize congestion_window() const { return controller_ ? controller_->window() : DataSize{}; }
  [[nodiscard]] Duration smoothed_rtt() const { return rtt_.smoothed(); }
  [[nodiscard]] std::uint16_t segment_size() const { return segment_size_; }

 private:
  struct Record {
    std::int64_t start = 0, end = 0;
    TimePoint sent{};
    bool sacked = false;
    bool lost = false;
    bool resent = false;  ///< lost, and sent again since
    bool ever_resent = false;
    [[nodiscard]] std::int64_t length() const { return end - start; }
    [[nodiscard]] bool counts_as_in_flight() const { return !sacked && (!lost || resent); }
  };
  enum class Phase : std::uint8_t { open, recovery, timeout };
  /// What one acknowledgement newly told, for the controller.
  struct Delivered {
    std::int64_t bytes = 0;
    std::size_t records = 0;
    std::int64_t counted_before = 0;  ///< of `bytes`: already counted by duplicate acknowledgements
    TimePoint latest_sent{};
    std::optional<Duration> rtt;
    bool resent = false;
    std::int64_t lost_bytes = 0;
    TimePoint latest_lost{};
  };

  [[nodiscard]] std::int64_t fin_position() const {
    return first_unsent_position() + static_cast<std::int64_t>(unsent());
  }
  /// End of the data that was sent; the FIN is not data.
  [[nodiscard]] std::int64_t first_unsent_position() const { return next_ - (fin_out_ ? 1 : 0); }
  [[nodiscard]] std::size_t unsent() const { return unsent_; }
  [[nodiscard]] std::size_t room() const { return limit_ > buffer_.size() ? limit_ - buffer_.size() : 0; }
  [[nodiscard]] std::int64_t in_flight() const;
  [[nodiscard]] bool fits_congestion_window(std::int64_t length) const;
  [[nodiscard]] bool was_window_limited() const;
  [[nodiscard]] Duration timeout_interval(int backoff) const;

  void update_window(const Acknowledgement& ack);
  void take_cumulative(TimePoint now, std::int64_t acknowledged, Delivered& delivered);
  void take_selective(std::span<const Range> sacked, Delivered& delivered);
  void settle(Record& record, Delivered& delivered);
  void on_duplicate(Delivered& delivered);
  void on_progress(Delivered& delivered);
  void mark_lost(std::size_t index, Delivered& delivered);
  void mark_lost_by_sack(Delivered& delivered);
  void mark_lost_again(TimePoint now, Delivered& delivered);
  void enter_recovery();
  void reduce_proportionally(const Delivered& delivered, bool progress, bool duplicate);

  [[nodiscard]] std::optional<Chunk> retransmission(TimePoint now);
  [[nodiscard]] std::optional<Chunk> new_segment(TimePoint now);
  [[nodiscard]] Chunk chunk(const Record& record);
  void on_record_sent(TimePoint now, std::int64_t length);

  const TcpParameters& parameters_;
  TcpCounters& counters_;
  std::unique_ptr<CongestionController> controller_;
  RttEstimator rtt_;
  Duration first_rto_;  ///< until there is a sample

  ByteRing buffer_;              ///< from first_unacknowledged_ on: sent and unsent
  std::size_t limit_;            ///< of the buffer, now
  std::size_t unsent_ = 0;
  std::vector<std::uint8_t> scratch_;  ///< a segment that wraps around the ring
  std::uint16_t segment_size_ = 536;
  bool selective_ack_ = false;
  bool finishing_ = false;
  bool fin_out_ = false;  ///< the FIN was sent, maybe lost

  std::int64_t first_unacknowledged_ = 1;  ///< SND.UNA
  std::int64_t next_ = 1;
  std::int64_t window_edge_ = 1;           ///< SND.UNA + SND.WND
  std::int64_t largest_window_ = 0;
  std::uint32_t last_window_ = 0;
  std::int64_t window_sequence_ = 0, window_ack_ = 0;  ///< SND.WL1, SND.WL2

  Ring<Record> records_;
  // Records are numbered from the start of the connection, so that these survive acknowledgements.
  std::uint64_t popped_ = 0;        ///< number of the front
  std::uint64_t resend_from_ = 0;   ///< nothing before it waits for a retransmission
  std::uint64_t judged_below_ = 0;  ///< all before it were selectively acknowledged or marked lost
  std::int64_t counted_in_flight_ = 0;
  std::int64_t sacked_bytes_ = 0;
  std::size_t lost_to_resend_ = 0;
  std::size_t duplicates_ = 0;  ///< without SACK: segments that left the network above the gap
  Phase phase_ = Phase::open;
  std::int64_t recovery_point_ = 0;  ///< RFC 6582's recover
  TimePoint latest_delivered_sent_{};  ///< send time of the latest segment that arrived
  // Proportional rate reduction, RFC 6937.
  std::int64_t recovery_flight_ = 0;   ///< RecoverFS
  std::int64_t recovery_delivered_ = 0, recovery_sent_ = 0;
  std::int64_t recovery_allowance_ = 0;
  bool send_regardless_ = false;  ///< the first retransmission of a recovery does not wait for the window
  bool send_small_ = false;       ///< the persist timer overrides silly window avoidance

  // Is the congestion window the limit? Asked over the latest two round trips.
  std::int64_t round_end_ = 1;
  std::int64_t round_most_ = 0, previous_most_ = 0;
  bool round_limited_ = false, previous_limited_ = false;

  std::optional<TimePoint> retransmit_deadline_;
  std::optional<TimePoint> persist_deadline_;
  int backoff_ = 0;
  int persist_backoff_ = 0;
  int unanswered_ = 0;
  bool probe_wanted_ = false;
  bool gave_up_ = false;
};

}  // namespace peerbed::sim
