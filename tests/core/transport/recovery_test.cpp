// Whole connections on bad paths: loss, reordering, rebinding, silence.
#include <gtest/gtest.h>

#include "tests/core/transport/pipe.h"

namespace peerbed {
namespace {

using test::Pipe;
using Kind = LinkEvent::Kind;

TimePoint at(Duration d) { return TimePoint{} + d; }

double goodput(const Pipe& pipe, std::uint64_t bytes) { return static_cast<double>(bytes) * 8 / to_seconds(pipe.now - TimePoint{}); }

TEST(Connection, MovesAMegabyteIntactBothWays) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 1'000'000);
  pipe.send(pipe.b, 1'000'000);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !(pipe.b.ended[0] && pipe.a.ended[1]); }));
  EXPECT_EQ(pipe.b.received[0], 1'000'000U);
  EXPECT_EQ(pipe.a.received[1], 1'000'000U);
  EXPECT_EQ(pipe.a.connection->stats().packets_lost, 0U);
}

class LossyPath : public ::testing::TestWithParam<int> {};

TEST_P(LossyPath, EveryByteArrivesInOrder) {
  const int percent = GetParam();
  Pipe pipe;
  RandomStream random(7, static_cast<std::uint64_t>(percent), "loss");
  pipe.ab.rate = pipe.ba.rate = DataRate{50'000'000};
  const auto drop = [&random, percent](std::uint64_t, BytesView) { return random.chance(percent / 100.0); };
  pipe.ab.drop = pipe.ba.drop = drop;
  pipe.start();
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.a.connection->established(); }));
  pipe.send(pipe.a, 500'000);
  ASSERT_TRUE(pipe.run_while(at(300s), [&] { return !pipe.b.ended[0] && !pipe.a.closed(); }));
  EXPECT_EQ(pipe.b.received[0], 500'000U);
}

INSTANTIATE_TEST_SUITE_P(Percent, LossyPath, ::testing::Values(1, 5, 10, 20));

TEST(Connection, ALostTailIsProbedAfterOneProbeTimeout) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(500ms);
  const TimePoint start = pipe.now;
  bool drop_next = true;
  pipe.ab.drop = [&](std::uint64_t, BytesView) { return std::exchange(drop_next, false); };
  const Duration pto = pipe.a.connection->stats().smoothed_rtt;
  const StreamId id = pipe.send(pipe.a, 100);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.b.ended[id]; }));
  EXPECT_EQ(pipe.a.connection->stats().probe_timeouts, 1U);
  // RFC 9002 §6.2.1: srtt + 4 rttvar + max_ack_delay; rttvar was at most half the RTT.
  EXPECT_LE(pipe.b.ended_at[id] - start, 20ms + pto + 4 * (pto / 2) + Connection::kMaxAckDelay);
}

