// Relays and hole punching. A peer behind a NAT is reached in two steps: a link through a relay circuit, end-to-end
// encrypted like any other, and then direct paths for that same link, probed from both sides at once. If none is
// validated the link simply stays where it is: the fallback is where it started.
#include <algorithm>

#include "core/base/check.h"
#include "core/node/core.h"

namespace peerbed {
namespace {

constexpr Duration kCircuitTimeout = 10s;  // for the relay's answer and the handshake through it
constexpr Duration kCircuitLinger = 5s;    // packets still on the relayed path arrive

// Fits a relay's link over IPv6's minimum MTU: 1232 bytes less the sealed packet around it and the relay header.
constexpr std::size_t kMaxCircuitDatagram = 1180;

}  // namespace

// ---- circuits ------------------------------------------------------------------------------------------------------

std::size_t Node::Core::max_circuit_datagram() const { return kMaxCircuitDatagram; }

bool Node::Core::send_on_circuit(TimePoint now, std::uint32_t circuit, BytesView payload) {
  const RelayClient::Circuit* known = relay_client_.find(circuit);
  if (known == nullptr) return false;
  PeerState* relay = find(known->relay);
  if (relay == nullptr || relay->active == nullptr) return false;
  std::array<std::uint8_t, kRelayHeaderSize + kMaxCircuitDatagram> datagram;
  ByteWriter writer(datagram);
  write_relay_header(writer, {RelayDirection::to_relay, known->remote_number});
  writer.bytes(payload);
  return !writer.failed() && relay->active->link().send_datagram(now, writer.written());
}

void Node::Core::on_relayed_datagram(TimePoint now, const PeerId& from, BytesView datagram) {
  const auto header = parse_relay_header(datagram);
  if (!header) return;
  if (header->direction == RelayDirection::to_relay) {
    std::array<std::uint8_t, 2048> scratch;
    relay_server_.on_datagram(now, from, header->circuit, datagram, scratch);
  } else if (const auto local = relay_client_.local_number(from, header->circuit)) {
    udp_->on_circuit_datagram(now, *local, datagram.subspan(kRelayHeaderSize));
  }
}

bool Node::Core::can_relay_to(const PeerId& peer) const {
  const PeerState* state = find(peer);
  return state != nullptr && state->active != nullptr && !state->active->link().path().relayed();
}

void Node::Core::send_relay_message(TimePoint now, const PeerId& to, const RelayMessage& message) {
  send(now, to, relay_channel_, encode_relay_message(message));
}

bool Node::Core::send_relay_datagram(TimePoint now, const PeerId& to, BytesView datagram) {
  PeerState* state = find(to);
  return state != nullptr && state->active != nullptr && state->active->link().send_datagram(now, datagram);
}

void Node::Core::drop_circuit(TimePoint now, std::uint32_t circuit) {
  if (const auto farewell = relay_client_.close(circuit)) send_relay_message(now, farewell->first, farewell->second);
}

void Node::Core::on_relay_message(TimePoint now, const PeerId& from, BytesView bytes) {
  const auto message = parse_relay_message(bytes);
  if (!message) return;
  if (message->type == RelayMessageType::open) {
    if (config_.relay) return relay_server_.on_open(now, from, *message);
    RelayMessage refusal;
    refusal.type = RelayMessageType::refused;
    refusal.request = message->request;
    refusal.refusal = RelayRefusal::not_a_relay;
    return send_relay_message(now, from, refusal);
  }
  if (message->type == RelayMessageType::closed) relay_server_.on_closed(now, from, message->circuit);
  std::optional<RelayMessage> reply;
  const auto event = relay_client_.on_message(from, *message, reply);
  if (reply) send_relay_message(now, from, *reply);
  if (event) on_relay_event(now, *event);
}

void Node::Core::on_relay_event(TimePoint now, const RelayEvent& event) {
  switch (event.type) {
    case RelayEvent::Type::opened: {
      PeerState* state = find(event.peer);
      if (state == nullptr || !state->traversal || state->traversal->reported) return drop_circuit(now, event.circuit);
      PeerLink& fresh = make_link();
      fresh.relayed_target = event.peer;
      fresh.bind(udp_->dial(now, event.peer, Path{{}, event.circuit}, fresh));
      return;
    }
    case RelayEvent::Type::incoming: return;  // the handshake follows on the circuit
    case RelayEvent::Type::refused: return report(now, event.peer, PunchOutcome::failed, to_string(event.refusal));
    case RelayEvent::Type::closed:
      for (const auto& link : links_) {
        if (link->bound() && link->link().path().circuit == event.circuit) link->link().close(now);
      }
      return;
  }
}

// ---- punching ------------------------------------------------------------------------------------------------------

void Node::Core::connect_via(TimePoint now, const PeerId& target, const PeerId& relay) {
  PEERBED_CHECK(started_, "a node dials after its start");
  PeerState& state = peers_[target];
  if (state.traversal && !state.traversal->reported) return;  // under way
  Traversal& traversal = state.traversal.emplace();
  traversal.started = now;
  traversal.initiator = true;
  const std::uint64_t serial = traversal.serial = next_serial_++;
  if (state.active != nullptr) {
    const bool relayed = state.active->link().path().relayed();
    later(now, [this, target, serial, relayed](TimePoint at) {
      PeerState* found = find(target);
      if (found == nullptr || !found->traversal || found->traversal->serial != serial) return;
      if (!relayed) return report(at, target, PunchOutcome::direct, "");
      relayed_link_up(at, target);  // another try on the link that is there
    });
    return;
  }
  if (!connected(relay)) {
    later(now, [this, target](TimePoint at) { report(at, target, PunchOutcome::failed, "no link to the relay"); });
    return;
  }
  send_relay_message(now, relay, relay_client_.open(target, relay));
  later(now + kCircuitTimeout, [this, target, serial](TimePoint at) {
    PeerState* found = find(target);
    if (found == nullptr || !found->traversal || found->traversal->serial != serial) return;
    if (found->traversal->session || found->traversal->reported) return;
    relay_client_.forget_request(target);
    report(at, target, PunchOutcome::failed, "timed out");
  });
}

void Node::Core::relayed_dial_failed(TimePoint now, const PeerId& peer, LinkCloseReason reason) {
  report(now, peer, PunchOutcome::failed, to_string(reason));
}

std::vector<Endpoint> Node::Core::candidates() const {
  std::vector<Endpoint> all = observed_endpoints();
  for (const IpAddress& address : environment_.local_addresses()) {
    const auto bound = udp_->local_endpoint(address.family);
    if (!bound || (config_.bind && address != *config_.bind)) continue;
    const Endpoint host{address, bound->port};
    if (std::find(all.begin(), all.end(), host) == all.end()) all.push_back(host);
  }
  if (all.size() > kMaxPunchCandidates) all.resize(kMaxPunchCandidates);
  return all;
}

void Node::Core::begin_session(TimePoint now, const PeerId& peer, Traversal& traversal, PunchSession::Role role) {
  PunchConfig config;
  config.attempts = config_.punch_attempts;
  traversal.session.emplace(role, candidates(), config, now);
  log(now, "punch.started", peer, {{"initiator", std::int64_t{role == PunchSession::Role::initiator}}});
}

void Node::Core::relayed_link_up(TimePoint now, const PeerId& peer) {
  PeerState& state = peers_[peer];
  if (!state.traversal || state.traversal->session) return;
  if (config_.punch_attempts == 0) return report(now, peer, PunchOutcome::relayed, "punching is switched off");
  begin_session(now, peer, *state.traversal, PunchSession::Role::initiator);
  drive(now, peer);
}

void Node::Core::on_punch_message(TimePoint now, const PeerId& from, BytesView bytes) {
  const auto message = parse_punch_message(bytes);
  PeerState* state = find(from);
  if (!message || state == nullptr || state->active == nullptr) return;
  if (message->type == PunchMessageType::connect) {
    // A first word opens a session here. If both sides spoke first, the smaller identity stays the initiator.
    const bool running = state->traversal && state->traversal->session && !state->traversal->session->verdict();
    const bool both_speak = running && state->traversal->session->role() == PunchSession::Role::initiator;
    if (both_speak && self() < from) return;
    if (!running || both_speak) {
      if (!state->traversal || state->traversal->reported) {
        state->traversal.emplace();
        state->traversal->started = now;
        state->traversal->serial = next_serial_++;
      }
      begin_session(now, from, *state->traversal, PunchSession::Role::responder);
    }
  }
  if (!state->traversal || !state->traversal->session) return;
  state->traversal->session->on_message(now, *message);
  drive(now, from);
}

void Node::Core::path_validated(TimePoint now, PeerLink& link, const Path& path) {
  if (path.relayed()) return;
  if (link.link().path().relayed()) link.link().use_path(now, path);
  const PeerId peer = link.link().remote();
  PeerState* state = find(peer);
  if (state == nullptr || !state->traversal || !state->traversal->session) return;
  state->traversal->session->on_path_validated(now, path);
  drive(now, peer);
}

/// Does what the session asks for, and sees to it that it is woken.
void Node::Core::drive(TimePoint now, const PeerId& peer) {
  PeerState* state = find(peer);
  if (state == nullptr || !state->traversal || !state->traversal->session || state->active == nullptr) return;
  Traversal& traversal = *state->traversal;
  PunchSession& session = *traversal.session;
  while (const auto message = session.poll_message()) send(now, peer, punch_channel_, encode_punch_message(*message));
  while (const auto probe = session.poll_probe()) state->active->link().probe_path(now, Path{*probe, 0});
  if (const auto at = session.next_timeout()) {
    later(*at, [this, peer, serial = traversal.serial](TimePoint then) {
      PeerState* found = find(peer);
      if (found == nullptr || !found->traversal || found->traversal->serial != serial || !found->traversal->session) return;
      const auto due = found->traversal->session->next_timeout();
      if (!due || *due > then) return;
      found->traversal->session->on_timeout(then);
      drive(then, peer);
    });
  }
  if (session.verdict() && !traversal.reported) {
    const bool direct = *session.verdict();
    report(now, peer, direct ? PunchOutcome::direct : PunchOutcome::relayed, direct ? "" : "no direct path");
  }
}

void Node::Core::report(TimePoint now, const PeerId& peer, PunchOutcome outcome, std::string_view reason) {
  PeerState* state = find(peer);
  if (state == nullptr || !state->traversal || state->traversal->reported) return;
  Traversal& traversal = *state->traversal;
  traversal.reported = true;
  PunchReport result;
  result.peer = peer;
  result.outcome = outcome;
  result.attempts = traversal.session ? traversal.session->attempts() : 0;
  result.elapsed = now - traversal.started;
  result.reason = reason;
  result.initiator = traversal.initiator;
  log(now, "punch.finished", peer,
      {{"outcome", to_string(outcome)}, {"attempts", std::int64_t{result.attempts}}, {"reason", reason}});
  if (outcome == PunchOutcome::failed && state->active == nullptr) {
    state->traversal.reset();
    forget_if_idle(peer);
  } else if (outcome == PunchOutcome::direct && traversal.initiator && state->active != nullptr) {
    // The circuit has done its work once nothing is under way on it any more.
    later(now + kCircuitLinger, [this, peer](TimePoint at) {
      const PeerState* found = find(peer);
      if (found == nullptr || found->active == nullptr || found->active->link().path().relayed()) return;
      const bool both = found->traversal && found->traversal->session && found->traversal->session->remote_verdict() == true;
      if (!both) return;  // the other side may still need it
      if (const auto circuit = relay_client_.circuit_to(peer)) drop_circuit(at, *circuit);
    });
  }
  each_subsystem([&](Subsystem& s) { s.on_punch_finished(now, result); });
}

}  // namespace peerbed
