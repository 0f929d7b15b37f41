#include "sim/des/tcp_sender.h"

#include <algorithm>

#include "core/base/check.h"

namespace peerbed::sim {
namespace {

constexpr std::size_t kDuplicateThreshold = 3;  // RFC 5681 §3.2
constexpr int kMostDoublings = 16;              // above any sensible maximum_rto

}  // namespace

TcpSender::TcpSender(const TcpParameters& parameters, TcpCounters& counters)
    : parameters_(parameters), counters_(counters), first_rto_(parameters.initial_rto),
      buffer_(std::max(parameters.send_buffer, parameters.send_buffer_limit)), limit_(parameters.send_buffer) {}

void TcpSender::start(const Start& start) {
  segment_size_ = start.segment_size;
  selective_ack_ = start.selective_ack;
  scratch_.reserve(segment_size_);
  window_sequence_ = start.sequence;
  window_ack_ = first_unacknowledged_;
  last_window_ = start.window;
  largest_window_ = start.window;
  window_edge_ = first_unacknowledged_ + start.window;
  const DataSize size{segment_size_};
  // RFC 6928 §2. A lost SYN does not make it smaller (RFC 6928 §2 would, Linux forgives the first): a punched
  // connection loses its first packets by design.
  const DataSize initial = std::min(size * 10, std::max(size * 2, DataSize{14600}));
  auto made = make_controller(parameters_.congestion, {size, initial});
  PEERBED_CHECK(made.has_value(), "the name of a congestion controller was checked when it was configured");
  controller_ = std::move(made.value());
  if (start.rtt) {
    rtt_.on_sample(*start.rtt, Duration(0));
  } else if (start.handshake_repeated) {
    first_rto_ = std::max<Duration>(first_rto_, 3s);  // RFC 6298 (5.7)
  }
}

std::size_t TcpSender::write(BytesView data) {
  if (finishing_) return 0;
  const std::size_t taken = buffer_.append(data.first(std::min(data.size(), room())));
  unsent_ += taken;
  return taken;
}

// ---- windows and intervals -----------------------------------------------------------------------------------------

std::int64_t TcpSender::in_flight() const {
  const auto left = static_cast<std::int64_t>(duplicates_) * segment_size_;
  return std::max<std::int64_t>(counted_in_flight_ - left, 0);
}

bool TcpSender::fits_congestion_window(std::int64_t length) const {
  const std::int64_t flying = in_flight();
  if (phase_ == Phase::recovery) return flying == 0 || length <= recovery_allowance_;
  return flying == 0 || flying + length <= controller_->window().bytes;  // never stuck on a window below a segment
}

bool TcpSender::was_window_limited() const {
  // As Linux's tcp_is_cwnd_limited: slow start doubles, so half a window in flight is enough.
  if (controller_->in_slow_start()) return controller_->window().bytes < 2 * std::max(round_most_, previous_most_);
  return round_limited_ || previous_limited_;
}

Duration TcpSender::timeout_interval(int backoff) const {
  const Duration base =
      rtt_.has_sample() ? rtt_.retransmission_timeout(parameters_.minimum_rto, Duration(0)) : first_rto_;
  Duration interval = std::min(base, parameters_.maximum_rto);
  for (int i = 0; i < std::min(backoff, kMostDoublings) && interval < parameters_.maximum_rto; ++i) interval *= 2;
  return std::min(interval, parameters_.maximum_rto);
}

void TcpSender::update_window(const Acknowledgement& ack) {
  // RFC 9293 §3.10.7.4: an old segment must not bring back an old window.
  if (ack.sequence < window_sequence_ || (ack.sequence == window_sequence_ && ack.acknowledged < window_ack_)) return;
  window_sequence_ = ack.sequence;
  window_ack_ = ack.acknowledged;
  last_window_ = ack.window;
  largest_window_ = std::max<std::int64_t>(largest_window_, ack.window);
  window_edge_ = ack.acknowledged + ack.window;
}

std::optional<TimePoint> TcpSender::next_timeout() const {
  if (!retransmit_deadline_) return persist_deadline_;
  return persist_deadline_ ? std::min(*retransmit_deadline_, *persist_deadline_) : *retransmit_deadline_;
}

// ---- acknowledgements ----------------------------------------------------------------------------------------------

void TcpSender::on_acknowledgement(TimePoint now, const Acknowledgement& ack) {
  unanswered_ = 0;
  const bool same_window = ack.window == last_window_;
  const bool limited = was_window_limited();
  Delivered delivered;
  const bool progress = ack.acknowledged > first_unacknowledged_;
  const bool repeated = ack.acknowledged == first_unacknowledged_ && !ack.has_length && same_window && !records_.empty();
  if (ack.acknowledged >= first_unacknowledged_) update_window(ack);
  if (progress) take_cumulative(now, ack.acknowledged, delivered);
  if (selective_ack_ && !ack.sacked.empty()) take_selective(ack.sacked, delivered);

  if (progress) {
    on_progress(delivered);
  } else if (repeated && !selective_ack_) {
    on_duplicate(delivered);
  }
  latest_delivered_sent_ = std::max(latest_delivered_sent_, delivered.latest_sent);
  if (selective_ack_ && sacked_bytes_ > 0) mark_lost_by_sack(delivered);
  if (selective_ack_ && phase_ != Phase::open) mark_lost_again(now, delivered);

  // A round trip of something that was sent twice is ambiguous (Karn), and what was held behind it waited for it.
  if (delivered.rtt && !delivered.resent) rtt_.on_sample(*delivered.rtt, Duration(0));
  const DataSize flying{in_flight()};
  if (delivered.lost_bytes > 0) {
    controller_->on_lost({now, {delivered.lost_bytes}, delivered.latest_lost, flying, false});
  }
  if (delivered.bytes > 0) {
    controller_->on_acked({now, {delivered.bytes}, delivered.latest_sent, rtt_.latest(), rtt_.minimum(),
                           rtt_.smoothed(), flying, !limited});
    const auto wanted = static_cast<std::size_t>(2 * controller_->window().bytes);
    limit_ = std::max(limit_, std::min(wanted, parameters_.send_buffer_limit));
  }
  if (phase_ == Phase::recovery) reduce_proportionally(delivered, progress, repeated && !selective_ack_);
  if (first_unacknowledged_ >= round_end_) {
    round_end_ = next_;
    previous_most_ = std::exchange(round_most_, counted_in_flight_);
    previous_limited_ = std::exchange(round_limited_, false);
  }
  if (progress) {
    backoff_ = 0;
    retransmit_deadline_.reset();
    if (!records_.empty()) retransmit_deadline_ = now + timeout_interval(0);  // RFC 6298 (5.3)
  }
  if (window_edge_ > next_ || !records_.empty()) persist_deadline_.reset(), persist_backoff_ = 0;
}

void TcpSender::settle(Record& record, Delivered& delivered) {
  if (record.counts_as_in_flight()) counted_in_flight_ -= record.length();
  if (record.lost && !record.resent) --lost_to_resend_;
  delivered.bytes += record.length();
  delivered.latest_sent = std::max(delivered.latest_sent, record.sent);
}

void TcpSender::take_cumulative(TimePoint now, std::int64_t acknowledged, Delivered& delivered) {
  while (!records_.empty() && records_.front().start < acknowledged) {
    Record& record = records_.front();
    if (record.end > acknowledged) {
      // Part of a segment: someone on the way cut it. The rest stays as it is.
      Record head = record;
      head.end = acknowledged;
      if (record.lost && !record.resent) ++lost_to_resend_;  // settle() takes it off for the head
      if (record.sacked) sacked_bytes_ -= head.length(); else settle(head, delivered);
      record.start = acknowledged;
      break;
    }
    if (record.sacked) {
      sacked_bytes_ -= record.length();
    } else {
      if (!delivered.rtt) delivered.rtt = now - record.sent;  // the oldest: as long as an acknowledgement may take
      settle(record, delivered);
    }
    delivered.resent = delivered.resent || record.ever_resent;
    ++delivered.records;
    records_.pop_front();
    ++popped_;
  }
  const bool fin = fin_out_ && acknowledged == next_;
  const std::int64_t data = acknowledged - first_unacknowledged_ - (fin && first_unacknowledged_ < next_ ? 1 : 0);
  buffer_.drop_front(static_cast<std::size_t>(data));
  first_unacknowledged_ = acknowledged;
}

void TcpSender::take_selective(std::span<const Range> sacked, Delivered& delivered) {
  for (const Range& range : sacked) {
    if (range.end <= range.start || range.start < first_unacknowledged_ || range.end > next_) continue;  // D-SACK, junk
    std::size_t low = 0, high = records_.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (records_[middle].start < range.start) low = middle + 1; else high = middle;
    }
    for (; low < records_.size() && records_[low].end <= range.end; ++low) {
      Record& record = records_[low];
      if (record.sacked) continue;
      settle(record, delivered);
      record.sacked = true;
      sacked_bytes_ += record.length();
      delivered.resent = delivered.resent || record.ever_resent;
    }
  }
}

