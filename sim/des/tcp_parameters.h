// What can be set of a TCP connection of the plane, and what it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/units.h"

namespace peerbed::sim {

struct TcpParameters {
  std::uint16_t max_segment_size = 1460;  ///< what we announce and never exceed: MTU 1500 less 40; 1440 for IPv6
  std::uint16_t header_size = 40;         ///< IP and TCP headers: turns an ICMP MTU into a segment size; 60 for IPv6
  std::string congestion = "cubic";       ///< a name of core/congestion's registry
  std::size_t send_buffer = 256 * 1024;
  /// The send buffer follows twice the congestion window up to here, as Linux tunes it: it must hold what is in flight.
  std::size_t send_buffer_limit = 4 * 1024 * 1024;
  std::size_t receive_buffer = 1024 * 1024;  ///< also the largest window that is announced
  Duration initial_rto = 1s;                 ///< RFC 6298 (2.1)
  /// As Linux has it: RTO = SRTT + max(minimum_rto, 4 RTTVAR). RFC 6298 (2.4) would have 1 s for the whole.
  Duration minimum_rto = 200ms;
  Duration maximum_rto = 120s;
  Duration delayed_ack = 40ms;
  Duration time_wait = 5s;    ///< not minutes: it only has to outlast the peer's retransmissions of its last segments
  int syn_retries = 6;        ///< as Linux: gives up 127 s after the first SYN
  int data_retries = 15;      ///< as Linux's tcp_retries2
  bool selective_ack = true;  ///< RFC 2018; used when both ends have it
  bool nagle = false;         ///< peers set TCP_NODELAY
};

struct TcpCounters {
  std::uint64_t segments_sent = 0, segments_received = 0;
  std::uint64_t bytes_sent = 0;  ///< payload, first transmissions only
  std::uint64_t segments_retransmitted = 0;
  std::uint64_t fast_recoveries = 0, timeouts = 0, window_probes = 0;
  std::uint64_t duplicates_received = 0;  ///< segments that brought nothing new
};

}  // namespace peerbed::sim
