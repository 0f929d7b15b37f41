#include <gtest/gtest.h>

#include "sim/nat/nat_table.h"

namespace peerbed::sim {
namespace {

using enum Dependence;

constexpr TimePoint kStart{100s};
const Endpoint kAlice{IpAddress::v4(10, 0, 0, 2), 4000};
const Endpoint kPeer{IpAddress::v4(198, 51, 100, 1), 443}, kOtherPort{kPeer.address, 444};
const Endpoint kExternal{IpAddress::v4(192, 0, 2, 1), 4000};
constexpr TcpFlags kSyn{.syn = true}, kSynAck{.syn = true, .ack = true}, kAck{.ack = true},
    kFin{.ack = true, .fin = true}, kRst{.rst = true};
constexpr Duration kEstablished = 7440s, kTransitory = 240s, kTick{1};

class NatTcp : public testing::TestWithParam<Dependence> {
 protected:
  bool out(TimePoint now, TcpFlags flags, const Endpoint& peer = kPeer) {
    return nat_.outbound(Protocol::tcp, kAlice, peer, now, flags).has_value();
  }
  bool in(TimePoint now, TcpFlags flags, const Endpoint& peer = kPeer) {
    return nat_.inbound(Protocol::tcp, peer, kExternal, now, flags).has_value();
  }
  void open() {
    ASSERT_TRUE(out(kStart, kSyn));
    ASSERT_TRUE(in(kStart, kSynAck));
    ASSERT_TRUE(out(kStart, kAck));
  }
  bool alive(TimePoint now) { return nat_.mappings(now) > 0; }

