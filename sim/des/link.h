// One direction of a link: loss at its entry, a drop-tail queue behind the serialiser, serialisation at a rate, propagation.
//
//   accept -> loss? -> [ queue ] -> serialiser -> delay + jitter -> far end
//
// Rate counts IP bytes and keeps fractions of nanoseconds from packet to packet. A packet that is being serialised is not in the
// queue. Jitter is uniform in [0, jitter] and never reorders: a packet that would overtake arrives together with its predecessor.
// The departure of a drop-tail queue is known at entry, so a packet costs one event per link.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "core/env/random_stream.h"
#include "sim/des/engine.h"
#include "topologies/model.h"

namespace peerbed::sim {

struct LinkCounters {
  Tally lost, queue_full;
  std::uint64_t queue_high_water_packets = 0, queue_high_water_bytes = 0;
  Tally sent;       ///< offered at the entry
  Tally delivered;  ///< arrived at the far end

  [[nodiscard]] Tally in_transit() const {
    return {sent.packets - delivered.packets - lost.packets - queue_full.packets,
            sent.bytes - delivered.bytes - lost.bytes - queue_full.bytes};
  }
};

class alignas(64) Link {
 public:
  /// `direction` is twice the link's index, plus one for b to a.
  Link(Engine& engine, std::uint32_t direction, std::string_view name, const LinkDirection& knobs);
  void connect(Element& far_end, bool far_end_is_host, std::uint32_t entry_port, std::uint32_t exit_port);

  void accept(Packet* packet);  ///< one packet
  void on_arrival(Packet* train);
  /// From now on. The packet on the wire goes on as it began; those in the queue leave at the new rate.
  void set(const LinkDirection& knobs);

  [[nodiscard]] LinkCounters counters() const {
    LinkCounters all = counters_;
    all.sent = sent_;
    all.delivered = delivered_;
    return all;
  }
  [[nodiscard]] std::uint32_t direction() const { return direction_; }
  [[nodiscard]] std::uint32_t entry_port() const { return entry_port_; }  ///< its number among the links of the cloud it leaves
  [[nodiscard]] std::uint32_t exit_port() const { return exit_port_; }    ///< its number among the links of the cloud it enters
  [[nodiscard]] Duration delay() const { return delay_; }
  /// What waits in the queue.
  [[nodiscard]] Tally waiting() {
    if (first_waiting_ == nullptr) return {};
    trim();
    return waiting_;
  }
  /// Where the next packet goes, for prefetching.
  [[nodiscard]] const Element* far_end() const { return far_end_; }
  /// When no more than `bytes` will be waiting, if nothing is added.
  [[nodiscard]] TimePoint time_of_backlog(std::uint64_t bytes);

 private:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kBitNanos = 8'000'000'000;  ///< bits per byte times ns per s

  void apply(const LinkDirection& knobs);
  void trim();
  TimePoint serialise(TimePoint start, std::uint32_t size);
  TimePoint arrival(TimePoint leaves);
  void launch(Packet* packet, TimePoint due);
  void wait(Packet* packet);

  [[nodiscard]] TimePoint free_at() const { return free_floor_ + Duration(free_fraction_ != 0 ? 1 : 0); }

  // Ten thousand hosts have more links than a cache holds lines: what every packet touches is in the first two.
  Engine& engine_;
  Element* far_end_ = nullptr;
  std::uint64_t rate_ = 0;  ///< bits per second; 0: unlimited
  Duration delay_{};
  TimePoint last_due_{};         ///< of the packet that entered last
  Packet* train_end_ = nullptr;  ///< the last packet that is due at last_due_, if another may be hung on it
  std::uint32_t direction_ = 0, entry_port_ = 0, exit_port_ = 0;
  bool far_end_is_host_ = false, is_random_ = false;  ///< is_random_: it has loss or jitter

  TimePoint free_floor_{};           ///< when the serialiser is free, without ...
  std::uint64_t free_fraction_ = 0;  ///< ... this many 1/rate of a nanosecond
  TimePoint started_due_{};          ///< of the packet whose serialisation began last
  Packet* first_waiting_ = nullptr;
  Tally sent_, delivered_;

  LinkCounters counters_;  ///< all but the two above
  Packet* last_waiting_ = nullptr;
  Tally waiting_;
  Duration jitter_{};
  double loss_ = 0;
  std::uint64_t limit_packets_ = kUnlimited, limit_bytes_ = kUnlimited;
  RandomStream loss_random_, jitter_random_;
};

}  // namespace peerbed::sim
