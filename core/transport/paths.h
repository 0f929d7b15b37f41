// Path validation (RFC 9000 §8.2) for one connection: which challenges are out, which paths have answered, which answers
// are owed. A probe is one small sealed packet outside of congestion control.
#pragma once

#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/crypto/aead.h"
#include "core/transport/frames.h"
#include "core/transport/link.h"

namespace peerbed {

class Paths {
 public:
  explicit Paths(const AeadKey& secret) : secret_(secret) {}

  struct Probe {
    Path path;
    std::optional<PathToken> response, challenge;
  };
  struct Validation {
    Path path;
    Duration rtt{};
  };

  /// One challenge to `path`, for the next poll(). With `tries` > 1 it is repeated after each `interval` without an answer.
  void challenge(TimePoint now, const Path& path, int tries = 1, Duration interval = {});
  /// The peer asked from `from`: it is answered there (RFC 9000 §8.2.2).
  void on_challenge(const Path& from, const PathToken& token);
  [[nodiscard]] std::optional<Validation> on_response(TimePoint now, const PathToken& token);

  [[nodiscard]] bool pending() const { return !due_.empty(); }
  [[nodiscard]] std::optional<Probe> poll();

  [[nodiscard]] std::optional<TimePoint> next_timeout() const;
  void on_timeout(TimePoint now);

  [[nodiscard]] bool challenging(TimePoint now, const Path& path, Duration within) const;
  [[nodiscard]] std::optional<Duration> validated(TimePoint now, const Path& path) const;  ///< its round-trip time

 private:
  static constexpr std::size_t kMaxOutstanding = 2048;  // birthday probing sends many (one side of 64 511 ports)
  static constexpr std::size_t kMaxDue = 2048, kMaxValidated = 16;
  static constexpr Duration kValidFor = 60s, kAnswerWithin = 10s;

  struct Outstanding {
    Path path;
    PathToken token{};
    TimePoint sent{};
  };
  struct Repeat {
    Path path;
    int tries = 0;
    Duration interval{};
    TimePoint next{};
  };
  struct Validated {
    Path path;
    Duration rtt{};
    TimePoint at{};
  };
  void queue_challenge(TimePoint now, const Path& path);
  PathToken make_token();

  AeadKey secret_;
  std::uint64_t tokens_ = 0;
  std::vector<Probe> due_;          // oldest first
  std::size_t due_head_ = 0;
  std::vector<Outstanding> outstanding_;  // a ring once it is full
  std::size_t outstanding_next_ = 0;
  std::vector<Repeat> repeats_;
  std::vector<Validated> validated_;
};

}  // namespace peerbed
