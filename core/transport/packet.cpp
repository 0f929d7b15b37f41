#include "core/transport/packet.h"

namespace peerbed {

std::optional<PacketView> take_packet(BytesView& datagram) {
  ByteReader in(datagram);
  PacketView packet;
  const std::uint8_t first = in.u8();
  if ((first & 0xc0) == 0x80) {
    if (first != 0x80) return std::nullopt;  // the flag bits are reserved
    packet.sealed = true;
    packet.destination = in.u64();
    packet.truncated_number = in.u32();
    packet.header = datagram.first(std::min(datagram.size(), kSealedHeaderSize));
    packet.body = in.rest();
    if (in.failed() || packet.body.size() < kAeadTagSize) return std::nullopt;
    datagram = {};
    return packet;
  }
  if (first < 0xc1 || first > 0xc3) return std::nullopt;
  packet.type = static_cast<HandshakeType>(first & 0x3f);
  const std::uint32_t version = in.u32();
  packet.destination = in.u64();
  packet.source = in.u64();
  packet.message = in.bytes(in.u16());
  if (in.failed() || version != kWireVersion) return std::nullopt;
  datagram = datagram.subspan(in.position());
  return packet;
}

void encode_handshake_header(ByteWriter& out, HandshakeType type, ConnectionId destination, ConnectionId source,
                             std::size_t message_size) {
  out.u8(static_cast<std::uint8_t>(0xc0U | static_cast<unsigned>(type)));
  out.u32(kWireVersion);
  out.u64(destination);
  out.u64(source);
  out.u16(static_cast<std::uint16_t>(message_size));
}

void encode_sealed_header(ByteWriter& out, ConnectionId destination, std::uint64_t packet_number) {
  out.u8(0x80);
  out.u64(destination);
  out.u32(static_cast<std::uint32_t>(packet_number));
}

std::uint64_t decode_packet_number(std::uint64_t expected, std::uint32_t truncated) {
  constexpr std::uint64_t kWindow = std::uint64_t{1} << 32;
  constexpr std::uint64_t kHalf = kWindow / 2;
  const std::uint64_t candidate = (expected & ~(kWindow - 1)) | truncated;
  if (candidate + kHalf <= expected && candidate < kMaxVarint - kWindow) return candidate + kWindow;
  if (candidate > expected + kHalf && candidate >= kWindow) return candidate - kWindow;
  return candidate;
}

}  // namespace peerbed
