// The frames inside sealed packets and TCP records, with the numbers and the layout of RFC 9000 §19 and RFC 9221 where
// those exist. All integers are varints (RFC 9000 §16) unless a width is given.
//
//   PADDING 00 | PING 01 | ACK 02, 03 with ECN counts | RESET_STREAM 04 | STREAM 08..0f | MAX_DATA 10 |
//   MAX_STREAM_DATA 11 | MAX_STREAMS 12 | STREAM_DATA_BLOCKED 15 | PATH_CHALLENGE 1a | PATH_RESPONSE 1b | CLOSE 1c |
//   DATAGRAM 30, 31 with a length
//   OBSERVED_ADDRESS 20: family (1: 4 or 6), address (4 or 16), port (2): what the sender sees of the receiver
//   CLOSE is one code, no text.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "core/transport/interval_set.h"
#include "core/transport/link.h"

namespace peerbed {

enum class FrameType : std::uint8_t {
  padding = 0x00,
  ping = 0x01,
  ack = 0x02,
  reset_stream = 0x04,
  stream = 0x08,
  max_data = 0x10,
  max_stream_data = 0x11,
  max_streams = 0x12,
  stream_data_blocked = 0x15,
  path_challenge = 0x1a,
  path_response = 0x1b,
  close = 0x1c,
  observed_address = 0x20,
  datagram = 0x30,
};

using PathToken = std::array<std::uint8_t, 8>;

inline constexpr std::size_t kMaxAckRanges = 64;  ///< sent and used; older ones are left to later acknowledgements

struct EcnCounts {
  std::uint64_t ect0 = 0, ect1 = 0, ce = 0;
  constexpr bool operator==(const EcnCounts&) const = default;
};

struct AckFrame {
  std::size_t count = 0;
  std::array<Interval, kMaxAckRanges> ranges;  ///< newest first, half-open; never empty
  Duration delay{};                            ///< in microseconds on the wire
  bool has_ecn = false;
  EcnCounts ecn;
  [[nodiscard]] std::uint64_t largest() const { return ranges[0].end - 1; }
};

enum class CloseCode : std::uint8_t { none = 0, protocol_error = 1, refused = 2, duplicate = 3 };

/// One decoded frame; which fields mean something depends on the type. Views point into the packet.
struct Frame {
  FrameType type = FrameType::padding;
  StreamId stream = 0;
  std::uint64_t value = 0;  ///< STREAM: offset; MAX_*: the limit; RESET_STREAM: final size; CLOSE: code
  std::uint64_t code = 0;   ///< RESET_STREAM
  bool fin = false;
  BytesView data;  ///< STREAM, DATAGRAM
  PathToken token{};
  Endpoint endpoint;
};

/// Iterates over a payload. A malformed frame ends it with failed().
class FrameReader {
 public:
  explicit FrameReader(BytesView payload) : in_(payload), payload_(payload) {}
  [[nodiscard]] bool next(Frame& frame);
  [[nodiscard]] const AckFrame& ack() const { return ack_; }  ///< after a frame of type ack
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  bool read_ack(bool with_ecn);
  bool read_stream(std::uint8_t type, Frame& frame);
  bool read_endpoint(Frame& frame);
  ByteReader in_;
  BytesView payload_;
  AckFrame ack_;
  bool failed_ = false;
};

/// Writes as many of the ranges (given oldest first) as fit, newest first; false and nothing written if not even one does.
bool encode_ack(ByteWriter& out, const IntervalSet& ranges, Duration delay, const EcnCounts* ecn);
/// Room that a STREAM frame needs beside `length` bytes of data.
[[nodiscard]] std::size_t stream_frame_overhead(StreamId stream, std::uint64_t offset, std::size_t length);
/// Writes the head; the caller appends exactly `length` bytes.
void encode_stream_head(ByteWriter& out, StreamId stream, std::uint64_t offset, std::size_t length, bool fin);
void encode_reset_stream(ByteWriter& out, StreamId stream, std::uint64_t code, std::uint64_t final_size);
void encode_max_data(ByteWriter& out, std::uint64_t limit);
void encode_max_stream_data(ByteWriter& out, StreamId stream, std::uint64_t limit);
void encode_max_streams(ByteWriter& out, std::uint64_t limit);
void encode_path_token(ByteWriter& out, FrameType type, const PathToken& token);
void encode_observed_address(ByteWriter& out, const Endpoint& endpoint);
void encode_close(ByteWriter& out, CloseCode code);
void encode_ping(ByteWriter& out);
void encode_datagram(ByteWriter& out, BytesView payload);
inline constexpr std::size_t kDatagramFrameOverhead = 1 + 2;  ///< for payloads up to 16 383 bytes

}  // namespace peerbed
