#include "core/congestion/newreno.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/congestion/flow.h"

namespace peerbed {
namespace {

TEST(NewReno, HalvesOnLoss) {
  Flow flow("newreno", 100ms, DataSize{100 * kDatagram});
  flow.controller->on_lost({flow.now, {kDatagram}, flow.now, {}, false});
  EXPECT_EQ(flow.controller->window(), DataSize{50 * kDatagram});  // kLossReductionFactor, RFC 9002 §B.1
  EXPECT_EQ(flow.controller->slow_start_threshold(), DataSize{50 * kDatagram});
}

TEST(NewReno, GrowsByExactlyOneDatagramPerWindowInCongestionAvoidance) {
  Flow flow("newreno", 100ms, DataSize{100 * kDatagram});
  flow.controller->on_lost({flow.now, {kDatagram}, flow.now, {}, false});
  flow.now += 1ms;
  for (std::int64_t i = 1; i <= 200; ++i) {
    flow.round();
    ASSERT_EQ(flow.controller->window(), DataSize{(50 + i) * kDatagram});
  }
}

TEST(NewReno, ATimeoutHalvesWhatWasInFlightAndNotTheWindow) {
  Flow flow("newreno", 100ms, DataSize{100 * kDatagram});
  for (int i = 0; i < 20; ++i) flow.send();
  flow.controller->on_retransmission_timeout(flow.now + 1s);  // FlightSize / 2, RFC 5681 equation 4
  EXPECT_EQ(flow.controller->slow_start_threshold(), DataSize{10 * kDatagram});
}

// With every 1/p-th packet lost the window is a saw tooth between W/2 and W that carries 3/8 W^2 packets, and its
// average is sqrt(3/2 / p) (Mathis 1997, C = 1.22).
TEST(NewReno, AveragesTheWindowOfMathisUnderPeriodicLoss) {
  for (const std::uint64_t period : {1000U, 10000U}) {  // below that, whole datagrams and the idle half round count
    Flow flow("newreno", 100ms);
    flow.loses = [period](std::uint64_t number) { return number % period == 0; };
    flow.run_until(flow.now + 200s);
    double sum = 0;
    std::int64_t count = 0;
    const TimePoint from = flow.now;
    const std::uint64_t first = flow.next_number;
    flow.run_until(from + 600s, [&] { sum += flow.segments(), ++count; });
    const double per_round = static_cast<double>(flow.next_number - first) / 6000.0;
    EXPECT_GT(count, 0);
    EXPECT_NEAR(per_round / std::sqrt(1.5 * static_cast<double>(period)), 1.0, 0.12) << period;
  }
}

}  // namespace
}  // namespace peerbed
