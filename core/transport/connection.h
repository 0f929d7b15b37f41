// One connection over UDP as a pure machine: datagrams and time in, datagrams and events out. Nothing is called back; the
// driver (udp_transport.cpp) drains events() after each call, asks poll_transmit() until it has no more, and wakes the
// machine at next_timeout().
//
// Handshake. The initiator sends message 1 (padded), the responder answers with message 2, and with that the initiator is
// established: after one round trip it sends message 3 and sealed data in one datagram. Message 3 rides in every datagram
// until a sealed packet of the responder shows that it came through. A responder answers a repeated message 1 with the same
// message 2 and keeps no timer for it. Handshake packets are outside of congestion control, and the loss of packets that
// leave before the first acknowledgement is repaired but not held against the path: a first packet that a closed NAT
// swallows must not cost the slow start of the connection.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "core/congestion/controller.h"
#include "core/congestion/pacer.h"
#include "core/crypto/noise.h"
#include "core/env/environment.h"
#include "core/transport/ack_ranges.h"
#include "core/transport/datagram_queue.h"
#include "core/transport/handshake.h"
#include "core/transport/link_events.h"
#include "core/transport/loss_detector.h"
#include "core/transport/packet.h"
#include "core/transport/packet_keys.h"
#include "core/transport/paths.h"
#include "core/transport/stream_set.h"

namespace peerbed {

struct Transmit {
  Path path;
  std::size_t size = 0;
  Ecn ecn = Ecn::not_ect;
};

struct ConnectionSetup {
  bool initiator = true;
  const KeyPair* keys = nullptr;
  const TransportConfig* config = nullptr;  ///< outlives the connection
  BytesView prologue;
  ConnectionId id = 0;  ///< ours, random
  SecretKey ephemeral{};
  AeadKey path_secret;
  Path path;
  std::optional<PeerId> expected;
  std::size_t max_circuit_datagram = 0;
  int rekey_bits = PacketKeys::kDefaultBits;  ///< the same on both ends: part of the protocol, a parameter for tests only
};

class Connection final : private RecoverySink {
 public:
  static constexpr Duration kMaxAckDelay = 25ms;
  static constexpr Duration kInitialRtt = 333ms;                 // RFC 9002 §6.2.2
  static constexpr Duration kHandshakeTimeout = 3 * kInitialRtt; // 999 ms, as srtt + 4 rttvar gives it

  Connection(TimePoint now, const ConnectionSetup& setup);
  ~Connection();