void TcpSender::on_progress(Delivered& delivered) {
  if (phase_ != Phase::open && first_unacknowledged_ >= recovery_point_) {
    phase_ = Phase::open;
    duplicates_ = 0;
    send_regardless_ = false;
  }
  if (phase_ == Phase::open) {
    duplicates_ = 0;
    return;
  }
  if (phase_ == Phase::recovery && !selective_ack_) {
    // A partial acknowledgement: the next segment is missing as well (RFC 6582 §3.2, step 3). All but the repaired one
    // of those it covers had been counted by a duplicate.
    const std::size_t counted = std::min(duplicates_, delivered.records > 0 ? delivered.records - 1 : 0);
    duplicates_ -= counted;
    delivered.counted_before = static_cast<std::int64_t>(counted) * segment_size_;
    if (!records_.empty() && !records_.front().lost) {
      mark_lost(0, delivered);
      send_regardless_ = true;
    }
  }
}

void TcpSender::on_duplicate(Delivered& delivered) {
  if (phase_ == Phase::timeout) return;
  // RFC 6582 §3.2, step 2: what was already in flight when the last recovery began does not start another one.
  // "Covers more than": an acknowledgement of exactly that point may still be an echo of a needless retransmission.
  if (phase_ == Phase::open && first_unacknowledged_ <= recovery_point_) return;
  duplicates_ = std::min(duplicates_ + 1, records_.size());
  if (phase_ == Phase::open && duplicates_ >= kDuplicateThreshold) {
    enter_recovery();
    mark_lost(0, delivered);
  }
}

