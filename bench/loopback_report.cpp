#include "bench/loopback_report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

namespace peerbed::bench {
namespace {

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

rusage self_usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

constexpr std::uint64_t kTail = 0x9e37'79b9'7f4a'7c15;  // so that both stamps of message 0 are not zero

}  // namespace

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::messages: return "messages";
    case Mode::bulk: return "bulk";
    case Mode::roundtrips: return "roundtrips";
    case Mode::handshakes: return "handshakes";
  }
  return "unknown";
}

Usage read_usage(const SocketEnvironment& environment, const Link* link) {
  const rusage self = self_usage();
  Usage usage;
  usage.user_s = seconds(self.ru_utime);
  usage.system_s = seconds(self.ru_stime);
  usage.preempted = static_cast<std::uint64_t>(self.ru_nivcsw);
  usage.sockets = environment.counters();
  if (link != nullptr) {
    const LinkStats stats = link->stats();
    usage.link_packets_sent = stats.packets_sent;
    usage.link_packets_lost = stats.packets_lost;
    usage.link_bytes_sent = stats.bytes_sent;
  }
  return usage;
}

Usage Usage::since(const Usage& before) const {
  Usage d = *this;
  d.user_s -= before.user_s;
  d.system_s -= before.system_s;
  d.preempted -= before.preempted;
  d.sockets.wakeups -= before.sockets.wakeups;
  d.sockets.system_calls -= before.sockets.system_calls;
  d.sockets.timers_fired -= before.sockets.timers_fired;
  d.sockets.datagrams_sent -= before.sockets.datagrams_sent;
  d.sockets.send_calls -= before.sockets.send_calls;
  d.sockets.segmented_messages -= before.sockets.segmented_messages;
  d.sockets.segmented_datagrams -= before.sockets.segmented_datagrams;
  d.sockets.datagrams_refused -= before.sockets.datagrams_refused;
  d.sockets.datagrams_received -= before.sockets.datagrams_received;
  d.sockets.receive_calls -= before.sockets.receive_calls;
  d.sockets.coalesced_messages -= before.sockets.coalesced_messages;
  d.link_packets_sent -= before.link_packets_sent;
  d.link_packets_lost -= before.link_packets_lost;
  d.link_bytes_sent -= before.link_bytes_sent;
  return d;
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t peak_resident_bytes() { return static_cast<std::uint64_t>(self_usage().ru_maxrss) * 1024; }

Latency percentiles(std::vector<Duration>& samples) {
  Latency result;
  if (samples.empty()) return result;
  std::sort(samples.begin(), samples.end());
  const auto at = [&samples](double fraction) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(samples.size())));
    return to_seconds(samples[std::max<std::size_t>(rank, 1) - 1]) * 1e6;
  };
  return {at(0.5), at(0.9), at(0.99), at(0.999), at(1)};
}

void ProcessReport::fail(std::string_view reason) {
  if (!ok()) return;  // the first reason is the cause
  const std::size_t size = std::min(reason.size(), error.size() - 1);
  std::memcpy(error.data(), reason.data(), size);
  error[size] = '\0';
}

// ---- messages ------------------------------------------------------------------------------------------------------

Bytes make_message(std::size_t size) {
  Bytes message(size);
  for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<std::uint8_t>(i * 31 + (i >> 8));
  return message;
}

void stamp(MutableBytes message, std::uint64_t number) {
  const std::uint64_t tail = number ^ kTail;
  std::memcpy(message.data(), &number, 8);
  std::memcpy(message.data() + message.size() - 8, &tail, 8);
}

bool carries(BytesView message, std::uint64_t number, BytesView pattern, bool check_all) {
  if (message.size() != pattern.size()) return false;
  std::uint64_t head = 0, tail = 0;
  std::memcpy(&head, message.data(), 8);
  std::memcpy(&tail, message.data() + message.size() - 8, 8);
  if (head != number || tail != (number ^ kTail)) return false;
  return !check_all || std::memcmp(message.data() + 8, pattern.data() + 8, message.size() - 16) == 0;
}

}  // namespace peerbed::bench
