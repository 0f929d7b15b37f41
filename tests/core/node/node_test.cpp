#include "tests/core/node/world.h"

namespace peerbed {
namespace {

TEST_F(NodeWorld, ADialByAddressAndPeerIdConnectsBothEndsInOneAndAHalfRoundTrips) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  connect("alice", "bob");
  run(1s);
  ASSERT_EQ(rec("alice").connected, std::vector{id("bob")});
  ASSERT_EQ(rec("bob").connected, std::vector{id("alice")});
  // Noise XX: the initiator is done after one round trip, the responder half of one later; UDP comes first in the race.
  EXPECT_NEAR(to_seconds(rec("alice").connected_at - TimePoint{}), 0.050, 0.002);
  EXPECT_NEAR(to_seconds(rec("bob").connected_at - TimePoint{}), 0.075, 0.002);
  EXPECT_EQ(peers("alice").link(id("bob"))->kind(), LinkKind::udp);
}

TEST_F(NodeWorld, MessagesArriveWholeAndInOrderWhateverTheirSize) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  connect("alice", "bob");
  run(1s);
  const std::string large(1'000'000, 'L');
  EXPECT_EQ(send("alice", "bob", "first"), SendStatus::taken);
  EXPECT_EQ(send("alice", "bob", large), SendStatus::taken);
  EXPECT_EQ(send("alice", "bob", "third"), SendStatus::blocked);  // the rest of the large one is still waiting here
  rec("alice").on_writable = [&](TimePoint at_time) {
    EXPECT_EQ(peers("alice").send(at_time, id("bob"), rec("alice").channel, as_bytes("third")), SendStatus::taken);
  };
  run(5s);
  ASSERT_EQ(rec("bob").messages.size(), 3U);
  EXPECT_EQ(rec("bob").messages[0].second, "first");
  EXPECT_EQ(rec("bob").messages[1].second, large);
  EXPECT_EQ(rec("bob").messages[2].second, "third");
}

TEST_F(NodeWorld, AnotherIdentityThanTheDialedOneIsRefused) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  PeerAddress address = at("bob").node->address();
  address.peer.key[3] ^= 1;
  peers("alice").connect(now(), address);
  run(15s);
  ASSERT_EQ(rec("alice").failures.size(), 1U);
  EXPECT_EQ(rec("alice").failures[0].second, DialFailure::wrong_identity);
  EXPECT_TRUE(rec("bob").connected.empty());
}

TEST_F(NodeWorld, ANodeOfAnotherApplicationCannotCompleteTheHandshake) {
  topology(kTwoHosts);
  start("alice");
  NodeConfig other;
  other.application = "chess";
  start("bob", other);
  connect("alice", "bob");
  run(15s);
  EXPECT_EQ(rec("alice").failures.size(), 1U);
  EXPECT_TRUE(rec("alice").connected.empty());
  EXPECT_TRUE(rec("bob").connected.empty());
}

TEST_F(NodeWorld, ADialToNobodyFailsInBoundedTime) {
  topology(kTwoHosts);
  start("alice");
  PeerAddress nobody{make_key_pair(SecretKey{0, 9}).public_key, {Endpoint{network_->environment("bob").local_addresses()[0], 4001}}};
  peers("alice").connect(now(), nobody);
  run(15s);
  ASSERT_EQ(rec("alice").failures.size(), 1U);
  EXPECT_FALSE(peers("alice").connected(nobody.peer));
}

TEST_F(NodeWorld, ADialWithoutAnyAddressFailsButNotInsideTheCall) {
  topology(kTwoHosts);
  start("alice");
  peers("alice").connect(now(), {make_key_pair(SecretKey{0, 9}).public_key, {}});
  EXPECT_TRUE(rec("alice").failures.empty());
  run(1ms);
  ASSERT_EQ(rec("alice").failures.size(), 1U);
  EXPECT_EQ(rec("alice").failures[0].second, DialFailure::no_address);
}