void TcpSender::mark_lost(std::size_t index, Delivered& delivered) {
  Record& record = records_[index];
  if (record.lost || record.sacked) return;
  counted_in_flight_ -= record.length();
  record.lost = true;
  record.resent = false;
  ++lost_to_resend_;
  resend_from_ = std::min(resend_from_, popped_ + index);
  delivered.lost_bytes += record.length();
  delivered.latest_lost = std::max(delivered.latest_lost, record.sent);
}

void TcpSender::mark_lost_by_sack(Delivered& delivered) {
  // RFC 6675 §4, IsLost: three segments' worth, or more than two segments of bytes, arrived above it.
  std::size_t above = 0;
  std::int64_t bytes_above = 0;
  std::size_t index = records_.size();
  while (index > 0 && above < kDuplicateThreshold && bytes_above <= 2 * std::int64_t{segment_size_}) {
    --index;
    if (!records_[index].sacked) continue;
    ++above;
    bytes_above += records_[index].length();
  }
  if (above < kDuplicateThreshold && bytes_above <= 2 * std::int64_t{segment_size_}) return;
  bool found = false;
  for (std::size_t i = judged_below_ > popped_ ? static_cast<std::size_t>(judged_below_ - popped_) : 0; i < index; ++i) {
    if (records_[i].sacked || records_[i].lost) continue;
    mark_lost(i, delivered);
    found = true;
  }
  judged_below_ = std::max(judged_below_, popped_ + index);
  if (found && phase_ == Phase::open) enter_recovery();
}

void TcpSender::mark_lost_again(TimePoint now, Delivered& delivered) {
  // A retransmission is lost if something that was sent after it arrived, and it is overdue by a quarter of a round trip
  // (the rule of RFC 8985 §6.2, without its timer: the next acknowledgement is the clock). Without this, every overflow
  // of a queue by slow start would end in a timeout.
  if (!rtt_.has_sample()) return;
  const Duration overdue = rtt_.smoothed() + rtt_.minimum() / 4;
  for (std::size_t i = 0; i < records_.size() && popped_ + i < judged_below_; ++i) {
    Record& record = records_[i];
    if (record.sacked || !record.resent || record.sent >= latest_delivered_sent_ || now - record.sent < overdue) continue;
    record.lost = false;
    mark_lost(i, delivered);
  }
}

