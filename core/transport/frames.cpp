#include "core/transport/frames.h"

namespace peerbed {
namespace {

constexpr std::uint8_t kStreamFin = 0x01, kStreamLength = 0x02, kStreamOffset = 0x04;
constexpr std::size_t kMaxAckBlocks = 4096;  // more than a packet can hold: a bound for the reader's work

}  // namespace

bool FrameReader::next(Frame& frame) {
  while (in_.remaining() > 0 && payload_[in_.position()] == 0) (void)in_.u8();  // padding needs no event
  if (in_.remaining() == 0) {
    failed_ = failed_ || in_.failed();
    return false;
  }
  const std::uint8_t type = in_.u8();
  frame = Frame{};
  frame.type = static_cast<FrameType>(type);
  bool good = true;
  switch (type) {
    case 0x01: break;
    case 0x02:
    case 0x03:
      frame.type = FrameType::ack;
      good = read_ack(type == 0x03);
      break;
    case 0x04:
      frame.stream = in_.varint();
      frame.code = in_.varint();
      frame.value = in_.varint();
      break;
    case 0x08: case 0x09: case 0x0a: case 0x0b: case 0x0c: case 0x0d: case 0x0e: case 0x0f:
      frame.type = FrameType::stream;
      good = read_stream(type, frame);
      break;
    case 0x10:
    case 0x12: frame.value = in_.varint(); break;
    case 0x11:
    case 0x15:
      frame.stream = in_.varint();
      frame.value = in_.varint();
      break;
    case 0x1a:
    case 0x1b: {
      const BytesView token = in_.bytes(frame.token.size());
      if (!token.empty()) std::copy(token.begin(), token.end(), frame.token.begin());
      break;
    }
    case 0x1c: frame.value = in_.varint(); break;
    case 0x20: good = read_endpoint(frame); break;
    case 0x30: frame.data = in_.rest(); break;
    case 0x31:
      frame.type = FrameType::datagram;
      frame.data = in_.bytes(static_cast<std::size_t>(in_.varint()));
      break;
    default: good = false;
  }
  failed_ = !good || in_.failed();
  return !failed_;
}

bool FrameReader::read_ack(bool with_ecn) {
  const std::uint64_t largest = in_.varint();
  ack_.delay = std::chrono::microseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(in_.varint(), 1U << 30)));
  const std::uint64_t blocks = in_.varint();
  std::uint64_t length = in_.varint();
  if (in_.failed() || length > largest || blocks > kMaxAckBlocks) return false;
  ack_.ranges[0] = {largest - length, largest + 1};
  ack_.count = 1;
  std::uint64_t smallest = largest - length;
  for (std::uint64_t i = 0; i < blocks; ++i) {  // RFC 9000 §19.3.1
    const std::uint64_t gap = in_.varint();
    length = in_.varint();
    if (in_.failed() || gap + 2 > smallest || length > smallest - gap - 2) return false;
    const std::uint64_t top = smallest - gap - 2;
    smallest = top - length;
    if (ack_.count < kMaxAckRanges) ack_.ranges[ack_.count++] = {smallest, top + 1};
  }
  ack_.has_ecn = with_ecn;
  ack_.ecn = {};
  if (with_ecn) {
    ack_.ecn.ect0 = in_.varint();
    ack_.ecn.ect1 = in_.varint();
    ack_.ecn.ce = in_.varint();
  }
  return !in_.failed();
}

bool FrameReader::read_stream(std::uint8_t type, Frame& frame) {
  frame.stream = in_.varint();
  if ((type & kStreamOffset) != 0) frame.value = in_.varint();
  frame.data = (type & kStreamLength) != 0 ? in_.bytes(static_cast<std::size_t>(in_.varint())) : in_.rest();
  frame.fin = (type & kStreamFin) != 0;
  return !in_.failed() && frame.value <= kMaxVarint - frame.data.size();  // RFC 9000 §19.8
}

bool FrameReader::read_endpoint(Frame& frame) {
  const std::uint8_t family = in_.u8();
  if (family != 4 && family != 6) return false;
  frame.endpoint.address.family = static_cast<Family>(family);
  const BytesView octets = in_.bytes(frame.endpoint.address.size());
  std::copy(octets.begin(), octets.end(), frame.endpoint.address.octets.begin());
  frame.endpoint.port = in_.u16();
  return !in_.failed();
}

