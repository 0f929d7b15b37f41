// The side of a node that is reached through relays: it asks for circuits, accepts them, and gives each a number of its
// own, which is what Path.circuit holds. A pure machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/nat/relay_message.h"

namespace peerbed {

/// One answer of a relay, for the node to act on.
struct RelayEvent {
  enum class Type : std::uint8_t { opened, incoming, refused, closed } type = Type::opened;
  PeerId peer;                ///< the far end (the target, for `refused`)
  std::uint32_t circuit = 0;  ///< local number; 0 for `refused`
  RelayRefusal refusal = RelayRefusal::not_connected;
};

class RelayClient {
 public:
  struct Circuit {
    PeerId relay, peer;
    std::uint32_t remote_number = 0;  ///< the relay's
  };

  /// The message to send to the relay.
  [[nodiscard]] RelayMessage open(const PeerId& target, const PeerId& relay);
  /// Gives up waiting for an answer: a late one is closed.
  void forget_request(const PeerId& target);

  /// `reply` is set if the relay must be told something (a circuit nobody waits for any more is closed).
  std::optional<RelayEvent> on_message(const PeerId& relay, const RelayMessage& message, std::optional<RelayMessage>& reply);
  std::vector<RelayEvent> on_relay_disconnected(const PeerId& relay);

  /// Drops the circuit here; the message tells the relay.
  std::optional<std::pair<PeerId, RelayMessage>> close(std::uint32_t local);

  [[nodiscard]] const Circuit* find(std::uint32_t local) const;
  [[nodiscard]] std::optional<std::uint32_t> local_number(const PeerId& relay, std::uint32_t remote_number) const;
  [[nodiscard]] std::optional<std::uint32_t> circuit_to(const PeerId& peer) const;  ///< the oldest, if there are several
  [[nodiscard]] std::size_t circuits() const { return circuits_.size(); }

 private:
  struct Request {
    PeerId target, relay;
  };
  std::uint32_t add(const PeerId& relay, const PeerId& peer, std::uint32_t remote_number);

  std::map<std::uint32_t, Request> requests_;
  std::map<std::uint32_t, Circuit> circuits_;  // by local number
  std::map<std::pair<PeerId, std::uint32_t>, std::uint32_t> by_remote_;
  std::uint32_t next_request_ = 1, next_local_ = 1;
};

}  // namespace peerbed
