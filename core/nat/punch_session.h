// One hole punch between two peers that already share a relayed link. A pure machine: it says what to send, what to
// probe and when to wake it, and it ends with a verdict on both sides.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "core/nat/punch_message.h"
#include "core/transport/link.h"

namespace peerbed {

struct PunchConfig {
  int attempts = 3;              ///< DCUtR's bound
  Duration window = 2s;          ///< how long one attempt probes; stretched for round trips over a quarter of it
  Duration answer_timeout = 5s;  ///< initiator: for the answer; responder: for the next message
};

class PunchSession {
 public:
  enum class Role : std::uint8_t { initiator, responder };

  /// The initiator's first message is ready at once.
  PunchSession(Role role, std::vector<Endpoint> own_candidates, const PunchConfig& config, TimePoint now);

  void on_message(TimePoint now, const PunchMessage& message);
  void on_path_validated(TimePoint now, const Path& path);  ///< relayed paths are ignored
  void on_timeout(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;

  [[nodiscard]] std::optional<PunchMessage> poll_message();
  [[nodiscard]] std::optional<Endpoint> poll_probe();
  /// Set once; true: a direct path was validated here.
  [[nodiscard]] std::optional<bool> verdict() const { return verdict_; }
  [[nodiscard]] std::optional<bool> remote_verdict() const { return remote_verdict_; }
  [[nodiscard]] int attempts() const { return attempts_fired_; }
  [[nodiscard]] Role role() const { return role_; }

 private:
  void begin_attempt(TimePoint now);
  void fire(TimePoint now);
  void probe_all();
  void end_attempt(TimePoint now);
  void decide(bool direct);

  Role role_;
  PunchConfig config_;
  std::vector<Endpoint> own_, remote_;
  std::uint8_t attempt_ = 0;
  int attempts_fired_ = 0;
  int extensions_ = 0;
  std::size_t probes_sent_ = 0;
  Duration round_trip_{};
  std::optional<TimePoint> asked_;  ///< when connect went out
  std::optional<TimePoint> fire_at_, next_probe_, window_end_, give_up_;
  std::deque<PunchMessage> messages_;
  std::deque<Endpoint> probes_;
  std::optional<bool> verdict_, remote_verdict_;
};

}  // namespace peerbed
