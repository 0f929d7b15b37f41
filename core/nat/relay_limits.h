// What a node that relays for others gives away.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/units.h"

namespace peerbed {

struct RelayLimits {
  std::size_t max_circuits = 128;
  std::size_t max_circuits_per_peer = 16;
  std::optional<DataSize> bytes_per_direction;  ///< a circuit that carried more is closed
  std::optional<Duration> duration;             ///< a circuit that is older is closed
};

}  // namespace peerbed
