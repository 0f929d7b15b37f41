// The wire format of datagrams. QUIC's shape (RFC 9000 §17) with Noise in place of TLS.
//
//   first byte   0x00..0x3f  STUN (RFC 8489 §5: top two bits zero)       not ours
//                0x64 'd'    bencoded dictionary: DHT                    not ours
//                10xxxxxx    sealed packet
//                11xxxxxx    handshake packet, the low bits are its type
//
//   handshake    | 0xC0 + type (1 initiate, 2 respond, 3 confirm) | version (4) | destination id (8) | source id (8) |
//                | length (2) | Noise message |
//   sealed       | 0x80 | destination id (8) | packet number (4, truncated) | sealed frames | tag (16) |
//
// Packets coalesce: handshake packets say how long they are, a sealed packet takes the rest of the datagram. A datagram
// that starts with `initiate` is padded with zeros to the full datagram size, so that an answer cannot amplify.
//
// A sealed packet's header is the associated data of its AEAD, the nonce is the full packet number; numbers are never
// reused, keys are renewed by number (packet_keys.h), and a receiver takes each number once. Connection ids are also inside the Noise payloads, so that
// a changed handshake header cannot complete. The packet number is in clear: an observer can count packets.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/bytes.h"
#include "core/crypto/aead.h"

namespace peerbed {

using ConnectionId = std::uint64_t;  ///< chosen by its receiver, at random; zero: not known yet

inline constexpr std::uint32_t kWireVersion = 0x50425401;  // "PBT", 1
inline constexpr std::size_t kHandshakeHeaderSize = 1 + 4 + 8 + 8 + 2;
inline constexpr std::size_t kSealedHeaderSize = 1 + 8 + 4;
inline constexpr std::size_t kSealedOverhead = kSealedHeaderSize + kAeadTagSize;
/// No datagram that we send is larger, and none that is larger is read.
inline constexpr std::size_t kMaxDatagram = 1500;

enum class HandshakeType : std::uint8_t { initiate = 1, respond = 2, confirm = 3 };

struct PacketView {
  bool sealed = false;
  HandshakeType type = HandshakeType::initiate;
  ConnectionId destination = 0, source = 0;
  BytesView message;                   ///< handshake: the Noise message
  BytesView header, body;              ///< sealed: associated data, and ciphertext with tag
  std::uint32_t truncated_number = 0;  ///< sealed
};

[[nodiscard]] constexpr bool is_peerbed_datagram(BytesView datagram) { return !datagram.empty() && (datagram[0] & 0x80) != 0; }

/// The first packet of `datagram`, which then begins after it; nothing if it is malformed or of another version.
[[nodiscard]] std::optional<PacketView> take_packet(BytesView& datagram);

void encode_handshake_header(ByteWriter& out, HandshakeType type, ConnectionId destination, ConnectionId source,
                             std::size_t message_size);
void encode_sealed_header(ByteWriter& out, ConnectionId destination, std::uint64_t packet_number);

/// RFC 9000 §A.3 for 32 bits: the number next to `expected` that ends in `truncated`.
[[nodiscard]] std::uint64_t decode_packet_number(std::uint64_t expected, std::uint32_t truncated);

}  // namespace peerbed
