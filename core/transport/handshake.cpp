#include "core/transport/handshake.h"

#include <algorithm>

namespace peerbed {

Bytes handshake_prologue(std::string_view application) {
  std::string text = "peerbed/1 ";
  text += application;
  return Bytes(text.begin(), text.end());
}

TransportParameters make_parameters(const TransportConfig& config, ConnectionId connection_id) {
  return {connection_id, static_cast<std::uint64_t>(config.connection_window.bytes),
          static_cast<std::uint64_t>(config.stream_window.bytes), config.max_peer_streams, config.idle_timeout};
}

void encode_parameters(ByteWriter& out, const TransportParameters& parameters) {
  out.u64(parameters.connection_id);
  out.varint(parameters.max_data);
  out.varint(parameters.max_stream_data);
  out.varint(parameters.max_streams);
  out.varint(static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(parameters.idle_timeout).count())));
}

bool parse_parameters(BytesView payload, TransportParameters& parameters) {
  ByteReader in(payload);
  parameters.connection_id = in.u64();
  parameters.max_data = in.varint();
  parameters.max_stream_data = in.varint();
  parameters.max_streams = in.varint();
  const std::uint64_t idle_ms = std::min<std::uint64_t>(in.varint(), std::uint64_t{1} << 40);
  parameters.idle_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(idle_ms));
  return !in.failed();
}

}  // namespace peerbed