  // the network
  void on_datagram(TimePoint now, const Path& from, Ecn ecn, BytesView datagram);
  void on_timeout(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;
  [[nodiscard]] std::optional<Transmit> poll_transmit(TimePoint now, MutableBytes out);
  [[nodiscard]] LinkEvents& events() { return events_; }

  // the user
  [[nodiscard]] bool initiator() const { return initiator_; }
  [[nodiscard]] bool established() const { return state_ == State::established; }
  [[nodiscard]] bool closed() const { return state_ == State::closed; }
  [[nodiscard]] const PeerId& remote() const { return remote_; }
  [[nodiscard]] const Path& path() const { return path_; }
  [[nodiscard]] std::uint64_t session() const { return session_; }
  [[nodiscard]] ConnectionId id() const { return id_; }
  [[nodiscard]] StreamId open_stream() { return streams_.open(); }
  std::size_t write(StreamId stream, std::span<const BytesView> slices);
  StreamRead read(TimePoint now, StreamId stream, MutableBytes into);
  void finish(StreamId stream) { streams_.finish(stream); }
  void reset(StreamId stream, std::uint64_t code) { streams_.reset(stream, code); }
  bool send_datagram(BytesView payload);
  [[nodiscard]] std::size_t max_datagram_payload() const;
  void probe_path(TimePoint now, const Path& path);
  bool use_path(TimePoint now, const Path& path);
  void close(TimePoint now);
  void abandon(LinkCloseReason reason) { become_closed(reason); }  ///< tells the user, not the peer
  [[nodiscard]] LinkStats stats() const;
  [[nodiscard]] const StreamSet& streams() const { return streams_; }
  [[nodiscard]] StreamSet& streams() { return streams_; }
  void set_max_circuit_datagram(std::size_t size) { max_circuit_datagram_ = size; }

 private:
  enum class State : std::uint8_t { handshaking, established, closed };
  static constexpr std::size_t kSmallestDatagram = 256;  // holds a handshake message and one sealed packet with an ACK
  enum class Blocked : std::uint8_t { not_at_all, by_window, by_pacer };

  struct HandshakeState {  // freed once the peer has shown that it has the keys
    NoiseXX noise;
    Bytes received;  // responder: message 1 as it came, to know a repetition
    Bytes message;   // the packet to send and to repeat
    Path reply_to;
    TimePoint first_sent{};
    std::optional<TimePoint> repeat_at;
    int sends = 0;
    bool due = false;
  };

  // connection.cpp
  void write_handshake_message(HandshakeType type, BytesView payload);
  void become_established(TimePoint now, const TransportParameters& peer);
  void become_closed(LinkCloseReason reason);
  void close_for_protocol_error(TimePoint now);
  void move_to(TimePoint now, const Path& path, Duration rtt);
  [[nodiscard]] std::size_t datagram_size(const Path& path) const;
  [[nodiscard]] TimePoint idle_deadline() const;

  // connection_receive.cpp
  void on_handshake_packet(TimePoint now, const Path& from, const PacketView& packet);
  void on_initiate(TimePoint now, const Path& from, const PacketView& packet);
  void on_respond(TimePoint now, const PacketView& packet);
  void on_confirm(TimePoint now, const Path& from, const PacketView& packet);
  void on_sealed_packet(TimePoint now, const Path& from, Ecn ecn, const PacketView& packet);
  struct PayloadFacts {
    bool ack_eliciting = false, non_probing = false;
  };
  bool on_frame(TimePoint now, const Path& from, const Frame& frame, const FrameReader& reader, PayloadFacts& facts);
  bool on_ack(TimePoint now, const AckFrame& ack);
  void on_path_challenge(TimePoint now, const Path& from, const PathToken& token);
  void on_path_response(TimePoint now, const PathToken& token);
  void note_received(TimePoint now, std::uint64_t number, Ecn ecn, bool ack_eliciting);
  void follow_peer(TimePoint now, const Path& from);
  void apply(TimePoint now, const RecoveryOutcome& outcome);
  void validate_ecn(TimePoint now, const AckFrame& ack, const RecoveryOutcome& outcome);
  void on_record_acked(const SentRecord& record) override;
  void on_record_lost(const SentRecord& record) override;

  // connection_send.cpp
  std::optional<Transmit> transmit_handshake(TimePoint now, MutableBytes out);
  std::optional<Transmit> transmit_probe(TimePoint now, MutableBytes out);
  std::optional<Transmit> transmit_close(MutableBytes out);
  std::optional<Transmit> transmit_data(TimePoint now, MutableBytes out);
  bool write_payload(TimePoint now, ByteWriter& out, bool may_send_data);
  bool write_datagrams(ByteWriter& out);
  [[nodiscard]] std::size_t seal_packet(MutableBytes packet, std::size_t payload_size);
  [[nodiscard]] Blocked blocked(TimePoint now, std::size_t size);
  [[nodiscard]] bool wants_to_send() const;
  [[nodiscard]] bool ack_due(TimePoint now) const;
  void update_pacer(TimePoint now);

  const TransportConfig& config_;
  bool initiator_;
  State state_ = State::handshaking;
  bool confirmed_ = false;  // the peer has shown that it has the keys
  bool heard_back_ = false; // the peer has acknowledged something: from here on, loss is evidence of congestion
  bool close_pending_ = false, answered_wrongly_ = false;
  CloseCode close_code_ = CloseCode::none;
  ConnectionId id_, peer_id_ = 0;
  std::optional<PeerId> expected_;
  PeerId remote_{};
  std::uint64_t session_ = 0;
  PacketKeys send_keys_, receive_keys_;
  int rekey_bits_;
  std::unique_ptr<HandshakeState> handshake_;
  TimePoint created_;
  LinkEvents events_;
  StreamSet streams_;
  DatagramQueue datagrams_;
  bool datagrams_first_ = true;

  Path path_;
  Paths paths_;
  std::optional<Path> following_;  // the peer's new path, being validated
  TimePoint keep_path_until_{};    // after our own move the peer's older packets do not move us back
  std::size_t max_circuit_datagram_;

  AckRanges received_;
  int unacked_eliciting_ = 0;
  bool ack_at_once_ = false;
  TimePoint ack_deadline_ = kNever, largest_received_at_{};
  EcnCounts received_ecn_;

  LossDetector detector_;
  std::unique_ptr<CongestionController> controller_;
  DataSize pacer_burst_;
  Pacer pacer_;
  TimePoint pace_deadline_ = kNever;
  bool app_limited_ = true;
  // The most that was in flight in this round trip and in the last one: a window that is not even half used must not grow,
  // though the pacer and not the application may be what holds it back.
  DataSize peak_in_flight_, last_peak_in_flight_;
  std::uint64_t round_end_ = 0;
  bool ecn_usable_ = true;
  EcnCounts acked_ecn_;
  bool ping_pending_ = false, observed_address_pending_ = false;

  Duration idle_timeout_;
  TimePoint last_received_{}, last_sent_{}, idle_since_{}, ping_allowed_{};
  bool eliciting_since_received_ = false;
  std::uint64_t packets_sent_ = 0, packets_received_ = 0, packets_rejected_ = 0, bytes_sent_ = 0, bytes_received_ = 0;
};

}  // namespace peerbed
