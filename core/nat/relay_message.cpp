#include "core/nat/relay_message.h"

#include <algorithm>

namespace peerbed {

std::string_view to_string(RelayRefusal refusal) {
  switch (refusal) {
    case RelayRefusal::not_connected: return "the peer is not connected to the relay";
    case RelayRefusal::no_room: return "the relay has no room";
    case RelayRefusal::not_a_relay: return "the peer does not relay";
    case RelayRefusal::self: return "a node cannot be relayed to itself";
  }
  return "unknown";
}

Bytes encode_relay_message(const RelayMessage& message) {
  Bytes out(64);
  ByteWriter writer(out);
  writer.u8(static_cast<std::uint8_t>(message.type));
  switch (message.type) {
    case RelayMessageType::open:
      writer.u32(message.request);
      writer.bytes(message.peer.key);
      break;
    case RelayMessageType::opened:
      writer.u32(message.request);
      writer.u32(message.circuit);
      break;
    case RelayMessageType::incoming:
      writer.u32(message.circuit);
      writer.bytes(message.peer.key);
      break;
    case RelayMessageType::refused:
      writer.u32(message.request);
      writer.u8(static_cast<std::uint8_t>(message.refusal));
      break;
    case RelayMessageType::closed: writer.u32(message.circuit); break;
  }
  out.resize(writer.size());
  return out;
}

namespace {

PeerId read_peer(ByteReader& reader) {
  PeerId peer;
  const BytesView key = reader.bytes(peer.key.size());
  if (!reader.failed()) std::copy(key.begin(), key.end(), peer.key.begin());
  return peer;
}

}  // namespace

std::optional<RelayMessage> parse_relay_message(BytesView bytes) {
  ByteReader reader(bytes);
  RelayMessage message;
  const std::uint8_t type = reader.u8();
  if (reader.failed() || type > static_cast<std::uint8_t>(RelayMessageType::closed)) return std::nullopt;
  message.type = static_cast<RelayMessageType>(type);
  switch (message.type) {
    case RelayMessageType::open:
      message.request = reader.u32();
      message.peer = read_peer(reader);
      break;
    case RelayMessageType::opened:
      message.request = reader.u32();
      message.circuit = reader.u32();
      break;
    case RelayMessageType::incoming:
      message.circuit = reader.u32();
      message.peer = read_peer(reader);
      break;
    case RelayMessageType::refused: {
      message.request = reader.u32();
      const std::uint8_t refusal = reader.u8();
      if (refusal > static_cast<std::uint8_t>(RelayRefusal::self)) return std::nullopt;
      message.refusal = static_cast<RelayRefusal>(refusal);
      break;
    }
    case RelayMessageType::closed: message.circuit = reader.u32(); break;
  }
  return reader.done() ? std::optional(message) : std::nullopt;
}

void write_relay_header(ByteWriter& writer, const RelayHeader& header) {
  writer.u8(static_cast<std::uint8_t>(header.direction));
  writer.u32(header.circuit);
}

std::optional<RelayHeader> parse_relay_header(BytesView datagram) {
  ByteReader reader(datagram);
  const std::uint8_t direction = reader.u8();
  const std::uint32_t circuit = reader.u32();
  if (reader.failed() || direction > static_cast<std::uint8_t>(RelayDirection::from_relay)) return std::nullopt;
  return RelayHeader{static_cast<RelayDirection>(direction), circuit};
}

}  // namespace peerbed