TEST(Connection, ReorderingByJitterDoesNotCollapseTheWindow) {
  // Lessons 2: 94 % of 100 Mbit/s at 0.1 ms of jitter, 15 % at 1 ms, 4 % at 5 ms.
  for (const Duration jitter : {100us, 1000us, 5000us}) {
    Pipe pipe;
    RandomStream random(3, 1, "jitter");
    pipe.ab.rate = pipe.ba.rate = DataRate{100'000'000};
    pipe.ab.queue_limit = 300;
    pipe.ab.delay = pipe.ba.delay = 15ms;
    pipe.a.verify = pipe.b.verify = false;
    pipe.ab.extra_delay = [&](std::uint64_t) { return Duration(random.between(0, jitter.count())); };
    ASSERT_TRUE(pipe.establish());
    pipe.send(pipe.a, 1'000'000'000);
    pipe.run(at(10s));
    EXPECT_GT(goodput(pipe, pipe.b.received[0]), 70e6) << "jitter " << jitter.count();
  }
}

TEST(Connection, AStraySpuriousLossIsTakenBack) {
  Pipe pipe;
  pipe.ab.delay = pipe.ba.delay = 20ms;
  pipe.ab.rate = DataRate{50'000'000};
  pipe.a.verify = pipe.b.verify = false;
  ASSERT_TRUE(pipe.establish());
  bool held = false;
  pipe.ab.extra_delay = [&](std::uint64_t index) {  // one packet is 3 ms late: a dozen overtake it
    if (index != 60) return Duration{};
    held = true;
    return Duration(3ms);
  };
  pipe.send(pipe.a, 400'000);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.b.ended[0]; }));
  pipe.run_for(200ms);
  ASSERT_TRUE(held);
  EXPECT_EQ(pipe.a.connection->stats().packets_lost, 1U);
  EXPECT_EQ(pipe.a.connection->stats().packets_spuriously_lost, 1U);
  EXPECT_FALSE(pipe.a.connection->stats().slow_start_threshold.has_value());
}

TEST(Connection, TheReceiveWindowGrowsUntilAGigabitOver200MillisecondsIsFull) {
  // 25 MB in flight; a window of 1.2 MiB gave 6 % of 1 Gbit/s at 150 ms (lessons 4).
  Pipe pipe;
  pipe.ab.delay = pipe.ba.delay = 100ms;
  pipe.ab.rate = pipe.ba.rate = DataRate{1'000'000'000};
  pipe.ab.queue_limit = 20'000;
  pipe.a.verify = pipe.b.verify = false;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 10'000'000'000);
  pipe.run(at(5s));
  const std::uint64_t before = pipe.b.received[0];
  pipe.run(at(6s));
  EXPECT_GT((pipe.b.received[0] - before) * 8, 900'000'000U);
}

TEST(Connection, ANatRebindingCostsOneProbeAndNotTheConnection) {
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{20'000'000};
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 4'000'000);
  pipe.run(at(500ms));
  const Endpoint old = pipe.a.address;
  pipe.a.address.port = 55'555;  // what was for the old port is lost from now on
  ASSERT_TRUE(pipe.run_while(at(20s), [&] { return !pipe.b.ended[0]; }));
  EXPECT_EQ(pipe.b.received[0], 4'000'000U);
  EXPECT_EQ(pipe.b.connection->path().remote, pipe.a.address);
  EXPECT_NE(pipe.b.connection->path().remote, old);
  EXPECT_EQ(pipe.b.count(Kind::path_changed), 1U);
  // 4 MB at 20 Mbit/s take 1.7 s; the interruption is about one round trip and a probe timeout, not the 45 s of lessons 6.
  EXPECT_LT(pipe.b.ended_at[0], at(2500ms));
}

TEST(Connection, ARebindingOfTheReceiverIsFollowedToo) {
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{20'000'000};
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 4'000'000);
  pipe.run(at(500ms));
  pipe.b.address.port = 44'444;
  ASSERT_TRUE(pipe.run_while(at(20s), [&] { return !pipe.b.ended[0]; })) << "a: " << pipe.a.connection->path().remote.to_string();
  EXPECT_EQ(pipe.a.connection->path().remote, pipe.b.address);
  EXPECT_LT(pipe.b.ended_at[0], at(4s));
}

TEST(Connection, APacketFromAnUnreachableSourceDoesNotMoveIt) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(200ms);
  Bytes stolen;  // an attacker copies a packet and delivers it first, from an address that never answers
  pipe.tap = [&](test::Side& side, BytesView d) {
    if (&side == &pipe.a) stolen.assign(d.begin(), d.end());
  };
  pipe.ab.drop = [](std::uint64_t, BytesView) { return true; };
  pipe.send(pipe.a, 10);
  ASSERT_FALSE(stolen.empty());
  pipe.tap = nullptr;
  pipe.ab.drop = nullptr;
  pipe.inject(pipe.b, Endpoint{IpAddress::v4(203, 0, 113, 66), 666}, stolen);
  pipe.run_for(2s);
  EXPECT_EQ(pipe.b.connection->path().remote, pipe.a.address);
  EXPECT_EQ(pipe.b.count(Kind::path_changed), 0U);
}

TEST(Connection, AProbedPathIsValidatedByBothEndsAndCanBeUsed) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(200ms);
  const Path other{Endpoint{IpAddress::v4(198, 51, 100, 2), 7777}, 0};
  EXPECT_FALSE(pipe.a.connection->use_path(pipe.now, other));
  pipe.b.address = other.remote;  // b is reachable there only, say
  pipe.a.connection->probe_path(pipe.now, other);
  pipe.settle(pipe.a);
  pipe.run_for(200ms);
  ASSERT_TRUE(pipe.a.has(Kind::path_validated));
  EXPECT_TRUE(pipe.a.connection->use_path(pipe.now, other));
  pipe.settle(pipe.a);
  pipe.run_for(200ms);
  EXPECT_EQ(pipe.a.connection->path(), other);
  pipe.send(pipe.a, 1000);
  pipe.run_for(200ms);
  EXPECT_EQ(pipe.b.received[0], 1000U);
}