TEST_F(NodeWorld, SimultaneousDialsBecomeOneConnectionThatBothEndsAgreeOn) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  connect("alice", "bob");
  connect("bob", "alice");
  run(10s);
  EXPECT_EQ(rec("alice").connected.size(), 1U);
  EXPECT_EQ(rec("bob").connected.size(), 1U);
  EXPECT_TRUE(rec("alice").disconnected.empty());
  EXPECT_TRUE(rec("bob").disconnected.empty());
  EXPECT_EQ(peers("alice").link(id("bob"))->session(), peers("bob").link(id("alice"))->session());
  EXPECT_EQ(send("alice", "bob", "hello"), SendStatus::taken);
  run(1s);
  EXPECT_EQ(rec("bob").messages.size(), 1U);
}

TEST_F(NodeWorld, WithoutUdpTheSameMessagesTravelOverTcp) {
  topology(kTwoHosts);
  start("alice");
  NodeConfig tcp_only;
  tcp_only.udp = false;
  start("bob", tcp_only);
  connect("alice", "bob");
  run(5s);
  ASSERT_TRUE(peers("alice").connected(id("bob")));
  EXPECT_EQ(peers("alice").link(id("bob"))->kind(), LinkKind::tcp);
  send("alice", "bob", std::string(300'000, 't'));
  run(5s);
  ASSERT_EQ(rec("bob").messages.size(), 1U);
  EXPECT_EQ(rec("bob").messages[0].second.size(), 300'000U);
}

TEST_F(NodeWorld, DisconnectTellsThePeer) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  connect("alice", "bob");
  run(1s);
  peers("alice").disconnect(now(), id("bob"));
  run(1s);
  ASSERT_EQ(rec("bob").disconnected.size(), 1U);
  EXPECT_EQ(rec("bob").disconnected[0].second, LinkCloseReason::remote);
  ASSERT_EQ(rec("alice").disconnected.size(), 1U);
  EXPECT_EQ(rec("alice").disconnected[0].second, LinkCloseReason::local);
  EXPECT_EQ(send("alice", "bob", "gone"), SendStatus::not_connected);
}

TEST_F(NodeWorld, AFullNodeRefusesAndStaysWithThoseItHas) {
  topology(R"(
hosts: {a: {}, b: {}, c: {}}
routers: [core]
links:
  a.wan: {from: a, to: core, delay: 1 ms}
  b.wan: {from: b, to: core, delay: 1 ms}
  c.wan: {from: c, to: core, delay: 1 ms}
)");
  NodeConfig small;
  small.max_peers = 1;
  start("a", small);
  start("b");
  start("c");
  connect("b", "a");
  run(1s);
  connect("c", "a");
  run(15s);
  EXPECT_TRUE(peers("a").connected(id("b")));
  EXPECT_FALSE(peers("a").connected(id("c")));
  EXPECT_FALSE(peers("c").connected(id("a")));
}

TEST_F(NodeWorld, APausedChannelSlowsItsSenderAndLosesNothing) {
  topology(kTwoHosts);
  start("alice");
  start("bob");
  connect("alice", "bob");
  run(1s);
  peers("bob").pause(now(), id("alice"), rec("bob").channel, true);
  int sent = 0;
  const std::string chunk(60'000, 'c');
  const auto pump = [&](TimePoint at_time) {
    while (sent < 1000 && peers("alice").send(at_time, id("bob"), rec("alice").channel, as_bytes(chunk)) == SendStatus::taken) ++sent;
  };
  rec("alice").on_writable = pump;
  pump(now());
  run(60s);
  EXPECT_TRUE(rec("bob").messages.empty());
  EXPECT_LT(sent, 1000);  // 60 MB do not fit any window: flow control reached the sender
  EXPECT_TRUE(peers("alice").connected(id("bob")));  // backpressure is a signal, not a disconnect
  peers("bob").pause(now(), id("alice"), rec("bob").channel, false);
  run(60s);
  EXPECT_EQ(sent, 1000);
  EXPECT_EQ(rec("bob").messages.size(), 1000U);
}

}  // namespace
}  // namespace peerbed
