// All nodes of a scenario in this process, each on an environment of its own with an address of its own in 127/8. Real
// time, real kernel, one thread. The topology says who is there; what its links do is not emulated, and the run says so.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include "core/base/check.h"
#include "core/sockets/socket_environment.h"
#include "scenarios/backend.h"

namespace peerbed {

namespace {

/// Above this share of the time spent waiting for a CPU, timers and rates are the machine's, not the protocol's.
constexpr double kMostCpuWait = 0.5;
constexpr double kLeastJudged = 1.0;  // seconds: shorter runs say nothing about the machine

/// Runs at the same time on one machine must not meet: each process has 256 addresses to begin with.
IpAddress address_of_host(std::size_t index) {
  const auto process = static_cast<std::uint32_t>(getpid()) & 0x7fff;
  return IpAddress::v4((std::uint32_t{127} << 24) + (1U << 16) + (process << 8) + 2 + static_cast<std::uint32_t>(index));
}

/// Nanoseconds that this process was ready to run and did not (Documentation/scheduler/sched-stats).
double cpu_wait_seconds() {
  std::ifstream in("/proc/self/schedstat");
  std::uint64_t on_cpu = 0, waiting = 0;
  in >> on_cpu >> waiting;
  return static_cast<double>(waiting) * 1e-9;
}

double wall_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class SocketsWorld final : public World {
 public:
  SocketsWorld() : started_(wall_seconds()), waited_before_(cpu_wait_seconds()) {}

  Result<void> open(const Topology& topology, std::uint64_t seed, Recorder& recorder) {
    for (const auto& node : topology.nodes) {
      if (node.kind == NodeKind::nat)
        return unsupported(fmt::format("the backend 'sockets' has no NATs, and the topology has '{}'; use --backend sim", node.name));
      if (node.kind != NodeKind::host) continue;
      SocketEnvironment::Options options;
      options.seed = seed;
      options.node_id = environments_.size() + 1;
      options.log = &recorder.log_of(node.name);
      options.addresses = {address_of_host(environments_.size())};
      auto environment = SocketEnvironment::open(std::move(options));
      if (!environment) return environment.error();
      index_.emplace(node.name, environments_.size());
      environments_.push_back(std::move(*environment));
    }
    polled_.resize(environments_.size());
    return {};
  }

  [[nodiscard]] Environment& environment(const std::string& host) override { return *environments_[index_.at(host)]; }
  [[nodiscard]] std::optional<IpAddress> bind_address(const std::string& host) const override { return address_of_host(index_.find(host)->second); }
  [[nodiscard]] bool virtual_time() const override { return false; }
  [[nodiscard]] TimePoint now() const override { return environments_.front()->now(); }

  void run_until(TimePoint deadline) override {
    while (true) {
      const TimePoint before = now();
      if (before >= deadline) return;
      for (std::size_t i = 0; i < environments_.size(); ++i) polled_[i] = {environments_[i]->fd(), POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - before);
      const int ready = poll(polled_.data(), static_cast<nfds_t>(polled_.size()), static_cast<int>(left.count()));
      if (ready < 0) return;  // a signal: the caller looks at what it means
      for (std::size_t i = 0; i < environments_.size(); ++i)
        if (polled_[i].revents != 0) environments_[i]->run_once(Duration{});
    }
  }

  [[nodiscard]] bool supports(Fault::Kind kind) const override { return kind == Fault::Kind::stop; }
  Result<void> rebind(const std::string&) override { return unsupported("the backend 'sockets' has no NATs"); }
  Result<void> change_link(const std::string&, const LinkChange&) override {
    return unsupported("the backend 'sockets' cannot change links");
  }

  [[nodiscard]] WorldCounters counters() const override {
    WorldCounters sum;
    for (const auto& environment : environments_) {
      const auto& counted = environment->counters();
      sum.events += counted.timers_fired + counted.datagrams_received;
      sum.packets += counted.datagrams_sent;
    }
    return sum;
  }

  void report(Metrics& metrics) const override {
    std::uint64_t calls = 0, refused = 0, dropped = 0;
    for (const auto& environment : environments_) {
      const auto& counted = environment->counters();
      calls += counted.system_calls;
      refused += counted.datagrams_refused;
      dropped += counted.oversize_dropped + counted.unroutable_dropped;
    }
    metrics.set_number("sockets.system_calls", "", static_cast<double>(calls));
    metrics.set_number("sockets.datagrams_refused", "", static_cast<double>(refused));
    metrics.set_number("sockets.datagrams_dropped", "", static_cast<double>(dropped));
    metrics.set_number("sockets.cpu_wait", "", cpu_wait());
  }

  [[nodiscard]] std::uint64_t trace_hash() const override { return 0; }

  [[nodiscard]] std::vector<std::string> not_emulated() const override {
    return {"link rates, delays, jitter, loss and queues are not emulated: packets go over loopback"};
  }

  [[nodiscard]] std::optional<std::string> invalid() const override {
    if (wall_seconds() - started_ < kLeastJudged || cpu_wait() <= kMostCpuWait) return std::nullopt;
    return fmt::format("this process waited for a CPU for {:.0f} % of the time: the machine was the limit", cpu_wait() * 100);
  }

 private:
  [[nodiscard]] double cpu_wait() const {
    const double wall = wall_seconds() - started_;
    return wall > 0 ? (cpu_wait_seconds() - waited_before_) / wall : 0;
  }

  double started_, waited_before_;
  std::vector<std::unique_ptr<SocketEnvironment>> environments_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<pollfd> polled_;
};

}  // namespace

Result<std::unique_ptr<World>> realise_sockets(const Topology& topology, std::uint64_t seed, Recorder& recorder) {
  auto world = std::make_unique<SocketsWorld>();
  if (auto opened = world->open(topology, seed, recorder); !opened) return opened.error();
  return std::unique_ptr<World>(std::move(world));
}

}  // namespace peerbed
