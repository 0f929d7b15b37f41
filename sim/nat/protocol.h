// What the packet plane and the NAT engine both need to know of a packet's transport.
#pragma once

#include <cstdint>

namespace peerbed::sim {

enum class Protocol : std::uint8_t { udp, tcp, icmp };
inline constexpr int kProtocols = 3;

/// The flags that a stateful middlebox reads. ICMP and UDP have none.
struct TcpFlags {
  bool syn = false, ack = false, fin = false, rst = false;
  bool operator==(const TcpFlags&) const = default;
};

}  // namespace peerbed::sim
