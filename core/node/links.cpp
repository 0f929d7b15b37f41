// Links become peers: dialing, adoption, duplicates, loss; and messages find their subsystem.
#include <algorithm>

#include "core/base/check.h"
#include "core/node/core.h"

namespace peerbed {
namespace {

constexpr Duration kDuplicateGrace = 2s;  // what is under way on the losing link still arrives

DialFailure to_failure(LinkCloseReason reason) {
  switch (reason) {
    case LinkCloseReason::timed_out: return DialFailure::timed_out;
    case LinkCloseReason::handshake_failed: return DialFailure::wrong_identity;
    case LinkCloseReason::reset: return DialFailure::unreachable;
    default: return DialFailure::refused;
  }
}

}  // namespace

// ---- PeerLink: forwards what it hears ------------------------------------------------------------------------------

void Node::Core::PeerLink::bind(Link& link) {
  link_ = &link;
  channels_.emplace(link, core_.registry_, core_.scratch_, *this);
}

void Node::Core::PeerLink::on_link_established(TimePoint now, Link&) { core_.adopt(now, *this); }
void Node::Core::PeerLink::on_stream_opened(TimePoint, Link&, StreamId stream) { channels_->on_stream_opened(stream); }
void Node::Core::PeerLink::on_stream_readable(TimePoint now, Link&, StreamId stream) {
  channels_->on_stream_readable(now, stream);
}
void Node::Core::PeerLink::on_stream_writable(TimePoint now, Link&, StreamId stream) {
  channels_->on_stream_writable(now, stream);
}
void Node::Core::PeerLink::on_datagram(TimePoint now, Link& link, BytesView payload) {
  core_.on_relayed_datagram(now, link.remote(), payload);
}

void Node::Core::PeerLink::on_observed_address(TimePoint now, Link& link, const Endpoint& ours) {
  // Only the UDP socket's mapping serves for punching, and a relay cannot see it through a circuit.
  if (link.kind() != LinkKind::udp || link.path().relayed()) return;
  auto& seen = core_.observations_;
  std::erase_if(seen, [&](const Observation& o) {
    return o.reporter == link.remote() && o.endpoint.address.family == ours.address.family;
  });
  seen.insert(seen.begin(), {link.remote(), ours});
  if (seen.size() > kMaxPunchCandidates) seen.pop_back();
  core_.log(now, "address.observed", link.remote(), {{"address", std::string_view(ours.to_string())}});
}

void Node::Core::PeerLink::on_path_validated(TimePoint now, Link&, const Path& path, Duration) {
  core_.path_validated(now, *this, path);
}

void Node::Core::PeerLink::on_path_changed(TimePoint now, Link& link, const Path& path) {
  const std::string remote = path.relayed() ? "relay" : path.remote.to_string();
  core_.log(now, "path.changed", link.remote(), {{"to", std::string_view(remote)}});
  core_.each_subsystem([&](Subsystem& s) { s.on_path_changed(now, link.remote(), path); });
}

void Node::Core::PeerLink::on_link_closed(TimePoint now, Link&, LinkCloseReason reason) {
  core_.link_closed(now, *this, reason);
}
void Node::Core::PeerLink::on_channel_message(TimePoint now, Link& link, ChannelId channel, BytesView message) {
  core_.message(now, link.remote(), channel, message);
}

void Node::Core::PeerLink::on_channel_writable(TimePoint now, Link& link, ChannelId channel) {
  const PeerState* state = core_.find(link.remote());
  Subsystem* owner = core_.channel_owners_[channel.index];
  if (owner != nullptr && state != nullptr && state->active == this) owner->on_channel_writable(now, link.remote(), channel);
}

void Node::Core::PeerLink::on_channel_fault(TimePoint now, Link& link, std::string_view reason) {
  core_.log(now, "peer.fault", link.remote(), {{"reason", reason}});
  link.close(now);
}

// ---- dialing -------------------------------------------------------------------------------------------------------

void Node::Core::connect(TimePoint now, const PeerAddress& address) {
  PEERBED_CHECK(started_, "a node dials after its start");
  const PeerId peer = address.peer;
  const PeerState* known = find(peer);
  if (known != nullptr && known->active != nullptr) {
    later(now, [this, peer](TimePoint at) {
      if (connected(peer)) each_subsystem([&](Subsystem& s) { s.on_peer_connected(at, peer); });
    });
    return;
  }
  if (known != nullptr && known->dial) return;  // one race at a time answers both callers
  if (address.endpoints.empty() || peer == self() || stopped_) {
    later(now, [this, peer](TimePoint at) {
      each_subsystem([&](Subsystem& s) { s.on_dial_failed(at, peer, DialFailure::no_address); });
    });
    return;
  }
  std::vector<DialTarget> targets;
  for (const Endpoint& endpoint : address.endpoints) {
    if (config_.udp) targets.push_back({LinkKind::udp, endpoint});
    if (config_.tcp) targets.push_back({LinkKind::tcp, endpoint});
  }
  const DialId dial = dialer_->dial(now, peer, targets, *this);
  dials_.emplace(dial, peer);
  peers_[peer].dial = dial;
}

void Node::Core::on_dial_succeeded(TimePoint now, DialId dial, Link& link) {
  const auto it = dials_.find(dial);
  PEERBED_CHECK(it != dials_.end(), "a dial succeeded that nobody started");
  peers_[it->second].dial.reset();
  dials_.erase(it);
  PeerLink& fresh = make_link();
  fresh.bind(link);
  link.set_handler(fresh);
  adopt(now, fresh);
}

void Node::Core::on_dial_failed(TimePoint now, DialId dial, LinkCloseReason reason) {
  const auto it = dials_.find(dial);
  PEERBED_CHECK(it != dials_.end(), "a dial failed that nobody started");
  const PeerId peer = it->second;
  dials_.erase(it);
  peers_[peer].dial.reset();
  forget_if_idle(peer);
  if (connected(peer)) return;  // the peer dialed us meanwhile
  log(now, "dial.failed", peer, {{"reason", to_string(reason)}});
  each_subsystem([&](Subsystem& s) { s.on_dial_failed(now, peer, to_failure(reason)); });
}

void Node::Core::on_incoming_link(TimePoint now, Link& link) {
  PeerLink& fresh = make_link();
  fresh.bind(link);
  link.set_handler(fresh);
  adopt(now, fresh);
}

// ---- adoption ------------------------------------------------------------------------------------------------------

Node::Core::PeerLink& Node::Core::make_link() {
  links_.push_back(std::make_unique<PeerLink>(*this));
  return *links_.back();
}

void Node::Core::adopt(TimePoint now, PeerLink& fresh) {
  Link& link = fresh.link();
  const PeerId peer = link.remote();
  const PeerState* known = find(peer);
  const bool full = connected_ >= config_.max_peers && (known == nullptr || known->active == nullptr);
  if (peer == self() || full || stopped_) {
    link.close(now);
    return;
  }
  PeerState& state = peers_[peer];
  state.links.push_back(&fresh);
  const std::string_view kind = link.path().relayed() ? "relay" : link.kind() == LinkKind::udp ? "udp" : "tcp";
  log(now, "link.up", peer, {{"over", kind}, {"initiator", std::int64_t{link.initiator()}}});
  if (state.active != nullptr) {
    resolve_duplicate(now, state, fresh);
  } else {
    state.active = &fresh;
    ++connected_;
    log(now, "peer.connected", peer, {{"over", kind}});
    each_subsystem([&](Subsystem& s) { s.on_peer_connected(now, peer); });
  }
  if (link.path().relayed() && link.initiator()) relayed_link_up(now, peer);
}

/// Both ends see the same two links and rank them by what both can see: a direct one before a relayed one, then the one
/// that the smaller identity opened. Two links of one opener are its own affair: the race's loser is closed by it.
bool Node::Core::preferred(const PeerLink& a, const PeerLink& b) const {
  if (a.link().path().relayed() != b.link().path().relayed()) return b.link().path().relayed();
  const bool mine_first = self() < a.link().remote();
  if (a.link().initiator() != b.link().initiator()) return a.link().initiator() == mine_first;
  return false;
}

void Node::Core::resolve_duplicate(TimePoint now, PeerState& state, PeerLink& fresh) {
  PeerLink* loser = &fresh;
  if (preferred(fresh, *state.active)) std::swap(loser, state.active);
  const PeerId peer = fresh.link().remote();
  const bool decided = preferred(*state.active, *loser);
  if (!decided || !(self() < peer)) return;  // one side closes; the other sees it close
  later(now + kDuplicateGrace, [this, peer, loser](TimePoint at) {
    const PeerState* found = find(peer);
    if (found == nullptr || found->active == loser) return;
    if (std::find(found->links.begin(), found->links.end(), loser) != found->links.end()) loser->link().close(at);
  });
}

// ---- loss ----------------------------------------------------------------------------------------------------------

void Node::Core::disconnect(TimePoint now, const PeerId& peer) {
  PeerState* state = find(peer);
  if (state == nullptr) return;
  if (state->dial) {
    dialer_->cancel(now, *state->dial);
    dials_.erase(*state->dial);
    state->dial.reset();
  }
  for (PeerLink* link : state->links) link->link().close(now);
  forget_if_idle(peer);
}

void Node::Core::link_closed(TimePoint now, PeerLink& link, LinkCloseReason reason) {
  const auto owner = std::find_if(links_.begin(), links_.end(), [&](const auto& l) { return l.get() == &link; });
  PEERBED_CHECK(owner != links_.end(), "a link closed twice");
  buried_.splice(buried_.end(), links_, owner);  // it is still on the stack
  later(now, [](TimePoint) {});                  // the agenda's end buries it

  if (link.relayed_target && !link.link().established()) return relayed_dial_failed(now, *link.relayed_target, reason);
  const PeerId peer = link.link().remote();
  if (link.link().path().relayed()) drop_circuit(now, link.link().path().circuit);
  PeerState* state = find(peer);
  if (state == nullptr || std::erase(state->links, &link) == 0) return;  // it was never adopted
  if (state->active != &link) return;
  state->active = nullptr;
  for (PeerLink* other : state->links) {
    if (state->active == nullptr || preferred(*other, *state->active)) state->active = other;
  }
  if (state->active == nullptr) peer_lost(now, peer, reason);
}

void Node::Core::peer_lost(TimePoint now, const PeerId& peer, LinkCloseReason reason) {
  --connected_;
  log(now, "peer.disconnected", peer, {{"reason", to_string(reason)}});
  report(now, peer, PunchOutcome::failed, to_string(reason));  // if a punch was under way
  if (PeerState* state = find(peer)) state->traversal.reset();
  relay_server_.on_peer_disconnected(now, peer);
  for (const RelayEvent& event : relay_client_.on_relay_disconnected(peer)) on_relay_event(now, event);
  forget_if_idle(peer);
  each_subsystem([&](Subsystem& s) { s.on_peer_disconnected(now, peer, reason); });
}

void Node::Core::forget_if_idle(const PeerId& peer) {
  const auto it = peers_.find(peer);
  if (it != peers_.end() && it->second.idle()) peers_.erase(it);
}

// ---- messages and queries ------------------------------------------------------------------------------------------

void Node::Core::message(TimePoint now, const PeerId& from, ChannelId channel, BytesView bytes) {
  if (channel == relay_channel_) return on_relay_message(now, from, bytes);
  if (channel == punch_channel_) return on_punch_message(now, from, bytes);
  channel_owners_[channel.index]->on_message(now, from, channel, bytes);
}

SendStatus Node::Core::send(TimePoint now, const PeerId& peer, ChannelId channel, BytesView bytes) {
  PeerState* state = find(peer);
  if (state == nullptr || state->active == nullptr) return SendStatus::not_connected;
  return state->active->channels().send(now, channel, bytes);
}

void Node::Core::pause(TimePoint now, const PeerId& peer, ChannelId channel, bool paused) {
  PeerState* state = find(peer);
  if (state == nullptr) return;
  for (PeerLink* link : state->links) link->channels().pause(channel, paused);
  if (paused) return;
  later(now, [this, peer](TimePoint at) {
    PeerState* found = find(peer);
    if (found == nullptr) return;
    const std::vector<PeerLink*> links = found->links;
    for (PeerLink* link : links) link->channels().deliver(at);
  });
}

Node::Core::PeerState* Node::Core::find(const PeerId& peer) {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : &it->second;
}

const Node::Core::PeerState* Node::Core::find(const PeerId& peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : &it->second;
}

bool Node::Core::connected(const PeerId& peer) const {
  const PeerState* state = find(peer);
  return state != nullptr && state->active != nullptr;
}

std::vector<PeerId> Node::Core::connected_peers() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, state] : peers_) {
    if (state.active != nullptr) peers.push_back(peer);
  }
  return peers;
}

const Link* Node::Core::link(const PeerId& peer) const {
  const PeerState* state = find(peer);
  return state != nullptr && state->active != nullptr ? &state->active->link() : nullptr;
}

}  // namespace peerbed
