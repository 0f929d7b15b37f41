#include "core/transport/paths.h"

#include <algorithm>

namespace peerbed {

PathToken Paths::make_token() {
  // A keyed function of a counter: the peer cannot guess the token of a path where it does not receive.
  std::array<std::uint8_t, kAeadTagSize> tag{};
  seal(secret_, tokens_++, {}, {}, tag);
  PathToken token{};
  std::copy_n(tag.begin(), token.size(), token.begin());
  return token;
}

void Paths::challenge(TimePoint now, const Path& path, int tries, Duration interval) {
  queue_challenge(now, path);
  if (tries <= 1) return;
  std::erase_if(repeats_, [&](const Repeat& r) { return r.path == path; });
  repeats_.push_back({path, tries - 1, interval, now + interval});
}

void Paths::queue_challenge(TimePoint now, const Path& path) {
  if (due_.size() - due_head_ >= kMaxDue) return;
  const PathToken token = make_token();
  const Outstanding entry{path, token, now};
  if (outstanding_.size() < kMaxOutstanding) {
    outstanding_.push_back(entry);
  } else {
    outstanding_[outstanding_next_] = entry;
    outstanding_next_ = (outstanding_next_ + 1) % kMaxOutstanding;
  }
  if (due_.size() > due_head_ && due_.back().path == path && !due_.back().challenge) {
    due_.back().challenge = token;  // beside the answer that is owed there
  } else {
    due_.push_back({path, std::nullopt, token});
  }
}

void Paths::on_challenge(const Path& from, const PathToken& token) {
  if (due_.size() - due_head_ >= kMaxDue) return;
  due_.push_back({from, token, std::nullopt});
}

std::optional<Paths::Probe> Paths::poll() {
  if (due_head_ == due_.size()) return std::nullopt;
  const Probe probe = due_[due_head_++];
  if (due_head_ == due_.size()) {
    due_.clear();
    due_head_ = 0;
  }
  return probe;
}

std::optional<Paths::Validation> Paths::on_response(TimePoint now, const PathToken& token) {
  const auto it = std::find_if(outstanding_.begin(), outstanding_.end(),
                               [&](const Outstanding& o) { return o.token == token && o.sent + kAnswerWithin >= now; });
  if (it == outstanding_.end()) return std::nullopt;
  const Validation result{it->path, now - it->sent};
  it->sent = TimePoint::min();  // each token answers once
  it->token = make_token();     // and nobody knows its successor
  std::erase_if(repeats_, [&](const Repeat& r) { return r.path == result.path; });
  std::erase_if(validated_, [&](const Validated& v) { return v.path == result.path; });
  if (validated_.size() == kMaxValidated) validated_.erase(validated_.begin());
  validated_.push_back({result.path, result.rtt, now});
  return result;
}

std::optional<TimePoint> Paths::next_timeout() const {
  std::optional<TimePoint> next;
  for (const Repeat& r : repeats_) next = next ? std::min(*next, r.next) : r.next;
  return next;
}

void Paths::on_timeout(TimePoint now) {
  for (Repeat& r : repeats_) {
    if (r.next > now) continue;
    queue_challenge(now, r.path);
    --r.tries;
    r.interval *= 2;
    r.next = now + r.interval;
  }
  std::erase_if(repeats_, [](const Repeat& r) { return r.tries <= 0; });
}

bool Paths::challenging(TimePoint now, const Path& path, Duration within) const {
  if (std::any_of(repeats_.begin(), repeats_.end(), [&](const Repeat& r) { return r.path == path; })) return true;
  return std::any_of(outstanding_.begin(), outstanding_.end(), [&](const Outstanding& o) {
    return o.path == path && o.sent != TimePoint::min() && o.sent + within > now;
  });
}

std::optional<Duration> Paths::validated(TimePoint now, const Path& path) const {
  for (const Validated& v : validated_) {
    if (v.path == path && v.at + kValidFor >= now) return v.rtt;
  }
  return std::nullopt;
}

}  // namespace peerbed
