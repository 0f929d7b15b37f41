// A packet on its way: headers as fields, the payload right behind them in the same block. Blocks come from slabs of three sizes and
// go back to free lists, so that neither a hop nor a packet costs an allocation in the steady state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "core/env/environment.h"
#include "sim/des/drop_reason.h"
#include "sim/des/event.h"
#include "sim/des/tcp_segment.h"
#include "sim/nat/protocol.h"

namespace peerbed::sim {

class Link;
class Host;

/// Every interface of the plane takes IP packets up to this size.
inline constexpr std::uint32_t kMtu = 1500;
inline constexpr std::uint8_t kDefaultTtl = 64;
inline constexpr std::size_t kLargestUdpPayload = 65'507;

[[nodiscard]] constexpr std::uint32_t ip_header_size(Family family) { return family == Family::v4 ? 20 : 40; }
/// Headers of IP and of the transport: 28 or 48 for UDP, 40 or 60 for TCP.
[[nodiscard]] constexpr std::uint32_t header_size(Family family, Protocol protocol) {
  return ip_header_size(family) + (protocol == Protocol::tcp ? kTcpHeaderSize : 8);
}

/// What an ICMP error tells: the reason, and the endpoints of the packet that it is about.
struct IcmpError {
  UnreachableReason reason = UnreachableReason::port;
  std::uint16_t mtu = 0;
  Protocol protocol = Protocol::udp;
  Endpoint from, to;
};

/// Where a packet is while no code holds it. What the packets say of themselves must agree with the counters.
enum class Place : std::uint8_t { free, host, link, cloud };

/// Index of a terminal's place in the routing tables.
using AttachmentId = std::uint32_t;
inline constexpr AttachmentId kNoAttachment = ~AttachmentId{0};

struct Packet {
  Endpoint source, destination;
  Protocol protocol = Protocol::udp;
  std::uint8_t ttl = kDefaultTtl;
  Ecn ecn = Ecn::not_ect;
  bool dont_fragment = true;
  Place place = Place::free;
  std::uint8_t size_class = 0;
  std::uint32_t size = 0;  ///< of the IP packet, in bytes
  AttachmentId attachment = kNoAttachment;  ///< the destination in the realm that the packet is in
  union {
    Link* link = nullptr;  ///< the one that it is on, or will enter
    Host* host;            ///< of a packet that a host sends to itself
  };
  Packet* next = nullptr;  ///< in a free list, in a link's queue, or in a train of packets that arrive together
  std::uint64_t id = 0;
  TimePoint due{};    ///< when it leaves the link's far end
  TimePoint start{};  ///< when its serialisation begins
  EventHandle event{};
  std::uint32_t payload_size = 0;
  union {
    TcpSegment tcp{};  ///< its payload view is not used: payload() is
    IcmpError icmp;
  };

  Packet() {}
  [[nodiscard]] MutableBytes payload() { return {reinterpret_cast<std::uint8_t*>(this + 1), payload_size}; }
  [[nodiscard]] BytesView payload() const { return {reinterpret_cast<const std::uint8_t*>(this + 1), payload_size}; }
};

class PacketPool {
 public:
  PacketPool() = default;
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;
  ~PacketPool();

  /// Headers are as in a new Packet; the payload is not cleared.
  [[nodiscard]] Packet* make(std::size_t payload_size);
  void free(Packet* packet) {
    packet->place = Place::free;
    packet->next = free_[packet->size_class];
    free_[packet->size_class] = packet;
    --live_;
  }
  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }
  /// By place, by looking at every block: the independent side of the conservation check.
  [[nodiscard]] std::array<Tally, 4> census() const;

 private:
  static constexpr std::array<std::size_t, 3> kPayloads{256, 1480, 65'536};
  static constexpr std::array<std::size_t, 3> kPerSlab{64, 16, 1};
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size_class = 0;
  };
  static std::size_t block_size(std::size_t size_class) { return (sizeof(Packet) + kPayloads[size_class] + 63) / 64 * 64; }
  static Packet* block(const Slab& slab, std::size_t index);
  void grow(std::size_t size_class);

  std::array<Packet*, 3> free_{};
  std::uint64_t next_id_ = 0;
  std::size_t live_ = 0, memory_bytes_ = 0;
  std::vector<Slab> slabs_;
};

}  // namespace peerbed::sim
