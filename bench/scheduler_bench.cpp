// The hold model: with n events pending, take the earliest out and put one in, exponentially far ahead. Beside our scheduler stand
// the two queues that one would write first. "items_per_second" is events per CPU second.
#include <benchmark/benchmark.h>

#include <functional>
#include <queue>

#include "core/env/random_stream.h"
#include "sim/des/scheduler.h"

namespace peerbed::sim {
namespace {

constexpr double kMeanAhead = 50e6;  // 50 ms
constexpr std::size_t kDraws = 1 << 16;

/// Drawn beforehand: the logarithm would cost as much as the queue.
const std::vector<std::int64_t>& draws() {
  static const std::vector<std::int64_t> all = [] {
    RandomStream random(1, 0, "hold model");
    std::vector<std::int64_t> v(kDraws);
    for (std::int64_t& d : v) d = static_cast<std::int64_t>(random.exponential(kMeanAhead));
    return v;
  }();
  return all;
}

template <class Fill, class Hold>
void hold_model(benchmark::State& state, Fill fill, Hold hold) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto& ahead = draws();
  for (std::size_t i = 0; i < n; ++i) fill(ahead[i % kDraws] + static_cast<std::int64_t>(i / kDraws));
  std::size_t i = 0;
  for (std::size_t k = 0; k < 2 * n; ++k) hold(ahead[i++ % kDraws]);  // to the steady state
  for (auto _ : state) hold(ahead[i++ % kDraws]);
  state.SetItemsProcessed(state.iterations());
}

void scheduler(benchmark::State& state) {
  Scheduler queue;
  std::uint64_t payload = 0;
  hold_model(
      state, [&](std::int64_t t) { queue.schedule(TimePoint(Duration(t)), 1, ++payload); },
      [&](std::int64_t t) {
        Event event;
        if (queue.pop_until(kNever, event)) queue.schedule(event.time + Duration(t), 1, event.payload);
      });
}

void scheduler_cancellable(benchmark::State& state) {
  Scheduler queue;
  std::uint64_t payload = 0;
  hold_model(
      state, [&](std::int64_t t) { benchmark::DoNotOptimize(queue.schedule_cancellable(TimePoint(Duration(t)), 1, ++payload)); },
      [&](std::int64_t t) {
        Event event;
        if (!queue.pop_until(kNever, event)) return;
        benchmark::DoNotOptimize(queue.schedule_cancellable(event.time + Duration(t), 1, event.payload));
      });
}

struct Pod {
  std::int64_t time;
  std::uint64_t sequence, payload;
  bool operator>(const Pod& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
};

void priority_queue_of_pods(benchmark::State& state) {
  std::priority_queue<Pod, std::vector<Pod>, std::greater<>> queue;
  std::uint64_t sequence = 0;
  hold_model(
      state, [&](std::int64_t t) { queue.push({t, ++sequence, sequence}); },
      [&](std::int64_t t) {
        const Pod top = queue.top();
        queue.pop();
        queue.push({top.time + t, ++sequence, top.payload});
      });
}

struct Closure {
  std::int64_t time;
  std::uint64_t sequence;
  std::function<void()> call;
  bool operator>(const Closure& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
};

void priority_queue_of_functions(benchmark::State& state) {
  std::priority_queue<Closure, std::vector<Closure>, std::greater<>> queue;
  std::uint64_t sequence = 0, called = 0;
  const auto push = [&](std::int64_t t) {
    const std::uint64_t a = ++sequence, b = a + 1, c = a + 2;  // more than the small buffer holds, as a packet and its place would be
    queue.push({t, a, [&called, a, b, c] { called += a + b + c; }});
  };
  hold_model(state, push, [&](std::int64_t t) {
    Closure top = std::move(const_cast<Closure&>(queue.top()));
    queue.pop();
    top.call();
    push(top.time + t);
  });
  benchmark::DoNotOptimize(called);
}

#define PEERBED_HOLD(queue) BENCHMARK(queue)->Arg(1'000)->Arg(20'000)->Arg(200'000)->Arg(1'000'000)
PEERBED_HOLD(scheduler);
PEERBED_HOLD(scheduler_cancellable);
PEERBED_HOLD(priority_queue_of_pods);
PEERBED_HOLD(priority_queue_of_functions);

}  // namespace
}  // namespace peerbed::sim
