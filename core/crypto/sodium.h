// The one place that starts libsodium. It picks its fastest code for this processor; results do not depend on it.
#pragma once

#include <sodium.h>

#include "core/base/check.h"

namespace peerbed::detail {

/// Every entry into libsodium passes here. A static local: initialised once, by whichever call comes first.
inline void sodium_ready() {
  static const bool ready = sodium_init() >= 0;
  PEERBED_CHECK(ready, "libsodium did not initialise");
}

}  // namespace peerbed::detail
