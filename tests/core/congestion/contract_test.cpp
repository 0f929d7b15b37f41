// What every controller of the registry has to hold. A new registry line is tested by being there.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/congestion/csv.h"
#include "tests/core/congestion/flow.h"

namespace peerbed {
namespace {

class ControllerContract : public testing::TestWithParam<std::string_view> {
 protected:
  std::string name{GetParam()};

  std::unique_ptr<CongestionController> made(std::int64_t size) const {
    return make_controller(name, {DataSize{size}, std::nullopt}).value();
  }
  LostPackets lost(const Flow& flow, TimePoint sent, bool persistent = false) const {
    return {flow.now, {kDatagram}, sent, flow.in_flight, persistent};
  }
};

TEST_P(ControllerContract, IsCalledWhatTheRegistryCallsIt) { EXPECT_EQ(made(1200)->name(), name); }

TEST_P(ControllerContract, StartsWithTheInitialWindowOfRfc9002) {
  // §7.2: min(10 x size, max(14 720, 2 x size)).
  EXPECT_EQ(made(1200)->window(), DataSize{12'000});
  EXPECT_EQ(made(1460)->window(), DataSize{14'600});
  EXPECT_EQ(made(1500)->window(), DataSize{14'720});
  EXPECT_EQ(made(9000)->window(), DataSize{18'000});
  EXPECT_TRUE(made(1200)->in_slow_start());
  EXPECT_FALSE(made(1200)->slow_start_threshold().has_value());
}

TEST_P(ControllerContract, TakesAConfiguredInitialWindow) {
  EXPECT_EQ(Flow(name, 50ms, DataSize{32 * kDatagram}).controller->window(), DataSize{32 * kDatagram});
}

TEST_P(ControllerContract, DoublesPerRoundInSlowStartAsTheTableSays) {
  for (const CsvRow& row : read_expected("slow_start_rounds.csv")) {
    const std::int64_t initial = std::stoll(row.at("iw"));
    if (initial < 2) continue;  // RFC 9002 §7.2 has no window below two
    const int rounds = std::stoi(row.at("round"));
    Flow flow(name, 100ms, DataSize{initial * kDatagram});
    std::int64_t total = 0, last = 0;
    for (int i = 0; i < rounds; ++i) total += last = flow.round();
    ASSERT_EQ(last, std::stoll(row.at("sent_in_round"))) << "initial window " << initial << ", round " << rounds;
    ASSERT_EQ(total, std::stoll(row.at("cumulative_segments")));
  }
}

TEST_P(ControllerContract, DoesNotGrowWhileTheApplicationIsTheLimit) {
  Flow flow(name);
  const DataSize before = flow.controller->window();
  for (int i = 0; i < 20; ++i) flow.round(true);
  EXPECT_EQ(flow.controller->window(), before) << "in slow start";
  flow.controller->on_lost(lost(flow, flow.now));
  const DataSize reduced = flow.controller->window();
  flow.now += 1ms;
  for (int i = 0; i < 100; ++i) flow.round(true);
  EXPECT_EQ(flow.controller->window(), reduced) << "in congestion avoidance";
}

TEST_P(ControllerContract, ReducesOnceForAllLossesOfOneFlight) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.loses = [](std::uint64_t number) { return number % 3 == 0; };
  flow.fill_window();
  flow.now += flow.rtt;
  const double before = flow.segments();
  while (!flow.flight.empty()) flow.settle_one();
  EXPECT_GE(flow.loss_reports, 30);
  EXPECT_GE(flow.segments(), before * 0.5 - 1);  // RFC 9002 §7.3.2: one half; a second time would be a quarter
  EXPECT_LE(flow.segments(), before * 0.9);
  EXPECT_FALSE(flow.controller->in_slow_start());
}

TEST_P(ControllerContract, ALossOfTheNextFlightReducesAgain) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.controller->on_lost(lost(flow, flow.now - 1ms));
  const DataSize once = flow.controller->window();
  flow.now += 100ms;
  flow.controller->on_lost(lost(flow, flow.now - 50ms));
  EXPECT_LT(flow.controller->window(), once);
}

TEST_P(ControllerContract, ALossOfWhatWasSentBeforeRecoveryBeganDoesNotReduceAgain) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  const TimePoint recovery_start = flow.now;
  flow.controller->on_lost(lost(flow, flow.now - 10ms));
  const DataSize once = flow.controller->window();
  flow.now += 5s;
  flow.controller->on_lost(lost(flow, recovery_start));
  EXPECT_EQ(flow.controller->window(), once);
}

TEST_P(ControllerContract, AcknowledgementsOfWhatWasSentBeforeRecoveryDoNotGrowTheWindow) {
  Flow flow(name, 100ms, DataSize{50 * kDatagram});
  flow.fill_window();
  flow.now += flow.rtt;
  flow.flight.front().lost = true;
  flow.settle_one();
  const DataSize reduced = flow.controller->window();
  while (!flow.flight.empty()) flow.settle_one();
  EXPECT_EQ(flow.controller->window(), reduced);
}

TEST_P(ControllerContract, AnEcnMarkReducesOncePerRoundTripAsALossDoes) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.controller->on_ecn_ce(flow.now, flow.now - 1ms);
  const DataSize once = flow.controller->window();
  EXPECT_LE(once, DataSize{90 * kDatagram});
  EXPECT_GE(once, DataSize{50 * kDatagram});
  flow.controller->on_ecn_ce(flow.now + 1ms, flow.now - 1ms);
  EXPECT_EQ(flow.controller->window(), once);
  flow.controller->on_ecn_ce(flow.now + 200ms, flow.now + 100ms);
  EXPECT_LT(flow.controller->window(), once);
}

TEST_P(ControllerContract, IsNeverBelowTwoDatagramsWhateverIsLost) {
  Flow flow(name);
  for (int i = 0; i < 100; ++i) {
    flow.now += 100ms;
    flow.controller->on_lost(lost(flow, flow.now - 1ms, i % 7 == 0));
    ASSERT_GE(flow.controller->window(), DataSize{2 * kDatagram});  // RFC 9002 §7.2
    ASSERT_GE(flow.controller->slow_start_threshold().value(), DataSize{2 * kDatagram});
  }
  EXPECT_EQ(flow.controller->window(), DataSize{2 * kDatagram});
}

TEST_P(ControllerContract, PersistentCongestionLeavesTheMinimumWindowAndSlowStartsToTheThreshold) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.now += 10s;
  flow.controller->on_lost(lost(flow, flow.now - 1s, true));  // RFC 9002 §7.6.2
  EXPECT_EQ(flow.controller->window(), DataSize{2 * kDatagram});
  EXPECT_TRUE(flow.controller->in_slow_start());
  const DataSize threshold = flow.controller->slow_start_threshold().value();
  EXPECT_GE(threshold, DataSize{50 * kDatagram});
  flow.round();
  EXPECT_EQ(flow.controller->window(), DataSize{4 * kDatagram}) << "the recovery period is over";
}

TEST_P(ControllerContract, MoreLossOfTheOldFlightAfterPersistentCongestionKeepsTheThreshold) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.now += 10s;
  flow.controller->on_lost(lost(flow, flow.now - 1s, true));
  const DataSize threshold = flow.controller->slow_start_threshold().value();
  flow.controller->on_lost(lost(flow, flow.now - 2s));
  EXPECT_EQ(flow.controller->slow_start_threshold().value(), threshold);
}

TEST_P(ControllerContract, ASpuriousLossIsTakenBackWhole) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.controller->on_lost(lost(flow, flow.now - 1ms));
  ASSERT_LT(flow.controller->window(), DataSize{100 * kDatagram});
  flow.controller->on_spurious_loss(flow.now + 50ms);
  EXPECT_EQ(flow.controller->window(), DataSize{100 * kDatagram});
  EXPECT_TRUE(flow.controller->in_slow_start());
  EXPECT_FALSE(flow.controller->slow_start_threshold().has_value());
  flow.controller->on_spurious_loss(flow.now + 60ms);
  EXPECT_EQ(flow.controller->window(), DataSize{100 * kDatagram}) << "only once";
}

TEST_P(ControllerContract, AnEcnMarkIsNeverTakenBack) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.controller->on_ecn_ce(flow.now, flow.now - 1ms);
  const DataSize once = flow.controller->window();
  flow.controller->on_spurious_loss(flow.now + 50ms);
  EXPECT_EQ(flow.controller->window(), once);
}

TEST_P(ControllerContract, ARetransmissionTimeoutLeavesOneSegmentAndSlowStartsToTheThreshold) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.fill_window();
  flow.now += 1s;
  flow.controller->on_retransmission_timeout(flow.now);
  EXPECT_EQ(flow.controller->window(), DataSize{kDatagram});  // the loss window, RFC 5681 §3.1
  EXPECT_TRUE(flow.controller->in_slow_start());
  const DataSize threshold = flow.controller->slow_start_threshold().value();
  EXPECT_GE(threshold, DataSize{50 * kDatagram});
  EXPECT_LE(threshold, DataSize{90 * kDatagram});