void TcpSender::reduce_proportionally(const Delivered& delivered, bool progress, bool duplicate) {
  const std::int64_t arrived =
      std::max<std::int64_t>(delivered.bytes - delivered.counted_before, 0) + (duplicate ? segment_size_ : 0);
  recovery_delivered_ += arrived;
  const std::int64_t flying = in_flight();
  const std::int64_t threshold = controller_->window().bytes;
  std::int64_t allowance = 0;
  if (flying > threshold) {
    allowance = (recovery_delivered_ * threshold + recovery_flight_ - 1) / recovery_flight_ - recovery_sent_;
  } else {
    // Below it: packet conservation, and one segment more while the repair makes progress (RFC 6937 §3.1, PRR-SSRB).
    allowance = std::max(recovery_delivered_ - recovery_sent_, arrived);
    if (progress && delivered.lost_bytes == 0) allowance += segment_size_;
    allowance = std::min(threshold - flying, allowance);
  }
  recovery_allowance_ = std::max<std::int64_t>(allowance, 0);
}

void TcpSender::enter_recovery() {
  phase_ = Phase::recovery;
  recovery_flight_ = std::max<std::int64_t>(next_ - first_unacknowledged_, 1);
  recovery_delivered_ = recovery_sent_ = recovery_allowance_ = 0;
  recovery_point_ = next_;
  send_regardless_ = true;
  ++counters_.fast_recoveries;
}

// ---- timers --------------------------------------------------------------------------------------------------------

void TcpSender::on_timeout(TimePoint now) {
  if (retransmit_deadline_ && *retransmit_deadline_ <= now) {
    retransmit_deadline_.reset();
    if (++unanswered_ > parameters_.data_retries) {
      gave_up_ = true;
      return;
    }
    ++counters_.timeouts;
    ++backoff_;
    phase_ = Phase::timeout;
    recovery_point_ = next_;
    duplicates_ = 0;
    controller_->on_retransmission_timeout(now);
    // All that was not selectively acknowledged is taken for lost. Our receiver never takes a SACK back, so unlike
    // RFC 2018 §8 what it reported is kept.
    lost_to_resend_ = 0;
    counted_in_flight_ = 0;
    resend_from_ = popped_;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      Record& record = records_[i];
      if (record.sacked) continue;
      record.lost = true;
      record.resent = false;
      ++lost_to_resend_;
    }
    send_regardless_ = true;
  }
  if (persist_deadline_ && *persist_deadline_ <= now) {
    persist_deadline_.reset();
    if (++unanswered_ > parameters_.data_retries) {
      gave_up_ = true;
      return;
    }
    ++persist_backoff_;
    if (window_edge_ > next_) send_small_ = true; else probe_wanted_ = true;
  }
}

void TcpSender::reduce_segment_size(TimePoint now, std::uint16_t size) {
  if (size >= segment_size_ || size < 88) return;  // below IPv4's smallest MTU nobody is honest (RFC 5927)
  segment_size_ = size;
  if (records_.empty()) return;
  // What is out in larger pieces will not arrive: it is cut and sent again, without blaming congestion (RFC 1191 §6.5).
  Ring<Record> cut;
  bool any = false;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Record record = records_[i];
    const std::int64_t data_end = fin_out_ ? std::min(record.end, next_ - 1) : record.end;
    if (record.sacked || data_end - record.start <= size) {
      cut.push_back(record);
      continue;
    }
    any = true;
    if (record.counts_as_in_flight()) counted_in_flight_ -= record.length();
    if (record.lost && !record.resent) --lost_to_resend_;
    while (record.start < record.end) {
      Record part = record;
      part.end = std::min(record.start + size, record.end);
      if (part.end == data_end && record.end > data_end) part.end = record.end;  // the FIN rides with the last byte
      part.lost = true;
      part.resent = false;
      ++lost_to_resend_;
      record.start = part.end;
      cut.push_back(part);
    }
  }
  records_ = std::move(cut);
  resend_from_ = judged_below_ = popped_;
  if (any) {
    send_regardless_ = true;
    retransmit_deadline_ = now + timeout_interval(backoff_);
  }
}

// ---- transmission --------------------------------------------------------------------------------------------------

