// Named channels that carry whole messages over a link.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/units.h"

namespace peerbed {

/// A channel of this node, by order of registration. It is local: on the wire a channel is its name.
struct ChannelId {
  std::uint32_t index = 0;
  constexpr auto operator<=>(const ChannelId&) const = default;
};

struct ChannelOptions {
  /// A longer message from a peer is a protocol error; a longer one of ours is our bug.
  DataSize max_message{1 << 20};
};

enum class SendStatus : std::uint8_t {
  taken,          ///< the whole message will be sent, in order
  blocked,        ///< nothing was taken; on_channel_writable follows
  not_connected,  ///< no link to that peer
};

}  // namespace peerbed
