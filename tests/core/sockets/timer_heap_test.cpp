#include "core/sockets/timer_heap.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace peerbed {
namespace {

TEST(TimerHeap, AgreesWithASortedSetUnderRandomArmingAndDisarming) {
  constexpr std::size_t kTimers = 300;
  RandomStream random(3, 0, "heap");
  TimerHeap heap;
  std::vector<TimerHeap::Entry> entries(kTimers);
  std::set<std::tuple<TimePoint, std::uint64_t, std::size_t>> reference;
  std::vector<std::uint64_t> sequence(kTimers);
  const auto forget = [&](std::size_t i) { reference.erase({entries[i].deadline, sequence[i], i}); };
  for (int step = 0; step < 100'000; ++step) {
    const auto i = static_cast<std::size_t>(random.below(kTimers));
    const std::uint64_t what = random.below(10);
    if (what < 6) {
      forget(i);
      sequence[i] = heap.next_sequence();
      const TimePoint deadline{Duration(random.between(0, 50))};  // few values: many equal deadlines
      heap.arm(entries[i], deadline);
      reference.insert({deadline, sequence[i], i});
    } else if (what < 8) {
      forget(i);
      heap.disarm(entries[i]);
    } else if (!reference.empty()) {
      const auto [deadline, order, index] = *reference.begin();
      TimerHeap::Entry* const first = heap.first();
      ASSERT_EQ(first, &entries[index]);
      ASSERT_EQ(heap.earliest(), deadline);
      heap.disarm(*first);
      reference.erase(reference.begin());
    }
    ASSERT_EQ(heap.size(), reference.size());
  }
  while (!reference.empty()) {
    ASSERT_EQ(heap.first(), &entries[std::get<2>(*reference.begin())]);
    heap.disarm(*heap.first());
    reference.erase(reference.begin());
  }
  EXPECT_EQ(heap.first(), nullptr);
  EXPECT_EQ(heap.earliest(), kNever);
}

TEST(TimerHeap, DisarmingWhatIsNotArmedDoesNothing) {
  TimerHeap heap;
  TimerHeap::Entry a, b;
  heap.disarm(a);
  heap.arm(b, TimePoint(5ns));
  heap.disarm(a);
  EXPECT_EQ(heap.first(), &b);
  heap.disarm(b);
  heap.disarm(b);
  EXPECT_EQ(heap.size(), 0U);
}

}  // namespace
}  // namespace peerbed
