#include "scenarios/measure/expectation.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

Metrics some_metrics() {
  Metrics metrics;
  metrics.set_text("punch.outcome", "relayed");
  metrics.set_number("flow.bulk.goodput", "bit/s", 9.5e6);
  metrics.set_number("flow.bulk.time", "s", 2.5);
  metrics.set_number("flow.bulk.bytes", "B", 3e6);
  metrics.set_number("link.alice-wan.drops.loss", "", 12);
  metrics.set_samples("connect.time", "s", {0.1, 0.2, 0.3, 0.4, 1.0});
  return metrics;
}

ExpectationOutcome check(std::string_view text, const NameLookup& lookup = {}) {
  auto expectation = Expectation::parse(text);
  EXPECT_TRUE(expectation.has_value()) << expectation.error().message;
  return expectation->evaluate(some_metrics(), lookup);
}

std::string parse_error(std::string_view text) {
  const auto expectation = Expectation::parse(text);
  return expectation ? "no error" : expectation.error().message;
}

TEST(Expectation, ComparesWithUnits) {
  EXPECT_TRUE(check("flow.bulk.goodput >= 9.5 Mbit/s").ok);
  EXPECT_FALSE(check("flow.bulk.goodput > 9500 kbit/s").ok);
  EXPECT_TRUE(check("flow.bulk.time < 2600 ms").ok);
  EXPECT_TRUE(check("flow.bulk.bytes == 3 MB").ok);
  EXPECT_TRUE(check("link.alice-wan.drops.loss != 11").ok);
}

TEST(Expectation, SizesAndTimesMakeRates) {
  EXPECT_TRUE(check("flow.bulk.bytes / flow.bulk.time == 9.6 Mbit/s").ok);
  EXPECT_TRUE(check("flow.bulk.goodput * 2 s == 2.375 MB").ok);
  EXPECT_TRUE(check("flow.bulk.goodput <= flow.bulk.bytes / 2 s").ok);
}

TEST(Expectation, OperatorsBindAsInArithmetic) {
  EXPECT_TRUE(check("link.alice-wan.drops.loss == 2 * 7 - (3 - 1)").ok);
  EXPECT_TRUE(check("link.alice-wan.drops.loss == 24 / 4 * 2").ok);
  EXPECT_TRUE(check("link.alice-wan.drops.loss - 2 == 4 + 3 * 2").ok);
  EXPECT_TRUE(check("-link.alice-wan.drops.loss == -12").ok);
}

TEST(Expectation, PartsOfDistributionsAreNamed) {
  EXPECT_TRUE(check("connect.time.p50 == 300 ms").ok);
  EXPECT_TRUE(check("connect.time.max == 1 s").ok);
  EXPECT_TRUE(check("connect.time.count == 5").ok);
  EXPECT_TRUE(check("connect.time.mean == 400 ms").ok);
  EXPECT_TRUE(check("connect.time.p75 == 400 ms").ok);  // type 7: rank 0.75 * 4 = 3
  EXPECT_NE(check("connect.time < 3 s").reason.find("is a distribution: say connect.time.mean"), std::string::npos);
  EXPECT_NE(check("connect.time.q9 < 3 s").reason.find("'q9' is not known of a distribution"), std::string::npos);
  EXPECT_NE(check("flow.bulk.time.p50 < 3 s").reason.find("is a single value"), std::string::npos);
}

TEST(Expectation, TextsAreComparedForEqualityOnly) {
  EXPECT_TRUE(check("punch.outcome == relayed").ok);
  EXPECT_FALSE(check("punch.outcome == direct").ok);
  EXPECT_TRUE(check("punch.outcome != direct").ok);
  EXPECT_TRUE(check("punch.outcome == 'relayed'").ok);
  EXPECT_EQ(check("punch.outcome < relayed").reason, "texts can only be compared with == and !=");
  EXPECT_EQ(check("punch.outcome == 3").reason, "a text and a number cannot be compared");
}

TEST(Expectation, ValueAndBoundOfAFailureAreKept) {
  const auto outcome = check("flow.bulk.goodput >= 3 * 5 Mbit/s");
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(to_string(*outcome.value), "9.5 Mbit/s");
  EXPECT_EQ(to_string(*outcome.bound), "15 Mbit/s");
}

