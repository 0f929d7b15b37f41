#include "core/congestion/pacer.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

constexpr DataSize kPacket{1200};
constexpr TimePoint kStart{5s};

class PacerAtRate : public testing::TestWithParam<std::int64_t> {
 protected:
  DataRate rate{GetParam()};
};

TEST_P(PacerAtRate, SendsExactlyTheRateInTheLongRun) {
  Pacer pacer(kPacket);
  pacer.set_rate(rate);
  TimePoint now = kStart;
  constexpr int packets = 100'000;
  for (int i = 0; i <= packets; ++i) {
    now = std::max(now, pacer.next_send(now, kPacket));
    pacer.on_sent(now, kPacket);
  }
  // The first went at once, out of the full bucket. Exact: no remainder is lost over all the others.
  EXPECT_EQ(now - kStart, rate.time_for(kPacket * packets));
}

TEST_P(PacerAtRate, WakesOncePerPacketAndNeverForNothing) {
  Pacer pacer(kPacket);
  pacer.set_rate(rate);
  TimePoint now = kStart;
  int wakes = 0;
  for (int i = 0; i < 10'000; ++i) {
    const TimePoint when = pacer.next_send(now, kPacket);
    if (when > now) {
      ++wakes;
      now = when;
      ASSERT_LE(pacer.next_send(now, kPacket), now) << "its time has come, and it does not fit";
    }
    pacer.on_sent(now, kPacket);
  }
  EXPECT_LE(wakes, 10'000);
  EXPECT_GE(wakes, 9'999);
}

TEST_P(PacerAtRate, IsNeverEarlyByANanosecond) {
  Pacer pacer(kPacket);
  pacer.set_rate(rate);
  pacer.on_sent(kStart, kPacket);
  const TimePoint when = pacer.next_send(kStart, kPacket);
  EXPECT_EQ(when - kStart, rate.time_for(kPacket));
  EXPECT_EQ(pacer.next_send(when - Duration(1), kPacket), when);
}

TEST_P(PacerAtRate, AskingOftenDoesNotChangeTheAnswer) {
  Pacer pacer(kPacket * 2);
  pacer.set_rate(rate);
  pacer.on_sent(kStart, kPacket * 2);
  const TimePoint when = pacer.next_send(kStart, kPacket);
  const Duration step = std::max(Duration(1), (when - kStart) / 1000);
  for (TimePoint now = kStart; now < when; now += step) ASSERT_EQ(pacer.next_send(now, kPacket), when);
}

INSTANTIATE_TEST_SUITE_P(FromAModemToAHundredGigabits, PacerAtRate,
                         testing::Values(1'000, 56'123, 1'000'000, 9'999'991, 100'000'000, 1'000'000'007,
                                         40'000'000'000, 100'000'000'000));

TEST(Pacer, ABurstLeavesAtOnceAndTheRestAtTheRate) {
  Pacer pacer(kPacket * 10);
  pacer.set_rate({9'600'000});  // 1 ms per packet
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(pacer.next_send(kStart, kPacket), kStart) << i;
    pacer.on_sent(kStart, kPacket);
  }
  EXPECT_EQ(pacer.next_send(kStart, kPacket), kStart + 1ms);
}

TEST(Pacer, AnIdleSenderSavesUpOneBurstAndNoMore) {
  Pacer pacer(kPacket * 4);
  pacer.set_rate({9'600'000});
  pacer.on_sent(kStart, kPacket * 4);
  const TimePoint later = kStart + 1h;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(pacer.next_send(later, kPacket), later);
    pacer.on_sent(later, kPacket);
  }
  EXPECT_EQ(pacer.next_send(later, kPacket), later + 1ms);
}

TEST(Pacer, APacketAboveTheBurstGoesWhenTheBucketIsFullAndTheNextWaitsForIt) {
  Pacer pacer(kPacket);
  pacer.set_rate({9'600'000});
  EXPECT_EQ(pacer.next_send(kStart, kPacket * 3), kStart);
  pacer.on_sent(kStart, kPacket * 3);
  EXPECT_EQ(pacer.next_send(kStart, kPacket), kStart + 3ms);
}

TEST(Pacer, WithoutARateEverythingGoesAtOnce) {
  Pacer pacer(kPacket);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(pacer.next_send(kStart, kPacket), kStart);
    pacer.on_sent(kStart, kPacket);
  }
  pacer.set_rate({9'600'000});
  EXPECT_EQ(pacer.next_send(kStart, kPacket), kStart) << "what went unpaced is no debt";
}

TEST(Pacer, AWaitBeyondAllTimeIsNever) {
  Pacer pacer(kPacket);
  pacer.set_rate({1});
  for (int i = 0; i < 3; ++i) pacer.on_sent(kStart, DataSize{std::int64_t{1} << 40});
  EXPECT_EQ(pacer.next_send(kStart, kPacket), kNever);
}

TEST(PacingRate, IsTwoWindowsPerRoundTripInSlowStartAndOneAndAQuarterAfter) {
  // RFC 9002 §7.7. 125 000 B in 100 ms are 10 Mbit/s.
  EXPECT_EQ(pacing_rate({125'000}, 100ms, true).bits_per_second, 20'000'000);
  EXPECT_EQ(pacing_rate({125'000}, 100ms, false).bits_per_second, 12'500'000);
}

TEST(PacingRate, StaysARateAtTheExtremes) {
  EXPECT_GE(pacing_rate({2400}, 24h, false).bits_per_second, 1);
  EXPECT_GT(pacing_rate({std::int64_t{1} << 40}, 0ns, true).bits_per_second, 0);
}

}  // namespace
}  // namespace peerbed