std::optional<TcpSender::Chunk> TcpSender::poll(TimePoint now) {
  if (!controller_ || gave_up_) return std::nullopt;
  if (auto again = retransmission(now)) return again;
  if (auto fresh = new_segment(now)) return fresh;
  if (probe_wanted_) {
    // A segment before the window: it carries nothing, and the answer carries the window (as Linux probes).
    probe_wanted_ = false;
    ++counters_.window_probes;
    persist_deadline_ = now + timeout_interval(persist_backoff_);
    return Chunk{first_unacknowledged_ - 1, {}, false};
  }
  return std::nullopt;
}

TcpSender::Chunk TcpSender::chunk(const Record& record) {
  const bool fin = fin_out_ && record.end == next_;
  const auto bytes = static_cast<std::size_t>(record.length() - (fin ? 1 : 0));
  const auto position = static_cast<std::size_t>(record.start - first_unacknowledged_);
  if (bytes == 0) return {record.start, {}, fin};
  BytesView payload = buffer_.piece(position, bytes);
  if (payload.empty()) {
    scratch_.resize(bytes);
    buffer_.copy_out(position, scratch_);
    payload = scratch_;
  }
  return {record.start, payload, fin};
}

void TcpSender::on_record_sent(TimePoint now, std::int64_t length) {
  counted_in_flight_ += length;
  if (phase_ == Phase::recovery) {
    recovery_sent_ += length;
    recovery_allowance_ -= length;
  }
  const std::int64_t flying = in_flight();
  round_most_ = std::max(round_most_, flying);
  controller_->on_sent(now, {length}, {flying});
  if (!retransmit_deadline_) retransmit_deadline_ = now + timeout_interval(backoff_);
  persist_deadline_.reset();
}

std::optional<TcpSender::Chunk> TcpSender::retransmission(TimePoint now) {
  if (lost_to_resend_ == 0) return std::nullopt;
  for (std::size_t i = resend_from_ > popped_ ? static_cast<std::size_t>(resend_from_ - popped_) : 0; i < records_.size();
       ++i) {
    Record& record = records_[i];
    resend_from_ = popped_ + i;
    if (record.sacked || !record.lost || record.resent) continue;
    if (!send_regardless_ && !fits_congestion_window(record.length())) {
      round_limited_ = true;
      return std::nullopt;
    }
    send_regardless_ = false;
    record.resent = record.ever_resent = true;
    record.sent = now;
    --lost_to_resend_;
    ++counters_.segments_retransmitted;
    on_record_sent(now, record.length());
    return chunk(record);
  }
  PEERBED_CHECK(false, "a segment that waits for its retransmission has a record");
  return std::nullopt;
}

std::optional<TcpSender::Chunk> TcpSender::new_segment(TimePoint now) {
  const bool fin_due = finishing_ && !fin_out_;
  if (unsent_ == 0 && !fin_due) {
    send_small_ = false;
    return std::nullopt;
  }
  if (lost_to_resend_ > 0) return std::nullopt;  // what was lost goes first
  const std::int64_t usable = window_edge_ - next_;
  const auto waiting = static_cast<std::int64_t>(unsent_);
  const std::int64_t bytes = std::min({waiting, std::max<std::int64_t>(usable, 0), std::int64_t{segment_size_}});
  const bool with_fin = fin_due && bytes == waiting && usable > bytes;
  const bool by_peer = bytes < waiting && bytes < segment_size_;  // the peer's window cuts it
  // Silly window avoidance, RFC 9293 §3.8.6.2.1: a full segment, all there is, or half the largest window.
  const bool held_by_window = (by_peer && !send_small_ && bytes < largest_window_ / 2) || (bytes == 0 && !with_fin);
  if (held_by_window) {
    if (records_.empty() && !persist_deadline_ && !probe_wanted_) {
      persist_deadline_ = now + timeout_interval(persist_backoff_);
    }
    return std::nullopt;
  }
  if (parameters_.nagle && bytes < segment_size_ && !records_.empty() && !with_fin) return std::nullopt;
  const std::int64_t length = bytes + (with_fin ? 1 : 0);
  if (!fits_congestion_window(length)) {
    round_limited_ = true;
    return std::nullopt;
  }
  send_small_ = false;
  Record record;
  record.start = next_;
  record.end = next_ + length;
  record.sent = now;
  records_.push_back(record);
  next_ += length;
  unsent_ -= static_cast<std::size_t>(bytes);
  fin_out_ = fin_out_ || with_fin;
  counters_.bytes_sent += static_cast<std::uint64_t>(bytes);
  on_record_sent(now, length);
  return chunk(record);
}

}  // namespace peerbed::sim
