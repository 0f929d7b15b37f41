#include "sim/des/tcp_connection.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"

namespace peerbed::sim {
namespace {

constexpr std::uint16_t kDefaultSegmentSize = 536;  // of a peer that says none, RFC 9293 §3.7.1

std::optional<TimePoint> earliest(std::optional<TimePoint> a, std::optional<TimePoint> b) {
  if (!a) return b;
  return b ? std::min(*a, *b) : a;
}

bool due(const std::optional<TimePoint>& deadline, TimePoint now) { return deadline && *deadline <= now; }

}  // namespace

std::optional<TcpSegment> answer_of_closed_port(const TcpSegment& segment) {
  if (segment.rst) return std::nullopt;
  TcpSegment reset;
  reset.rst = true;
  if (segment.ack) {
    reset.sequence = segment.acknowledgement;
  } else {
    reset.ack = true;
    reset.acknowledgement = segment.sequence + segment.length();
  }
  return reset;
}

TcpConnection::TcpConnection(const TcpParameters& parameters, std::uint32_t initial_sequence)
    : parameters_(parameters), sender_(parameters_, counters_), receiver_(parameters_), our_initial_(initial_sequence),
      segment_size_(parameters_.max_segment_size) {}

std::int64_t TcpConnection::offset(std::uint32_t wire, std::uint32_t initial, std::int64_t near) {
  const std::uint32_t near_wire = initial + static_cast<std::uint32_t>(near);
  return near + static_cast<std::int32_t>(wire - near_wire);
}

// ---- opening -------------------------------------------------------------------------------------------------------

void TcpConnection::arm_handshake(TimePoint now) {
  Duration wait = parameters_.initial_rto;
  for (int i = 0; i < handshake_tries_ && wait < parameters_.maximum_rto; ++i) wait *= 2;
  handshake_deadline_ = now + std::min(wait, parameters_.maximum_rto);
}

void TcpConnection::open_active(TimePoint now) {
  PEERBED_CHECK(phase_ == Phase::closed && !closed_told_, "a connection is opened once");
  phase_ = Phase::syn_sent;
  handshake_wanted_ = true;
  arm_handshake(now);
}

void TcpConnection::open_passive(TimePoint now, const TcpSegment& syn) {
  PEERBED_CHECK(phase_ == Phase::closed && !closed_told_, "a connection is opened once");
  PEERBED_CHECK(syn.syn && !syn.ack && !syn.rst, "a passive open begins with the SYN that came");
  learn_from_syn(syn);
  phase_ = Phase::syn_received;
  handshake_wanted_ = true;
  arm_handshake(now);
}

void TcpConnection::learn_from_syn(const TcpSegment& syn) {
  their_initial_ = syn.sequence;
  segment_size_ =
      std::min(segment_size_, syn.max_segment_size > 0 ? syn.max_segment_size : kDefaultSegmentSize);
  sack_agreed_ = parameters_.selective_ack && syn.sack_permitted;
  receiver_.set_segment_size(segment_size_);
}

void TcpConnection::establish(TimePoint now, const TcpSegment& segment) {
  TcpSender::Start start;
  start.now = now;
  start.segment_size = segment_size_;
  start.selective_ack = sack_agreed_;
  start.sequence = theirs(segment.sequence);
  start.window = segment.window;
  start.handshake_repeated = handshake_repeated_;
  if (handshake_sent_ && !handshake_repeated_) start.rtt = now - *handshake_sent_;
  sender_.start(start);
  phase_ = Phase::synchronized;
  handshake_wanted_ = false;
  handshake_deadline_.reset();
  connected_pending_ = true;
}

void TcpConnection::answer_with_reset(const TcpSegment& segment) { reset_ = answer_of_closed_port(segment); }

void TcpConnection::on_segment_in_syn_sent(TimePoint now, const TcpSegment& segment) {
  // RFC 9293 §3.10.7.3. Only our SYN is out, so there is one acceptable acknowledgement.
  const bool acceptable = segment.ack && segment.acknowledgement == our_wire(1);
  if (segment.ack && !acceptable) {
    answer_with_reset(segment);
    return;
  }
  if (segment.rst) {
    if (acceptable) close(CloseReason::refused);
    return;
  }
  if (!segment.syn) return;
  learn_from_syn(segment);
  if (acceptable) {
    establish(now, segment);
    receiver_.acknowledge_now();
    return;
  }
  // Both sides opened at once (RFC 9293 §3.5, figure 8): our SYN goes again, now with an acknowledgement.
  phase_ = Phase::syn_received;
  handshake_wanted_ = true;
  arm_handshake(now);
}

void TcpConnection::on_segment_in_syn_received(TimePoint now, const TcpSegment& segment) {
  const bool same_syn = segment.syn && segment.sequence == their_initial_;
  if (same_syn && !segment.ack) {
    // The peer did not get our SYN and ACK. Its own timer paces this; ours goes on.
    handshake_wanted_ = handshake_repeated_ = true;
    return;
  }
  // In a simultaneous open the peer's SYN comes once more with the acknowledgement. By the letter of the sequence check
  // it is old; its acknowledgement counts all the same (as in figure 8, and as Linux does).
  if (!same_syn && !passes_sequence_checks(segment)) return;
  if (!segment.ack) return;
  if (segment.acknowledgement != our_wire(1)) {
    answer_with_reset(segment);
    return;
  }
  establish(now, segment);
  if (same_syn) {
    // It may be that our own SYN and ACK was lost, and the peer waits for this.
    receiver_.acknowledge_now();
    return;
  }
  on_text(now, segment);
}

// ---- segments ------------------------------------------------------------------------------------------------------

void TcpConnection::on_segment(TimePoint now, const TcpSegment& segment) {
  ++counters_.segments_received;
  switch (phase_) {
    case Phase::closed:
      if (!released_ && !close_pending_ && !closed_told_) return;  // not opened yet
      answer_with_reset(segment);
      return;
    case Phase::syn_sent: on_segment_in_syn_sent(now, segment); break;
    case Phase::syn_received: on_segment_in_syn_received(now, segment); break;
    case Phase::synchronized:
    case Phase::time_wait: on_segment_synchronized(now, segment); break;
  }
  settle_ends(now);
}

bool TcpConnection::passes_sequence_checks(const TcpSegment& segment) {
  const std::int64_t start = theirs(segment.sequence);
  if (!receiver_.acceptable(start, segment.length())) {
    if (!segment.rst) {
      receiver_.acknowledge_now();
      if (segment.length() > 0) ++counters_.duplicates_received;
    }
    return false;
  }
  if (segment.rst) {
    // RFC 5961 §3.2: a RST counts exactly at the next expected number. Elsewhere in the window it is answered by an
    // acknowledgement, to which a real peer's answer will be exact.
    if (start != receiver_.next()) {
      receiver_.acknowledge_now();
    } else {
      close(phase_ == Phase::syn_received ? CloseReason::refused : CloseReason::reset);
    }
    return false;
  }
  if (segment.syn) {
    receiver_.acknowledge_now();  // RFC 5961 §4.2
    return false;
  }
  return true;
}

void TcpConnection::on_segment_synchronized(TimePoint now, const TcpSegment& segment) {
  if (!passes_sequence_checks(segment)) {
    // Repeated data or FIN: our acknowledgement was lost, and the wait begins again. Not only for the FIN: a peer that
    // goes back begins with the data before it, and would otherwise meet a closed port (Linux restarts for all alike).
    if (phase_ == Phase::time_wait && segment.length() > 0) time_wait_end_ = now + parameters_.time_wait;
    return;
  }
  if (!segment.ack) return;
  if (ours(segment.acknowledgement) > sender_.next()) {
    receiver_.acknowledge_now();  // of something that was never sent
    return;
  }
  on_acknowledgement(now, segment);
  on_text(now, segment);
}

void TcpConnection::on_acknowledgement(TimePoint now, const TcpSegment& segment) {
  std::array<TcpSender::Range, 3> sacked;
  std::size_t count = 0;
  for (const SackBlock& block : segment.sack_blocks()) sacked[count++] = {ours(block.start), ours(block.end)};
  TcpSender::Acknowledgement ack;
  ack.sequence = theirs(segment.sequence);
  ack.acknowledged = ours(segment.acknowledgement);
  ack.window = segment.window;
  ack.has_length = segment.length() > 0;
  ack.sacked = std::span(sacked).first(count);
  sender_.on_acknowledgement(now, ack);
  // Not for every segment's worth of room: a quarter of the buffer.
  if (refused_some_ && sender_.worth_writing() && !sender_.finishing()) {
    refused_some_ = false;
    writable_pending_ = true;
  }
}

void TcpConnection::on_text(TimePoint now, const TcpSegment& segment) {
  if (segment.length() == 0 || phase_ == Phase::time_wait) return;
  const bool ended_before = receiver_.finished();
  const std::size_t readable_before = receiver_.readable_bytes();
  if (!receiver_.on_text(now, theirs(segment.sequence), segment.payload, segment.fin)) ++counters_.duplicates_received;
  if (receiver_.finished() && !ended_before) peer_ended_first_ = !sender_.fin_sent();
  const bool news = receiver_.readable_bytes() > readable_before || (receiver_.finished() && !ended_before);
  if (news && readable_armed_) {
    readable_armed_ = false;
    readable_pending_ = true;
  }
}

// ---- ends ----------------------------------------------------------------------------------------------------------

void TcpConnection::settle_ends(TimePoint now) {
  if (phase_ == Phase::time_wait && due(time_wait_end_, now)) phase_ = Phase::closed;
  if (phase_ != Phase::synchronized) return;
  if (sender_.gave_up()) {
    close(CloseReason::timed_out);
    return;
  }
  if (!receiver_.finished() || !sender_.fin_acknowledged()) return;
  sender_.free_buffer();
  if (peer_ended_first_) {
    phase_ = Phase::closed;
  } else {
    phase_ = Phase::time_wait;
    time_wait_end_ = now + parameters_.time_wait;
  }
  if (end_read_ && !closed_told_) close_pending_ = CloseReason::finished;
}

void TcpConnection::close(CloseReason reason) {
  phase_ = Phase::closed;
  handshake_wanted_ = false;
  handshake_deadline_.reset();
  time_wait_end_.reset();
  sender_.free_buffer();
  writable_pending_ = false;
  if (!closed_told_ && !close_pending_) close_pending_ = reason;
}

void TcpConnection::on_unreachable(TimePoint now, const Unreachable& error) {
  if (error.reason == UnreachableReason::too_big) {
    if (error.mtu <= parameters_.header_size) return;
    const auto size = static_cast<std::uint16_t>(error.mtu - parameters_.header_size);
    if (size >= segment_size_) return;
    sender_.reduce_segment_size(now, size);
    if (phase_ == Phase::synchronized) segment_size_ = sender_.segment_size();
    return;
  }
  // A connection that stands outlives a router's hiccup (RFC 1122 §4.2.3.9); one that is being opened does not.
  if (phase_ != Phase::syn_sent && phase_ != Phase::syn_received) return;
  close(error.reason == UnreachableReason::port ? CloseReason::refused : CloseReason::unreachable);
}

// ---- time ----------------------------------------------------------------------------------------------------------

std::optional<TimePoint> TcpConnection::next_timeout() const {
  switch (phase_) {
    case Phase::closed: return std::nullopt;
    case Phase::syn_sent:
    case Phase::syn_received: return handshake_deadline_;
    case Phase::synchronized: return earliest(sender_.next_timeout(), receiver_.next_timeout());
    case Phase::time_wait: return time_wait_end_;
  }
  return std::nullopt;
}

void TcpConnection::on_timeout(TimePoint now) {
  if ((phase_ == Phase::syn_sent || phase_ == Phase::syn_received) && due(handshake_deadline_, now)) {
    if (++handshake_tries_ > parameters_.syn_retries) {
      close(CloseReason::timed_out);
      return;
    }
    ++counters_.timeouts;
    handshake_wanted_ = handshake_repeated_ = true;
    arm_handshake(now);
  }
  if (phase_ == Phase::synchronized) {
    sender_.on_timeout(now);
    receiver_.on_timeout(now);
  }
  settle_ends(now);
}

// ---- transmission --------------------------------------------------------------------------------------------------

TcpSegment TcpConnection::with_acknowledgement(TcpSegment segment) {
  segment.ack = true;
  segment.acknowledgement = their_wire(receiver_.next());
  segment.window = receiver_.acknowledge();
  if (sack_agreed_ && !segment.syn) {
    std::array<TcpReceiver::Range, 3> ranges;
    const std::size_t count = receiver_.sack_ranges(ranges);
    for (std::size_t i = 0; i < count; ++i) segment.sack[i] = {their_wire(ranges[i].start), their_wire(ranges[i].end)};
    segment.sack_count = static_cast<std::uint8_t>(count);
  }
  return segment;
}

std::optional<TcpSegment> TcpConnection::poll_transmit(TimePoint now) {
  std::optional<TcpSegment> out;
  if (reset_) {
    out = std::exchange(reset_, std::nullopt);
  } else if (handshake_wanted_) {
    handshake_wanted_ = false;
    if (!handshake_sent_) handshake_sent_ = now;  // in a simultaneous open it is the first SYN that is acknowledged
    TcpSegment syn;
    syn.syn = true;
    syn.sequence = our_wire(0);
    syn.max_segment_size = parameters_.max_segment_size;
    syn.sack_permitted = parameters_.selective_ack;
    if (phase_ == Phase::syn_received) {
      out = with_acknowledgement(syn);
    } else {
      syn.window = receiver_.acknowledge();
      out = syn;
    }
    if (handshake_repeated_) ++counters_.segments_retransmitted;
  } else if (phase_ == Phase::synchronized || phase_ == Phase::time_wait || phase_ == Phase::syn_received) {
    if (phase_ == Phase::synchronized) {
      if (const auto chunk = sender_.poll(now)) {
        TcpSegment segment;
        segment.sequence = our_wire(chunk->start);
        segment.payload = chunk->payload;
        segment.fin = chunk->fin;
        out = with_acknowledgement(segment);
      }
    }
    if (!out && receiver_.wants_acknowledgement()) {
      TcpSegment segment;
      segment.sequence = our_wire(sender_.next());
      out = with_acknowledgement(segment);
    }
  }
  if (out) ++counters_.segments_sent;
  return out;
}

std::optional<TcpEvent> TcpConnection::poll_event() {
  if (released_ || closed_told_) return std::nullopt;
  if (connected_pending_) {
    connected_pending_ = false;
    return TcpEvent{TcpEvent::Kind::connected, {}};
  }
  if (readable_pending_) {
    readable_pending_ = false;
    // It may all have been read meanwhile, from another callback.
    if (receiver_.readable_bytes() > 0 || (receiver_.finished() && !end_read_)) {
      return TcpEvent{TcpEvent::Kind::readable, {}};
    }
    readable_armed_ = true;
  }
  if (writable_pending_) {
    writable_pending_ = false;
    return TcpEvent{TcpEvent::Kind::writable, {}};
  }
  if (close_pending_) {
    const CloseReason reason = *close_pending_;
    close_pending_.reset();
    closed_told_ = true;
    return TcpEvent{TcpEvent::Kind::closed, reason};
  }
  return std::nullopt;
}

// ---- the application -----------------------------------------------------------------------------------------------

std::size_t TcpConnection::write(BytesView data) {
  if (phase_ != Phase::synchronized) return 0;
  const std::size_t taken = sender_.write(data);
  if (taken < data.size() && !sender_.finishing()) refused_some_ = true;
  return taken;
}

ReceiveResult TcpConnection::read(MutableBytes into) {
  const ReceiveResult result = receiver_.read(into);
  if (receiver_.readable_bytes() == 0) readable_armed_ = true;
  if (result.end && !end_read_) {
    end_read_ = true;
    const bool both_ended = receiver_.finished() && sender_.fin_acknowledged();
    if (both_ended && !closed_told_ && !close_pending_) close_pending_ = CloseReason::finished;
  }
  return result;
}

void TcpConnection::shutdown_send() {
  if (phase_ == Phase::synchronized) sender_.finish();
}

void TcpConnection::abort() {
  released_ = true;
  if (phase_ == Phase::synchronized || phase_ == Phase::syn_received) {
    TcpSegment reset;
    reset.rst = reset.ack = true;
    reset.sequence = our_wire(sender_.next());
    reset.acknowledgement = their_wire(receiver_.next());
    reset_ = reset;
  }
  close(CloseReason::reset);
}

void TcpConnection::release() {
  if (released_) return;
  const bool ended = phase_ == Phase::closed || phase_ == Phase::time_wait || (sender_.finishing() && end_read_);
  if (!ended) {
    abort();
    return;
  }
  released_ = true;
}

TcpState TcpConnection::state() const {
  switch (phase_) {
    case Phase::closed: return TcpState::closed;
    case Phase::syn_sent: return TcpState::syn_sent;
    case Phase::syn_received: return TcpState::syn_received;
    case Phase::time_wait: return TcpState::time_wait;
    case Phase::synchronized: break;
  }
  if (!sender_.fin_sent()) return receiver_.finished() ? TcpState::close_wait : TcpState::established;
  if (sender_.fin_acknowledged()) return TcpState::fin_wait_2;
  if (!receiver_.finished()) return TcpState::fin_wait_1;
  return peer_ended_first_ ? TcpState::last_ack : TcpState::closing;
}

bool TcpConnection::done() const { return phase_ == Phase::closed && !reset_; }

bool TcpConnection::may_be_replaced_by(const TcpSegment& syn) const {
  return phase_ == Phase::time_wait && syn.syn && !syn.ack && !syn.rst && theirs(syn.sequence) >= receiver_.next();
}

}  // namespace peerbed::sim
