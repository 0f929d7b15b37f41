#include "core/transport/loss_detector.h"

#include <algorithm>

namespace peerbed {

void LossDetector::on_sent(TimePoint now, std::size_t size, bool ack_eliciting, bool in_flight, bool exempt) {
  const auto counted = static_cast<std::uint32_t>(in_flight ? size : 0);
  SentPacket& packet = packets_.add(now, counted, in_flight);
  packet.ack_eliciting = ack_eliciting;
  packet.exempt = exempt;
  in_flight_ += counted;
  if (in_flight && ack_eliciting) {
    ++eliciting_in_flight_;
    last_eliciting_sent_ = now;
  }
}

RecoveryOutcome LossDetector::on_ack(TimePoint now, const AckFrame& ack, RecoverySink& sink) {
  RecoveryOutcome outcome;
  if (ack.largest() >= packets_.next_number()) {
    outcome.malformed = true;
    return outcome;
  }
  take_spurious(now, ack, sink, outcome);
  take_acked(now, ack, sink, outcome);
  detect_lost(now, sink, outcome);
  forget_old_losses(now);
  packets_.trim();
  if (outcome.newly_acked) {
    probe_count_ = 0;
    probes_ = 0;
  }
  outcome.acked.in_flight = outcome.lost.in_flight = in_flight();
  return outcome;
}

void LossDetector::take_acked(TimePoint now, const AckFrame& ack, RecoverySink& sink, RecoveryOutcome& outcome) {
  outcome.acked.now = now;
  std::size_t range = ack.count;  // ranges are newest first, the list is oldest first
  bool eliciting = false, sampled = false;
  TimePoint largest_sent{};
  for (std::uint64_t n = packets_.outstanding().head; n != kNone && n <= ack.largest();) {
    while (range > 0 && ack.ranges[range - 1].end <= n) --range;
    if (range == 0) break;
    SentPacket& packet = packets_[n];
    const std::uint64_t next = packet.next;
    if (n >= ack.ranges[range - 1].begin) {
      for (std::uint64_t r = 0; r < packet.record_count; ++r) sink.on_record_acked(packets_.record(packet.first_record + r));
      outcome.newly_acked = true;
      note_acked(n);
      outcome.acked.bytes += DataSize{packet.size};
      outcome.acked.largest_sent_time = packet.sent;
      ++outcome.acked_ect;
      in_flight_ -= packet.size;
      if (packet.ack_eliciting) --eliciting_in_flight_;
      eliciting = eliciting || packet.ack_eliciting;
      if (n == ack.largest()) {
        sampled = true;
        largest_sent = packet.sent;
      }
      packets_.settle(n);
    }
    n = next;
  }
  if (sampled && eliciting) {  // RFC 9002 §5.1
    const Duration delay = std::min(ack.delay, config_.max_ack_delay);
    rtt_.on_sample(now - largest_sent, delay);
    if (first_rtt_sample_ == kNever) first_rtt_sample_ = now;
  }
  outcome.acked.latest_rtt = rtt_.latest();
  outcome.acked.min_rtt = rtt_.minimum();
  outcome.acked.smoothed_rtt = rtt_.smoothed();
}

void LossDetector::take_spurious(TimePoint now, const AckFrame& ack, RecoverySink& sink, RecoveryOutcome& outcome) {
  std::size_t range = ack.count;
  for (std::uint64_t n = packets_.lost().head; n != kNone && n <= ack.largest();) {
    while (range > 0 && ack.ranges[range - 1].end <= n) --range;
    if (range == 0) break;
    SentPacket& packet = packets_[n];
    const std::uint64_t next = packet.next;
    if (n >= ack.ranges[range - 1].begin) {
      for (std::uint64_t r = 0; r < packet.record_count; ++r) sink.on_record_acked(packets_.record(packet.first_record + r));
      ++spurious_count_;
      note_acked(n);
      if (packet.ack_eliciting) widen_reordering_window(now, packet);
      if (!packet.exempt && packet.loss_event == loss_event_ && ++event_spurious_ == event_lost_) outcome.loss_undone = true;
      packets_.settle(n);
    }
    n = next;
  }
  if (outcome.loss_undone) in_loss_event_ = false;
}

void LossDetector::widen_reordering_window(TimePoint now, const SentPacket& packet) {
  reordering_seen_ = true;
  events_since_reordering_ = 0;
  // It took (now - sent) to be acknowledged; a quarter of the excess more would have been patient enough. Not beyond one
  // smoothed RTT (RFC 8985 §6.2): a delay spike must not switch loss detection off.
  const Duration excess = now - packet.sent - rtt_.smoothed();
  reordering_window_ = std::clamp(excess + excess / 4, reordering_window_, std::max(rtt_.smoothed(), reordering_window_));
}

Duration LossDetector::loss_delay() const {
  const Duration base = std::max(rtt_.smoothed(), rtt_.latest());
  return std::max(base + std::max(base / 8, reordering_window_), kGranularity);  // RFC 9002 §6.1.2: 9/8
}

void LossDetector::detect_lost(TimePoint now, RecoverySink& sink, RecoveryOutcome& outcome) {
  loss_time_ = kNever;
  if (largest_acked_ == kNone) return;
  const Duration delay = loss_delay();
  std::uint64_t first_lost = kNone, last_lost = kNone;
  outcome.lost.now = now;
  // Send times grow with the number, so the first packet that is not lost ends the search.
  for (std::uint64_t n = packets_.outstanding().head; n != kNone && n < largest_acked_;) {
    const SentPacket& packet = packets_[n];
    const std::uint64_t next = packet.next;
    const bool by_count = !reordering_seen_ && largest_acked_ - n >= kPacketThreshold;
    if (!by_count && packet.sent + delay > now) {
      loss_time_ = packet.sent + delay;
      break;
    }
    if (packet.ack_eliciting && packet.sent > first_rtt_sample_) {  // RFC 9002 §7.6.2
      if (first_lost == kNone) first_lost = n;
      last_lost = n;
    }
    declare_lost(n, now, sink, outcome);
    n = next;
  }
  if (outcome.any_loss && first_lost != kNone && last_lost != first_lost) {
    outcome.lost.persistent_congestion = persistent_congestion(first_lost, last_lost);
  }
  outcome.lost.in_flight = in_flight();
}

void LossDetector::declare_lost(std::uint64_t number, TimePoint now, RecoverySink& sink, RecoveryOutcome& outcome) {
  SentPacket& packet = packets_[number];
  for (std::uint64_t r = 0; r < packet.record_count; ++r) sink.on_record_lost(packets_.record(packet.first_record + r));
  in_flight_ -= packet.size;
  if (packet.ack_eliciting) --eliciting_in_flight_;
  ++lost_count_;
  if (!packet.exempt) {
    if (!in_loss_event_ || packet.sent > loss_event_start_) {  // one event per round trip, as the controller reduces
      in_loss_event_ = true;
      loss_event_start_ = now;
      ++loss_event_;
      event_lost_ = event_spurious_ = 0;
      if (reordering_seen_ && ++events_since_reordering_ > kReorderingPersistence) {
        reordering_seen_ = false;
        reordering_window_ = {};
      }
    }
    packet.loss_event = loss_event_;
    ++event_lost_;
    outcome.any_loss = true;
    outcome.lost.bytes += DataSize{packet.size};
    outcome.lost.largest_sent_time = packet.sent;
  }
  packets_.mark_lost(number, now);
}

bool LossDetector::persistent_congestion(std::uint64_t first, std::uint64_t last) const {
  const Duration period = kPersistentCongestionThreshold * probe_timeout();
  if (packets_[last].sent - packets_[first].sent <= period) return false;
  TimePoint start = packets_[first].sent;
  for (std::uint64_t n = first; n <= last; ++n) {  // rare: losses that span more than three probe timeouts
    const SentPacket& packet = packets_[n];
    if (!packet.ack_eliciting) continue;
    if (packet.state != SentPacket::State::lost) {
      start = TimePoint::max();
    } else if (start == TimePoint::max()) {
      start = packet.sent;
    } else if (packet.sent - start > period) {
      return true;
    }
  }
  return false;
}

void LossDetector::forget_old_losses(TimePoint now) {
  const Duration patience = 2 * probe_timeout();
  while (packets_.lost().head != kNone && packets_[packets_.lost().head].lost + patience < now) {
    packets_.settle(packets_.lost().head);
  }
}

void LossDetector::on_handshake_rtt(TimePoint now, Duration rtt) {
  rtt_.on_sample(rtt, Duration{});
  first_rtt_sample_ = now;
}

std::optional<TimePoint> LossDetector::timeout() const {
  if (loss_time_ != kNever) return loss_time_;
  if (eliciting_in_flight_ == 0) return std::nullopt;
  return last_eliciting_sent_ + probe_timeout() * (1LL << std::min(probe_count_, 20));
}

RecoveryOutcome LossDetector::on_timeout(TimePoint now, RecoverySink& sink) {
  RecoveryOutcome outcome;
  if (loss_time_ != kNever) {
    if (loss_time_ <= now) detect_lost(now, sink, outcome);
    return outcome;
  }
  const auto deadline = timeout();
  if (!deadline || *deadline > now) return outcome;
  ++probe_count_;
  ++probe_timeout_count_;
  probes_ = 2;  // RFC 9002 §6.2.4
  return outcome;
}

void LossDetector::repeat_oldest(int packets, RecoverySink& sink) {
  for (std::uint64_t n = packets_.outstanding().head; n != kNone && packets > 0; n = packets_[n].next) {
    const SentPacket& packet = packets_[n];
    if (!packet.ack_eliciting) continue;
    for (std::uint64_t r = 0; r < packet.record_count; ++r) sink.on_record_lost(packets_.record(packet.first_record + r));
    --packets;
  }
}

void LossDetector::on_path_changed(std::optional<Duration> rtt) {
  for (std::uint64_t n = packets_.outstanding().head; n != kNone; n = packets_[n].next) {
    packets_[n].exempt = true;
    packets_[n].size = 0;  // they load the old path, not the new one
  }
  in_flight_ = 0;
  for (std::uint64_t n = packets_.lost().head; n != kNone; n = packets_[n].next) packets_[n].exempt = true;
  in_loss_event_ = false;
  probe_count_ = 0;
  if (!rtt) return;
  rtt_ = RttEstimator(config_.initial_rtt);
  rtt_.on_sample(*rtt, Duration{});
  reordering_seen_ = false;
  reordering_window_ = {};
}

}  // namespace peerbed
