#include "sim/des/packet.h"

#include <new>
#include <type_traits>

#include "core/base/check.h"

namespace peerbed::sim {

static_assert(std::is_trivially_destructible_v<Packet>, "slabs are freed without visiting their packets");

std::string_view to_string(DropReason reason) {
  static constexpr std::array<std::string_view, kDropReasons> names{
      "loss",           "queue_full",  "no_route",     "no_host",     "no_port",         "ttl_expired", "too_big", "host_down",
      "nat_no_mapping", "nat_expired", "nat_filtered", "nat_no_port", "nat_hairpin_off", "stray_icmp"};
  return names[static_cast<std::size_t>(reason)];
}

PacketPool::~PacketPool() = default;

Packet* PacketPool::block(const Slab& slab, std::size_t index) {
  // The slab has 63 bytes to spare, so that blocks start on cache lines.
  const auto start = (reinterpret_cast<std::uintptr_t>(slab.memory.get()) + 63) / 64 * 64;
  return reinterpret_cast<Packet*>(start + index * block_size(slab.size_class));
}

void PacketPool::grow(std::size_t size_class) {
  const std::size_t bytes = kPerSlab[size_class] * block_size(size_class) + 63;
  slabs_.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), size_class});
  memory_bytes_ += bytes;
  for (std::size_t i = kPerSlab[size_class]; i-- > 0;) {
    Packet* packet = new (block(slabs_.back(), i)) Packet;
    packet->size_class = static_cast<std::uint8_t>(size_class);
    packet->next = free_[size_class];
    free_[size_class] = packet;
  }
}

Packet* PacketPool::make(std::size_t payload_size) {
  std::size_t size_class = 0;
  while (payload_size > kPayloads[size_class]) {
    ++size_class;
    PEERBED_CHECK(size_class < kPayloads.size(), "a payload is larger than any packet");
  }
  if (free_[size_class] == nullptr) grow(size_class);
  Packet* packet = free_[size_class];
  free_[size_class] = packet->next;
  // `tcp` and `icmp` are set by who needs them; the rest must not remember its former life.
  packet->protocol = Protocol::udp;
  packet->ttl = kDefaultTtl;
  packet->ecn = Ecn::not_ect;
  packet->dont_fragment = true;
  packet->place = Place::host;
  packet->attachment = kNoAttachment;
  packet->link = nullptr;
  packet->next = nullptr;
  packet->id = ++next_id_;
  packet->event = {};
  packet->payload_size = static_cast<std::uint32_t>(payload_size);
  ++live_;
  return packet;
}

std::array<Tally, 4> PacketPool::census() const {
  std::array<Tally, 4> found{};
  for (const Slab& slab : slabs_) {
    for (std::size_t i = 0; i < kPerSlab[slab.size_class]; ++i) {
      const Packet* packet = block(slab, i);
      found[static_cast<std::size_t>(packet->place)].add(packet->size);
    }
  }
  return found;
}

}  // namespace peerbed::sim