TEST(Expectation, UnlikeUnitsAreRefusedAndNotCompared) {
  EXPECT_EQ(check("flow.bulk.goodput > 3 s").reason, "a rate and a time cannot be compared");
  EXPECT_EQ(check("flow.bulk.goodput + 3 s > 1 Mbit/s").reason, "a rate and a time cannot be added");
  EXPECT_TRUE(check("flow.bulk.time > 0").ok) << "zero needs no unit";
}

TEST(Expectation, AnUnknownMetricFailsWithTheNearest) {
  const auto outcome = check("flow.bulk.godput > 1 Mbit/s");
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(outcome.reason, "this run has no metric 'flow.bulk.godput'; did you mean 'flow.bulk.goodput'?");
}

TEST(Expectation, FormulasTakeNamedArgumentsAndScenarioKeys) {
  const NameLookup lookup = [](std::string_view name) -> std::optional<ExpectationValue> {
    if (name == "links.wan.loss") return Quantity::plain(0.001);
    return std::nullopt;
  };
  // tests/data/expected/throughput_vs_loss_mbps.csv, RTT 0.1 s, p 0.001: 4.4241 and 3.1987 Mbit/s.
  EXPECT_TRUE(check("pftk(loss=links.wan.loss, rtt=100 ms, mss=1460 B, b=1) > 4.42405 Mbit/s", lookup).ok);
  EXPECT_TRUE(check("pftk(loss=links.wan.loss, rtt=100 ms, mss=1460 B, b=1) < 4.42415 Mbit/s", lookup).ok);
  EXPECT_TRUE(check("mathis(loss=0.1 %, rtt=100 ms, mss=1460 B, b=2) > 3.1986 Mbit/s").ok);
  EXPECT_TRUE(check("mathis(loss=0.1 %, rtt=100 ms, mss=1460 B, b=2) < 3.1988 Mbit/s").ok);
  EXPECT_EQ(check("mathis(loss=0 %, rtt=100 ms, mss=1460 B) > 1 bit/s").reason, "mathis() needs a positive 'loss'");
  EXPECT_EQ(check("mathis(loss=1 %, rtt=100, mss=1460 B) > 1 bit/s").reason, "mathis(): 'rtt' must be a time, not a plain number");
}

TEST(Expectation, MinAndMaxTakeWhatComes) {
  EXPECT_TRUE(check("max(1 s, flow.bulk.time, 500 ms) == 2.5 s").ok);
  EXPECT_TRUE(check("min(1 s, flow.bulk.time) == 1000 ms").ok);
  EXPECT_EQ(check("min(1 s, 3 B) == 1 s").reason, "min() compares a time with a size");
}

TEST(Expectation, WhatCannotBeReadIsQuotedAndExplained) {
  EXPECT_EQ(parse_error("punch.outcome relayed"),
            "cannot read the expectation 'punch.outcome relayed': a comparison (==, !=, <, <=, >, >=) is missing");
  EXPECT_EQ(parse_error("a < 3 parsec"), "cannot read the expectation 'a < 3 parsec': 'parsec' is not a unit");
  EXPECT_EQ(parse_error("a < "), "cannot read the expectation 'a < ': a value is missing at its end");
  EXPECT_EQ(parse_error("a < 3 s x"), "cannot read the expectation 'a < 3 s x': there is text after the comparison");
  EXPECT_EQ(parse_error("a < pftc(loss=1 %)"), "cannot read the expectation 'a < pftc(loss=1 %)': there is no function 'pftc'; did you mean 'pftk'?");
  EXPECT_EQ(parse_error("a < pftk(los=1 %)"), "cannot read the expectation 'a < pftk(los=1 %)': pftk() has no argument 'los'; did you mean 'loss'?");
  EXPECT_EQ(parse_error("a < mathis(rto=1 s)"),
            "cannot read the expectation 'a < mathis(rto=1 s)': mathis() has no argument 'rto'; did you mean 'rtt'?");
  EXPECT_EQ(parse_error("a < (1 + 2"), "cannot read the expectation 'a < (1 + 2': a ')' is missing");
  EXPECT_NE(parse_error("a < " + std::string(5000, '(')).find("nested too deeply"), std::string::npos);
}

TEST(Expectation, ADivisionByZeroIsNoNumber) { EXPECT_EQ(check("flow.bulk.time / 0 > 1 s").reason, "a division by zero"); }

}  // namespace
}  // namespace peerbed
