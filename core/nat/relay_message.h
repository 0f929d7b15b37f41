// What nodes say to a relay and a relay to nodes, on the channel "peerbed/relay/1", and the head of a relayed datagram.
// A circuit joins two peers of the relay; its number is the relay's.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/bytes.h"
#include "core/crypto/peer_id.h"

namespace peerbed {

inline constexpr std::string_view kRelayChannel = "peerbed/relay/1";

enum class RelayMessageType : std::uint8_t {
  open = 0,      ///< to the relay: join me to `peer`
  opened = 1,    ///< from the relay: `circuit` leads there
  incoming = 2,  ///< from the relay: `circuit` leads to `peer`, who asked for it
  refused = 3,   ///< from the relay, with `refusal`
  closed = 4,    ///< either way: `circuit` is no more
};

enum class RelayRefusal : std::uint8_t { not_connected, no_room, not_a_relay, self };
[[nodiscard]] std::string_view to_string(RelayRefusal refusal);

/// Fields that the type does not name stay at their default and are not sent.
struct RelayMessage {
  RelayMessageType type = RelayMessageType::open;
  std::uint32_t request = 0;  ///< open, opened, refused: chosen by who opens
  std::uint32_t circuit = 0;  ///< opened, incoming, closed
  PeerId peer{};              ///< open, incoming
  RelayRefusal refusal = RelayRefusal::not_connected;
  bool operator==(const RelayMessage&) const = default;
};

[[nodiscard]] Bytes encode_relay_message(const RelayMessage& message);
[[nodiscard]] std::optional<RelayMessage> parse_relay_message(BytesView bytes);

/// Before each relayed datagram: which way it goes, so that two nodes can relay for each other, and the circuit.
enum class RelayDirection : std::uint8_t { to_relay = 0, from_relay = 1 };
inline constexpr std::size_t kRelayHeaderSize = 5;

struct RelayHeader {
  RelayDirection direction = RelayDirection::to_relay;
  std::uint32_t circuit = 0;
};

void write_relay_header(ByteWriter& writer, const RelayHeader& header);
[[nodiscard]] std::optional<RelayHeader> parse_relay_header(BytesView datagram);  ///< the payload follows it

}  // namespace peerbed
