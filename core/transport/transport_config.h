// What the operator and the node choose about transports. The same values serve UDP and TCP.
#pragma once

#include <string>

#include "core/base/units.h"

namespace peerbed {

struct TransportConfig {
  /// Goes into the Noise prologue as "peerbed/1" + this: a node of another application cannot complete the handshake.
  std::string application = "peerbed";
  std::string congestion = "cubic";  ///< UDP only: a name of the registry in core/congestion

  Duration keepalive{};  ///< zero: none. Otherwise an idle link sends a PING this long after its last packet
  Duration idle_timeout = 30s;
  Duration handshake_timeout = 10s;

  DataSize stream_send_buffer{256 * 1024};  ///< per stream: write() takes no more than this ahead of acknowledgements
  /// A receive window starts here and doubles while it is the limit. The bounds fit 1 Gbit/s at 200 ms (25 MB in flight)
  /// with room to repair losses; only a reader that keeps up at such rates makes a window grow so far.
  DataSize stream_window{256 * 1024}, max_stream_window{64 * 1024 * 1024};
  DataSize connection_window{384 * 1024}, max_connection_window{96 * 1024 * 1024};
  /// The send buffer of a stream grows with the congestion window up to this, so that it is not the ceiling either.
  DataSize max_stream_send_buffer{96 * 1024 * 1024};
  std::size_t max_peer_streams = 4096;     ///< open at once, opened by the peer
  std::size_t max_incoming = 16384;        ///< links opened by peers, those in handshake included
  std::size_t max_datagram_queue = 256;    ///< unreliable datagrams waiting for the window; more are refused
  std::size_t max_direct_datagram = 1232;  ///< UDP payload that fits IPv6's minimum MTU of 1280 (RFC 8200 §5)
};

}  // namespace peerbed
