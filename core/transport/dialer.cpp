#include "core/transport/dialer.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"

namespace peerbed {

std::vector<DialTarget> order_dial_targets(std::span<const DialTarget> targets) {
  std::vector<DialTarget> ordered;
  ordered.reserve(targets.size());
  for (const LinkKind kind : {LinkKind::udp, LinkKind::tcp}) {
    std::vector<DialTarget> v6, v4;
    for (const DialTarget& target : targets) {
      if (target.kind != kind) continue;
      auto& list = target.endpoint.address.family == Family::v6 ? v6 : v4;
      if (std::find(list.begin(), list.end(), target) == list.end()) list.push_back(target);
    }
    for (std::size_t i = 0; i < std::max(v6.size(), v4.size()); ++i) {  // RFC 8305 §4
      if (i < v6.size()) ordered.push_back(v6[i]);
      if (i < v4.size()) ordered.push_back(v4[i]);
    }
  }
  return ordered;
}

/// One race: a handler for all its attempts.
class Dialer::Race final : public LinkHandler {
 public:
  Race(Impl& impl, DialId dial, std::optional<PeerId> expected_peer, std::vector<DialTarget> ordered, DialHandler& dial_handler)
      : id(dial), expected(std::move(expected_peer)), targets(std::move(ordered)), handler(dial_handler), impl_(impl) {}

  void on_link_established(TimePoint now, Link& link) override;
  void on_link_closed(TimePoint now, Link& link, LinkCloseReason reason) override;
  void on_stream_opened(TimePoint, Link&, StreamId) override {}
  void on_stream_readable(TimePoint, Link&, StreamId) override {}
  void on_stream_writable(TimePoint, Link&, StreamId) override {}
  void on_datagram(TimePoint, Link&, BytesView) override {}
  void on_observed_address(TimePoint, Link&, const Endpoint&) override {}
  void on_path_validated(TimePoint, Link&, const Path&, Duration) override {}
  void on_path_changed(TimePoint, Link&, const Path&) override {}

  DialId id;
  std::optional<PeerId> expected;
  std::vector<DialTarget> targets;
  DialHandler& handler;
  std::size_t next = 0;
  std::vector<Link*> attempts;  // open ones; after the race they are being closed
  TimePoint next_attempt{}, deadline{};
  LinkCloseReason last_reason = LinkCloseReason::refused;
  bool over = false;

 private:
  Impl& impl_;
};

class Dialer::Impl final : private TimerHandler {
 public:
  Impl(Environment& environment, UdpTransport* udp, TcpTransport* tcp, const DialerConfig& config)
      : udp_(udp), tcp_(tcp), config_(config), timer_(environment.make_timer(*this)) {}

  DialId dial(TimePoint now, const std::optional<PeerId>& expected, std::span<const DialTarget> targets, DialHandler& handler) {
    const DialId id = next_id_++;
    std::vector<DialTarget> ordered = order_dial_targets(targets);
    std::erase_if(ordered, [this](const DialTarget& t) { return (t.kind == LinkKind::udp ? static_cast<void*>(udp_) : tcp_) == nullptr; });
    auto race = std::make_unique<Race>(*this, id, expected, std::move(ordered), handler);
    race->next_attempt = now;
    race->deadline = now + config_.timeout;
    Race& entry = *races_.emplace(id, std::move(race)).first->second;
    advance(now, entry);
    arm(now);
    return id;
  }

  void cancel(TimePoint now, DialId id) {
    const auto it = races_.find(id);
    if (it != races_.end() && !it->second->over) finish(now, *it->second, nullptr);
  }

  void on_established(TimePoint now, Race& race, Link& link) {
    if (race.over) return link.close(now);  // it crossed the winner
    finish(now, race, &link);
    race.handler.on_dial_succeeded(now, race.id, link);
    arm(now);
  }

  void on_closed(TimePoint now, Race& race, Link& link, LinkCloseReason reason) {
    std::erase(race.attempts, &link);
    if (!race.over) {
      race.last_reason = reason;
      race.next_attempt = now;  // RFC 8305 §5: a failure starts the next one at once
    }
    arm(now);
  }

 private:
  void on_timer(TimePoint now) override {
    armed_ = kNever;
    std::vector<DialId> due;  // handlers may dial and cancel
    for (const auto& [id, race] : races_) due.push_back(id);
    for (const DialId id : due) {
      const auto it = races_.find(id);
      if (it == races_.end()) continue;
      Race& race = *it->second;
      if (!race.over) advance(now, race);
      if (!race.over && ((race.attempts.empty() && race.next == race.targets.size()) || now >= race.deadline)) {
        const LinkCloseReason reason = now >= race.deadline ? LinkCloseReason::timed_out : race.last_reason;
        finish(now, race, nullptr);
        race.handler.on_dial_failed(now, race.id, reason);
      }
    }
    std::erase_if(races_, [](const auto& entry) { return entry.second->over && entry.second->attempts.empty(); });
    arm(now);
  }

  void advance(TimePoint now, Race& race) {
    while (race.next < race.targets.size() && race.next_attempt <= now) {
      const DialTarget& target = race.targets[race.next++];
      race.next_attempt = now + config_.attempt_delay;
      if (target.kind == LinkKind::udp) {
        race.attempts.push_back(&udp_->dial(now, race.expected, Path{target.endpoint, 0}, race));
      } else {
        TcpDialOptions options;
        options.expected = race.expected;
        race.attempts.push_back(&tcp_->dial(now, target.endpoint, options, race));
      }
    }
  }

  void finish(TimePoint now, Race& race, Link* winner) {
    race.over = true;
    std::erase(race.attempts, winner);
    for (Link* loser : race.attempts) loser->close(now);
  }

  void arm(TimePoint now) {
    TimePoint next = kNever;
    for (const auto& [id, race] : races_) {
      if (race->over) {
        if (race->attempts.empty()) next = std::min(next, now);  // to be forgotten, not inside its own callback
        continue;
      }
      next = std::min(next, race->deadline);
      if (race->next < race->targets.size()) next = std::min(next, race->next_attempt);
      if (race->attempts.empty() && race->next == race->targets.size()) next = now;
    }
    if (next >= armed_) return;
    armed_ = next;
    timer_->arm(next);
  }

  UdpTransport* udp_;
  TcpTransport* tcp_;
  DialerConfig config_;
  std::unique_ptr<Timer> timer_;
  TimePoint armed_ = kNever;
  std::map<DialId, std::unique_ptr<Race>> races_;
  DialId next_id_ = 1;
};

void Dialer::Race::on_link_established(TimePoint now, Link& link) { impl_.on_established(now, *this, link); }
void Dialer::Race::on_link_closed(TimePoint now, Link& link, LinkCloseReason reason) { impl_.on_closed(now, *this, link, reason); }

Dialer::Dialer(Environment& environment, UdpTransport* udp, TcpTransport* tcp, const DialerConfig& config)
    : impl_(std::make_unique<Impl>(environment, udp, tcp, config)) {}
Dialer::~Dialer() = default;
DialId Dialer::dial(TimePoint now, const std::optional<PeerId>& expected, std::span<const DialTarget> targets, DialHandler& handler) {
  return impl_->dial(now, expected, targets, handler);
}
void Dialer::cancel(TimePoint now, DialId dial) { impl_->cancel(now, dial); }

}  // namespace peerbed
