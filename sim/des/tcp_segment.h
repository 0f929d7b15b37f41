// What a TCP segment says, as the machine sees it. The plane carries it in a pooled packet and counts its header bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/base/bytes.h"

namespace peerbed::sim {

/// A received range [start, end) above the cumulative acknowledgement (RFC 2018).
struct SackBlock {
  std::uint32_t start = 0, end = 0;
  constexpr bool operator==(const SackBlock&) const = default;
};

/// Sequence numbers are the wire's: 32 bits that wrap. A plain value; only `payload` points elsewhere.
struct TcpSegment {
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgement = 0;  ///< meaningful with `ack`
  bool syn = false, ack = false, fin = false, rst = false;
  std::uint32_t window = 0;            ///< in bytes: window scaling is already applied
  std::uint16_t max_segment_size = 0;  ///< the MSS option of a SYN; 0: absent
  bool sack_permitted = false;         ///< option of a SYN
  std::uint8_t sack_count = 0;
  std::array<SackBlock, 3> sack{};
  BytesView payload;  ///< from poll_transmit: valid until the next call on the machine that made it

  [[nodiscard]] std::span<const SackBlock> sack_blocks() const { return std::span(sack).first(sack_count); }
  /// SEG.LEN of RFC 9293: SYN and FIN each take one number.
  [[nodiscard]] std::uint32_t length() const {
    return static_cast<std::uint32_t>(payload.size()) + (syn ? 1U : 0U) + (fin ? 1U : 0U);
  }
};

/// Base header, without options: what the plane adds to the payload together with the IP header.
inline constexpr std::uint32_t kTcpHeaderSize = 20;

}  // namespace peerbed::sim