bool encode_ack(ByteWriter& out, const IntervalSet& ranges, Duration delay, const EcnCounts* ecn) {
  if (ranges.empty()) return false;
  const Interval newest = ranges.back();
  const auto delay_us =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(delay).count()));
  std::size_t room = out.room();
  const std::size_t head = 1 + varint_size(newest.end - 1) + varint_size(delay_us) + 2 + varint_size(newest.size() - 1) +
                           (ecn != nullptr ? varint_size(ecn->ect0) + varint_size(ecn->ect1) + varint_size(ecn->ce) : 0);
  if (head > room) return false;
  room -= head;
  std::size_t blocks = 0;
  for (std::uint64_t smallest = newest.begin; blocks + 1 < std::min(ranges.size(), kMaxAckRanges); ++blocks) {
    const Interval& range = ranges[ranges.size() - 2 - blocks];
    const std::size_t need = varint_size(smallest - range.end - 1) + varint_size(range.size() - 1);
    if (need > room) break;
    room -= need;
    smallest = range.begin;
  }
  out.u8(ecn != nullptr ? 0x03 : 0x02);
  out.varint(newest.end - 1);
  out.varint(delay_us);
  out.varint(blocks);
  out.varint(newest.size() - 1);
  std::uint64_t smallest = newest.begin;
  for (std::size_t i = 0; i < blocks; ++i) {
    const Interval& range = ranges[ranges.size() - 2 - i];
    out.varint(smallest - range.end - 1);
    out.varint(range.size() - 1);
    smallest = range.begin;
  }
  if (ecn != nullptr) {
    out.varint(ecn->ect0);
    out.varint(ecn->ect1);
    out.varint(ecn->ce);
  }
  return true;
}

std::size_t stream_frame_overhead(StreamId stream, std::uint64_t offset, std::size_t length) {
  return 1 + varint_size(stream) + (offset > 0 ? varint_size(offset) : 0) + varint_size(length);
}

void encode_stream_head(ByteWriter& out, StreamId stream, std::uint64_t offset, std::size_t length, bool fin) {
  unsigned type = static_cast<unsigned>(FrameType::stream) | kStreamLength;
  if (offset > 0) type |= kStreamOffset;
  if (fin) type |= kStreamFin;
  out.u8(static_cast<std::uint8_t>(type));
  out.varint(stream);
  if (offset > 0) out.varint(offset);
  out.varint(length);
}

void encode_reset_stream(ByteWriter& out, StreamId stream, std::uint64_t code, std::uint64_t final_size) {
  out.u8(static_cast<std::uint8_t>(FrameType::reset_stream));
  out.varint(stream);
  out.varint(code);
  out.varint(final_size);
}

void encode_max_data(ByteWriter& out, std::uint64_t limit) {
  out.u8(static_cast<std::uint8_t>(FrameType::max_data));
  out.varint(limit);
}

void encode_max_stream_data(ByteWriter& out, StreamId stream, std::uint64_t limit) {
  out.u8(static_cast<std::uint8_t>(FrameType::max_stream_data));
  out.varint(stream);
  out.varint(limit);
}

void encode_max_streams(ByteWriter& out, std::uint64_t limit) {
  out.u8(static_cast<std::uint8_t>(FrameType::max_streams));
  out.varint(limit);
}

void encode_path_token(ByteWriter& out, FrameType type, const PathToken& token) {
  out.u8(static_cast<std::uint8_t>(type));
  out.bytes(token);
}

void encode_observed_address(ByteWriter& out, const Endpoint& endpoint) {
  out.u8(static_cast<std::uint8_t>(FrameType::observed_address));
  out.u8(static_cast<std::uint8_t>(endpoint.address.family));
  out.bytes(BytesView(endpoint.address.octets).first(endpoint.address.size()));
  out.u16(endpoint.port);
}

void encode_close(ByteWriter& out, CloseCode code) {
  out.u8(static_cast<std::uint8_t>(FrameType::close));
  out.varint(static_cast<std::uint64_t>(code));
}

void encode_ping(ByteWriter& out) { out.u8(static_cast<std::uint8_t>(FrameType::ping)); }

void encode_datagram(ByteWriter& out, BytesView payload) {
  out.u8(0x31);
  out.varint(payload.size());
  out.bytes(payload);
}

}  // namespace peerbed
