#include "core/nat/punch_message.h"

#include <algorithm>

namespace peerbed {

Bytes encode_punch_message(const PunchMessage& message) {
  Bytes out(4 + kMaxPunchCandidates * 19);
  ByteWriter writer(out);
  writer.u8(static_cast<std::uint8_t>(message.type));
  writer.u8(message.attempt);
  if (message.type == PunchMessageType::verdict) writer.u8(message.direct ? 1 : 0);
  if (message.type == PunchMessageType::connect || message.type == PunchMessageType::answer) {
    const std::size_t count = std::min(message.candidates.size(), kMaxPunchCandidates);
    writer.u8(static_cast<std::uint8_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      const Endpoint& candidate = message.candidates[i];
      writer.u8(static_cast<std::uint8_t>(candidate.address.family));
      writer.bytes(BytesView(candidate.address.octets).first(candidate.address.size()));
      writer.u16(candidate.port);
    }
  }
  out.resize(writer.size());
  return out;
}

std::optional<PunchMessage> parse_punch_message(BytesView bytes) {
  ByteReader reader(bytes);
  PunchMessage message;
  const std::uint8_t type = reader.u8();
  if (type > static_cast<std::uint8_t>(PunchMessageType::verdict)) return std::nullopt;
  message.type = static_cast<PunchMessageType>(type);
  message.attempt = reader.u8();
  if (message.type == PunchMessageType::verdict) {
    const std::uint8_t direct = reader.u8();
    if (direct > 1) return std::nullopt;
    message.direct = direct == 1;
  }
  if (message.type == PunchMessageType::connect || message.type == PunchMessageType::answer) {
    const std::size_t count = reader.u8();
    if (count > kMaxPunchCandidates) return std::nullopt;
    for (std::size_t i = 0; i < count && !reader.failed(); ++i) {
      Endpoint candidate;
      const std::uint8_t family = reader.u8();
      if (family != 4 && family != 6) return std::nullopt;
      candidate.address.family = static_cast<Family>(family);
      const BytesView octets = reader.bytes(candidate.address.size());
      std::copy(octets.begin(), octets.end(), candidate.address.octets.begin());
      candidate.port = reader.u16();
      message.candidates.push_back(candidate);
    }
  }
  return reader.done() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace peerbed
