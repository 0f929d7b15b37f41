// Timers: rules 1 to 4 of the seam.
#pragma once

#include "tests/conformance/world.h"

namespace peerbed::conformance {

template <class W>
class TimerConformance : public Conformance<W> {};
TYPED_TEST_SUITE_P(TimerConformance);

TYPED_TEST_P(TimerConformance, EqualDeadlinesFireInTheOrderOfArming) {  // rule 3
  std::vector<std::unique_ptr<TimerRecorder>> timers;
  std::vector<int> order;
  for (int i = 0; i < 40; ++i) {
    timers.push_back(this->make_timer());
    timers.back()->then = [&order, i](TimePoint) { order.push_back(i); };
  }
  const TimePoint deadline = this->world.now() + 20ms;
  std::vector<int> armed;
  for (int i = 0; i < 40; ++i) armed.push_back((i * 17 + 5) % 40);  // 17 and 40 share no factor: each one once
  for (const int i : armed) this->arm(*timers[static_cast<std::size_t>(i)], deadline);
  ASSERT_TRUE(this->until([&] { return order.size() == 40; }));
  EXPECT_EQ(order, armed);
}

TYPED_TEST_P(TimerConformance, AnEarlierDeadlineFiresFirstHoweverLateItWasArmed) {
  auto late = this->make_timer();
  auto early = this->make_timer();
  std::string order;
  late->then = [&](TimePoint) { order += "late "; };
  early->then = [&](TimePoint) { order += "early "; };
  const TimePoint now = this->world.now();
  this->arm(*late, now + 15ms);
  this->arm(*early, now + 5ms);
  ASSERT_TRUE(this->until([&] { return late->fired.size() + early->fired.size() == 2; }));
  EXPECT_EQ(order, "early late ");
}

TYPED_TEST_P(TimerConformance, ArmingAgainReplacesTheDeadline) {
  auto later = this->make_timer();
  auto sooner = this->make_timer();
  const TimePoint now = this->world.now();
  this->arm(*later, now + 5ms);
  this->arm(*later, now + 40ms);
  this->arm(*sooner, now + 24h);
  this->arm(*sooner, now + 10ms);
  ASSERT_TRUE(this->until([&] { return later->fired.size() == 1; }));
  EXPECT_GE(later->fired[0], now + 40ms);
  ASSERT_EQ(sooner->fired.size(), 1U);
  EXPECT_LE(sooner->fired[0], later->fired[0]);
  this->world.run_for(20ms);
  EXPECT_EQ(later->fired.size(), 1U);
  EXPECT_EQ(sooner->fired.size(), 1U);
}

TYPED_TEST_P(TimerConformance, ATimerArmedAgainForTheSameDeadlineGoesBehindTheOthers) {
  auto first = this->make_timer();
  auto second = this->make_timer();
  std::string order;
  first->then = [&](TimePoint) { order += "first "; };
  second->then = [&](TimePoint) { order += "second "; };
  const TimePoint deadline = this->world.now() + 10ms;
  this->arm(*first, deadline);
  this->arm(*second, deadline);
  this->arm(*first, deadline);
  ASSERT_TRUE(this->until([&] { return first->fired.size() + second->fired.size() == 2; }));
  EXPECT_EQ(order, "second first ");
}

TYPED_TEST_P(TimerConformance, ADisarmedTimerDoesNotFire) {
  auto timer = this->make_timer();
  timer->timer->disarm();  // not armed yet: no harm
  this->arm(*timer, this->world.now() + 5ms);
  timer->timer->disarm();
  timer->timer->disarm();
  this->world.run_for(20ms);
  EXPECT_TRUE(timer->fired.empty());
  this->arm(*timer, this->world.now() + 5ms);
  EXPECT_TRUE(this->until([&] { return timer->fired.size() == 1; }));
}

TYPED_TEST_P(TimerConformance, ADestroyedTimerDoesNotFire) {  // rule 4
  auto timer = this->make_timer();
  this->arm(*timer, this->world.now() + 5ms);
  timer->timer.reset();
  this->world.run_for(20ms);
  EXPECT_TRUE(timer->fired.empty());
}

TYPED_TEST_P(TimerConformance, ATimerMayBeDestroyedInItsOwnCallback) {  // rule 4
  auto timer = this->make_timer();
  timer->then = [&](TimePoint) { timer->timer.reset(); };
  this->arm(*timer, this->world.now() + 5ms);
  ASSERT_TRUE(this->until([&] { return timer->fired.size() == 1; }));
  this->world.run_for(20ms);
  EXPECT_EQ(timer->fired.size(), 1U);
}

TYPED_TEST_P(TimerConformance, ADueTimerThatAnotherCallbackDestroysOrDisarmsDoesNotFire) {  // rule 4
  auto first = this->make_timer();
  auto destroyed = this->make_timer();
  auto disarmed = this->make_timer();
  auto last = this->make_timer();
  first->then = [&](TimePoint) {
    destroyed->timer.reset();
    disarmed->timer->disarm();
  };
  const TimePoint deadline = this->world.now() + 5ms;
  for (TimerRecorder* t : {first.get(), destroyed.get(), disarmed.get(), last.get()}) this->arm(*t, deadline);
  ASSERT_TRUE(this->until([&] { return last->fired.size() == 1; }));
  EXPECT_EQ(first->fired.size(), 1U);
  EXPECT_TRUE(destroyed->fired.empty());
  EXPECT_TRUE(disarmed->fired.empty());
}

TYPED_TEST_P(TimerConformance, ADeadlineInThePastFiresSoonButNotInsideArm) {  // rule 1
  this->world.run_for(5ms);
  auto timer = this->make_timer();
  const TimePoint now = this->world.now();
  this->arm(*timer, now - 3ms);
  EXPECT_TRUE(timer->fired.empty());
  ASSERT_TRUE(this->until([&] { return timer->fired.size() == 1; }));
  EXPECT_GE(timer->fired[0], now - 3ms);
  if (TypeParam::kIsVirtual) {
    EXPECT_EQ(timer->fired[0], now);
  }
  // The very start of time is as good as any other past.
  this->arm(*timer, TimePoint{});
  ASSERT_TRUE(this->until([&] { return timer->fired.size() == 2; }));
  EXPECT_GE(timer->fired[1], timer->fired[0]);
}

TYPED_TEST_P(TimerConformance, ATimerThatIsAlwaysInThePastDoesNotStarveTheOthers) {
  auto busy = this->make_timer();
  auto other = this->make_timer();
  int left = 2000;
  busy->then = [&](TimePoint) {
    if (--left > 0) this->arm(*busy, TimePoint{});
  };
  const TimePoint now = this->world.now();
  this->arm(*busy, now);
  this->arm(*other, now);
  ASSERT_TRUE(this->until([&] { return other->fired.size() == 1; }));
  EXPECT_GT(left, 1900) << "the other timer was due from the start";
  ASSERT_TRUE(this->until([&] { return left == 0; }));
}

TYPED_TEST_P(TimerConformance, NoTimerFiresEarlyAndAllFireInOrder) {
  constexpr std::size_t kCount = 2000;
  RandomStream random(1, 2, "deadlines");
  std::vector<std::unique_ptr<TimerRecorder>> timers;
  std::vector<TimePoint> deadlines;
  std::vector<TimePoint> order;
  const TimePoint now = this->world.now() + 10ms;
  for (std::size_t i = 0; i < kCount; ++i) {
    deadlines.push_back(now + Duration(random.between(0, 50'000'000)));
    timers.push_back(this->make_timer());
    timers.back()->then = [&, i](TimePoint at) {
      EXPECT_GE(at, deadlines[i]);
      if (TypeParam::kIsVirtual) {
        EXPECT_EQ(at, deadlines[i]);
      }
      order.push_back(deadlines[i]);
    };
    this->arm(*timers.back(), deadlines[i]);
  }
  ASSERT_TRUE(this->until([&] { return order.size() == kCount; }));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TYPED_TEST_P(TimerConformance, ATimerArmedInItsOwnCallbackFiresAgain) {
  auto timer = this->make_timer();
  const TimePoint start = this->world.now();
  timer->then = [&](TimePoint now) {
    if (timer->fired.size() < 10) this->arm(*timer, now + 2ms);
  };
  this->arm(*timer, start + 2ms);
  ASSERT_TRUE(this->until([&] { return timer->fired.size() == 10; }));
  this->world.run_for(10ms);
  ASSERT_EQ(timer->fired.size(), 10U);
  for (std::size_t i = 1; i < 10; ++i) EXPECT_GE(timer->fired[i] - timer->fired[i - 1], 2ms);
  if (TypeParam::kIsVirtual) {
    EXPECT_EQ(timer->fired.back(), start + 20ms);
  }
}

TYPED_TEST_P(TimerConformance, ADeadlineOfNeverDoesNotFire) {
  auto never = this->make_timer();
  auto other = this->make_timer();
  this->arm(*never, kNever);
  this->arm(*other, this->world.now() + 5ms);
  ASSERT_TRUE(this->until([&] { return other->fired.size() == 1; }));
  this->world.run_for(10ms);
  EXPECT_TRUE(never->fired.empty());
}

TYPED_TEST_P(TimerConformance, TimeStandsStillInACallbackAndNeverRunsBackwards) {  // rule 2
  // Timers, datagrams and a stream of one environment share the watch, which checks every callback. A timer armed
  // inside a callback for that callback's own `now` may not fire with a smaller one.
  auto timer = this->make_timer(0);
  auto echo = this->make_timer(0);
  std::vector<TimePoint> armed_at;
  echo->then = [&](TimePoint now) { EXPECT_GE(now, armed_at.back()); };
  auto a = this->open(0);
  auto b = this->open(1);
  std::size_t answered = 0;
  b->when_received = [&](TimePoint) {  // one batch may hold several, where the machine is busy
    for (; answered < b->received.size(); ++answered) b->send(a->local(), as_bytes("back"));
  };
  timer->then = [&](TimePoint now) {
    armed_at.push_back(now);
    this->arm(*echo, now);
    a->send(b->local(), as_bytes("there"));
    if (timer->fired.size() < 50) this->arm(*timer, now + 1ms);
  };
  this->arm(*timer, this->world.now());
  ASSERT_TRUE(this->until([&] { return timer->fired.size() == 50 && a->received.size() == 50; }));
  EXPECT_EQ(echo->fired.size(), 50U);
  EXPECT_GE(this->watches[0].callbacks, 101U);
  if (TypeParam::kIsVirtual) {
    EXPECT_EQ(echo->fired, timer->fired);
  }
}

TYPED_TEST_P(TimerConformance, HostsHaveTheirOwnTimers) {
  std::array<std::unique_ptr<TimerRecorder>, kHosts> timers;
  const TimePoint now = this->world.now();
  for (std::size_t h = 0; h < kHosts; ++h) {
    timers[h] = this->make_timer(h);
    this->arm(*timers[h], now + static_cast<std::int64_t>(h + 1) * 4ms);
  }
  ASSERT_TRUE(this->until([&] { return timers[2]->fired.size() == 1; }));
  for (std::size_t h = 0; h < kHosts; ++h) {
    ASSERT_TRUE(this->until([&] { return timers[h]->fired.size() == 1; }));
    EXPECT_EQ(this->watches[h].callbacks, 1U);
  }
}

REGISTER_TYPED_TEST_SUITE_P(TimerConformance, EqualDeadlinesFireInTheOrderOfArming,
                            AnEarlierDeadlineFiresFirstHoweverLateItWasArmed, ArmingAgainReplacesTheDeadline,
                            ATimerArmedAgainForTheSameDeadlineGoesBehindTheOthers, ADisarmedTimerDoesNotFire,
                            ADestroyedTimerDoesNotFire, ATimerMayBeDestroyedInItsOwnCallback,
                            ADueTimerThatAnotherCallbackDestroysOrDisarmsDoesNotFire,
                            ADeadlineInThePastFiresSoonButNotInsideArm,
                            ATimerThatIsAlwaysInThePastDoesNotStarveTheOthers, NoTimerFiresEarlyAndAllFireInOrder,
                            ATimerArmedInItsOwnCallbackFiresAgain, ADeadlineOfNeverDoesNotFire,
                            TimeStandsStillInACallbackAndNeverRunsBackwards, HostsHaveTheirOwnTimers);

}  // namespace peerbed::conformance
