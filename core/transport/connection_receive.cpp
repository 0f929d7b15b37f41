// The receiving half of a connection: datagrams to packets to frames, acknowledgements to congestion control, and paths.
#include <algorithm>
#include <utility>

#include "core/transport/connection.h"

namespace peerbed {

void Connection::on_datagram(TimePoint now, const Path& from, Ecn ecn, BytesView datagram) {
  bytes_received_ += datagram.size();
  if (datagram.size() > kMaxDatagram) {
    ++packets_rejected_;
    return;
  }
  while (is_peerbed_datagram(datagram) && state_ != State::closed) {  // a zero byte begins the padding
    const auto packet = take_packet(datagram);
    if (!packet) {
      ++packets_rejected_;
      return;
    }
    if (packet->sealed) {
      on_sealed_packet(now, from, ecn, *packet);
    } else {
      on_handshake_packet(now, from, *packet);
      if (packet->type == HandshakeType::initiate) return;  // nothing follows it but padding
    }
  }
}

// ---- handshake -----------------------------------------------------------------------------------------------------

void Connection::on_handshake_packet(TimePoint now, const Path& from, const PacketView& packet) {
  if (packet.type == HandshakeType::initiate && !initiator_) return on_initiate(now, from, packet);
  if (packet.destination == id_) {
    if (packet.type == HandshakeType::respond && initiator_) return on_respond(now, packet);
    if (packet.type == HandshakeType::confirm && !initiator_) return on_confirm(now, from, packet);
  }
  ++packets_rejected_;
}

void Connection::on_initiate(TimePoint now, const Path& from, const PacketView& packet) {
  if (state_ != State::handshaking) return;  // a late repetition
  if (!handshake_->received.empty()) {
    if (!std::equal(packet.message.begin(), packet.message.end(), handshake_->received.begin(), handshake_->received.end())) {
      ++packets_rejected_;
      return;
    }
    handshake_->reply_to = from;
    handshake_->due = true;
    return;
  }
  std::array<std::uint8_t, 256> payload;
  if (packet.message.size() > payload.size()) {
    ++packets_rejected_;
    return become_closed(LinkCloseReason::handshake_failed);
  }
  const auto size = handshake_->noise.read_message(packet.message, payload);
  if (!size || *size < kInitiatePayloadSize) {
    ++packets_rejected_;
    return become_closed(LinkCloseReason::handshake_failed);  // nobody but the driver knows of it yet
  }
  ByteReader reader(BytesView(payload).first(*size));
  peer_id_ = reader.u64();
  handshake_->received.assign(packet.message.begin(), packet.message.end());
  handshake_->reply_to = from;
  handshake_->first_sent = now;
  std::array<std::uint8_t, kMaxParametersSize> parameters;
  ByteWriter writer(parameters);
  encode_parameters(writer, make_parameters(config_, id_));
  write_handshake_message(HandshakeType::respond, writer.written());
}

void Connection::on_respond(TimePoint now, const PacketView& packet) {
  if (state_ != State::handshaking) return;  // a repetition
  std::array<std::uint8_t, 512> payload;
  if (packet.message.size() > payload.size()) {
    ++packets_rejected_;
    return;
  }
  const auto size = handshake_->noise.read_message(packet.message, payload);
  TransportParameters peer;
  if (!size) {
    ++packets_rejected_;
    answered_wrongly_ = true;  // another application, or a forgery: the true answer may still come
    return;
  }
  if (!parse_parameters(BytesView(payload).first(*size), peer) ||
      (expected_ && handshake_->noise.remote_static() != *expected_)) {
    ++packets_rejected_;
    return become_closed(LinkCloseReason::handshake_failed);
  }
  // Karn's rule: an answer to a repeated message has no round-trip time.
  if (handshake_->sends == 1) detector_.on_handshake_rtt(now, now - handshake_->first_sent);
  peer_id_ = peer.connection_id;
  std::array<std::uint8_t, kMaxParametersSize> parameters;
  ByteWriter writer(parameters);
  encode_parameters(writer, make_parameters(config_, id_));
  write_handshake_message(HandshakeType::confirm, writer.written());
  become_established(now, peer);
}

void Connection::on_confirm(TimePoint now, const Path& from, const PacketView& packet) {
  if (state_ != State::handshaking) return;
  std::array<std::uint8_t, 512> payload;
  if (handshake_->received.empty() || packet.message.size() > payload.size()) {
    ++packets_rejected_;
    return;
  }
  const auto size = handshake_->noise.read_message(packet.message, payload);
  TransportParameters peer;
  if (!size) {
    ++packets_rejected_;
    return;
  }
  if (!parse_parameters(BytesView(payload).first(*size), peer)) {
    ++packets_rejected_;
    return become_closed(LinkCloseReason::handshake_failed);
  }
  if (handshake_->sends == 1) detector_.on_handshake_rtt(now, now - handshake_->first_sent);
  peer.connection_id = peer_id_;  // the one of message 1, which the handshake hash covers
  path_ = from;  // message 3 proves that message 2 arrived there
  become_established(now, peer);
  confirmed_ = true;
  handshake_.reset();
}

// ---- sealed packets ------------------------------------------------------------------------------------------------

void Connection::on_sealed_packet(TimePoint now, const Path& from, Ecn ecn, const PacketView& packet) {
  if (state_ != State::established || packet.destination != id_) {
    ++packets_rejected_;
    return;
  }
  const std::uint64_t number = decode_packet_number(received_.next_expected(), packet.truncated_number);
  if (received_.seen(number)) return;  // duplicated or replayed: each number is taken once
  std::array<std::uint8_t, kMaxDatagram> plain;
  const std::size_t size = packet.body.size() - kAeadTagSize;
  if (!receive_keys_.open_any(number, packet.header, packet.body, MutableBytes(plain).first(size))) {
    ++packets_rejected_;
    return;
  }
  const bool newest = number >= received_.next_expected();
  ++packets_received_;
  last_received_ = idle_since_ = now;
  eliciting_since_received_ = false;
  if (!confirmed_) {
    confirmed_ = true;
    handshake_.reset();
  }
  PayloadFacts facts;
  FrameReader reader(BytesView(plain).first(size));
  for (Frame frame; reader.next(frame);) {
    if (!on_frame(now, from, frame, reader, facts)) return close_for_protocol_error(now);
    if (state_ == State::closed) return;
  }
  if (reader.failed()) return close_for_protocol_error(now);
  note_received(now, number, ecn, facts.ack_eliciting);
  if (newest && facts.non_probing && from != path_) follow_peer(now, from);
}

bool Connection::on_frame(TimePoint now, const Path& from, const Frame& frame, const FrameReader& reader, PayloadFacts& facts) {
  switch (frame.type) {
    case FrameType::ack:
      facts.non_probing = true;
      return on_ack(now, reader.ack());
    case FrameType::close: {
      const auto code = static_cast<CloseCode>(std::min<std::uint64_t>(frame.value, 255));
      become_closed(code == CloseCode::protocol_error ? LinkCloseReason::protocol_error
                    : code == CloseCode::refused      ? LinkCloseReason::refused
                    : code == CloseCode::duplicate    ? LinkCloseReason::duplicate
                                                      : LinkCloseReason::remote);
      return true;
    }
    case FrameType::path_challenge:
      facts.ack_eliciting = true;
      on_path_challenge(now, from, frame.token);
      return true;
    case FrameType::path_response:
      facts.ack_eliciting = true;
      on_path_response(now, frame.token);
      return true;
    case FrameType::observed_address:  // rides on probes, so it does not make a packet more than one
      facts.ack_eliciting = true;
      events_.push_path(LinkEvent::Kind::observed_address, Path{frame.endpoint, 0});
      return true;
    case FrameType::datagram:
      facts.ack_eliciting = facts.non_probing = true;
      events_.push_datagram(frame.data);
      return true;
    default:
      facts.ack_eliciting = facts.non_probing = true;
      return streams_.on_frame(now, frame);
  }
}

void Connection::note_received(TimePoint now, std::uint64_t number, Ecn ecn, bool ack_eliciting) {
  const std::uint64_t expected = received_.next_expected();
  received_.add(number);
  if (number >= expected) largest_received_at_ = now;
  if (ecn == Ecn::ect0) ++received_ecn_.ect0;
  if (ecn == Ecn::ect1) ++received_ecn_.ect1;
  if (ecn == Ecn::ce) ++received_ecn_.ce;
  if (!ack_eliciting) return;
  ++unacked_eliciting_;
  // RFC 9000 §13.2.1, §13.2.2: every second packet, at once when the order is broken or the path says congestion.
  if (unacked_eliciting_ >= 2 || number != expected || ecn == Ecn::ce) ack_at_once_ = true;
  if (ack_deadline_ == kNever) ack_deadline_ = now + kMaxAckDelay;
}

bool Connection::on_ack(TimePoint now, const AckFrame& ack) {
  const RecoveryOutcome outcome = detector_.on_ack(now, ack, *this);
  if (outcome.malformed) return false;
  heard_back_ = heard_back_ || outcome.newly_acked;
  if (ack.largest() >= round_end_) {
    round_end_ = detector_.packets().next_number();
    last_peak_in_flight_ = std::exchange(peak_in_flight_, detector_.in_flight());
  }
  apply(now, outcome);
  if (outcome.newly_acked) validate_ecn(now, ack, outcome);
  return true;
}

void Connection::apply(TimePoint now, const RecoveryOutcome& outcome) {
  if (outcome.loss_undone) controller_->on_spurious_loss(now);
  if (outcome.newly_acked && outcome.acked.bytes > DataSize{}) {
    AckedPackets acked = outcome.acked;
    acked.app_limited = app_limited_ || std::max(peak_in_flight_, last_peak_in_flight_) * 2 < controller_->window();
    controller_->on_acked(acked);
  }
  if (outcome.any_loss) controller_->on_lost(outcome.lost);
  if (!outcome.newly_acked && !outcome.any_loss) return;
  streams_.set_rtt(detector_.rtt().smoothed());
  // By what was in flight, not by the window: on a fast local path the window is far above what is ever used of it.
  streams_.set_send_buffer_for(static_cast<std::uint64_t>(std::max(peak_in_flight_, last_peak_in_flight_).bytes));
  update_pacer(now);
}

void Connection::validate_ecn(TimePoint now, const AckFrame& ack, const RecoveryOutcome& outcome) {
  if (!ecn_usable_) return;
  // RFC 9000 §13.4.2.1: a path that drops the marks, or a peer that does not count them, ends the use of ECN.
  const std::uint64_t reported = ack.ecn.ect0 + ack.ecn.ce, before = acked_ecn_.ect0 + acked_ecn_.ce;
  if (!ack.has_ecn || reported < before + outcome.acked_ect) {
    ecn_usable_ = reported >= before && ack.has_ecn && outcome.acked_ect == 0;
    return;
  }
  if (ack.ecn.ce > acked_ecn_.ce) controller_->on_ecn_ce(now, outcome.acked.largest_sent_time);
  acked_ecn_ = ack.ecn;
}

void Connection::on_record_acked(const SentRecord& record) {
  if (record.kind == SentRecord::Kind::ack) {
    received_.forget_below(record.offset + 1);
  } else {
    streams_.on_record_acked(record);
  }
}

void Connection::on_record_lost(const SentRecord& record) {
  if (record.kind == SentRecord::Kind::observed_address) {
    observed_address_pending_ = !path_.relayed();
  } else {
    streams_.on_record_lost(record);
  }
}

// ---- paths ---------------------------------------------------------------------------------------------------------

void Connection::on_path_challenge(TimePoint now, const Path& from, const PathToken& token) {
  paths_.on_challenge(from, token);
  // Where the peer reaches us from we may reach it: behind an address-and-port-dependent NAT its port on this path is one
  // that nobody could have told us. So its probe is answered with ours.
  if (from == path_ || paths_.validated(now, from)) return;
  if (!paths_.challenging(now, from, detector_.rtt().smoothed())) paths_.challenge(now, from);
}

void Connection::on_path_response(TimePoint now, const PathToken& token) {
  const auto validation = paths_.on_response(now, token);
  if (!validation) return;
  events_.push_path(LinkEvent::Kind::path_validated, validation->path, validation->rtt);
  if (following_ && *following_ == validation->path) move_to(now, validation->path, validation->rtt);
}

void Connection::follow_peer(TimePoint now, const Path& from) {
  if (now < keep_path_until_) return;
  if (const auto rtt = paths_.validated(now, from)) return move_to(now, from, *rtt);
  if (following_ && *following_ == from && paths_.challenging(now, from, 3 * detector_.probe_timeout())) return;
  following_ = from;
  paths_.challenge(now, from, 3, detector_.probe_timeout());
}

}  // namespace peerbed
