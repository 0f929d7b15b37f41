#include "core/transport/connection.h"

#include <algorithm>

#include "core/base/check.h"

namespace peerbed {
namespace {

std::unique_ptr<CongestionController> make_configured_controller(const TransportConfig& config) {
  ControllerConfig controller;
  controller.max_datagram_size = DataSize{static_cast<std::int64_t>(config.max_direct_datagram)};
  auto made = make_controller(config.congestion, controller);
  PEERBED_CHECK(made.has_value(), "the congestion controller's name was not checked when the transport was opened");
  return std::move(made).value();
}

constexpr std::int64_t kBurstPackets = 10;

}  // namespace

Connection::Connection(TimePoint now, const ConnectionSetup& setup)
    : config_(*setup.config),
      initiator_(setup.initiator),
      id_(setup.id),
      expected_(setup.expected),
      rekey_bits_(setup.rekey_bits),
      handshake_(new HandshakeState{
          NoiseXX(setup.initiator ? NoiseRole::initiator : NoiseRole::responder, *setup.keys, setup.prologue, setup.ephemeral),
          {}, {}, setup.path, {}, std::nullopt, 0, false}),
      created_(now),
      streams_(setup.initiator, *setup.config, events_),
      datagrams_(setup.config->max_datagram_queue),
      path_(setup.path),
      paths_(setup.path_secret),
      max_circuit_datagram_(setup.max_circuit_datagram),
      detector_(LossDetectorConfig{kMaxAckDelay, kInitialRtt}),
      controller_(make_configured_controller(*setup.config)),
      pacer_burst_{kBurstPackets * static_cast<std::int64_t>(setup.config->max_direct_datagram)},
      pacer_(pacer_burst_),
      idle_timeout_(setup.config->idle_timeout),
      last_received_(now),
      last_sent_(now),
      idle_since_(now) {
  if (!initiator_) return;
  std::array<std::uint8_t, kInitiatePayloadSize> payload{};
  ByteWriter writer(payload);
  writer.u64(id_);
  write_handshake_message(HandshakeType::initiate, payload);
}

Connection::~Connection() = default;

void Connection::write_handshake_message(HandshakeType type, BytesView payload) {
  std::array<std::uint8_t, 512> message;
  auto size = handshake_->noise.write_message(payload, message);
  PEERBED_CHECK(size.has_value(), "a handshake message was written out of turn");
  handshake_->message.resize(kHandshakeHeaderSize + *size);
  ByteWriter writer(handshake_->message);
  encode_handshake_header(writer, type, peer_id_, id_, *size);
  writer.bytes(BytesView(message).first(*size));
  handshake_->due = true;
  handshake_->sends = 0;
}

void Connection::become_established(TimePoint now, const TransportParameters& peer) {
  peer_id_ = peer.connection_id;
  const NoiseKeys keys = handshake_->noise.split();
  send_keys_ = PacketKeys(keys.send, rekey_bits_);
  receive_keys_ = PacketKeys(keys.receive, rekey_bits_);
  remote_ = handshake_->noise.remote_static();
  ByteReader hash(handshake_->noise.handshake_hash());
  session_ = hash.u64();
  streams_.set_peer_limits(peer);
  if (peer.idle_timeout > Duration{}) idle_timeout_ = std::min(idle_timeout_, peer.idle_timeout);  // RFC 9000 §10.1
  state_ = State::established;
  idle_since_ = last_received_ = now;
  handshake_->repeat_at.reset();
  // It is also the packet that brings message 3 across, or tells the initiator that it came.
  observed_address_pending_ = !path_.relayed();
  ping_pending_ = path_.relayed();
  update_pacer(now);
  events_.push(LinkEvent::Kind::established);
}

void Connection::become_closed(LinkCloseReason reason) {
  if (state_ == State::closed) return;
  state_ = State::closed;
  if (!close_pending_) handshake_.reset();  // else message 3 may have to go with CLOSE
  events_.push_closed(reason);
}

void Connection::close_for_protocol_error(TimePoint now) {
  static_cast<void>(now);
  close_code_ = CloseCode::protocol_error;
  close_pending_ = state_ == State::established;
  become_closed(LinkCloseReason::protocol_error);
}

void Connection::close(TimePoint now) {
  static_cast<void>(now);
  close_pending_ = state_ == State::established;
  become_closed(LinkCloseReason::local);
}

std::size_t Connection::datagram_size(const Path& path) const {
  return std::min(path.relayed() ? max_circuit_datagram_ : config_.max_direct_datagram, kMaxDatagram);
}

// ---- the user ------------------------------------------------------------------------------------------------------

std::size_t Connection::write(StreamId stream, std::span<const BytesView> slices) {
  return state_ == State::established ? streams_.write(stream, slices) : 0;
}

StreamRead Connection::read(TimePoint now, StreamId stream, MutableBytes into) { return streams_.read(now, stream, into); }

std::size_t Connection::max_datagram_payload() const {
  const std::size_t size = datagram_size(path_);
  return size > kSealedOverhead + kDatagramFrameOverhead ? size - kSealedOverhead - kDatagramFrameOverhead : 0;
}

bool Connection::send_datagram(BytesView payload) {
  if (state_ != State::established || payload.size() > max_datagram_payload()) return false;
  return datagrams_.push(payload);
}

void Connection::probe_path(TimePoint now, const Path& path) {
  if (state_ == State::established) paths_.challenge(now, path);
}

bool Connection::use_path(TimePoint now, const Path& path) {
  if (state_ != State::established) return false;
  if (path == path_) return true;
  const auto rtt = paths_.validated(now, path);
  if (!rtt) return false;
  move_to(now, path, *rtt);
  ping_pending_ = true;  // the peer follows the first packet that is more than a probe
  // Both ends may move at once, to different paths. The responder follows, the initiator keeps its choice for a while.
  if (initiator_) keep_path_until_ = now + 3 * detector_.probe_timeout();
  return true;
}

void Connection::move_to(TimePoint now, const Path& path, Duration rtt) {
  // A NAT that rebinds changes the port and leaves the network behind it as it was (RFC 9000 §9.4).
  const bool same_network = !path.relayed() && !path_.relayed() && path.remote.address == path_.remote.address;
  path_ = path;
  following_.reset();
  detector_.on_path_changed(same_network ? std::nullopt : std::optional(rtt));
  if (!same_network) {
    controller_->on_path_changed(now);
    ecn_usable_ = true;
    acked_ecn_ = {};
  }
  observed_address_pending_ = !path.relayed();
  update_pacer(now);
  events_.push_path(LinkEvent::Kind::path_changed, path);
}

// ---- time ----------------------------------------------------------------------------------------------------------

TimePoint Connection::idle_deadline() const { return idle_since_ + std::max(idle_timeout_, 3 * detector_.probe_timeout()); }

std::optional<TimePoint> Connection::next_timeout() const {
  if (state_ == State::closed) return std::nullopt;
  TimePoint next = kNever;
  const auto consider = [&next](TimePoint at) { next = std::min(next, at); };
  if (state_ == State::handshaking) {
    consider(created_ + config_.handshake_timeout);
    if (handshake_->repeat_at) consider(*handshake_->repeat_at);
    return next;
  }
  consider(idle_deadline());
  if (const auto at = detector_.timeout()) consider(*at);
  if (const auto at = paths_.next_timeout()) consider(*at);
  if (datagram_size(path_) < kSmallestDatagram) return next;  // the circuit is gone: nothing can leave
  consider(ack_deadline_);
  consider(pace_deadline_);
  if (config_.keepalive > Duration{} && !ping_pending_) consider(std::max(last_sent_, last_received_) + config_.keepalive);
  return next;
}

void Connection::on_timeout(TimePoint now) {
  if (state_ == State::closed) return;
  if (state_ == State::handshaking) {
    if (now >= created_ + config_.handshake_timeout) {
      become_closed(answered_wrongly_ ? LinkCloseReason::handshake_failed : LinkCloseReason::timed_out);
    } else if (handshake_->repeat_at && now >= *handshake_->repeat_at) {
      handshake_->repeat_at.reset();  // set anew when it leaves
      handshake_->due = true;
    }
    return;
  }
  if (now >= idle_deadline()) return become_closed(LinkCloseReason::timed_out);
  if (const auto at = detector_.timeout(); at && now >= *at) {
    apply(now, detector_.on_timeout(now, *this));
    if (detector_.probes() > 0) {
      // New data makes as good a probe as old (RFC 9002 §6.2.4), but repeats cure what was lost.
      detector_.repeat_oldest(detector_.probes(), *this);
      if (!wants_to_send()) ping_pending_ = true;
    }
  }
  paths_.on_timeout(now);
  if (config_.keepalive > Duration{} && now >= std::max(last_sent_, last_received_) + config_.keepalive) ping_pending_ = true;
  if (now >= pace_deadline_) pace_deadline_ = kNever;
}

LinkStats Connection::stats() const {
  LinkStats stats;
  stats.packets_sent = packets_sent_;
  stats.packets_received = packets_received_;
  stats.packets_lost = detector_.packets_lost();
  stats.packets_spuriously_lost = detector_.packets_spuriously_lost();
  stats.bytes_sent = bytes_sent_;
  stats.bytes_received = bytes_received_;
  stats.packets_rejected = packets_rejected_;
  stats.probe_timeouts = detector_.probe_timeouts();
  stats.congestion_window = controller_->window();
  stats.in_flight = detector_.in_flight();
  stats.slow_start_threshold = controller_->slow_start_threshold();
  stats.smoothed_rtt = detector_.rtt().smoothed();
  stats.latest_rtt = detector_.rtt().latest();
  stats.min_rtt = detector_.rtt().minimum();
  stats.pacing_rate = pacer_.rate();
  return stats;
}

}  // namespace peerbed
