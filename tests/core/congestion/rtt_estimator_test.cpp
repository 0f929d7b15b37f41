#include "core/congestion/rtt_estimator.h"

#include <gtest/gtest.h>

#include "tests/core/congestion/csv.h"

namespace peerbed {
namespace {

double seconds(const CsvRow& row, const char* column) { return std::stod(row.at(column)); }

// Our arithmetic is in whole nanoseconds, rounded to the nearest at every step; the tables have nine decimals.
constexpr double kRounding = 20e-9;

TEST(RttEstimator, FollowsTheSequencesOfRfc6298) {
  RttEstimator estimator;
  for (const CsvRow& row : read_expected("rfc6298_rto_sequences.csv")) {
    if (row.at("i") == "0") estimator = RttEstimator();
    estimator.on_sample(from_seconds(seconds(row, "rtt_s")), 0ns);
    EXPECT_NEAR(to_seconds(estimator.smoothed()), seconds(row, "srtt"), kRounding) << row.at("seq") << row.at("i");
    EXPECT_NEAR(to_seconds(estimator.variation()), seconds(row, "rttvar"), kRounding) << row.at("seq") << row.at("i");
    EXPECT_NEAR(to_seconds(estimator.retransmission_timeout(1ms, 0s)), seconds(row, "rto_unclamped"), 4 * kRounding);
    EXPECT_NEAR(to_seconds(estimator.retransmission_timeout(1ms, 1s)), seconds(row, "rto_min1s"), 4 * kRounding);
  }
}

// The text of RFC 9002 §5.3 and its pseudo-code A.7 disagree on the order; ours is A.7's, which is RFC 6298's.
TEST(RttEstimator, FollowsThePseudoCodeOfRfc9002AndNotItsText) {
  RttEstimator estimator;
  int told_apart = 0;
  for (const CsvRow& row : read_expected("rfc9002_rtt_sequences.csv")) {
    if (row.at("i") == "0") estimator = RttEstimator();
    estimator.on_sample(from_seconds(seconds(row, "latest_rtt")), from_seconds(seconds(row, "ack_delay")));
    EXPECT_NEAR(to_seconds(estimator.minimum()), seconds(row, "min_rtt"), kRounding);
    EXPECT_NEAR(to_seconds(estimator.smoothed()), seconds(row, "smoothed_rtt"), kRounding);
    if (row.at("order") == "A.7") {
      EXPECT_NEAR(to_seconds(estimator.variation()), seconds(row, "rttvar"), kRounding) << row.at("i");
      EXPECT_NEAR(to_seconds(estimator.probe_timeout(25ms)), seconds(row, "pto"), 4 * kRounding) << row.at("i");
    } else if (std::abs(to_seconds(estimator.variation()) - seconds(row, "rttvar")) > 1e-4) {
      ++told_apart;
    }
  }
  EXPECT_EQ(told_apart, 5);  // all samples but the first
}

TEST(RttEstimator, StartsAt333MillisecondsSoThatTheFirstProbeComesAfter999) {
  const RttEstimator estimator;  // RFC 9002 §6.2.2
  EXPECT_FALSE(estimator.has_sample());
  EXPECT_EQ(estimator.probe_timeout(0ms), 999ms);
}

TEST(RttEstimator, IgnoresADelayThatWouldUndercutTheMinimum) {
  RttEstimator estimator;
  estimator.on_sample(100ms, 0ms);
  estimator.on_sample(100ms, 80ms);  // a round trip of 20 ms has never been seen
  EXPECT_EQ(estimator.smoothed(), 100ms);
  EXPECT_EQ(estimator.minimum(), 100ms);
}

TEST(RttEstimator, TakesTheDelayOutWhereExactlyTheMinimumRemains) {
  RttEstimator estimator;
  estimator.on_sample(100ms, 0ms);
  estimator.on_sample(180ms, 80ms);
  EXPECT_EQ(estimator.smoothed(), 100ms);
}

TEST(RttEstimator, DoesNotTakeTheDelayOutOfTheFirstSampleOrTheMinimum) {
  RttEstimator estimator;
  estimator.on_sample(100ms, 30ms);
  EXPECT_EQ(estimator.smoothed(), 100ms);
  estimator.on_sample(90ms, 30ms);
  EXPECT_EQ(estimator.minimum(), 90ms);
}

TEST(RttEstimator, ASteadyRoundTripIsASteadyEstimate) {
  RttEstimator estimator;
  for (int i = 0; i < 10000; ++i) estimator.on_sample(Duration(12'345'678), 0ns);
  EXPECT_EQ(estimator.smoothed(), Duration(12'345'678));
  EXPECT_LE(estimator.variation(), Duration(2));
  EXPECT_EQ(estimator.probe_timeout(0ms), Duration(12'345'678) + 1ms);  // the granularity takes over
}

TEST(RttEstimator, AZeroRoundTripOfVirtualTimeCountsAsANanosecond) {
  RttEstimator estimator;
  estimator.on_sample(0ns, 0ns);
  EXPECT_EQ(estimator.smoothed(), 1ns);
  EXPECT_EQ(estimator.minimum(), 1ns);
}

}  // namespace
}  // namespace peerbed