TEST(Connection, AForgedOrCorruptedPacketIsCountedAndChangesNothing) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(300ms);
  Bytes packet;
  pipe.tap = [&](test::Side& side, BytesView d) {
    if (&side == &pipe.a) packet.assign(d.begin(), d.end());
  };
  pipe.ab.drop = [](std::uint64_t, BytesView) { return true; };
  const StreamId id = pipe.send(pipe.a, 50);
  pipe.tap = nullptr;
  const std::uint64_t rejected = pipe.b.connection->stats().packets_rejected;
  const std::uint64_t received = pipe.b.connection->stats().packets_received;
  for (std::size_t i = 0; i < packet.size(); ++i) {  // one bit in every byte: header, ciphertext, tag
    Bytes forged = packet;
    forged[i] ^= 0x10;
    pipe.inject(pipe.b, pipe.a.address, forged);
  }
  for (std::size_t n = 0; n < packet.size(); ++n) pipe.inject(pipe.b, pipe.a.address, BytesView(packet).first(n));
  EXPECT_EQ(pipe.b.connection->stats().packets_received, received);
  EXPECT_GE(pipe.b.connection->stats().packets_rejected, rejected + packet.size());
  EXPECT_EQ(pipe.b.received[id], 0U);
  EXPECT_FALSE(pipe.b.closed());
  pipe.inject(pipe.b, pipe.a.address, packet);
  EXPECT_EQ(pipe.b.received[id], 50U);
}

TEST(Connection, AReplayedPacketIsTakenOnce) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(300ms);
  std::vector<Bytes> packets;
  pipe.tap = [&](test::Side& side, BytesView d) {
    if (&side == &pipe.a) packets.emplace_back(d.begin(), d.end());
  };
  for (std::uint8_t i = 0; i < 5; ++i) {
    const Bytes payload(10, i);
    EXPECT_TRUE(pipe.a.connection->send_datagram(payload));
    pipe.settle(pipe.a);
  }
  pipe.run_for(100ms);
  ASSERT_EQ(pipe.b.datagrams.size(), 5U);
  const std::uint64_t received = pipe.b.connection->stats().packets_received;
  for (const Bytes& p : packets) pipe.inject(pipe.b, pipe.a.address, p);
  EXPECT_EQ(pipe.b.datagrams.size(), 5U);
  EXPECT_EQ(pipe.b.connection->stats().packets_received, received);
}

TEST(PacketKeys, EveryPeriodHasItsOwnKeyAndFarNumbersAreRefused) {
  AeadKey key;
  key.bytes.fill(7);
  PacketKeys sender(key, 2), receiver(key, 2);
  const Bytes text(20, 0x42);
  std::vector<Bytes> sealed;
  for (std::uint64_t n = 0; n < 40; ++n) {
    sealed.emplace_back(text.size() + kAeadTagSize);
    sender.seal_next(n, {}, text, sealed.back());
  }
  EXPECT_EQ(sender.period(), 9U);
  Bytes out(text.size());
  EXPECT_TRUE(receiver.open_any(0, {}, sealed[0], out));
  EXPECT_FALSE(receiver.open_any(39, {}, sealed[39], out));  // nine periods ahead
  EXPECT_EQ(receiver.period(), 0U);
  EXPECT_FALSE(receiver.open_any(4, {}, sealed[5], out));    // a forgery does not turn the key
  EXPECT_EQ(receiver.period(), 0U);
  EXPECT_TRUE(receiver.open_any(6, {}, sealed[6], out));
  EXPECT_EQ(receiver.period(), 1U);
  EXPECT_TRUE(receiver.open_any(3, {}, sealed[3], out));     // a latecomer of the period before
  EXPECT_TRUE(receiver.open_any(9, {}, sealed[9], out));
  EXPECT_FALSE(receiver.open_any(2, {}, sealed[2], out));    // two periods late: its key is gone
  EXPECT_FALSE(open(key, 9, {}, sealed[9], out));            // and the first key opens nothing of the third
}

TEST(Connection, KeysAreRenewedWhileDataFlows) {
  Pipe pipe;
  pipe.rekey_bits = 5;  // every 32 packets
  RandomStream random(5, 5, "loss");
  pipe.ab.drop = pipe.ba.drop = [&](std::uint64_t index, BytesView) { return index > 10 && random.chance(0.02); };
  pipe.ab.extra_delay = [&](std::uint64_t) { return Duration(random.between(0, 2'000'000)); };
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 2'000'000);
  ASSERT_TRUE(pipe.run_while(at(60s), [&] { return !pipe.b.ended[0]; }));
  EXPECT_EQ(pipe.b.received[0], 2'000'000U);
}

TEST(Connection, DatagramsArriveWholeAndTheTooLargeAreRefused) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  const Bytes largest(pipe.a.connection->max_datagram_payload(), 0x5a);
  EXPECT_TRUE(pipe.a.connection->send_datagram(largest));
  EXPECT_FALSE(pipe.a.connection->send_datagram(Bytes(largest.size() + 1)));
  EXPECT_TRUE(pipe.a.connection->send_datagram({}));
  pipe.settle(pipe.a);
  pipe.run_for(500ms);
  ASSERT_EQ(pipe.b.datagrams.size(), 2U);
  EXPECT_EQ(pipe.b.datagrams[0], largest);
  EXPECT_TRUE(pipe.b.datagrams[1].empty());
}

