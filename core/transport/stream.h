// The two halves of an ordered stream. Pure bookkeeping: what to send next, what arrived, how much more may arrive.
#pragma once

#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/transport/interval_set.h"
#include "core/transport/link.h"
#include "core/transport/offset_ring.h"

namespace peerbed {

struct StreamChunk {
  std::uint64_t offset = 0;
  std::size_t length = 0;
  bool fin = false;
  bool repeated = false;  ///< was sent before: does not count against the connection's flow control again
};

class SendStream {
 public:
  explicit SendStream(std::uint64_t peer_limit, BlockPool* pool = nullptr) : ring_(pool), peer_limit_(peer_limit) {}

  /// Takes what fits under `buffer_limit` unacknowledged bytes.
  std::size_t write(std::span<const BytesView> slices, std::size_t buffer_limit);
  void finish() { finishing_ = true; }
  void reset(std::uint64_t code);

  /// What to send next in at most `room` bytes, of it at most `fresh` never sent before.
  [[nodiscard]] std::optional<StreamChunk> next_chunk(std::size_t room, std::uint64_t fresh) const;
  void copy(const StreamChunk& chunk, MutableBytes out) const { ring_.read(chunk.offset, out); }
  void on_sent(const StreamChunk& chunk);
  void on_acked(std::uint64_t offset, std::uint64_t length, bool fin);
  void on_lost(std::uint64_t offset, std::uint64_t length, bool fin);
  bool raise_limit(std::uint64_t limit);  ///< true if it grew

  [[nodiscard]] bool wants_to_send() const;  ///< the connection's window aside
  [[nodiscard]] std::size_t buffered() const { return static_cast<std::size_t>(written_ - acked_below_); }
  [[nodiscard]] std::uint64_t unsent() const { return written_ - next_; }
  [[nodiscard]] bool done() const { return reset_code_ ? reset_acked_ : fin_acked_ && acked_below_ == written_; }
  [[nodiscard]] bool finishing() const { return finishing_; }

  [[nodiscard]] bool reset_pending() const { return reset_code_ && reset_pending_; }
  [[nodiscard]] std::uint64_t reset_code() const { return reset_code_.value_or(0); }
  [[nodiscard]] std::uint64_t sent_size() const { return next_; }
  void on_reset_sent() { reset_pending_ = false; }
  void on_reset_acked() { reset_acked_ = true; }
  void on_reset_lost() { reset_pending_ = !reset_acked_; }

 private:
  OffsetRing ring_;
  IntervalSet acked_, lost_;  // acked_: above acked_below_; lost_: to be sent again
  std::uint64_t acked_below_ = 0, next_ = 0, written_ = 0, peer_limit_ = 0;
  std::optional<std::uint64_t> reset_code_;
  bool finishing_ = false, fin_sent_ = false, fin_acked_ = false;
  bool reset_pending_ = false, reset_acked_ = false;
};

/// A receive window that finds its own size. It doubles when a quarter of it was consumed within one round trip, which ends
/// at four times the bandwidth-delay product: enough that a sender in slow start, or one that repairs a loss, never meets
/// it. A slow reader does not make it grow. (A fixed window of 1.2 MiB is 6 % of 1 Gbit/s at 150 ms.)
class ReceiveWindow {
 public:
  ReceiveWindow(DataSize initial, DataSize maximum)
      : size_(static_cast<std::uint64_t>(initial.bytes)), maximum_(static_cast<std::uint64_t>(maximum.bytes)), limit_(size_) {}

  /// `consumed`: all that the reader took so far. True: the limit has moved and should be announced.
  bool on_consumed(TimePoint now, std::uint64_t consumed, Duration rtt);
  void start(TimePoint now) { if (!since_) since_ = now; }
  /// The connection's window keeps ahead of each stream's.
  void raise_to(std::uint64_t size) { size_ = std::max(size_, std::min(size, maximum_)); }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::uint64_t size_, maximum_, limit_;
  std::optional<TimePoint> since_;  // the last announcement
};

class ReceiveStream {
 public:
  ReceiveStream(DataSize window, DataSize maximum, BlockPool* pool = nullptr) : ring_(pool), window_(window, maximum) {}

  struct Arrival {
    bool violation = false;     ///< beyond the limit, or against the final size
    std::uint64_t growth = 0;   ///< how far the highest offset moved: counts against the connection's window
    bool readable = false;      ///< the reader has news: bytes in order, or the end
  };
  Arrival on_data(TimePoint now, std::uint64_t offset, BytesView data, bool fin);
  Arrival on_reset(std::uint64_t final_size);
  StreamRead read(MutableBytes into);

  [[nodiscard]] std::uint64_t consumed() const { return read_; }
  [[nodiscard]] std::uint64_t highest() const { return highest_; }
  [[nodiscard]] bool readable() const;
  [[nodiscard]] bool done() const { return end_read_ || was_reset_; }
  [[nodiscard]] bool all_known() const { return final_size_.has_value(); }  ///< no more credit is needed
  [[nodiscard]] ReceiveWindow& window() { return window_; }
  [[nodiscard]] std::size_t memory() const { return ring_.capacity(); }

 private:
  OffsetRing ring_;
  IntervalSet received_;  // what is not read yet
  std::uint64_t read_ = 0, highest_ = 0;
  std::optional<std::uint64_t> final_size_;
  ReceiveWindow window_;
  bool end_read_ = false, was_reset_ = false;
};

}  // namespace peerbed
