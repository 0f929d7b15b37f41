// What one run of the loopback benchmark is asked to do, and what its two processes say that it took.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/units.h"
#include "core/sockets/socket_environment.h"
#include "core/transport/link.h"

namespace peerbed::bench {

enum class Mode : std::uint8_t { messages, bulk, roundtrips, handshakes };
[[nodiscard]] std::string_view to_string(Mode mode);

struct Plan {
  Mode mode = Mode::messages;
  LinkKind transport = LinkKind::udp;
  std::size_t size = 64;
  Duration duration = 3s, warmup = 500ms;
  std::uint64_t count = 0;  ///< messages, round trips or handshakes; zero: as many as the duration allows
  std::size_t burst = 0;    ///< messages per event of the loop; zero: until the channel is full
  std::string congestion = "cubic";
  bool check_all = false;  ///< compare every byte of every message, not only its ends

  /// No process of a run lives longer.
  [[nodiscard]] Duration time_limit() const { return warmup + duration + 30s + (count > 0 ? 270s : 0s); }
};

/// Readings of one process. The difference of two is what the time between them cost.
struct Usage {
  double user_s = 0, system_s = 0;
  std::uint64_t preempted = 0;  ///< involuntary context switches: on a quiet machine there are few
  SocketCounters sockets;
  std::uint64_t link_packets_sent = 0, link_packets_lost = 0, link_bytes_sent = 0;

  [[nodiscard]] double cpu_s() const { return user_s + system_s; }
  [[nodiscard]] Usage since(const Usage& before) const;
};
[[nodiscard]] Usage read_usage(const SocketEnvironment& environment, const Link* link);

[[nodiscard]] std::uint64_t resident_bytes();
[[nodiscard]] std::uint64_t peak_resident_bytes();

struct Latency {
  double p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
};
/// Nearest-rank percentiles; sorts the samples.
[[nodiscard]] Latency percentiles(std::vector<Duration>& samples);

/// What a process says at its end. Trivially copyable and below PIPE_BUF: one write brings it across whole.
struct ProcessReport {
  std::uint64_t units = 0;        ///< messages, round trips or handshakes between the two marks
  std::uint64_t bytes = 0;        ///< of messages, between the marks
  std::uint64_t total_units = 0;  ///< warm-up included
  std::uint64_t total_bytes = 0;
  std::uint64_t faults = 0;    ///< messages that were not what was sent, in order, once
  std::uint64_t failures = 0;  ///< handshakes that did not succeed
  double elapsed_s = 0;        ///< between the marks, by this process
  Usage usage;                 ///< between the marks
  Latency latency;
  std::uint64_t resident = 0, peak_resident = 0;
  std::array<char, 256> error{};  ///< empty: it went well

  void fail(std::string_view reason);
  [[nodiscard]] bool ok() const { return error[0] == '\0'; }
};

/// Where and who the server is; it crosses a pipe as well.
struct Greeting {
  std::uint16_t port = 0;
  std::array<char, 256> error{};
};

// Messages carry their number at both ends; all between is a pattern. So a lost, doubled, split, merged or misplaced
// message is seen without a checksum that would itself be what is measured.
inline constexpr std::size_t kSmallestMessage = 16;
inline constexpr std::size_t kLargestMessage = 1 << 20;
[[nodiscard]] Bytes make_message(std::size_t size);
void stamp(MutableBytes message, std::uint64_t number);
[[nodiscard]] bool carries(BytesView message, std::uint64_t number, BytesView pattern, bool check_all);

}  // namespace peerbed::bench
