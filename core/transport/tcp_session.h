// One link over a byte stream as a pure machine: bytes and time in, records and events out.
//
//   handshake   | length (2) | Noise message |   three of them, with the payloads of the UDP handshake
//   then        | length (2) | sealed frames | tag (16) |   at most 16 KiB of frames; the length is the associated data,
//               the nonce counts the records of a direction, and the key is renewed every 2^16 of them (1 GiB)
//
// The frames are those of UDP without what TCP does itself: no ACK, no path frames.
#pragma once

#include <memory>
#include <optional>

#include "core/crypto/noise.h"
#include "core/transport/datagram_queue.h"
#include "core/transport/link_events.h"
#include "core/transport/packet_keys.h"
#include "core/transport/stream_set.h"

namespace peerbed {

struct TcpSessionSetup {
  bool initiator = true;
  const KeyPair* keys = nullptr;
  const TransportConfig* config = nullptr;  ///< outlives the session
  BytesView prologue;
  SecretKey ephemeral{};
  Endpoint remote;
  std::optional<PeerId> expected;
};

class TcpSession {
 public:
  static constexpr std::size_t kMaxFrames = 16 * 1024;
  static constexpr std::size_t kMaxRecord = 2 + kMaxFrames + kAeadTagSize;

  TcpSession(TimePoint now, const TcpSessionSetup& setup);
  ~TcpSession();

  void on_connected(TimePoint now);  ///< the byte stream is there; the initiator speaks first
  void on_bytes(TimePoint now, BytesView bytes);
  /// The next record, in a buffer of kMaxRecord; zero: nothing to send.
  [[nodiscard]] std::size_t poll_record(TimePoint now, MutableBytes out);
  void on_timeout(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;
  [[nodiscard]] LinkEvents& events() { return events_; }

  [[nodiscard]] bool initiator() const { return initiator_; }
  [[nodiscard]] bool established() const { return state_ == State::established; }
  [[nodiscard]] bool closed() const { return state_ == State::closed; }
  [[nodiscard]] bool ever_established() const { return send_nonce_ > 0 || receive_nonce_ > 0; }
  [[nodiscard]] const PeerId& remote() const { return remote_; }
  [[nodiscard]] const Endpoint& remote_endpoint() const { return remote_endpoint_; }
  [[nodiscard]] std::uint64_t session() const { return session_; }
  [[nodiscard]] StreamSet& streams() { return streams_; }
  std::size_t write(StreamId stream, std::span<const BytesView> slices);
  bool send_datagram(BytesView payload);
  [[nodiscard]] std::size_t max_datagram_payload() const { return kMaxFrames - 1 - 4; }
  void close(TimePoint now);
  void abandon(LinkCloseReason reason);  ///< tells the user, not the peer
  [[nodiscard]] LinkStats stats() const;

 private:
  enum class State : std::uint8_t { handshaking, established, closed };

  /// Takes one whole record (length and body).
  void on_record(TimePoint now, BytesView record);
  void on_handshake_message(TimePoint now, BytesView message);
  void on_sealed_record(TimePoint now, BytesView record);
  bool on_frame(TimePoint now, const Frame& frame);
  std::size_t write_handshake_message(TimePoint now, MutableBytes out);
  void become_established(TimePoint now);
  void become_closed(LinkCloseReason reason);
  void fail(LinkCloseReason reason, CloseCode code);
  [[nodiscard]] bool wants_to_send() const;
  [[nodiscard]] std::size_t largest_record() const;

  const TransportConfig& config_;
  bool initiator_;
  State state_ = State::handshaking;
  bool connected_ = false, close_pending_ = false, message_due_ = false;
  CloseCode close_code_ = CloseCode::none;
  std::optional<PeerId> expected_;
  PeerId remote_{};
  Endpoint remote_endpoint_;
  std::uint64_t session_ = 0;
  std::unique_ptr<NoiseXX> noise_;  // freed when both sides are done
  PacketKeys send_keys_, receive_keys_;
  std::uint64_t send_nonce_ = 0, receive_nonce_ = 0;
  Bytes partial_;  // the beginning of a record
  LinkEvents events_;
  StreamSet streams_;
  DatagramQueue datagrams_;
  bool datagrams_first_ = true;
  bool ping_pending_ = false, observed_address_pending_ = false;
  TimePoint created_, message_sent_{}, last_received_, last_sent_;
  Duration idle_timeout_, rtt_{};
  LinkStats stats_;
};

}  // namespace peerbed
