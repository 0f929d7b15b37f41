// What all elements of one network share: the time, the pending events, the packets, and the accounts.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/des/packet.h"
#include "sim/des/scheduler.h"

namespace peerbed::sim {

/// Takes over packets: one, or a train of them that arrive at the same time, linked by `next`.
class Element {
 public:
  virtual void accept(Packet* train) = 0;
  /// `packet` (if it is known yet) will come soon: fetch what that needs. The element itself has been fetched; a later stage may use what an earlier one
  /// asked for. Changes nothing.
  virtual void prefetch(const Packet* packet, unsigned stage) const {
    (void)packet;
    (void)stage;
  }

 protected:
  ~Element() = default;
};

/// Asks for the cache lines of [start, start + bytes), without waiting.
inline void prefetch_lines(const void* start, std::size_t bytes) {
  if (start == nullptr) return;  // no arithmetic on a null pointer
  for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(start) + at, 1);
}

/// Something that asked to be called at a time.
class EventTarget {
 public:
  virtual void on_event(TimePoint now) = 0;
  virtual void prefetch(unsigned stage) const { (void)stage; }  ///< as Element's

 protected:
  ~EventTarget() = default;
};

/// What the payload of a scheduled event is.
enum class EventKind : std::uint8_t {
  link_end,    ///< Packet*, at the far end of its link
  link_entry,  ///< Packet*, about to enter its link
  self,        ///< Packet*, of a host to itself
  target,      ///< EventTarget*
  driver,      ///< index of the driver's function
};

/// One packet at the end of one link, for who wants to watch (pcap).
struct Hop {
  TimePoint at;
  std::uint32_t link = 0;  ///< as in Network::link_names()
  bool a_to_b = true;
  const Packet& packet;
};

struct EngineCounters {
  std::uint64_t events = 0;
  std::uint64_t hops = 0;  ///< packets that arrived at the end of a link
};

class Engine {
 public:
  Scheduler scheduler;
  PacketPool packets;
  TimePoint now{};
  std::uint64_t seed = 0;
  EngineCounters counters;
  Tally made, delivered;
  DropTallies dropped{};
  std::function<void(const Hop&)> tap;
  std::vector<IncomingDatagram> incoming;  ///< the batch of the callback that runs; callbacks never nest
  /// While a host puts packets out, whatever they reach must not call a host: an event does, later.
  bool is_sending = false;

  void schedule(TimePoint at, EventKind kind, Packet* packet) {
    scheduler.schedule(at, static_cast<std::uint8_t>(kind), reinterpret_cast<std::uintptr_t>(packet));
  }
  [[nodiscard]] EventHandle schedule(TimePoint at, EventTarget& target) {
    return scheduler.schedule_cancellable(at, static_cast<std::uint8_t>(EventKind::target),
                                          reinterpret_cast<std::uintptr_t>(&target));
  }

  /// Sizes, ports and protocol must be set: from here on the packet is in the accounts.
  void account(const Packet& packet) { made.add(packet.size); }
  void deliver(Packet* packet) {
    delivered.add(packet->size);
    packets.free(packet);
  }
  void drop(Packet* packet, DropReason reason) {
    dropped[static_cast<std::size_t>(reason)].add(packet->size);
    packets.free(packet);
  }

  /// Order-sensitive: two runs with equal traces did the same hops in the same order at the same times.
  void note_hop(std::uint32_t direction, const Packet& packet) {
    ++counters.hops;
    mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    mix((std::uint64_t{direction} << 32) | packet.size);
    mix(packet.id);
    if (tap) [[unlikely]] tap(Hop{now, direction / 2, direction % 2 == 0, packet});
  }
  [[nodiscard]] std::uint64_t trace_hash() const { return trace_; }

 private:
  void mix(std::uint64_t value) { trace_ = (std::rotl(trace_, 23) ^ value) * 0x9e3779b97f4a7c15ULL; }
  std::uint64_t trace_ = 0x243f6a8885a308d3ULL;
};

/// The owner of a named thing's random streams: by name, so that adding another changes nobody's draws.
[[nodiscard]] constexpr std::uint64_t stream_owner(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace peerbed::sim
