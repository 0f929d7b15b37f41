#include "sim/des/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/env/random_stream.h"

namespace peerbed::sim {
namespace {

TimePoint at(std::int64_t ns) { return TimePoint(Duration(ns)); }

std::vector<std::uint64_t> drain(Scheduler& scheduler) {
  std::vector<std::uint64_t> order;
  Event event;
  TimePoint last{};
  while (scheduler.pop_until(kNever, event)) {
    EXPECT_GE(event.time, last);
    last = event.time;
    order.push_back(event.payload);
  }
  return order;
}

TEST(Scheduler, AnEmptyOneHasNoNextTime) {
  Scheduler scheduler;
  Event event;
  EXPECT_FALSE(scheduler.next_time().has_value());
  EXPECT_FALSE(scheduler.pop_until(kNever, event));
  EXPECT_EQ(scheduler.pending(), 0U);
}

TEST(Scheduler, EventsComeInTheOrderOfTheirTimesWithKindAndPayload) {
  Scheduler scheduler;
  scheduler.schedule(at(30), 3, 300);
  scheduler.schedule(at(10), 1, 100);
  scheduler.schedule(at(20), 127, ~std::uint64_t{0});
  Event event;
  ASSERT_TRUE(scheduler.pop_until(at(10), event));
  EXPECT_EQ(event.time, at(10));
  EXPECT_EQ(event.kind, 1);
  EXPECT_EQ(event.payload, 100U);
  EXPECT_FALSE(scheduler.pop_until(at(19), event));
  EXPECT_EQ(scheduler.next_time(), at(20));
  ASSERT_TRUE(scheduler.pop_until(at(20), event));
  EXPECT_EQ(event.kind, 127);
  EXPECT_EQ(event.payload, ~std::uint64_t{0});
  EXPECT_EQ(scheduler.pending(), 1U);
}

TEST(Scheduler, EqualTimesFireInSchedulingOrderWhateverTheirKindsAre) {
  for (const std::size_t n : {std::size_t{10}, Scheduler::kManyPending * 3}) {
    Scheduler scheduler;
    for (std::size_t i = 0; i < n; ++i) scheduler.schedule(at(5), static_cast<std::uint8_t>((n - i) % 128), i);
    const auto order = drain(scheduler);
    ASSERT_EQ(order.size(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(Scheduler, ACancelledEventNeverFiresAndItsHandleStaysHarmless) {
  Scheduler scheduler;
  const EventHandle first = scheduler.schedule_cancellable(at(10), 1, 100);
  const EventHandle second = scheduler.schedule_cancellable(at(10), 1, 200);
  EXPECT_TRUE(scheduler.is_pending(first));
  scheduler.cancel(first);
  EXPECT_FALSE(scheduler.is_pending(first));
  EXPECT_EQ(scheduler.pending(), 1U);
  scheduler.cancel(first);
  scheduler.cancel(EventHandle{});
  const EventHandle third = scheduler.schedule_cancellable(at(11), 1, 300);  // takes the free slot over
  scheduler.cancel(first);
  EXPECT_EQ(drain(scheduler), (std::vector<std::uint64_t>{200, 300}));
  scheduler.cancel(second);
  scheduler.cancel(third);
  EXPECT_EQ(scheduler.pending(), 0U);
}

TEST(Scheduler, TheLargestTimeIsATimeLikeAnother) {
  for (const std::size_t n : {std::size_t{3}, Scheduler::kManyPending * 2}) {
    Scheduler scheduler;
    for (std::size_t i = 0; i < n; ++i) scheduler.schedule(kNever, 0, 2 * n + i);
    for (std::size_t i = 0; i < n; ++i) scheduler.schedule(kNever - Duration(1), 0, n + i);
    for (std::size_t i = 0; i < n; ++i) scheduler.schedule(TimePoint{}, 0, i);
    const auto order = drain(scheduler);
    ASSERT_EQ(order.size(), 3 * n);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(Scheduler, ATimerThatIsMovedForEverHoldsNoMemoryForIt) {
  Scheduler scheduler;
  EventHandle handle;
  for (int i = 0; i < 1'000'000; ++i) {
    scheduler.cancel(handle);
    handle = scheduler.schedule_cancellable(at(1'000'000'000 + i), 0, 1);
  }
  EXPECT_EQ(scheduler.pending(), 1U);
  EXPECT_LT(scheduler.memory_bytes(), 1U << 20);  // 24 MB if stale entries were kept
}

/// How far ahead events are scheduled decides how the buckets are used, so several shapes are tried.
using Ahead = std::int64_t (*)(RandomStream&);
struct Shape {
  const char* name;
  Ahead ahead;
  std::size_t most;
};

class SchedulerAgainstModel : public ::testing::TestWithParam<Shape> {};

// The model is std::multimap, which keeps equal keys in insertion order. The number of pending events swings between none and
// `most`, so the structure behind the scheduler changes both ways, several times.
TEST_P(SchedulerAgainstModel, GivesTheSameSequence) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    RandomStream random(seed, 0, GetParam().name);
    Scheduler scheduler;
    std::multimap<TimePoint, std::uint64_t> model;
    std::map<std::uint64_t, std::multimap<TimePoint, std::uint64_t>::iterator> where;
    std::vector<std::pair<EventHandle, std::uint64_t>> handles;
    TimePoint now{};
    std::uint64_t id = 0;
    bool growing = true;
    std::size_t turns = 0;
    for (std::size_t step = 0; turns < 6; ++step) {
      if (growing ? model.size() >= GetParam().most : model.empty()) {
        growing = !growing;
        ++turns;
      }
      const std::uint64_t dice = random.below(100);
      if (dice < (growing ? 70U : 25U)) {
        const TimePoint when = now + Duration(GetParam().ahead(random));
        const auto entry = model.emplace(when, ++id);
        if (random.chance(0.3)) {
          handles.emplace_back(scheduler.schedule_cancellable(when, static_cast<std::uint8_t>(id % 128), id), id);
          where[id] = entry;
        } else {
          scheduler.schedule(when, static_cast<std::uint8_t>(id % 128), id);
        }
      } else if (dice < (growing ? 78U : 40U) && !handles.empty()) {
        const std::size_t pick = static_cast<std::size_t>(random.below(handles.size()));
        scheduler.cancel(handles[pick].first);
        if (const auto found = where.find(handles[pick].second); found != where.end()) {
          model.erase(found->second);
          where.erase(found);
        }
        handles[pick] = handles.back();
        handles.pop_back();
      } else {
        Event event;
        const TimePoint limit = random.chance(0.1) ? now + Duration(GetParam().ahead(random)) : kNever;
        const bool due = !model.empty() && model.begin()->first <= limit;
        ASSERT_EQ(scheduler.pop_until(limit, event), due);
        if (due) {
          ASSERT_EQ(event.payload, model.begin()->second);
          ASSERT_EQ(event.time, model.begin()->first);
          ASSERT_EQ(event.kind, event.payload % 128);
          now = event.time;
          where.erase(event.payload);
          model.erase(model.begin());
        }
      }
      ASSERT_EQ(scheduler.pending(), model.size());
      if (step % 64 == 0) {
        ASSERT_EQ(scheduler.next_time().has_value(), !model.empty());
        if (!model.empty()) {
          ASSERT_EQ(*scheduler.next_time(), model.begin()->first);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SchedulerAgainstModel,
    ::testing::Values(Shape{"few", [](RandomStream& r) { return r.between(0, 1000); }, 40},
                      Shape{"uniform", [](RandomStream& r) { return r.between(0, 100'000'000); }, 20'000},
                      Shape{"equal", [](RandomStream& r) { return r.between(0, 3) * 1'000'000; }, 20'000},
                      Shape{"exponential", [](RandomStream& r) { return static_cast<std::int64_t>(r.exponential(1e7)); }, 20'000},
                      Shape{"skewed",  // most within a millisecond, some in hours, a few in years
                            [](RandomStream& r) {
                              const std::uint64_t dice = r.below(1000);
                              return dice < 900   ? r.between(0, 1'000'000)
                                     : dice < 995 ? r.between(0, 10'000'000'000'000)
                                                  : r.between(0, 1'000'000'000'000'000'000);
                            },
                            20'000}),
    [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace peerbed::sim
