// From a topology as a value to a network that runs.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/result.h"
#include "sim/des/network.h"
#include "topologies/model.h"

namespace peerbed::sim {

/// The topology need not come from the loader: what a network cannot be made of is an error in one sentence. Every random draw
/// of the network and of its nodes hangs on `seed` and on names, so that a new link or host changes nobody else's.
[[nodiscard]] Result<std::unique_ptr<Network>> realise(const Topology& topology, std::uint64_t seed);

}  // namespace peerbed::sim
