#include "scenarios/workloads/participant.h"

namespace peerbed {

void Participant::on_attach(Peers& peers, Services& services) {
  peers_ = &peers;
  services_ = &services;
  attached();
}

void Participant::on_start(TimePoint now) {
  timer_ = services_->environment().make_timer(*this);
  if (!agenda_.empty()) timer_->arm(agenda_.begin()->first);
  started(now);
}

void Participant::at(TimePoint when, std::function<void(TimePoint)> action) {
  const auto entry = agenda_.emplace(when, std::move(action));
  if (timer_ && entry == agenda_.begin()) timer_->arm(when);
}

void Participant::on_timer(TimePoint now) {
  while (!agenda_.empty() && agenda_.begin()->first <= now) {
    const auto action = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    action(now);
  }
  if (!agenda_.empty()) timer_->arm(agenda_.begin()->first);
}

void Participant::dial(TimePoint now, const PeerAddress& address) {
  if (!peers_->connected(address.peer)) dialing_.emplace(address.peer, now);
  peers_->connect(now, address);
}

void Participant::on_peer_connected(TimePoint now, const PeerId& peer) {
  const auto dialed = dialing_.find(peer);
  if (dialed == dialing_.end()) return;
  connect_times_.push_back(to_seconds(now - dialed->second));
  dialing_.erase(dialed);
}

void Participant::on_dial_failed(TimePoint, const PeerId& peer, DialFailure) {
  if (dialing_.erase(peer) > 0) ++failed_dials_;
}

void Reacher::started(TimePoint now) {
  if (plan_.target) at(now + plan_.at, [this](TimePoint then) { reach(then); });
  // The other nodes start at the same instant, but perhaps after this one: the first dial waits for the event loop.
  if (plan_.relay) at(now, [this](TimePoint then) { dial(then, plan_.relay()); });
}

void Reacher::reach(TimePoint now) {
  const PeerAddress target = plan_.target();
  target_ = target.peer;
  if (peers().connected(target.peer) && !plan_.relay) {
    settled_ = true;
    reached(now, target.peer);
  } else if (plan_.relay) {
    peers().connect_via(now, target.peer, plan_.relay().peer);
  } else {
    dial(now, target);
  }
}

void Reacher::on_peer_connected(TimePoint now, const PeerId& peer) {
  Participant::on_peer_connected(now, peer);
  if (settled_ || target_ != peer) return;
  if (plan_.relay) {
    relayed(now);
    return;
  }
  settled_ = true;
  reached(now, peer);
}

void Reacher::on_dial_failed(TimePoint now, const PeerId& peer, DialFailure failure) {
  Participant::on_dial_failed(now, peer, failure);
  if (settled_ || target_ != peer || plan_.relay) return;
  settled_ = true;
  unreachable(now);
}

void Reacher::on_punch_finished(TimePoint now, const PunchReport& report) {
  if (settled_ || target_ != report.peer) return;
  settled_ = true;
  if (report.outcome == PunchOutcome::failed) {
    unreachable(now);
  } else {
    reached(now, report.peer);
  }
}

}  // namespace peerbed
