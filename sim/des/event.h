// What waits in the scheduler: a small value with no behaviour. Who takes it out knows what each kind means.
#pragma once

#include <cstdint>

#include "core/base/int128.h"
#include "core/base/units.h"

namespace peerbed::sim {

/// `payload` is a pointer or a number, as the kind has it.
struct Event {
  TimePoint time{};
  std::uint8_t kind = 0;
  std::uint64_t payload = 0;
};

/// Names one pending event that can be cancelled. It stays harmless after the event fired.
struct EventHandle {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< 0: names nothing
  [[nodiscard]] explicit operator bool() const { return generation != 0; }
};

/// 24 bytes. The order is (time, sequence); the sequence is unique, so the kind below it never decides.
struct QueueEntry {
  std::uint64_t time = 0;      ///< nanoseconds, never negative
  std::uint64_t sequence = 0;  ///< sequence << 8 | cancellable << 7 | kind
  std::uint64_t payload = 0;   ///< cancellable: slot << 32 | generation

  [[nodiscard]] Uint128 key() const { return (Uint128{time} << 64) | sequence; }
  friend bool operator<(const QueueEntry& a, const QueueEntry& b) { return a.key() < b.key(); }
};

}  // namespace peerbed::sim
