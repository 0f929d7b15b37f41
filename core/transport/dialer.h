// Reaches a peer by whatever works first: races UDP and TCP over all its endpoints (in the spirit of RFC 8305), UDP before
// TCP, IPv6 and IPv4 in turn, the next attempt after 250 ms or as soon as one fails. The first established link wins, the
// others are closed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/env/environment.h"
#include "core/transport/link.h"
#include "core/transport/tcp_transport.h"
#include "core/transport/udp_transport.h"

namespace peerbed {

using DialId = std::uint64_t;

struct DialTarget {
  LinkKind kind = LinkKind::udp;
  Endpoint endpoint;
  constexpr auto operator<=>(const DialTarget&) const = default;
};

struct DialerConfig {
  Duration attempt_delay = 250ms;  ///< RFC 8305 §5, Connection Attempt Delay
  Duration timeout = 10s;          ///< of the whole race
};

class DialHandler {
 public:
  /// The link is established; the handler calls link.set_handler() inside. The race is over.
  virtual void on_dial_succeeded(TimePoint now, DialId dial, Link& link) = 0;
  /// Every attempt failed; `reason` is that of the last one, or timed_out.
  virtual void on_dial_failed(TimePoint now, DialId dial, LinkCloseReason reason) = 0;

 protected:
  ~DialHandler() = default;
};

class Dialer {
 public:
  /// Either transport may be null: its targets are skipped.
  Dialer(Environment& environment, UdpTransport* udp, TcpTransport* tcp, const DialerConfig& config = {});
  ~Dialer();

  /// Exactly one callback follows unless it is cancelled. No usable target at all counts as a failed dial (`refused`).
  DialId dial(TimePoint now, const std::optional<PeerId>& expected, std::span<const DialTarget> targets,
              DialHandler& handler);
  void cancel(TimePoint now, DialId dial);

 private:
  class Race;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The order of attempts: per kind (UDP first) the families in turn, IPv6 first; duplicates are dropped.
[[nodiscard]] std::vector<DialTarget> order_dial_targets(std::span<const DialTarget> targets);

}  // namespace peerbed
