#include "core/transport/tcp_session.h"

#include <algorithm>

#include "core/base/check.h"

namespace peerbed {
namespace {

constexpr std::size_t kMaxHandshakeMessage = 512;
constexpr std::size_t kControlRoom = 64;
constexpr int kRekeyBits = 16;

}  // namespace

TcpSession::TcpSession(TimePoint now, const TcpSessionSetup& setup)
    : config_(*setup.config),
      initiator_(setup.initiator),
      expected_(setup.expected),
      remote_endpoint_(setup.remote),
      noise_(new NoiseXX(setup.initiator ? NoiseRole::initiator : NoiseRole::responder, *setup.keys, setup.prologue,
                         setup.ephemeral)),
      streams_(setup.initiator, *setup.config, events_),
      datagrams_(setup.config->max_datagram_queue),
      created_(now),
      last_received_(now),
      last_sent_(now),
      idle_timeout_(setup.config->idle_timeout) {}

TcpSession::~TcpSession() = default;

void TcpSession::on_connected(TimePoint now) {
  connected_ = true;
  last_received_ = last_sent_ = now;
  message_due_ = initiator_ && state_ == State::handshaking;
}

// ---- receiving -----------------------------------------------------------------------------------------------------

std::size_t TcpSession::largest_record() const {
  return state_ == State::handshaking ? kMaxHandshakeMessage : kMaxFrames + kAeadTagSize;
}

void TcpSession::on_bytes(TimePoint now, BytesView bytes) {
  stats_.bytes_received += bytes.size();
  while (!bytes.empty() && state_ != State::closed) {
    if (partial_.empty() && bytes.size() >= 2) {
      const std::size_t size = static_cast<std::size_t>(bytes[0] << 8 | bytes[1]);
      if (size > largest_record()) return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
      if (bytes.size() >= 2 + size) {  // whole: read in place
        const BytesView record = bytes.first(2 + size);
        bytes = bytes.subspan(2 + size);
        on_record(now, record);
        continue;
      }
    }
    // A record that came in parts: gather it.
    const std::size_t have = partial_.size();
    std::size_t wanted = 2;
    if (have >= 2) {
      const std::size_t size = static_cast<std::size_t>(partial_[0] << 8 | partial_[1]);
      if (size > largest_record()) return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
      wanted = 2 + size;
    } else if (bytes.size() + have >= 2 && have == 0) {
      wanted = bytes.size();  // its length was looked at above: more than is here
    }
    const std::size_t take = std::min(bytes.size(), wanted - have);
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (partial_.size() < 2) continue;
    const std::size_t size = static_cast<std::size_t>(partial_[0] << 8 | partial_[1]);
    if (size > largest_record()) return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
    if (partial_.size() == 2 + size) {
      Bytes record;
      record.swap(partial_);
      on_record(now, record);
      record.clear();
      if (partial_.empty() && record.capacity() <= 2048) partial_.swap(record);  // keep small storage only
    }
  }
}

void TcpSession::on_record(TimePoint now, BytesView record) {
  last_received_ = now;
  ++stats_.packets_received;
  if (state_ == State::handshaking) {
    on_handshake_message(now, record.subspan(2));
  } else if (state_ == State::established) {
    on_sealed_record(now, record);
  }
}

void TcpSession::on_handshake_message(TimePoint now, BytesView message) {
  std::array<std::uint8_t, kMaxHandshakeMessage> payload;
  if (!noise_ || noise_->my_turn()) return fail(LinkCloseReason::handshake_failed, CloseCode::none);
  const auto size = noise_->read_message(message, payload);
  if (!size) {
    ++stats_.packets_rejected;
    return fail(LinkCloseReason::handshake_failed, CloseCode::none);
  }
  const bool first = !initiator_ && !noise_->complete();
  if (first) {
    message_due_ = true;
    return;
  }
  TransportParameters peer;
  if (!parse_parameters(BytesView(payload).first(*size), peer) || (expected_ && noise_->remote_static() != *expected_)) {
    ++stats_.packets_rejected;
    return fail(LinkCloseReason::handshake_failed, CloseCode::none);
  }
  rtt_ = std::max(now - message_sent_, Duration(1ms));  // a measure for the windows; the kernel has its own
  streams_.set_rtt(rtt_);
  streams_.set_peer_limits(peer);
  if (peer.idle_timeout > Duration{}) idle_timeout_ = std::min(idle_timeout_, peer.idle_timeout);
  if (initiator_) {
    message_due_ = true;  // message 3; then the keys are there, and data follows in the same flight
    state_ = State::established;
    remote_ = noise_->remote_static();
  } else {
    become_established(now);
  }
}

void TcpSession::become_established(TimePoint now) {
  state_ = State::established;
  const NoiseKeys keys = noise_->split();
  send_keys_ = PacketKeys(keys.send, kRekeyBits);
  receive_keys_ = PacketKeys(keys.receive, kRekeyBits);
  remote_ = noise_->remote_static();
  ByteReader hash(noise_->handshake_hash());
  session_ = hash.u64();
  noise_.reset();
  observed_address_pending_ = true;
  last_received_ = now;
  events_.push(LinkEvent::Kind::established);
}

void TcpSession::on_sealed_record(TimePoint now, BytesView record) {
  std::array<std::uint8_t, kMaxFrames> plain;
  if (record.size() < 2 + kAeadTagSize) return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
  const std::size_t size = record.size() - 2 - kAeadTagSize;
  if (!receive_keys_.open_any(receive_nonce_, record.first(2), record.subspan(2), MutableBytes(plain).first(size))) {
    ++stats_.packets_rejected;
    // The stream is in order: what does not fit here is forged, and nothing after it can be read.
    return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
  }
  ++receive_nonce_;
  FrameReader reader(BytesView(plain).first(size));
  for (Frame frame; reader.next(frame);) {
    if (!on_frame(now, frame)) return fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
    if (state_ == State::closed) return;
  }
  if (reader.failed()) fail(LinkCloseReason::protocol_error, CloseCode::protocol_error);
}

bool TcpSession::on_frame(TimePoint now, const Frame& frame) {
  switch (frame.type) {
    case FrameType::ack:
    case FrameType::path_challenge:
    case FrameType::path_response: return false;
    case FrameType::datagram: events_.push_datagram(frame.data); return true;
    case FrameType::observed_address:
      events_.push_path(LinkEvent::Kind::observed_address, Path{frame.endpoint, 0});
      return true;
    case FrameType::close: {
      const auto code = static_cast<CloseCode>(std::min<std::uint64_t>(frame.value, 255));
      become_closed(code == CloseCode::protocol_error ? LinkCloseReason::protocol_error
                    : code == CloseCode::refused      ? LinkCloseReason::refused
                    : code == CloseCode::duplicate    ? LinkCloseReason::duplicate
                                                      : LinkCloseReason::remote);
      return true;
    }
    default: return streams_.on_frame(now, frame);
  }
}

// ---- sending -------------------------------------------------------------------------------------------------------

std::size_t TcpSession::write_handshake_message(TimePoint now, MutableBytes out) {
  message_due_ = false;
  std::array<std::uint8_t, kMaxParametersSize> payload;
  ByteWriter writer(payload);
  const bool first = initiator_ && state_ == State::handshaking;
  if (first) {
    writer.u64(0);
  } else {
    encode_parameters(writer, make_parameters(config_, 0));
  }
  const auto size = noise_->write_message(writer.written(), out.subspan(2));
  PEERBED_CHECK(size.has_value(), "a handshake message was written out of turn");
  out[0] = static_cast<std::uint8_t>(*size >> 8);
  out[1] = static_cast<std::uint8_t>(*size & 0xff);
  message_sent_ = now;
  if (noise_->complete()) become_established(now);
  return 2 + *size;
}

bool TcpSession::wants_to_send() const {
  return ping_pending_ || observed_address_pending_ || !datagrams_.empty() || streams_.wants_to_send();
}

std::size_t TcpSession::poll_record(TimePoint now, MutableBytes out) {
  if (!connected_) return 0;
  std::size_t size = 0;
  if (message_due_ && state_ != State::closed) {
    size = write_handshake_message(now, out);
  } else {
    if (state_ == State::closed ? !close_pending_ : (state_ != State::established || noise_ || !wants_to_send())) return 0;
    ByteWriter frames(out.subspan(2, kMaxFrames));
    if (state_ == State::closed) {
      close_pending_ = false;
      encode_close(frames, close_code_);
    } else {
      if (observed_address_pending_) encode_observed_address(frames, remote_endpoint_);
      if (ping_pending_) encode_ping(frames);
      observed_address_pending_ = ping_pending_ = false;
      const auto write_datagrams = [&] {
        while (!datagrams_.empty() && frames.room() >= datagrams_.front().size() + 5) {
          encode_datagram(frames, datagrams_.front());
          datagrams_.pop();
        }
      };
      if (datagrams_first_) write_datagrams();
      while (frames.room() > kControlRoom && streams_.write_frames_reliably(frames)) {}
      if (!datagrams_first_) write_datagrams();
      datagrams_first_ = !datagrams_first_;
    }
    if (frames.size() == 0) return 0;
    const std::size_t sealed = frames.size() + kAeadTagSize;
    out[0] = static_cast<std::uint8_t>(sealed >> 8);
    out[1] = static_cast<std::uint8_t>(sealed & 0xff);
    send_keys_.seal_next(send_nonce_++, out.first(2), frames.written(), out.subspan(2, sealed));
    size = 2 + sealed;
  }
  last_sent_ = now;
  ++stats_.packets_sent;
  stats_.bytes_sent += size;
  return size;
}

// ---- the user and time ---------------------------------------------------------------------------------------------

std::size_t TcpSession::write(StreamId stream, std::span<const BytesView> slices) {
  return state_ == State::established ? streams_.write(stream, slices) : 0;
}

bool TcpSession::send_datagram(BytesView payload) {
  if (state_ != State::established || payload.size() > max_datagram_payload()) return false;
  return datagrams_.push(payload);
}

void TcpSession::become_closed(LinkCloseReason reason) {
  if (state_ == State::closed) return;
  state_ = State::closed;
  events_.push_closed(reason);
}

void TcpSession::close(TimePoint) {
  close_pending_ = state_ == State::established && !noise_;
  become_closed(LinkCloseReason::local);
}

void TcpSession::fail(LinkCloseReason reason, CloseCode code) {
  close_code_ = code;
  close_pending_ = state_ == State::established && !noise_;
  become_closed(reason);
}

void TcpSession::abandon(LinkCloseReason reason) { become_closed(reason); }

std::optional<TimePoint> TcpSession::next_timeout() const {
  if (state_ == State::closed) return std::nullopt;
  if (state_ == State::handshaking) return created_ + config_.handshake_timeout;
  TimePoint next = last_received_ + idle_timeout_;
  if (config_.keepalive > Duration{} && !ping_pending_) next = std::min(next, std::max(last_received_, last_sent_) + config_.keepalive);
  return next;
}

void TcpSession::on_timeout(TimePoint now) {
  if (state_ == State::closed) return;
  if (state_ == State::handshaking) {
    if (now >= created_ + config_.handshake_timeout) become_closed(LinkCloseReason::timed_out);
    return;
  }
  if (now >= last_received_ + idle_timeout_) return become_closed(LinkCloseReason::timed_out);
  if (config_.keepalive > Duration{} && now >= std::max(last_received_, last_sent_) + config_.keepalive) ping_pending_ = true;
}

LinkStats TcpSession::stats() const {
  LinkStats stats = stats_;
  stats.smoothed_rtt = stats.latest_rtt = stats.min_rtt = rtt_;
  return stats;
}

}  // namespace peerbed