  NatTable nat_{[] {
                  NatBehavior behavior;
                  behavior.mapping = endpoint_independent;
                  behavior.filtering = GetParam();
                  return behavior;
                }(),
                {kExternal.address},
                RandomStream(1, 1, "nat")};
};
INSTANTIATE_TEST_SUITE_P(Filters, NatTcp,
                         testing::Values(endpoint_independent, address_dependent, address_and_port_dependent));

// RFC 5382 REQ-5: 4 minutes while partially open or closing, 2 h 4 min while established.
TEST_P(NatTcp, AnUnansweredSynLivesForTheTransitoryTimeout) {
  ASSERT_TRUE(out(kStart, kSyn));
  EXPECT_TRUE(alive(kStart + kTransitory - kTick));
  EXPECT_FALSE(alive(kStart + kTransitory));
}

TEST_P(NatTcp, AnEstablishedConnectionLivesForTwoHoursAndFourMinutes) {
  open();
  EXPECT_TRUE(alive(kStart + kEstablished - kTick));
  EXPECT_FALSE(alive(kStart + kEstablished));
}

TEST_P(NatTcp, DataFromEitherSideRefreshesAnEstablishedConnection) {
  open();
  ASSERT_TRUE(in(kStart + 7000s, kAck));
  ASSERT_TRUE(out(kStart + 14000s, kAck));
  EXPECT_TRUE(alive(kStart + 14000s + kEstablished - kTick));
  EXPECT_FALSE(alive(kStart + 14000s + kEstablished));
}

// REQ-2a: simultaneous open is a valid sequence.
TEST_P(NatTcp, TwoSynsThatCrossOpenAConnection) {
  ASSERT_TRUE(out(kStart, kSyn));
  ASSERT_TRUE(in(kStart, kSyn));
  EXPECT_TRUE(alive(kStart + kEstablished - kTick));
}

TEST_P(NatTcp, OneFinLeavesTheOtherHalfItsFullTime) {
  open();
  ASSERT_TRUE(out(kStart + 10s, kFin));
  EXPECT_TRUE(alive(kStart + 10s + kEstablished - kTick));
}

TEST_P(NatTcp, TheSecondFinLeavesFourMinutes) {
  open();
  ASSERT_TRUE(out(kStart + 10s, kFin));
  ASSERT_TRUE(out(kStart + 10s, kFin)) << "a retransmission is not the other side's FIN";
  ASSERT_TRUE(alive(kStart + 5000s));
  ASSERT_TRUE(in(kStart + 5000s, kFin));
  ASSERT_TRUE(out(kStart + 5001s, kAck)) << "the last acknowledgement passes and refreshes nothing";
  EXPECT_TRUE(alive(kStart + 5000s + kTransitory - kTick));
  EXPECT_FALSE(alive(kStart + 5000s + kTransitory));
}

// RFC 7857 §2.2.
TEST_P(NatTcp, AForgedResetDoesNotKillALivingConnection) {
  open();
  ASSERT_TRUE(in(kStart + 10s, kRst));
  ASSERT_TRUE(out(kStart + 20s, kAck));
  EXPECT_TRUE(alive(kStart + 20s + kEstablished - kTick));
}

TEST_P(NatTcp, ATrueResetLeavesFourMinutes) {
  open();
  ASSERT_TRUE(in(kStart + 10s, kRst));
  EXPECT_TRUE(alive(kStart + 10s + kTransitory - kTick));
  EXPECT_FALSE(alive(kStart + 10s + kTransitory));
}

TEST_P(NatTcp, AResetNeverLengthensALife) {
  ASSERT_TRUE(out(kStart, kSyn));
  ASSERT_TRUE(in(kStart + 100s, kRst));
  EXPECT_FALSE(alive(kStart + kTransitory));
}

TEST_P(NatTcp, AResetOutOfNothingOpensNoConnection) {
  ASSERT_TRUE(out(kStart, kRst));
  EXPECT_EQ(nat_.sessions(kStart), 0U);
}

TEST_P(NatTcp, TheSamePortsCanBeUsedAgainAfterClosing) {
  open();
  ASSERT_TRUE(out(kStart, kFin));
  ASSERT_TRUE(in(kStart, kFin));
  ASSERT_TRUE(out(kStart + 100s, kSyn));
  ASSERT_TRUE(in(kStart + 100s, kSynAck));
  EXPECT_TRUE(alive(kStart + 100s + kEstablished - kTick));
}

TEST_P(NatTcp, TheMappingLivesAsLongAsItsLongestConnection) {
  open();
  ASSERT_TRUE(out(kStart, kSyn, kOtherPort));
  ASSERT_TRUE(in(kStart, kSynAck, kOtherPort));
  ASSERT_TRUE(in(kStart, kRst, kOtherPort));
  EXPECT_TRUE(alive(kStart + kEstablished - kTick));
  EXPECT_FALSE(alive(kStart + kEstablished));
}

TEST_P(NatTcp, AConnectionThatOutlivedItsMappingIsTakenUpAgain) {
  ASSERT_TRUE(out(kStart, kAck));
  EXPECT_TRUE(alive(kStart + kTransitory - kTick));
  ASSERT_TRUE(in(kStart + 1s, kAck)) << "now both sides have spoken";
  EXPECT_TRUE(alive(kStart + 1s + kEstablished - kTick));
}

TEST_P(NatTcp, AfterAResetTheFilterClosesWithTheConnectionAndNotWithTheMapping) {
  open();
  const Endpoint elsewhere{IpAddress::v4(198, 51, 100, 2), 443};
  ASSERT_TRUE(out(kStart, kSyn, elsewhere));
  ASSERT_TRUE(in(kStart, kSynAck, elsewhere));  // keeps the mapping alive
  ASSERT_TRUE(in(kStart + 10s, kRst));
  const Endpoint tried = GetParam() == address_dependent ? kOtherPort : kPeer;
  EXPECT_TRUE(in(kStart + 10s + kTransitory - kTick, kRst, tried));
  EXPECT_EQ(in(kStart + 10s + kTransitory, kSyn, tried), GetParam() == endpoint_independent);
}

TEST_P(NatTcp, AnEarlySynMeetsNoMapping) {
  EXPECT_FALSE(in(kStart, kSyn));
  EXPECT_EQ(nat_.last_drop(), NatDrop::no_mapping);
}

}  // namespace
}  // namespace peerbed::sim
