// One end of one TCP connection as a pure machine: it is handed segments, times and the application's calls, and hands
// out segments, a deadline and events. RFC 9293 (states), 6298 (RTO), 5681, 6582 and 6675 (loss recovery), 5961 (RST
// and SYN in the window). Congestion control is core/congestion's. README.md of this folder says what is not modelled.
//
// The owner's loop, after every call that is not const:
//   while (auto event = connection.poll_event()) tell(*event);
//   while (auto segment = connection.poll_transmit(now)) send(*segment);
//   arm(connection.next_timeout());
// Events first: what the application reads then already opens the window that the acknowledgement announces, and what it
// writes carries the acknowledgement. The other order works as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/env/environment.h"
#include "sim/des/tcp_parameters.h"
#include "sim/des/tcp_receiver.h"
#include "sim/des/tcp_segment.h"
#include "sim/des/tcp_sender.h"

namespace peerbed::sim {

struct TcpEvent {
  enum class Kind : std::uint8_t {
    connected,  ///< established: once; of a passive open, this is the moment to accept it
    readable,   ///< data or the end; comes again only after read() has returned all there was
    writable,   ///< after write() took less than it was given
    closed,     ///< exactly once, last
  };
  Kind kind = Kind::connected;
  CloseReason reason = CloseReason::finished;  ///< of `closed`
};

/// RFC 9293 §3.3.2; LISTEN is the plane's.
enum class TcpState : std::uint8_t {
  closed, syn_sent, syn_received, established, fin_wait_1, fin_wait_2, close_wait, closing, last_ack, time_wait,
};

class TcpConnection {
 public:
  /// `initial_sequence` should differ from connection to connection: take it from the host's RandomStream.
  TcpConnection(const TcpParameters& parameters, std::uint32_t initial_sequence);
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  // One of these, once.
  void open_active(TimePoint now);
  void open_passive(TimePoint now, const TcpSegment& syn);

  // The world tells.
  void on_segment(TimePoint now, const TcpSegment& segment);  ///< the payload is copied
  void on_timeout(TimePoint now);                             ///< may come early or late
  /// An ICMP error for a segment of ours. It ends an open that is under way (as on Linux); later only `too_big` counts.
  void on_unreachable(TimePoint now, const Unreachable& error);

  [[nodiscard]] std::optional<TimePoint> next_timeout() const;
  [[nodiscard]] std::optional<TcpSegment> poll_transmit(TimePoint now);
  [[nodiscard]] std::optional<TcpEvent> poll_event();

  // The application's calls; they only change state: run the owner's loop afterwards.
  std::size_t write(BytesView data);        ///< how much was taken; 0 before `connected` and after shutdown_send()
  ReceiveResult read(MutableBytes into);
  void shutdown_send();                     ///< FIN after all that was written
  void abort();                             ///< RST, no event
  /// The application lets go of its handle: abort(), unless both directions have ended; then the rest (FIN, TIME_WAIT)
  /// goes on without it. No event comes after this.
  void release();

  [[nodiscard]] TcpState state() const;
  /// Closed and nothing left to transmit: the owner may destroy it. TIME_WAIT is not done.
  [[nodiscard]] bool done() const;
  /// In TIME_WAIT, a SYN with a higher sequence number may start a new connection (RFC 9293 §3.6.1).
  [[nodiscard]] bool may_be_replaced_by(const TcpSegment& syn) const;

  [[nodiscard]] const TcpCounters& counters() const { return counters_; }
  [[nodiscard]] DataSize congestion_window() const { return sender_.congestion_window(); }
  [[nodiscard]] Duration smoothed_rtt() const { return sender_.smoothed_rtt(); }
  [[nodiscard]] std::uint16_t segment_size() const { return segment_size_; }  ///< the smaller of both ends' MSS, less what ICMP took away

 private:
  enum class Phase : std::uint8_t { closed, syn_sent, syn_received, synchronized, time_wait };

  // Sequence numbers of the wire <-> 64-bit offsets from an initial sequence number, by the nearest to a known offset.
  [[nodiscard]] static std::int64_t offset(std::uint32_t wire, std::uint32_t initial, std::int64_t near);
  [[nodiscard]] std::int64_t theirs(std::uint32_t wire) const { return offset(wire, their_initial_, receiver_.next()); }
  [[nodiscard]] std::int64_t ours(std::uint32_t wire) const { return offset(wire, our_initial_, next_to_send()); }
  [[nodiscard]] std::uint32_t our_wire(std::int64_t at) const { return our_initial_ + static_cast<std::uint32_t>(at); }
  [[nodiscard]] std::uint32_t their_wire(std::int64_t at) const { return their_initial_ + static_cast<std::uint32_t>(at); }
  [[nodiscard]] std::int64_t next_to_send() const { return sender_.next(); }  ///< 1 once the SYN is out

  void learn_from_syn(const TcpSegment& syn);
  void on_segment_in_syn_sent(TimePoint now, const TcpSegment& segment);
  void on_segment_in_syn_received(TimePoint now, const TcpSegment& segment);
  void on_segment_synchronized(TimePoint now, const TcpSegment& segment);
  [[nodiscard]] bool passes_sequence_checks(const TcpSegment& segment);
  void establish(TimePoint now, const TcpSegment& segment);
  void on_acknowledgement(TimePoint now, const TcpSegment& segment);
  void on_text(TimePoint now, const TcpSegment& segment);
  void answer_with_reset(const TcpSegment& segment);
  void settle_ends(TimePoint now);
  void close(CloseReason reason);
  void arm_handshake(TimePoint now);
  [[nodiscard]] TcpSegment with_acknowledgement(TcpSegment segment);

  TcpParameters parameters_;
  TcpCounters counters_;
  TcpSender sender_;
  TcpReceiver receiver_;
  std::uint32_t our_initial_;
  std::uint32_t their_initial_ = 0;
  std::uint16_t segment_size_;
  bool sack_agreed_ = false;
  Phase phase_ = Phase::closed;
  bool peer_ended_first_ = false;

  bool handshake_wanted_ = false;  ///< a SYN or SYN and ACK is to be sent
  std::optional<TimePoint> handshake_deadline_;
  std::optional<TimePoint> handshake_sent_;
  int handshake_tries_ = 0;
  bool handshake_repeated_ = false;  ///< no round trip can be taken from it (Karn)
  std::optional<TimePoint> time_wait_end_;
  std::optional<TcpSegment> reset_;  ///< a RST that is to be sent

  bool released_ = false;
  bool connected_pending_ = false;
  bool readable_armed_ = true, readable_pending_ = false;
  bool refused_some_ = false, writable_pending_ = false;
  bool end_read_ = false;
  bool closed_told_ = false;
  std::optional<CloseReason> close_pending_;
};

/// What a closed port answers (RFC 9293 §3.10.7.1): a RST, or nothing to a RST.
[[nodiscard]] std::optional<TcpSegment> answer_of_closed_port(const TcpSegment& segment);

}  // namespace peerbed::sim
