#include "core/nat/punch_session.h"

#include <algorithm>
#include <array>

namespace peerbed {
namespace {

// After firing: dense at first, when the filters have just opened, then once every 200 ms (DCUtR: 10 to 200 ms).
constexpr std::array<Duration, 5> kProbeGaps{20ms, 40ms, 80ms, 120ms, 200ms};

constexpr int kMaxExtensions = 3;

void keep_earliest(std::optional<TimePoint>& earliest, const std::optional<TimePoint>& candidate) {
  if (candidate && (!earliest || *candidate < *earliest)) earliest = candidate;
}

}  // namespace

PunchSession::PunchSession(Role role, std::vector<Endpoint> own_candidates, const PunchConfig& config, TimePoint now)
    : role_(role), config_(config), own_(std::move(own_candidates)) {
  if (own_.size() > kMaxPunchCandidates) own_.resize(kMaxPunchCandidates);
  if (role_ == Role::initiator) {
    begin_attempt(now);
  } else {
    give_up_ = now + config_.answer_timeout;
  }
}

void PunchSession::begin_attempt(TimePoint now) {
  ++attempt_;
  messages_.push_back({PunchMessageType::connect, attempt_, false, own_});
  asked_ = now;
  give_up_ = now + config_.answer_timeout;
}

void PunchSession::on_message(TimePoint now, const PunchMessage& message) {
  if (message.type == PunchMessageType::verdict) {
    remote_verdict_ = message.direct;
    // The initiator's "no" ends the matter here; its "yes" does not prove the way back, so probing goes on.
    if (!message.direct && role_ == Role::responder) decide(false);
    return;
  }
  if (verdict_) return;
  switch (message.type) {
    case PunchMessageType::connect:
      if (role_ != Role::responder || message.attempt <= attempt_) return;
      attempt_ = message.attempt;
      remote_ = message.candidates;
      messages_.push_back({PunchMessageType::answer, attempt_, false, own_});
      give_up_ = now + config_.answer_timeout;
      return;
    case PunchMessageType::answer:
      if (role_ != Role::initiator || message.attempt != attempt_ || !asked_) return;
      round_trip_ = now - *asked_;
      asked_.reset();
      remote_ = message.candidates;
      messages_.push_back({PunchMessageType::sync, attempt_, false, {}});
      fire_at_ = now + round_trip_ / 2;
      give_up_.reset();
      return;
    case PunchMessageType::sync:
      if (role_ != Role::responder || message.attempt != attempt_) return;
      fire(now);
      return;
    case PunchMessageType::verdict: return;
  }
}

void PunchSession::fire(TimePoint now) {
  fire_at_.reset();
  ++attempts_fired_;
  probes_sent_ = 0;
  window_end_ = now + std::max(config_.window, 4 * round_trip_);
  give_up_.reset();
  // The responder outlives the initiator's window, since that one decides what comes next.
  if (role_ == Role::responder) give_up_ = *window_end_ + config_.answer_timeout;
  probe_all();
  next_probe_ = now + kProbeGaps[0];
}

void PunchSession::probe_all() {
  probes_.insert(probes_.end(), remote_.begin(), remote_.end());
  ++probes_sent_;
}

void PunchSession::on_timeout(TimePoint now) {
  if (fire_at_ && now >= *fire_at_) fire(now);
  if (window_end_ && now >= *window_end_) end_attempt(now);
  if (next_probe_ && now >= *next_probe_) {
    probe_all();
    next_probe_ = now + kProbeGaps[std::min(probes_sent_, kProbeGaps.size()) - 1];
  }
  if (give_up_ && now >= *give_up_) {
    give_up_.reset();
    decide(false);
  }
}

void PunchSession::end_attempt(TimePoint now) {
  window_end_.reset();
  next_probe_.reset();
  if (verdict_ || role_ == Role::responder) return;
  if (remote_verdict_ == true && extensions_ < kMaxExtensions) {
    // The other side has a way here, so only packets of ours were lost: both must come to the same verdict.
    ++extensions_;
    window_end_ = now + config_.window;
    probe_all();
    next_probe_ = now + kProbeGaps.back();
  } else if (attempt_ < config_.attempts) {
    begin_attempt(now);
  } else {
    decide(false);
  }
}

void PunchSession::on_path_validated(TimePoint, const Path& path) {
  if (!path.relayed()) decide(true);
}

void PunchSession::decide(bool direct) {
  if (verdict_) return;
  verdict_ = direct;
  messages_.push_back({PunchMessageType::verdict, attempt_, direct, {}});
  asked_.reset();
  fire_at_.reset();
  next_probe_.reset();
  window_end_.reset();
  give_up_.reset();
  probes_.clear();
}

std::optional<TimePoint> PunchSession::next_timeout() const {
  std::optional<TimePoint> earliest;
  keep_earliest(earliest, fire_at_);
  keep_earliest(earliest, next_probe_);
  keep_earliest(earliest, window_end_);
  keep_earliest(earliest, give_up_);
  return earliest;
}

std::optional<PunchMessage> PunchSession::poll_message() {
  if (messages_.empty()) return std::nullopt;
  PunchMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

std::optional<Endpoint> PunchSession::poll_probe() {
  if (probes_.empty()) return std::nullopt;
  const Endpoint endpoint = probes_.front();
  probes_.pop_front();
  return endpoint;
}

}  // namespace peerbed