TEST(Connection, CloseIsToldToThePeerAndIsLast) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(100ms);
  pipe.a.connection->close(pipe.now);
  pipe.settle(pipe.a);
  EXPECT_EQ(pipe.a.closed(), LinkCloseReason::local);
  pipe.run_for(20ms);
  EXPECT_EQ(pipe.b.closed(), LinkCloseReason::remote);
  EXPECT_EQ(pipe.b.log.back().kind, Kind::closed);
  EXPECT_EQ(pipe.b.connection->next_timeout(), std::nullopt);
}

TEST(Connection, SilenceEndsItAfterTheIdleTimeout) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run_for(1s);
  const TimePoint cut = pipe.now;
  pipe.ab.drop = pipe.ba.drop = [](std::uint64_t, BytesView) { return true; };
  pipe.run(at(100s));
  EXPECT_EQ(pipe.a.closed(), LinkCloseReason::timed_out);
  EXPECT_EQ(pipe.b.closed(), LinkCloseReason::timed_out);
  EXPECT_LE(pipe.a.log_times.back() - cut, pipe.a.config.idle_timeout);
}

TEST(Connection, AKeepaliveHoldsAnIdleConnectionAndWakesForNothingElse) {
  TransportConfig config;
  config.keepalive = 15s;
  Pipe pipe(config);
  ASSERT_TRUE(pipe.establish());
  pipe.run(at(10s));
  const std::uint64_t wakeups = pipe.a.wakeups + pipe.b.wakeups;
  pipe.run(at(10s + 300s));
  EXPECT_TRUE(pipe.a.connection->established());
  EXPECT_TRUE(pipe.b.connection->established());
  // 20 intervals; each costs its keepalive and the delayed acknowledgement, and both ends may ping.
  EXPECT_LE(pipe.a.wakeups + pipe.b.wakeups - wakeups, 20U * 4);
}

TEST(Connection, AnIdleConnectionWithoutKeepaliveDoesNotWakeUntilItEnds) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.run(at(2s));
  const std::uint64_t wakeups = pipe.a.wakeups + pipe.b.wakeups;
  pipe.run(at(25s));
  EXPECT_EQ(pipe.a.wakeups + pipe.b.wakeups, wakeups);  // lessons 16: 22 wake-ups a second
}

TEST(Connection, AFastSenderWakesAtMostOncePerMillisecondOrBurst) {
  // Lessons 3: 20 000 wake-ups per packet.
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{100'000'000};
  pipe.ab.queue_limit = 1000;
  pipe.a.verify = pipe.b.verify = false;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 1'000'000'000);
  pipe.run(at(5s));
  EXPECT_GT(pipe.a.sent, 20'000U);
  EXPECT_LE(pipe.a.wakeups, 5'500U);
  EXPECT_LE(pipe.a.wakeups, pipe.a.sent / 4);
}

TEST(Connection, EcnMarksReduceTheWindowWithoutLoss) {
  Pipe pipe;
  pipe.ab.rate = DataRate{20'000'000};
  pipe.ab.queue_limit = 1000;
  pipe.ab.mark_at = 100;
  pipe.a.verify = pipe.b.verify = false;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 1'000'000'000);
  pipe.run(at(5s));
  EXPECT_GT(pipe.b.ce_received, 0U);
  EXPECT_TRUE(pipe.a.connection->stats().slow_start_threshold.has_value());
  EXPECT_EQ(pipe.ab.dropped, 0U);
  EXPECT_GT(pipe.b.received[0] * 8 / 5, 15'000'000U);
}

TEST(Connection, APathThatClearsEcnMarksEndsTheirUse) {
  Pipe pipe;
  pipe.ecn_path = false;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 300'000);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.b.ended[0]; }));
  EXPECT_FALSE(pipe.a.connection->stats().slow_start_threshold.has_value());
}

TEST(Connection, ABlackoutOfFiveSecondsIsSurvivedAndTheWindowIsTwoDatagramsAtLeast) {
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{20'000'000};
  pipe.a.verify = pipe.b.verify = false;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 8'000'000);
  pipe.run(at(1s));
  pipe.ab.drop = pipe.ba.drop = [](std::uint64_t, BytesView) { return true; };
  pipe.run(at(6s));
  pipe.ab.drop = pipe.ba.drop = nullptr;
  ASSERT_TRUE(pipe.run_while(at(60s), [&] { return !pipe.b.ended[0]; }));
  // RFC 9002 §6.2.2: the probe timeouts have doubled to some seconds; then the rest takes about 3 s.
  EXPECT_LT(pipe.b.ended_at[0], at(20s));
  EXPECT_GE(pipe.a.connection->stats().congestion_window.bytes, 2 * 1232);
}

}  // namespace
}  // namespace peerbed
