#include "core/transport/loss_detector.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

TimePoint at(Duration d) { return TimePoint{} + d; }

struct Sink final : RecoverySink {
  void on_record_acked(const SentRecord& r) override { acked.push_back(r.offset); }
  void on_record_lost(const SentRecord& r) override { lost.push_back(r.offset); }
  std::vector<std::uint64_t> acked, lost;
};

AckFrame ack_of(std::initializer_list<Interval> newest_first, Duration delay = {}) {
  AckFrame ack;
  for (const Interval& i : newest_first) ack.ranges[ack.count++] = i;
  ack.delay = delay;
  return ack;
}

class LossDetectorTest : public ::testing::Test {
 protected:
  void send(TimePoint when, int count = 1, std::size_t size = 1000) {
    for (int i = 0; i < count; ++i) {
      SentRecord record;
      record.offset = detector.packets().next_number();
      detector.packets().add_record(record);
      detector.on_sent(when, size, true, true, false);
    }
  }
  LossDetector detector;
  Sink sink;
};

TEST_F(LossDetectorTest, DeclaresLostWhatThreeLaterPacketsOvertook) {
  send(at(0ms), 5);
  auto outcome = detector.on_ack(at(100ms), ack_of({{2, 3}}), sink);  // packet 2: 0 and 1 are 2 and 1 behind
  EXPECT_FALSE(outcome.any_loss);
  outcome = detector.on_ack(at(101ms), ack_of({{3, 4}}), sink);  // RFC 9002 §6.1.1: kPacketThreshold 3
  EXPECT_TRUE(outcome.any_loss);
  EXPECT_EQ(sink.lost, (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(outcome.lost.bytes.bytes, 1000);
  EXPECT_EQ(detector.in_flight().bytes, 2000);  // packets 1 and 4
}

TEST_F(LossDetectorTest, DeclaresLostByTimeNineEighthsOfTheRoundTripAfterSending) {
  send(at(0ms), 2);
  auto outcome = detector.on_ack(at(80ms), ack_of({{1, 2}}), sink);
  EXPECT_FALSE(outcome.any_loss);
  ASSERT_TRUE(detector.timeout());
  EXPECT_EQ(*detector.timeout(), at(90ms));  // RFC 9002 §6.1.2: 9/8 of 80 ms
  outcome = detector.on_timeout(at(90ms), sink);
  EXPECT_TRUE(outcome.any_loss);
  EXPECT_EQ(sink.lost, (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(detector.probe_timeouts(), 0U);
}

TEST_F(LossDetectorTest, TheProbeTimeoutStartsAt999MillisecondsAndDoubles) {
  LossDetectorConfig config;
  config.max_ack_delay = Duration{};
  LossDetector plain(config);
  plain.on_sent(at(0ms), 1000, true, true, false);
  EXPECT_EQ(*plain.timeout(), at(999ms));  // 333 + 4 x 166.5 ms
  (void)plain.on_timeout(at(999ms), sink);
  EXPECT_EQ(plain.probes(), 2);  // RFC 9002 §6.2.4
  EXPECT_EQ(*plain.timeout(), at(1998ms));
  plain.on_sent(at(1000ms), 1000, true, true, false);
  EXPECT_EQ(*plain.timeout(), at(1000ms + 1998ms));
  (void)plain.on_timeout(at(2998ms), sink);
  EXPECT_EQ(*plain.timeout(), at(1000ms + 3996ms));
  EXPECT_TRUE(sink.lost.empty());  // a probe timeout declares nothing lost
}

TEST_F(LossDetectorTest, AnAcknowledgementEndsTheBackoff) {
  send(at(0ms));
  (void)detector.on_timeout(*detector.timeout(), sink);
  (void)detector.on_timeout(*detector.timeout(), sink);
  (void)detector.on_ack(at(4000ms), ack_of({{0, 1}}), sink);
  EXPECT_FALSE(detector.timeout());
  EXPECT_EQ(detector.probes(), 0);
  send(at(4000ms));
  EXPECT_EQ(*detector.timeout() - at(4000ms), detector.probe_timeout());
}

TEST_F(LossDetectorTest, OnlyTheNewestPacketGivesARoundTripSample) {
  send(at(0ms));
  send(at(50ms));
  (void)detector.on_ack(at(150ms), ack_of({{0, 2}}), sink);
  EXPECT_EQ(detector.rtt().latest(), 100ms);
  send(at(200ms), 2);
  (void)detector.on_ack(at(240ms), ack_of({{3, 4}}), sink);
  EXPECT_EQ(detector.rtt().latest(), 40ms);
  (void)detector.on_ack(at(300ms), ack_of({{2, 4}}), sink);  // 2 is new, but the largest is not: RFC 9002 §5.1
  EXPECT_EQ(detector.rtt().latest(), 40ms);
}

TEST_F(LossDetectorTest, AcknowledgingWhatWasNeverSentIsMalformed) {
  send(at(0ms), 3);
  EXPECT_TRUE(detector.on_ack(at(10ms), ack_of({{0, 4}}), sink).malformed);
  EXPECT_FALSE(detector.on_ack(at(10ms), ack_of({{0, 3}}), sink).malformed);
}

TEST_F(LossDetectorTest, ARepeatedAcknowledgementChangesNothing) {
  send(at(0ms), 4);
  (void)detector.on_ack(at(50ms), ack_of({{0, 4}}), sink);
  const auto outcome = detector.on_ack(at(60ms), ack_of({{0, 4}}), sink);
  EXPECT_FALSE(outcome.newly_acked);
  EXPECT_EQ(sink.acked.size(), 4U);
  EXPECT_EQ(detector.in_flight().bytes, 0);
  EXPECT_EQ(detector.packets().base(), 4U);
}

TEST_F(LossDetectorTest, ALossThatWasReorderingIsTakenBackAndRemembered) {
  send(at(0ms), 10);
  auto outcome = detector.on_ack(at(40ms), ack_of({{1, 5}}), sink);
  ASSERT_TRUE(outcome.any_loss);  // packet 0, three overtook it
  outcome = detector.on_ack(at(43ms), ack_of({{0, 5}}), sink);
  EXPECT_TRUE(outcome.loss_undone);
  EXPECT_EQ(detector.packets_spuriously_lost(), 1U);
  EXPECT_TRUE(detector.reordering_seen());
  // RFC 8985: once reordering was seen, the count of overtaking packets alone says nothing.
  (void)detector.on_ack(at(44ms), ack_of({{6, 10}, {0, 5}}), sink);
  EXPECT_EQ(detector.packets_lost(), 1U);
  outcome = detector.on_ack(at(45ms), ack_of({{0, 10}}), sink);
  EXPECT_FALSE(outcome.any_loss);
}

TEST_F(LossDetectorTest, ALossEventIsNotTakenBackWhileOneOfItsPacketsIsMissing) {
  send(at(0ms), 10);
  auto outcome = detector.on_ack(at(40ms), ack_of({{2, 10}}), sink);
  ASSERT_EQ(detector.packets_lost(), 2U);
  outcome = detector.on_ack(at(42ms), ack_of({{1, 10}}), sink);
  EXPECT_FALSE(outcome.loss_undone);
  outcome = detector.on_ack(at(43ms), ack_of({{0, 10}}), sink);
  EXPECT_TRUE(outcome.loss_undone);
}

TEST_F(LossDetectorTest, TheReorderingWindowNeverExceedsOneSmoothedRoundTrip) {
  send(at(0ms), 10);
  (void)detector.on_ack(at(40ms), ack_of({{1, 5}}), sink);
  (void)detector.on_ack(at(140ms), ack_of({{0, 5}}), sink);  // 100 ms late
  EXPECT_LE(detector.loss_delay(), 2 * std::max(detector.rtt().smoothed(), detector.rtt().latest()));
}

TEST_F(LossDetectorTest, ReorderingIsForgottenAfterSixteenTrueLosses) {
  send(at(0ms), 5);
  (void)detector.on_ack(at(40ms), ack_of({{1, 5}}), sink);
  (void)detector.on_ack(at(41ms), ack_of({{0, 5}}), sink);
  ASSERT_TRUE(detector.reordering_seen());
  TimePoint now = at(100ms);
  for (int event = 0; event <= LossDetector::kReorderingPersistence; ++event) {
    const std::uint64_t first = detector.packets().next_number();
    send(now, 5);
    now += 200ms;
    (void)detector.on_ack(now, ack_of({{first + 1, first + 5}}), sink);
    now += 300ms;
    (void)detector.on_timeout(now, sink);  // lost by time
    now += 1ms;  // what leaves at the very time of a loss still belongs to its event
  }
  EXPECT_FALSE(detector.reordering_seen());
}

TEST_F(LossDetectorTest, PersistentCongestionIsFoundAsInTheExampleOfTheRfc) {
  // RFC 9002 §7.6.3: sends at 0..6, 8 and 12 s, #1 acknowledged at 1.2 s, #9 at 12.2 s. The example says that the probe
  // timeout is 2 s; round trips of 0.2 s (the first acknowledgement was held for 1 s) and this max_ack_delay make it so.
  LossDetectorConfig config;
  config.max_ack_delay = 1575ms;
  LossDetector rfc(config);
  rfc.on_handshake_rtt(TimePoint{} - 10s, 200ms);
  const auto send_at = [&rfc](Duration d) { rfc.on_sent(at(d), 1200, true, true, false); };
  send_at(0s);
  send_at(1s);
  auto outcome = rfc.on_ack(at(1200ms), ack_of({{0, 1}}, 1s), sink);
  EXPECT_FALSE(outcome.any_loss);
  for (const Duration d : {2s, 3s, 4s, 5s, 6s, 8s, 12s}) send_at(d);
  outcome = rfc.on_ack(at(12200ms), ack_of({{8, 9}, {0, 1}}), sink);
  EXPECT_EQ(rfc.packets_lost(), 7U);  // #2 to #8
  EXPECT_EQ(rfc.probe_timeout(), 2s);  // 8 - 1 = 7 > 3 x 2
  EXPECT_TRUE(outcome.lost.persistent_congestion);
  ControllerConfig controller_config;
  auto controller = make_controller("newreno", controller_config);
  ASSERT_TRUE(controller);
  (*controller)->on_lost(outcome.lost);
  EXPECT_EQ((*controller)->window().bytes, 2 * 1200);  // §7.6.2: the minimum window
}

TEST_F(LossDetectorTest, AnAcknowledgementInTheMiddleEndsPersistentCongestion) {
  LossDetectorConfig config;
  config.max_ack_delay = 1575ms;
  LossDetector rfc(config);
  rfc.on_handshake_rtt(TimePoint{} - 10s, 200ms);
  for (const Duration d : {0s, 1s, 2s, 3s, 4s, 5s, 6s, 8s, 12s}) rfc.on_sent(at(d), 1200, true, true, false);
  const auto outcome = rfc.on_ack(at(12200ms), ack_of({{8, 9}, {4, 5}, {0, 1}}), sink);  // #5 arrived
  EXPECT_TRUE(outcome.any_loss);
  EXPECT_FALSE(outcome.lost.persistent_congestion);
}

TEST_F(LossDetectorTest, PacketsOfTheOldPathAreNoEvidenceAboutTheNewOne) {
  send(at(0ms), 5);
  detector.on_path_changed(30ms);
  EXPECT_EQ(detector.in_flight().bytes, 0);
  EXPECT_EQ(detector.rtt().smoothed(), 30ms);
  send(at(10ms), 5);
  const auto outcome = detector.on_ack(at(40ms), ack_of({{5, 10}}), sink);
  EXPECT_EQ(detector.packets_lost(), 5U);
  EXPECT_FALSE(outcome.any_loss);            // not for the controller
  EXPECT_EQ(sink.lost.size(), 5U);           // but repaired
  EXPECT_EQ(detector.in_flight().bytes, 0);
}

TEST_F(LossDetectorTest, AcknowledgedProbesOfOtherPathsDeclareNothingLost) {
  send(at(0ms), 3);
  for (int i = 0; i < 50; ++i) detector.on_sent(at(1ms), 60, false, false, true);  // birthday probing on a faster path
  auto outcome = detector.on_ack(at(10ms), ack_of({{3, 53}}), sink);
  EXPECT_FALSE(outcome.any_loss);
  outcome = detector.on_ack(at(200ms), ack_of({{0, 53}}), sink);
  EXPECT_TRUE(outcome.newly_acked);
  EXPECT_EQ(detector.packets_lost(), 0U);
}

TEST_F(LossDetectorTest, HoldsNoMemoryOfWhatIsSettled) {
  TimePoint now{};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    now += 1ms;
    send(now);
    if (i >= 20) (void)detector.on_ack(now, ack_of({{i - 20, i - 19}}), sink);
  }
  EXPECT_EQ(detector.packets().next_number() - detector.packets().base(), 20U);
}

}  // namespace
}  // namespace peerbed
