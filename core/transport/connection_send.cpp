// The sending half of a connection: which packet is next, what goes into it, and when it may leave.
#include <algorithm>

#include "core/base/check.h"
#include "core/transport/connection.h"

namespace peerbed {
namespace {

constexpr std::size_t kObservedAddressRoom = 1 + 1 + 16 + 2;
constexpr std::size_t kRangesThatNeedAnAnswer = 16;

}  // namespace

std::optional<Transmit> Connection::poll_transmit(TimePoint now, MutableBytes out) {
  std::optional<Transmit> transmit;
  if (state_ == State::closed) {
    if (close_pending_) transmit = transmit_close(out);
  } else if (state_ == State::handshaking) {
    if (handshake_->due) transmit = transmit_handshake(now, out);
  } else {
    if (paths_.pending()) transmit = transmit_probe(now, out);
    if (!transmit) transmit = transmit_data(now, out);
  }
  if (transmit) {
    ++packets_sent_;
    bytes_sent_ += transmit->size;
    last_sent_ = now;
  }
  return transmit;
}

std::optional<Transmit> Connection::transmit_handshake(TimePoint now, MutableBytes out) {
  HandshakeState& handshake = *handshake_;
  handshake.due = false;
  const Path path = initiator_ ? path_ : handshake.reply_to;
  const std::size_t limit = std::min(out.size(), datagram_size(path));
  if (limit < handshake.message.size()) return std::nullopt;
  ByteWriter writer(out.first(limit));
  writer.bytes(handshake.message);
  if (initiator_) {
    writer.zeros(writer.room());  // a full datagram: what answers it cannot amplify (RFC 9000 §8.1)
    // Doubling from the first probe timeout (RFC 9002 §6.2.1); only the initiator keeps a timer.
    handshake.repeat_at = now + kHandshakeTimeout * (1LL << std::min(handshake.sends, 10));
  }
  if (handshake.sends++ == 0) handshake.first_sent = now;
  return Transmit{path, writer.size(), Ecn::not_ect};
}

std::size_t Connection::seal_packet(MutableBytes packet, std::size_t payload_size) {
  // The payload is in place already, behind the room for the header.
  ByteWriter header(packet.first(kSealedHeaderSize));
  const std::uint64_t number = detector_.packets().next_number();
  encode_sealed_header(header, peer_id_, number);
  const BytesView payload = BytesView(packet).subspan(kSealedHeaderSize, payload_size);
  send_keys_.seal_next(number, header.written(), payload, packet.subspan(kSealedHeaderSize, payload_size + kAeadTagSize));
  return kSealedOverhead + payload_size;
}

std::optional<Transmit> Connection::transmit_probe(TimePoint now, MutableBytes out) {
  while (const auto probe = paths_.poll()) {
    const std::size_t limit = std::min(out.size(), datagram_size(probe->path));
    if (limit < kSmallestDatagram) continue;  // no such circuit any more
    ByteWriter payload(out.subspan(kSealedHeaderSize, limit - kSealedOverhead));
    if (probe->response) encode_path_token(payload, FrameType::path_response, *probe->response);
    if (probe->challenge) encode_path_token(payload, FrameType::path_challenge, *probe->challenge);
    if (probe->response && !probe->path.relayed()) encode_observed_address(payload, probe->path.remote);
    const std::size_t size = seal_packet(out, payload.size());
    detector_.on_sent(now, size, false, false, true);
    return Transmit{probe->path, size, Ecn::not_ect};
  }
  return std::nullopt;
}

std::optional<Transmit> Connection::transmit_close(MutableBytes out) {
  close_pending_ = false;
  if (out.size() < kSmallestDatagram) return std::nullopt;
  std::size_t start = 0;
  if (handshake_ && initiator_) {  // the peer may not have the keys yet
    start = handshake_->message.size();
    std::copy(handshake_->message.begin(), handshake_->message.end(), out.begin());
  }
  const MutableBytes packet = out.subspan(start);
  ByteWriter payload(packet.subspan(kSealedHeaderSize, packet.size() - kSealedOverhead));
  encode_close(payload, close_code_);
  const std::size_t size = seal_packet(packet, payload.size());
  return Transmit{path_, start + size, Ecn::not_ect};
}

// ---- data ----------------------------------------------------------------------------------------------------------

bool Connection::wants_to_send() const {
  return ping_pending_ || observed_address_pending_ || !datagrams_.empty() || streams_.wants_to_send();
}

bool Connection::ack_due(TimePoint now) const { return unacked_eliciting_ > 0 && (ack_at_once_ || now >= ack_deadline_); }

void Connection::update_pacer(TimePoint now) {
  static_cast<void>(now);
  const auto rate = controller_->pacing_rate().value_or(
      pacing_rate(controller_->window(), detector_.rtt().smoothed(), controller_->in_slow_start()));
  // Ten packets (RFC 9002 §7.7), or at high rates a millisecond of them: a timer fires so often at most. 64 is one batch.
  const auto datagram = static_cast<std::int64_t>(config_.max_direct_datagram);
  const std::int64_t per_millisecond = rate.bits_per_second / 8000;
  pacer_burst_ = DataSize{std::clamp(per_millisecond, 10 * datagram, 64 * datagram)};
  pacer_.set_rate(rate);
  pacer_.set_burst(pacer_burst_);
}

Connection::Blocked Connection::blocked(TimePoint now, std::size_t size) {
  const DataSize packet{static_cast<std::int64_t>(size)};
  if (detector_.in_flight() + packet > controller_->window()) {
    pace_deadline_ = kNever;
    return Blocked::by_window;
  }
  const TimePoint at = pacer_.next_send(now, packet);
  if (at <= now) return Blocked::not_at_all;
  // Wait for half a burst, but no longer than a millisecond if one packet could go by then: at low rates packets leave one
  // by one, at high rates a wake-up sends several (20 000 wake-ups per packet were seen elsewhere).
  const TimePoint batch = pacer_.next_send(now, DataSize{pacer_burst_.bytes / 2});
  pace_deadline_ = std::max(at, std::min(batch, now + 1ms));
  return Blocked::by_pacer;
}

std::optional<Transmit> Connection::transmit_data(TimePoint now, MutableBytes out) {
  const std::size_t limit = std::min(out.size(), datagram_size(path_));
  if (limit < kSmallestDatagram) return std::nullopt;
  const bool probing = detector_.probes() > 0;
  bool may_send_data = false;
  if (wants_to_send()) {
    const Blocked why = probing ? Blocked::not_at_all : blocked(now, limit);
    may_send_data = why == Blocked::not_at_all;
    app_limited_ = false;
  } else if (detector_.in_flight() + DataSize{static_cast<std::int64_t>(limit)} <= controller_->window()) {
    app_limited_ = true;
  }
  if (!may_send_data && !ack_due(now)) return std::nullopt;

  // Message 3 goes first until it is known to have arrived; a datagram that would not fit beside it travels alone, for
  // one packet at least has gone with it before.
  std::size_t start = 0;
  const bool with_confirm = !confirmed_ && initiator_;
  if (with_confirm) {
    const bool crowded = !datagrams_.empty() && handshake_->sends > 0 &&
                         handshake_->message.size() + kSealedOverhead + kDatagramFrameOverhead + datagrams_.front().size() > limit;
    if (!crowded) {
      start = handshake_->message.size();
      std::copy(handshake_->message.begin(), handshake_->message.end(), out.begin());
      ++handshake_->sends;
    }
  }
  const MutableBytes packet = out.subspan(start, limit - start);
  ByteWriter payload(packet.subspan(kSealedHeaderSize, packet.size() - kSealedOverhead));
  const bool eliciting = write_payload(now, payload, may_send_data);
  if (payload.size() == 0) return std::nullopt;
  const std::size_t size = seal_packet(packet, payload.size());
  detector_.on_sent(now, size, eliciting, eliciting, !heard_back_);
  if (eliciting) {
    const DataSize counted{static_cast<std::int64_t>(size)};
    peak_in_flight_ = std::max(peak_in_flight_, detector_.in_flight());
    controller_->on_sent(now, counted, detector_.in_flight());
    pacer_.on_sent(now, counted);
    detector_.on_probe_sent();
    pace_deadline_ = kNever;
    if (!eliciting_since_received_) idle_since_ = now;  // RFC 9000 §10.1
    eliciting_since_received_ = true;
  }
  return Transmit{path_, start + size, ecn_usable_ && !path_.relayed() && eliciting ? Ecn::ect0 : Ecn::not_ect};
}

bool Connection::write_payload(TimePoint now, ByteWriter& out, bool may_send_data) {
  SentPackets& sent = detector_.packets();
  bool eliciting = false;
  if (unacked_eliciting_ > 0 && (may_send_data || ack_due(now))) {
    const bool with_ecn = received_ecn_ != EcnCounts{};
    const std::uint64_t largest = received_.ranges().back().end - 1;
    if (encode_ack(out, received_.ranges(), now - largest_received_at_, with_ecn ? &received_ecn_ : nullptr)) {
      unacked_eliciting_ = 0;
      ack_at_once_ = false;
      ack_deadline_ = kNever;
      if (!may_send_data && received_.ranges().size() >= kRangesThatNeedAnAnswer && now >= ping_allowed_) {
        encode_ping(out);  // so that the ranges can be forgotten (RFC 9000 §13.2.4), once per round trip at most
        eliciting = true;
        ping_allowed_ = now + detector_.rtt().smoothed();
      }
      if (may_send_data || eliciting) {
        SentRecord record;
        record.kind = SentRecord::Kind::ack;
        record.offset = largest;
        sent.add_record(record);
      }
    }
  }
  if (!may_send_data) return eliciting;
  const std::size_t before = out.size();
  if (observed_address_pending_ && out.room() >= kObservedAddressRoom) {
    encode_observed_address(out, path_.remote);
    observed_address_pending_ = false;
    SentRecord record;
    record.kind = SentRecord::Kind::observed_address;
    sent.add_record(record);
  }
  // Datagrams and streams go first in turn, so that neither starves the other.
  if (datagrams_first_) write_datagrams(out);
  streams_.write_frames(out, sent);
  if (!datagrams_first_) write_datagrams(out);
  datagrams_first_ = !datagrams_first_;
  // Even beside other frames: OBSERVED_ADDRESS alone is a mere probe, and the peer would not follow to a new path.
  if (ping_pending_ && out.room() > 0) encode_ping(out);
  if (out.size() == before) {  // the acknowledgement left no room: it travels alone
    sent.drop_open_records();
    return eliciting;
  }
  ping_pending_ = false;
  return true;
}

bool Connection::write_datagrams(ByteWriter& out) {
  bool wrote = false;
  while (!datagrams_.empty()) {
    if (datagrams_.front().size() + kDatagramFrameOverhead <= out.room()) {
      encode_datagram(out, datagrams_.front());
      wrote = true;
    } else if (datagrams_.front().size() <= max_datagram_payload()) {
      break;  // the next packet has room
    }
    datagrams_.pop();  // sent, or too large for the path that we have moved to
  }
  return wrote;
}

}  // namespace peerbed
