// Ending: FIN in both orders, half-close, TIME_WAIT (RFC 9293 §3.6).
#include "tests/sim/des/tcp_world.h"

namespace peerbed::sim {
namespace {

void shutdown(TcpWorld& world, TcpWorld::Side& side) {
  side.tcp().shutdown_send();
  world.poke(side);
}

TEST(TcpClose, TheOneWhoEndsFirstWaitsAndTheOtherIsDoneAtOnce) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  EXPECT_EQ(world.a.tcp().state(), TcpState::fin_wait_1);
  world.run_for(100ms);
  EXPECT_EQ(world.a.tcp().state(), TcpState::fin_wait_2);
  EXPECT_EQ(world.b.tcp().state(), TcpState::close_wait);
  EXPECT_TRUE(world.b.end);
  EXPECT_TRUE(world.b.closed.empty()) << "its own direction is still open";
  shutdown(world, world.b);
  EXPECT_EQ(world.b.tcp().state(), TcpState::last_ack);
  world.run_for(100ms);
  EXPECT_EQ(world.a.tcp().state(), TcpState::time_wait);
  EXPECT_TRUE(world.b.tcp().done());
  EXPECT_TRUE(world.a.ended(CloseReason::finished));
  EXPECT_TRUE(world.b.ended(CloseReason::finished));
  EXPECT_FALSE(world.a.tcp().done());
  world.run_for(world.a.parameters.time_wait);
  EXPECT_TRUE(world.a.tcp().done());
}

TEST(TcpClose, TheListenerMayEndFirst) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.b);
  world.run_for(100ms);
  shutdown(world, world.a);
  world.run_for(100ms);
  EXPECT_EQ(world.b.tcp().state(), TcpState::time_wait);
  EXPECT_TRUE(world.a.tcp().done());
  EXPECT_TRUE(world.a.ended(CloseReason::finished));
  EXPECT_TRUE(world.b.ended(CloseReason::finished));
}

TEST(TcpClose, BothMayEndAtOnceAndBothWait) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  shutdown(world, world.b);
  world.run_for(75ms);
  EXPECT_EQ(world.a.tcp().state(), TcpState::closing);
  world.run_for(75ms);
  EXPECT_EQ(world.a.tcp().state(), TcpState::time_wait);
  EXPECT_EQ(world.b.tcp().state(), TcpState::time_wait);
  EXPECT_TRUE(world.a.ended(CloseReason::finished));
  EXPECT_TRUE(world.b.ended(CloseReason::finished));
}

TEST(TcpClose, AfterAHalfCloseDataStillFlowsTheOtherWay) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  world.run_for(200ms);
  ASSERT_TRUE(world.b.end);
  EXPECT_TRUE(world.transfer(world.b, 300'000, 10s));
  EXPECT_EQ(world.a.tcp().state(), TcpState::fin_wait_2);
  shutdown(world, world.b);
  world.run_for(200ms);
  EXPECT_TRUE(world.a.ended(CloseReason::finished));
}

TEST(TcpClose, TheEndComesAfterAllThatWasWritten) {
  TcpWorld world;
  world.connect();
  world.a.to_send = TcpWorld::pattern(1'000'000);
  world.a.shutdown_when_written = true;
  world.poke(world.a);
  ASSERT_TRUE(world.run_until([&] { return world.b.end; }, 30s));
  EXPECT_EQ(world.b.received, world.a.to_send);
}

TEST(TcpClose, NothingIsTakenAfterShutdown) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  EXPECT_EQ(world.a.tcp().write(as_bytes("late")), 0U);
}

TEST(TcpClose, NothingIsTakenBeforeTheConnectionStands) {
  TcpWorld world;
  world.open(world.a);
  EXPECT_EQ(world.a.tcp().write(as_bytes("early")), 0U);
}

TEST(TcpClose, ALostFinIsRepeated) {
  TcpWorld world;
  world.connect();
  int fins = 0;
  world.a.passes = [&](std::size_t, const TcpSegment& segment) { return !segment.fin || ++fins > 2; };
  shutdown(world, world.a);
  world.run_for(5s);
  EXPECT_TRUE(world.b.end);
  EXPECT_EQ(fins, 3);
  EXPECT_EQ(world.a.tcp().state(), TcpState::fin_wait_2);
}

TEST(TcpClose, ALostLastAcknowledgementIsRepeatedOutOfTimeWait) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  world.run_for(100ms);
  bool lost = false;
  world.a.passes = [&](std::size_t, const TcpSegment&) { return std::exchange(lost, true); };
  shutdown(world, world.b);
  world.run_for(120ms);
  EXPECT_EQ(world.b.tcp().state(), TcpState::last_ack);
  EXPECT_EQ(world.a.tcp().state(), TcpState::time_wait);
  world.run_for(600ms);
  EXPECT_TRUE(world.b.tcp().done());
  EXPECT_TRUE(world.b.ended(CloseReason::finished));
}

TEST(TcpClose, TheLastBytesAndTheEndShareASegment) {
  TcpWorld world;
  world.connect();
  const std::size_t before = world.a.sent.size();
  world.a.tcp().write(as_bytes("bye"));
  shutdown(world, world.a);
  ASSERT_EQ(world.a.sent.size(), before + 1);
  EXPECT_TRUE(world.a.sent.back().fin);
  EXPECT_EQ(world.a.sent_bytes.back(), 3U);
}

TEST(TcpClose, ReleasedAfterBothEndsItFinishesByItself) {
  TcpWorld world;
  world.connect();
  shutdown(world, world.a);
  world.run_for(100ms);
  // b has read the end; it ends its own direction and lets go before its FIN is acknowledged.
  world.b.tcp().shutdown_send();
  world.b.tcp().release();
  world.poke(world.b);
  world.run_for(200ms);
  EXPECT_TRUE(world.a.ended(CloseReason::finished));
  EXPECT_TRUE(world.b.tcp().done());
  EXPECT_TRUE(world.b.closed.empty());
}

TEST(TcpClose, ClosedWaitsUntilTheEndWasRead) {
  TcpWorld world;
  world.connect();
  world.b.reads = false;
  world.a.to_send = TcpWorld::pattern(1000);
  world.a.shutdown_when_written = true;
  world.poke(world.a);
  world.run_for(100ms);
  shutdown(world, world.b);
  world.run_for(3s);
  EXPECT_TRUE(world.b.closed.empty());
  world.read_all(world.b);
  world.poke(world.b);
  EXPECT_EQ(world.b.received, world.a.to_send);
  EXPECT_TRUE(world.b.end);
  EXPECT_TRUE(world.b.ended(CloseReason::finished));
}

TEST(TcpClose, OnlyANewerSynMayTakeThePlaceOfTimeWait) {
  TcpWorld world;
  world.connect();
  TcpSegment syn;
  syn.syn = true;
  syn.sequence = world.b.initial_sequence + 100'000;
  EXPECT_FALSE(world.a.tcp().may_be_replaced_by(syn)) << "not while it lives";
  shutdown(world, world.a);
  world.run_for(100ms);
  shutdown(world, world.b);
  world.run_for(100ms);
  ASSERT_EQ(world.a.tcp().state(), TcpState::time_wait);
  EXPECT_TRUE(world.a.tcp().may_be_replaced_by(syn));
  syn.sequence = world.b.initial_sequence - 100'000;
  EXPECT_FALSE(world.a.tcp().may_be_replaced_by(syn));
}

}  // namespace
}  // namespace peerbed::sim