  flow.controller->on_retransmission_timeout(flow.now + 2s);
  EXPECT_EQ(flow.controller->slow_start_threshold().value(), threshold) << "again without an answer: it is held";

  // The retransmission leaves at the time of the timeout, and its acknowledgement counts.
  flow.now += 2s;
  flow.flight.clear();
  flow.in_flight = {};
  flow.round();
  EXPECT_EQ(flow.controller->window(), DataSize{2 * kDatagram});
}

TEST_P(ControllerContract, ANewPathStartsFromNothing) {
  Flow flow(name);
  for (int i = 0; i < 5; ++i) flow.round();
  flow.controller->on_lost(lost(flow, flow.now));
  flow.controller->on_path_changed(flow.now);
  EXPECT_EQ(flow.controller->window(), made(kDatagram)->window());
  EXPECT_TRUE(flow.controller->in_slow_start());
  EXPECT_FALSE(flow.controller->slow_start_threshold().has_value());
  EXPECT_EQ(flow.round(), 10);
  EXPECT_EQ(flow.controller->window(), DataSize{20 * kDatagram});
}

TEST_P(ControllerContract, SlowStartEndsAtTheThresholdAndNotAboveIt) {
  Flow flow(name, 100ms, DataSize{100 * kDatagram});
  flow.now += 10s;
  flow.controller->on_lost(lost(flow, flow.now - 1s, true));
  const DataSize threshold = flow.controller->slow_start_threshold().value();
  flow.now += 1ms;
  while (flow.controller->in_slow_start()) {
    flow.round();
    ASSERT_LE(flow.controller->window(), threshold + DataSize{2 * kDatagram});
  }
  EXPECT_GE(flow.controller->window(), threshold);
}

TEST_P(ControllerContract, StaysFiniteFromAMicrosecondToTenSeconds) {
  for (const Duration rtt : {Duration(1us), Duration(100us), Duration(10ms), Duration(1s), Duration(10s)}) {
    Flow flow(name, rtt);
    flow.loses = [](std::uint64_t number) { return number % 997 == 0; };
    const TimePoint end = flow.now + 200 * rtt;
    flow.run_until(end, [&] {
      const double window = flow.segments();
      ASSERT_TRUE(std::isfinite(window));
      ASSERT_GE(window, 2.0);
      ASSERT_LE(window, 1e6) << to_string(rtt);
      if (const auto rate = flow.controller->pacing_rate()) { ASSERT_GT(rate->bits_per_second, 0); }
    });
    EXPECT_GT(flow.loss_reports, 0) << to_string(rtt);
  }
}

TEST_P(ControllerContract, EqualHistoryGivesAnEqualWindow) {
  Flow one(name), other(name);
  one.loses = other.loses = [](std::uint64_t number) { return number % 313 == 0; };
  one.run_until(TimePoint{20s});
  other.run_until(TimePoint{20s});
  EXPECT_EQ(one.controller->window(), other.controller->window());
  EXPECT_EQ(one.next_number, other.next_number);
}

INSTANTIATE_TEST_SUITE_P(EveryController, ControllerContract,
                         testing::ValuesIn(controller_names().begin(), controller_names().end()),
                         [](const auto& controller) { return std::string(controller.param); });

TEST(ControllerRegistry, NamesTheNearestAndTheKnownOnes) {
  const auto made = make_controller("cubik", {});
  ASSERT_TRUE(made.has_error());
  EXPECT_EQ(made.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(made.error().message,
            "there is no congestion controller \"cubik\"; did you mean \"cubic\"? Known: newreno, cubic");
}

TEST(ControllerRegistry, DoesNotGuessAtWhatIsFarFromEveryName) {
  const auto made = make_controller("photosynthesis", {});
  ASSERT_TRUE(made.has_error());
  EXPECT_EQ(made.error().message.find("did you mean"), std::string::npos);
}

}  // namespace
}  // namespace peerbed
