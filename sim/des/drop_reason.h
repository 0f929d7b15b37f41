// Why a packet ended before its destination. One enum for the whole plane, so that every packet has one account.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace peerbed::sim {

enum class DropReason : std::uint8_t {
  loss,             ///< the link's or the cloud's random loss
  queue_full,       ///< drop-tail
  no_route,         ///< nobody in the realm has the address, and no NAT leads out
  no_host,          ///< it came to a device that does not have this address any more
  no_port,          ///< no socket, or no TCP connection, at the port
  ttl_expired,
  too_big,          ///< larger than the interface takes
  host_down,
  nat_no_mapping,
  nat_expired,      ///< there was a mapping once
  nat_filtered,
  nat_no_port,
  nat_hairpin_off,
  stray_icmp,       ///< an ICMP error about a packet that nobody here knows of
};
inline constexpr std::size_t kDropReasons = 14;

[[nodiscard]] std::string_view to_string(DropReason reason);

/// Packets, and the IP bytes in them.
struct Tally {
  std::uint64_t packets = 0, bytes = 0;
  bool operator==(const Tally&) const = default;
  void add(std::uint64_t size) {
    ++packets;
    bytes += size;
  }
  Tally& operator+=(const Tally& o) {
    packets += o.packets;
    bytes += o.bytes;
    return *this;
  }
};

using DropTallies = std::array<Tally, kDropReasons>;

}  // namespace peerbed::sim
