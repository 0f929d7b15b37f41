// One end of one TCP connection as a pure machine: it is handed segments, times and the application's calls, and hands
// out segments, a deadline and events. RFC 9293 (states), 6298 (RTO), 5681, 6582 and 6675 (loss recovery), 5961 (RST
// and SYN in the window). Congestion control is core/congestion's. README.md of this folder says what is not modelled.
//
// The owner's loop, after every call that is not const:
//   while (auto segment = connection.poll_transmit(now)) send(*segment);
//   while (auto event = connection.poll_event()) tell(*event);
//   arm(connection.next_timeout());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/env/environment.h"
#include "sim/des/tcp_segment.h"

namespace peerbed::sim {

struct TcpParameters {
  std::uint16_t max_segment_size = 1460;  ///< what we announce and never exceed: MTU 1500 less 40; 1440 for IPv6
  std::uint16_t header_size = 40;         ///< IP and TCP headers: turns an ICMP MTU into a segment size; 60 for IPv6
  std::string congestion = "cubic";       ///< a name of core/congestion's registry
  std::size_t send_buffer = 256 * 1024;
  std::size_t receive_buffer = 1024 * 1024;  ///< also the largest window that is announced
  Duration initial_rto = 1s;                 ///< RFC 6298 (2.1)
  /// As Linux has it: RTO = SRTT + max(minimum_rto, 4 RTTVAR). RFC 6298 (2.4) would have 1 s for the whole.
  Duration minimum_rto = 200ms;
  Duration maximum_rto = 120s;
  Duration delayed_ack = 40ms;
  Duration time_wait = 1s;       ///< 2 MSL is minutes; nothing of the plane outlives a second
  int syn_retries = 6;           ///< as Linux: gives up 127 s after the first SYN
  int data_retries = 15;         ///< as Linux's tcp_retries2
  bool selective_ack = true;     ///< RFC 2018; used when both ends have it
  bool nagle = false;            ///< peers set TCP_NODELAY
};

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

struct TcpCounters {
  std::uint64_t segments_sent = 0, segments_received = 0;
  std::uint64_t bytes_sent = 0;           ///< payload, first transmissions only
  std::uint64_t segments_retransmitted = 0;
  std::uint64_t fast_recoveries = 0, timeouts = 0, window_probes = 0;
  std::uint64_t duplicates_received = 0;  ///< segments that brought nothing new
};

class TcpConnection {
 public:
  /// `initial_sequence` should differ from connection to connection: take it from the host's RandomStream.
  TcpConnection(const TcpParameters& parameters, std::uint32_t initial_sequence);
  ~TcpConnection();
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

  [[nodiscard]] const TcpCounters& counters() const;
  [[nodiscard]] DataSize congestion_window() const;
  [[nodiscard]] Duration smoothed_rtt() const;
  [[nodiscard]] std::uint16_t segment_size() const;  ///< the smaller of both ends' MSS, less what ICMP took away

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

/// What a closed port answers (RFC 9293 §3.10.7.1): a RST, or nothing to a RST.
[[nodiscard]] std::optional<TcpSegment> answer_of_closed_port(const TcpSegment& segment);

}  // namespace peerbed::sim
