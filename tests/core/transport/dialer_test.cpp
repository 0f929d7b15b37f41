#include <gtest/gtest.h>

#include "tests/core/transport/party.h"

namespace peerbed {
namespace {

class DialerTest : public test::TransportWorld {
 protected:
  void open() {
    for (const char* host : {"a", "b"}) {
      party(host).open_udp({any(4001)});
      party(host).open_tcp({any(4001)});
    }
    party("a").open_dialer();
  }
  DialId dial(std::vector<DialTarget> targets, std::optional<PeerId> expected = std::nullopt) {
    return party("a").dialer->dial(now(), expected, targets, party("a"));
  }
};

TEST(DialOrder, IsUdpFirstAndTheFamiliesInTurn) {
  const Endpoint v4a{IpAddress::v4(192, 0, 2, 1), 1}, v4b{IpAddress::v4(192, 0, 2, 2), 1};
  const Endpoint v6a{IpAddress::loopback(Family::v6), 1};
  const std::vector<DialTarget> in{{LinkKind::tcp, v4a}, {LinkKind::udp, v4a}, {LinkKind::udp, v4b}, {LinkKind::udp, v6a},
                                   {LinkKind::udp, v4a}, {LinkKind::tcp, v6a}};
  const std::vector<DialTarget> out{{LinkKind::udp, v6a}, {LinkKind::udp, v4a}, {LinkKind::udp, v4b},
                                    {LinkKind::tcp, v6a}, {LinkKind::tcp, v4a}};
  EXPECT_EQ(order_dial_targets(in), out);
}

TEST_F(DialerTest, UdpWinsWhereItWorksAndTcpIsNotEvenTried) {
  open();
  dial({{LinkKind::tcp, endpoint("b")}, {LinkKind::udp, endpoint("b")}});
  run(2s);
  ASSERT_NE(party("a").dialled, nullptr);
  EXPECT_EQ(party("a").dialled->kind(), LinkKind::udp);
  EXPECT_EQ(party("b").incoming.size(), 1U);
  EXPECT_EQ(party("a").tcp->links(), 0U);
}

TEST_F(DialerTest, TcpTakesOverAfterAQuarterSecondWhereUdpIsSwallowed) {
  open();
  dial({{LinkKind::udp, Endpoint{address("b"), 9}}, {LinkKind::tcp, endpoint("b")}});
  run(5s);
  ASSERT_NE(party("a").dialled, nullptr);
  EXPECT_EQ(party("a").dialled->kind(), LinkKind::tcp);
  const Duration took = party("a").dialled_at - TimePoint{};
  EXPECT_GE(took, 250ms + 80ms);  // RFC 8305 §5; then two round trips
  EXPECT_LT(took, 350ms);
  EXPECT_EQ(party("a").udp->stats().links, 0U);  // the loser is gone
  EXPECT_TRUE(party("a").closed.empty());        // and nobody was bothered with it
}

TEST_F(DialerTest, AFailureStartsTheNextAttemptAtOnce) {
  open();
  dial({{LinkKind::tcp, Endpoint{address("b"), 9}}, {LinkKind::tcp, endpoint("b")}});
  run(5s);
  ASSERT_NE(party("a").dialled, nullptr);
  EXPECT_LT(party("a").dialled_at - TimePoint{}, 200ms);  // one round trip for the RST, two for the link
}

TEST_F(DialerTest, WhenAllFailTheReasonIsTold) {
  open();
  dial({{LinkKind::tcp, Endpoint{address("b"), 9}}});
  run(5s);
  EXPECT_EQ(party("a").dialled, nullptr);
  EXPECT_EQ(party("a").dial_failure, LinkCloseReason::refused);
}

TEST_F(DialerTest, SilenceTimesOutAfterTenSeconds) {
  open();
  dial({{LinkKind::udp, Endpoint{address("b"), 9}}});
  run(30s);
  EXPECT_EQ(party("a").dial_failure, LinkCloseReason::timed_out);
  EXPECT_EQ(party("a").dialled_at - TimePoint{}, 10s);
}

TEST_F(DialerTest, NoTargetsIsAFailureToo) {
  open();
  dial({});
  EXPECT_FALSE(party("a").dial_failure);  // not inside the call
  run(1ms);
  EXPECT_EQ(party("a").dial_failure, LinkCloseReason::refused);
}

TEST_F(DialerTest, ACancelledRaceIsSilentAndLeavesNothing) {
  open();
  const DialId id = dial({{LinkKind::udp, endpoint("b")}, {LinkKind::tcp, endpoint("b")}});
  run(10ms);
  party("a").dialer->cancel(now(), id);
  run(15s);
  EXPECT_EQ(party("a").dialled, nullptr);
  EXPECT_FALSE(party("a").dial_failure);
  EXPECT_TRUE(party("b").incoming.empty());
  EXPECT_EQ(party("a").udp->stats().links, 0U);
  EXPECT_EQ(party("b").udp->stats().links, 0U);
}

TEST_F(DialerTest, TheExpectedIdentityIsHeld) {
  open();
  SecretKey secret{};
  secret.fill(200);
  dial({{LinkKind::udp, endpoint("b")}, {LinkKind::tcp, endpoint("b")}}, make_key_pair(secret).public_key);
  run(5s);
  EXPECT_EQ(party("a").dialled, nullptr);
  EXPECT_EQ(party("a").dial_failure, LinkCloseReason::handshake_failed);
}

}  // namespace
}  // namespace peerbed
