// Datagrams over loopback between two socket environments in one thread: what a packet costs both ends together, with
// and without UDP segmentation offload, by how many are offered at once.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "core/sockets/socket_environment.h"

namespace peerbed {
namespace {

struct Counter final : DatagramHandler {
  void on_datagrams(TimePoint, std::span<const IncomingDatagram> batch) override {
    received += batch.size();
    for (const IncomingDatagram& d : batch) bytes += d.payload.size();
  }
  void on_writable(TimePoint) override {}
  void on_unreachable(TimePoint, const Unreachable&) override {}
  std::uint64_t received = 0, bytes = 0;
};

void datagrams(benchmark::State& state) {
  SocketEnvironment::Options options;
  options.segmentation = state.range(0) != 0;
  auto a = SocketEnvironment::open(options);
  auto b = SocketEnvironment::open(options);
  if (a.has_error() || b.has_error()) return state.SkipWithError("no environment");
  if (options.segmentation && !(*a)->sends_segments()) return state.SkipWithError("no segmentation in this kernel");
  Counter sender, receiver;
  auto from = (*a)->open_datagram_socket({{IpAddress::loopback(Family::v4), 0}, true}, sender);
  auto to = (*b)->open_datagram_socket({{IpAddress::loopback(Family::v4), 0}, true}, receiver);
  if (from.has_error() || to.has_error()) return state.SkipWithError("no socket");

  const auto count = static_cast<std::size_t>(state.range(1));
  const Bytes payload(static_cast<std::size_t>(state.range(2)), 0x5a);
  const std::vector<OutgoingDatagram> batch(count, {(*to)->local_endpoint(), payload, Ecn::ect0, 0});
  std::uint64_t sent = 0;
  for (auto _ : state) {
    sent += (*from)->send(batch);
    while (receiver.received < sent) (*b)->run_once(0s);
  }
  const SocketCounters& ca = (*a)->counters();
  const SocketCounters& cb = (*b)->counters();
  const auto packets = static_cast<double>(receiver.received);
  state.SetItemsProcessed(static_cast<std::int64_t>(receiver.received));
  state.SetBytesProcessed(static_cast<std::int64_t>(receiver.bytes));
  state.counters["syscalls/packet"] = static_cast<double>(ca.system_calls + cb.system_calls) / packets;
  state.counters["packets/send"] = static_cast<double>(ca.datagrams_sent) / static_cast<double>(ca.send_calls);
  state.counters["packets/receive"] =
      static_cast<double>(cb.datagrams_received) / static_cast<double>(cb.receive_calls);
}
BENCHMARK(datagrams)
    ->ArgNames({"offload", "batch", "size"})
    ->ArgsProduct({{0, 1}, {1, 4, 16, 64}, {1200}})
    ->Args({0, 64, 64})
    ->Args({1, 64, 64});

struct Tick final : TimerHandler {
  void on_timer(TimePoint) override { ++fired; }
  std::uint64_t fired = 0;
};

/// Arming one timer of many again, as each packet does with the loss timer of its connection.
void arm_timer(benchmark::State& state) {
  auto a = SocketEnvironment::open({});
  if (a.has_error()) return state.SkipWithError("no environment");
  Tick tick;
  std::vector<std::unique_ptr<Timer>> timers;
  const TimePoint now = (*a)->now();
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    timers.push_back((*a)->make_timer(tick));
    timers.back()->arm(now + 1h + Duration(i * 1000));
  }
  std::size_t next = 0;
  std::int64_t step = 0;
  for (auto _ : state) {
    timers[next]->arm(now + 1h + Duration(++step * 1000));
    next = next + 1 == timers.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(arm_timer)->Arg(10)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace peerbed
