#include "core/nat/relay_client.h"

namespace peerbed {
namespace {

constexpr std::size_t kMaxIncoming = 1024;  // circuits that relays may press on a node

}  // namespace

RelayMessage RelayClient::open(const PeerId& target, const PeerId& relay) {
  const std::uint32_t request = next_request_++;
  requests_.emplace(request, Request{target, relay});
  RelayMessage message;
  message.type = RelayMessageType::open;
  message.request = request;
  message.peer = target;
  return message;
}

void RelayClient::forget_request(const PeerId& target) {
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.target == target; });
}

std::uint32_t RelayClient::add(const PeerId& relay, const PeerId& peer, std::uint32_t remote_number) {
  const std::uint32_t local = next_local_++;
  circuits_.emplace(local, Circuit{relay, peer, remote_number});
  by_remote_[{relay, remote_number}] = local;
  return local;
}

std::optional<RelayEvent> RelayClient::on_message(const PeerId& relay, const RelayMessage& message,
                                                  std::optional<RelayMessage>& reply) {
  using Type = RelayEvent::Type;
  const auto decline = [&] {
    reply.emplace();
    reply->type = RelayMessageType::closed;
    reply->circuit = message.circuit;
  };
  switch (message.type) {
    case RelayMessageType::opened: {
      const auto request = requests_.find(message.request);
      if (request == requests_.end() || request->second.relay != relay) {
        decline();
        return std::nullopt;
      }
      const PeerId target = request->second.target;
      requests_.erase(request);
      return RelayEvent{Type::opened, target, add(relay, target, message.circuit), {}};
    }
    case RelayMessageType::incoming:
      if (circuits_.size() >= kMaxIncoming || by_remote_.contains({relay, message.circuit})) {
        decline();
        return std::nullopt;
      }
      return RelayEvent{Type::incoming, message.peer, add(relay, message.peer, message.circuit), {}};
    case RelayMessageType::refused: {
      const auto request = requests_.find(message.request);
      if (request == requests_.end() || request->second.relay != relay) return std::nullopt;
      const PeerId target = request->second.target;
      requests_.erase(request);
      return RelayEvent{Type::refused, target, 0, message.refusal};
    }
    case RelayMessageType::closed: {
      const auto local = local_number(relay, message.circuit);
      if (!local) return std::nullopt;
      const PeerId peer = circuits_.at(*local).peer;
      by_remote_.erase({relay, message.circuit});
      circuits_.erase(*local);
      return RelayEvent{Type::closed, peer, *local, {}};
    }
    case RelayMessageType::open: break;  // for the server
  }
  return std::nullopt;
}

std::vector<RelayEvent> RelayClient::on_relay_disconnected(const PeerId& relay) {
  std::vector<RelayEvent> events;
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.relay != relay) return false;
    events.push_back({RelayEvent::Type::refused, entry.second.target, 0, RelayRefusal::not_connected});
    return true;
  });
  std::erase_if(circuits_, [&](const auto& entry) {
    if (entry.second.relay != relay) return false;
    events.push_back({RelayEvent::Type::closed, entry.second.peer, entry.first, {}});
    by_remote_.erase({relay, entry.second.remote_number});
    return true;
  });
  return events;
}

std::optional<std::pair<PeerId, RelayMessage>> RelayClient::close(std::uint32_t local) {
  const auto it = circuits_.find(local);
  if (it == circuits_.end()) return std::nullopt;
  RelayMessage message;
  message.type = RelayMessageType::closed;
  message.circuit = it->second.remote_number;
  const PeerId relay = it->second.relay;
  by_remote_.erase({relay, it->second.remote_number});
  circuits_.erase(it);
  return std::pair{relay, message};
}

const RelayClient::Circuit* RelayClient::find(std::uint32_t local) const {
  const auto it = circuits_.find(local);
  return it == circuits_.end() ? nullptr : &it->second;
}

std::optional<std::uint32_t> RelayClient::circuit_to(const PeerId& peer) const {
  for (const auto& [local, circuit] : circuits_) {
    if (circuit.peer == peer) return local;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> RelayClient::local_number(const PeerId& relay, std::uint32_t remote_number) const {
  const auto it = by_remote_.find({relay, remote_number});
  return it == by_remote_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace peerbed
