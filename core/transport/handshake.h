// What the Noise messages carry besides keys, the same over UDP and TCP: each side's connection id and its limits.
#pragma once

#include <string_view>

#include "core/base/bytes.h"
#include "core/transport/packet.h"
#include "core/transport/transport_config.h"

namespace peerbed {

/// Mixed into the handshake on both sides: another application's node derives other keys and cannot complete it.
[[nodiscard]] Bytes handshake_prologue(std::string_view application);

struct TransportParameters {
  ConnectionId connection_id = 0;  ///< the sender's own; zero over TCP
  std::uint64_t max_data = 0, max_stream_data = 0, max_streams = 0;
  Duration idle_timeout{};
};

[[nodiscard]] TransportParameters make_parameters(const TransportConfig& config, ConnectionId connection_id);

inline constexpr std::size_t kMaxParametersSize = 8 + 4 * 8;
inline constexpr std::size_t kInitiatePayloadSize = 8;  ///< message 1 carries the connection id alone

/// Appends; later versions may append more, which a reader ignores.
void encode_parameters(ByteWriter& out, const TransportParameters& parameters);
[[nodiscard]] bool parse_parameters(BytesView payload, TransportParameters& parameters);

}  // namespace peerbed
