#include "core/nat/relay_server.h"

#include <algorithm>

namespace peerbed {

std::size_t RelayServer::circuits_of(const PeerId& peer) const {
  return static_cast<std::size_t>(std::count_if(circuits_.begin(), circuits_.end(), [&](const auto& entry) {
    return entry.second.a == peer || entry.second.b == peer;
  }));
}

bool RelayServer::expired(const Circuit& circuit, TimePoint now) const {
  return limits_.duration && now - circuit.opened >= *limits_.duration;
}

RelayServer::Circuits::iterator RelayServer::close(TimePoint now, Circuits::iterator circuit, const PeerId* except) {
  const RelayMessage message{.type = RelayMessageType::closed, .circuit = circuit->first};
  for (const PeerId* peer : {&circuit->second.a, &circuit->second.b}) {
    if (except == nullptr || *peer != *except) port_.send_relay_message(now, *peer, message);
  }
  return circuits_.erase(circuit);
}

void RelayServer::close_expired(TimePoint now) {
  for (auto it = circuits_.begin(); it != circuits_.end();) {
    if (expired(it->second, now)) {
      ++stats_.closed_by_limit;
      it = close(now, it, nullptr);
    } else {
      ++it;
    }
  }
}

void RelayServer::on_open(TimePoint now, const PeerId& from, const RelayMessage& message) {
  close_expired(now);
  RelayMessage answer{.type = RelayMessageType::refused, .request = message.request};
  if (message.peer == from) {
    answer.refusal = RelayRefusal::self;
  } else if (!port_.can_relay_to(message.peer) || !port_.can_relay_to(from)) {
    answer.refusal = RelayRefusal::not_connected;
  } else if (circuits_.size() >= limits_.max_circuits || circuits_of(from) >= limits_.max_circuits_per_peer ||
             circuits_of(message.peer) >= limits_.max_circuits_per_peer) {
    answer.refusal = RelayRefusal::no_room;
  } else {
    const std::uint32_t number = next_circuit_++;
    circuits_.emplace(number, Circuit{from, message.peer, now, {}, {}});
    ++stats_.opened;
    // The target is told first: its circuit must be known before the opener's first datagram can reach it.
    port_.send_relay_message(now, message.peer,
                             {.type = RelayMessageType::incoming, .circuit = number, .peer = from});
    port_.send_relay_message(now, from,
                             {.type = RelayMessageType::opened, .request = message.request, .circuit = number});
    return;
  }
  ++stats_.refused;
  port_.send_relay_message(now, from, answer);
}

void RelayServer::on_closed(TimePoint now, const PeerId& from, std::uint32_t circuit) {
  const auto it = circuits_.find(circuit);
  if (it == circuits_.end() || (it->second.a != from && it->second.b != from)) return;
  close(now, it, &from);
}

void RelayServer::on_datagram(TimePoint now, const PeerId& from, std::uint32_t circuit, BytesView datagram,
                              MutableBytes scratch) {
  const auto it = circuits_.find(circuit);
  const bool known = it != circuits_.end() && (it->second.a == from || it->second.b == from);
  if (!known || datagram.size() > scratch.size() || datagram.size() < kRelayHeaderSize) {
    ++stats_.dropped;
    return;
  }
  Circuit& joined = it->second;
  const DataSize size{static_cast<std::int64_t>(datagram.size() - kRelayHeaderSize)};
  DataSize& carried = joined.a == from ? joined.from_a : joined.from_b;
  if (expired(joined, now) || (limits_.bytes_per_direction && carried + size > *limits_.bytes_per_direction)) {
    ++stats_.closed_by_limit;
    close(now, it, nullptr);
    return;
  }
  carried += size;
  ByteWriter writer(scratch);
  write_relay_header(writer, {RelayDirection::from_relay, circuit});
  writer.bytes(datagram.subspan(kRelayHeaderSize));
  if (port_.send_relay_datagram(now, joined.a == from ? joined.b : joined.a, writer.written())) {
    ++stats_.datagrams;
    stats_.bytes += static_cast<std::uint64_t>(size.bytes);
  } else {
    ++stats_.dropped;
  }
}

void RelayServer::on_peer_disconnected(TimePoint now, const PeerId& peer) {
  for (auto it = circuits_.begin(); it != circuits_.end();) {
    it = it->second.a == peer || it->second.b == peer ? close(now, it, &peer) : std::next(it);
  }
}

}  // namespace peerbed
