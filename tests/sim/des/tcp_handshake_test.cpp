// Opening, refusing and resetting: RFC 9293 §3.5 and §3.10.7, RFC 5961.
#include "tests/sim/des/tcp_world.h"

namespace peerbed::sim {
namespace {

using Side = TcpWorld::Side;

TcpSegment reset_at(std::uint32_t sequence) {
  TcpSegment segment;
  segment.rst = true;
  segment.sequence = sequence;
  return segment;
}

TEST(TcpHandshake, TakesOneRoundTripForTheDialerAndOneAndAHalfForTheListener) {
  TcpWorld world;
  const TimePoint start = world.now;
  world.connect();
  EXPECT_EQ(world.a.connected_at - start, 100ms);
  EXPECT_EQ(world.b.connected_at - start, 150ms);
  ASSERT_EQ(world.a.sent.size(), 2U);
  ASSERT_EQ(world.b.sent.size(), 1U);
  EXPECT_TRUE(world.a.sent[0].syn && !world.a.sent[0].ack);
  EXPECT_TRUE(world.b.sent[0].syn && world.b.sent[0].ack);
  EXPECT_TRUE(!world.a.sent[1].syn && world.a.sent[1].ack);
  EXPECT_EQ(world.b.sent[0].acknowledgement, world.a.initial_sequence + 1);
}

TEST(TcpHandshake, UsesTheSmallerSegmentSizeOfTheTwo) {
  TcpWorld world;
  world.a.parameters.max_segment_size = 1440;
  world.b.parameters.max_segment_size = 1200;
  world.connect();
  EXPECT_EQ(world.a.tcp().segment_size(), 1200);
  EXPECT_EQ(world.b.tcp().segment_size(), 1200);
  ASSERT_TRUE(world.transfer(world.a, 100'000, 10s));
  EXPECT_EQ(*std::max_element(world.a.sent_bytes.begin(), world.a.sent_bytes.end()), 1200U);
}

TEST(TcpHandshake, ALostSynIsRepeatedAfterOneThreeAndSevenSeconds) {
  TcpWorld world;
  world.b.listening = true;
  world.a.passes = [](std::size_t number, const TcpSegment&) { return number >= 3; };
  const TimePoint start = world.now;
  world.open(world.a);
  world.run_for(20s);
  ASSERT_GE(world.a.sent_at.size(), 4U);
  EXPECT_EQ(world.a.sent_at[0] - start, 0s);
  EXPECT_EQ(world.a.sent_at[1] - start, 1s);
  EXPECT_EQ(world.a.sent_at[2] - start, 3s);
  EXPECT_EQ(world.a.sent_at[3] - start, 7s);
  EXPECT_EQ(world.a.connected_at - start, 7s + 100ms);
}

TEST(TcpHandshake, AfterALostSynTheFirstFlightIsStillTheWholeInitialWindow) {
  TcpWorld world;
  world.b.listening = true;
  world.a.passes = [](std::size_t number, const TcpSegment&) { return number >= 1; };
  world.open(world.a);
  ASSERT_TRUE(world.run_until([&] { return world.a.connected == 1; }, 5s));
  const std::size_t before = world.a.sent.size();
  world.a.to_send = TcpWorld::pattern(100'000);
  world.poke(world.a);
  EXPECT_EQ(world.a.sent.size() - before, 10U);  // RFC 6928: 10 segments of 1460 B
}

TEST(TcpHandshake, ALostSynAckIsRepeated) {
  TcpWorld world;
  world.b.listening = true;
  world.b.passes = [](std::size_t number, const TcpSegment&) { return number >= 2; };
  world.open(world.a);
  world.run_for(10s);
  EXPECT_EQ(world.a.connected, 1);
  EXPECT_EQ(world.b.connected, 1);
}

TEST(TcpHandshake, ALostLastAcknowledgementIsMadeUpForByTheFirstData) {
  TcpWorld world;
  world.b.listening = true;
  world.a.passes = [](std::size_t number, const TcpSegment& segment) { return number != 1 || segment.syn; };
  world.a.to_send = TcpWorld::pattern(5000);
  world.open(world.a);
  world.run_for(500ms);
  EXPECT_EQ(world.b.connected, 1);
  EXPECT_EQ(world.b.received, world.a.to_send);
}

TEST(TcpHandshake, NobodyThereIsTimedOutAfterSixRetries) {
  TcpWorld world;
  world.a.passes = [](std::size_t, const TcpSegment&) { return false; };
  const TimePoint start = world.now;
  world.open(world.a);
  world.run_for(300s);
  EXPECT_TRUE(world.a.ended(CloseReason::timed_out));
  EXPECT_EQ(world.a.sent.size(), 7U);
  EXPECT_EQ(world.a.closed_at - start, 127s);  // 1 + 2 + 4 + 8 + 16 + 32 + 64, as Linux
  EXPECT_EQ(world.a.connected, 0);
}

TEST(TcpHandshake, AClosedPortRefuses) {
  TcpWorld world;
  const TimePoint start = world.now;
  world.open(world.a);
  world.run_for(1s);
  EXPECT_TRUE(world.a.ended(CloseReason::refused));
  EXPECT_EQ(world.a.closed_at - start, 100ms);
  EXPECT_TRUE(world.a.tcp().done());
}

TEST(TcpHandshake, AClosedPortDoesNotAnswerAReset) {
  EXPECT_FALSE(answer_of_closed_port(reset_at(5)).has_value());
}

TEST(TcpHandshake, AClosedPortAnswersSoThatTheSenderBelievesIt) {
  // RFC 9293 §3.10.7.1: with the acknowledgement's number, or else acknowledging all that came.
  TcpSegment data;
  data.ack = true;
  data.sequence = 100;
  data.acknowledgement = 4711;
  const auto to_ack = answer_of_closed_port(data);
  ASSERT_TRUE(to_ack.has_value());
  EXPECT_TRUE(to_ack->rst && !to_ack->ack);
  EXPECT_EQ(to_ack->sequence, 4711U);
  TcpSegment syn;
  syn.syn = true;
  syn.sequence = 100;
  const auto to_syn = answer_of_closed_port(syn);
  ASSERT_TRUE(to_syn.has_value());
  EXPECT_TRUE(to_syn->rst && to_syn->ack);
  EXPECT_EQ(to_syn->acknowledgement, 101U);
}

TEST(TcpHandshake, AResetThatDoesNotAcknowledgeOurSynIsIgnored) {
  TcpWorld world;
  world.open(world.a);
  world.a.tcp().on_segment(world.now, reset_at(0));
  EXPECT_EQ(world.a.tcp().state(), TcpState::syn_sent);
  TcpSegment wrong = reset_at(0);
  wrong.ack = true;
  wrong.acknowledgement = world.a.initial_sequence + 2;
  world.a.tcp().on_segment(world.now, wrong);
  EXPECT_EQ(world.a.tcp().state(), TcpState::syn_sent);
}

TEST(TcpHandshake, ASynAckForAnOldConnectionIsAnsweredByAResetAndTheOpenGoesOn) {
  TcpWorld world;
  world.open(world.a);
  TcpSegment old;
  old.syn = old.ack = true;
  old.sequence = 900;
  old.acknowledgement = world.a.initial_sequence - 500;
  world.a.tcp().on_segment(world.now, old);
  const auto answer = world.a.tcp().poll_transmit(world.now);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->rst);
  EXPECT_EQ(answer->sequence, old.acknowledgement);
  EXPECT_EQ(world.a.tcp().state(), TcpState::syn_sent);
}

// ---- simultaneous open ---------------------------------------------------------------------------------------------

TEST(TcpSimultaneousOpen, BothSidesEndUpOnOneConnection) {
  TcpWorld world;
  const TimePoint start = world.now;
  world.open(world.a);
  world.open(world.b);
  world.run_for(1s);
  EXPECT_EQ(world.a.tcp().state(), TcpState::established);
  EXPECT_EQ(world.b.tcp().state(), TcpState::established);
  EXPECT_EQ(world.a.connected, 1);
  EXPECT_EQ(world.b.connected, 1);
  EXPECT_EQ(world.a.connected_at - start, 100ms);
  ASSERT_TRUE(world.transfer(world.a, 50'000, 5s));
  ASSERT_TRUE(world.transfer(world.b, 50'000, 5s));
}

TEST(TcpSimultaneousOpen, WorksWhenOneSideIsLaterByLessThanTheDelay) {
  for (const Duration later : {Duration(1us), Duration(20ms), Duration(49'999us)}) {
    TcpWorld world;
    world.open(world.a);
    world.run_for(later);
    world.open(world.b);
    world.run_for(2s);
    EXPECT_EQ(world.a.connected, 1);
    EXPECT_EQ(world.b.connected, 1);
    EXPECT_TRUE(world.transfer(world.b, 50'000, 5s));
  }
}

TEST(TcpSimultaneousOpen, SurvivesTheLossOfAnyOneOfItsSegments) {
  for (std::size_t lost = 0; lost < 4; ++lost) {
    TcpWorld world;
    world.a.passes = [&](std::size_t number, const TcpSegment&) { return number != lost; };
    world.open(world.a);
    world.open(world.b);
    world.run_for(10s);
    EXPECT_EQ(world.a.connected, 1) << lost;
    EXPECT_EQ(world.b.connected, 1) << lost;
    EXPECT_TRUE(world.transfer(world.a, 20'000, 5s)) << lost;
    EXPECT_TRUE(world.transfer(world.b, 20'000, 5s)) << lost;
  }
}

TEST(TcpSimultaneousOpen, SurvivesFirewallsThatDropTheFirstSynOfEachSide) {
  // A punch: both first packets meet a closed filter; the repeated ones cross.
  TcpWorld world;
  world.a.passes = world.b.passes = [](std::size_t number, const TcpSegment&) { return number >= 1; };
  const TimePoint start = world.now;
  world.open(world.a);
  world.open(world.b);
  world.run_for(5s);
  EXPECT_EQ(world.a.connected_at - start, 1100ms);
  EXPECT_EQ(world.b.connected_at - start, 1100ms);
}

TEST(TcpSimultaneousOpen, MeasuresTheRoundTripAndNotHalfOfIt) {
  TcpWorld world;
  world.open(world.a);
  world.open(world.b);
  world.run_for(1s);
  EXPECT_EQ(world.a.tcp().smoothed_rtt(), 100ms);
  EXPECT_EQ(world.b.tcp().smoothed_rtt(), 100ms);
}

// ---- RST and SYN in the window -------------------------------------------------------------------------------------

TEST(TcpReset, AtTheExactNumberItEndsTheConnection) {
  TcpWorld world;
  world.connect();
  world.a.tcp().on_segment(world.now, reset_at(world.b.initial_sequence + 1));
  world.poke(world.a);
  EXPECT_TRUE(world.a.ended(CloseReason::reset));
  EXPECT_TRUE(world.a.tcp().done());
}

TEST(TcpReset, ElsewhereInTheWindowItIsAnsweredByAnAcknowledgementOnly) {
  TcpWorld world;
  world.connect();
  world.a.tcp().on_segment(world.now, reset_at(world.b.initial_sequence + 1000));
  EXPECT_EQ(world.a.tcp().state(), TcpState::established);
  const auto challenge = world.a.tcp().poll_transmit(world.now);  // RFC 5961 §3.2
  ASSERT_TRUE(challenge.has_value());
  EXPECT_TRUE(challenge->ack && !challenge->rst);
  EXPECT_EQ(challenge->acknowledgement, world.b.initial_sequence + 1);
}

TEST(TcpReset, OutsideTheWindowItIsIgnored) {
  TcpWorld world;
  world.connect();
  for (const std::uint32_t away : {0U - 5000U, 2'000'000U, 0x8000'0000U}) {
    world.a.tcp().on_segment(world.now, reset_at(world.b.initial_sequence + 1 + away));
    EXPECT_EQ(world.a.tcp().state(), TcpState::established);
    EXPECT_FALSE(world.a.tcp().poll_transmit(world.now).has_value());
  }
}

TEST(TcpReset, ASynOnALivingConnectionIsAnsweredByAnAcknowledgement) {
  TcpWorld world;
  world.connect();
  TcpSegment syn;
  syn.syn = true;
  syn.sequence = world.b.initial_sequence + 500;
  world.a.tcp().on_segment(world.now, syn);
  EXPECT_EQ(world.a.tcp().state(), TcpState::established);
  const auto challenge = world.a.tcp().poll_transmit(world.now);  // RFC 5961 §4.2
  ASSERT_TRUE(challenge.has_value());
  EXPECT_TRUE(challenge->ack && !challenge->syn && !challenge->rst);
}

TEST(TcpReset, AnAbortEndsThePeerAndTellsOnlyThePeer) {
  TcpWorld world;
  world.connect();
  world.a.tcp().abort();
  world.poke(world.a);
  world.run_for(200ms);
  EXPECT_TRUE(world.a.closed.empty());
  EXPECT_TRUE(world.a.tcp().done());
  EXPECT_TRUE(world.b.ended(CloseReason::reset));
}

TEST(TcpReset, AnAbortWithDataStillMissingIsBelievedByWayOfTheChallenge) {
  TcpWorld world;
  world.connect();
  const std::size_t first = world.a.sent.size();
  world.a.passes = [&](std::size_t number, const TcpSegment&) { return number >= first + 3; };
  world.a.to_send = TcpWorld::pattern(3 * 1460);
  world.poke(world.a);
  world.a.tcp().abort();
  world.poke(world.a);
  world.run_for(1s);
  EXPECT_TRUE(world.b.ended(CloseReason::reset));
}

TEST(TcpReset, ReleasingAConnectionThatHasNotEndedAbortsIt) {
  TcpWorld world;
  world.connect();
  world.a.tcp().release();
  world.poke(world.a);
  world.run_for(200ms);
  EXPECT_TRUE(world.b.ended(CloseReason::reset));
}

// ---- ICMP ----------------------------------------------------------------------------------------------------------

TEST(TcpIcmp, AnErrorWhileConnectingEndsTheAttempt) {
  const std::pair<UnreachableReason, CloseReason> cases[] = {
      {UnreachableReason::port, CloseReason::refused},
      {UnreachableReason::host, CloseReason::unreachable},
      {UnreachableReason::network, CloseReason::unreachable},
      {UnreachableReason::prohibited, CloseReason::unreachable},
  };
  for (const auto& [reason, expected] : cases) {
    TcpWorld world;
    world.a.passes = [](std::size_t, const TcpSegment&) { return false; };
    world.open(world.a);
    world.a.tcp().on_unreachable(world.now, {{}, reason, 0});
    world.poke(world.a);
    EXPECT_TRUE(world.a.ended(expected)) << static_cast<int>(reason);
    EXPECT_FALSE(world.a.tcp().next_timeout().has_value());
  }
}

TEST(TcpIcmp, AnErrorOnAnEstablishedConnectionIsOnlyAHint) {
  TcpWorld world;
  world.connect();
  world.a.tcp().on_unreachable(world.now, {{}, UnreachableReason::host, 0});
  EXPECT_EQ(world.a.tcp().state(), TcpState::established);
  EXPECT_TRUE(world.transfer(world.a, 10'000, 5s));
}

TEST(TcpIcmp, TooBigMakesSegmentsSmallerAndRepeatsWhatWasCutOff) {
  TcpWorld world;
  world.connect();
  bool told = false;
  world.a.passes = [&](std::size_t, const TcpSegment& segment) {
    if (segment.payload.size() + 40 <= 1280) return true;
    told = true;
    return false;
  };
  world.a.to_send = TcpWorld::pattern(200'000);
  world.a.shutdown_when_written = true;
  world.poke(world.a);
  ASSERT_TRUE(told);
  const DataSize before = world.a.tcp().congestion_window();
  world.run_for(50ms);
  world.a.tcp().on_unreachable(world.now, {{}, UnreachableReason::too_big, 1280});
  world.poke(world.a);
  EXPECT_EQ(world.a.tcp().segment_size(), 1240);
  EXPECT_EQ(world.a.tcp().congestion_window(), before) << "no congestion was seen";
  EXPECT_TRUE(world.run_until([&] { return world.b.end; }, 10s));
  EXPECT_EQ(world.b.received, world.a.to_send);
}

}  // namespace
}  // namespace peerbed::sim
