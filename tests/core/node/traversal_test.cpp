#include "tests/core/node/world.h"

namespace peerbed {
namespace {

TEST_F(NodeWorld, ANatedNodeLearnsHowItsPeersSeeIt) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  connect("alice", "rendezvous");
  run(2s);
  const auto seen = at("alice").node->services().observed_endpoints();
  ASSERT_FALSE(seen.empty());
  EXPECT_FALSE(seen[0].address.is_private());
  EXPECT_EQ(seen[0].port, 4001);  // the NAT preserves ports
}

TEST_F(NodeWorld, TwoPortRestrictedHomesMeetDirectlyAtTheFirstAttempt) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  punch();
  run(20s);
  for (const char* host : {"alice", "bob"}) {
    ASSERT_EQ(rec(host).punches.size(), 1U) << host;
    EXPECT_EQ(rec(host).punches[0].outcome, PunchOutcome::direct) << host;
    EXPECT_EQ(rec(host).punches[0].attempts, 1) << host;
  }
  // A direct path is one whose far end is the peer's public address (a relayed success would be none).
  const Path path = peers("alice").link(id("bob"))->path();
  EXPECT_FALSE(path.relayed());
  EXPECT_FALSE(path.remote.address.is_private());
  EXPECT_EQ(rec("alice").connected.size(), 2U);  // rendezvous and bob, each once: the upgrade is no second connection
}

TEST_F(NodeWorld, TwoSymmetricHomesStayOnTheRelayAndItsLinkStaysUsable) {
  topology(two_homes("apdm/apdf", "apdm/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  punch();
  run(30s);
  ASSERT_EQ(rec("alice").punches.size(), 1U);
  EXPECT_EQ(rec("alice").punches[0].outcome, PunchOutcome::relayed);
  EXPECT_EQ(rec("alice").punches[0].attempts, 3);
  ASSERT_EQ(rec("bob").punches.size(), 1U);
  EXPECT_EQ(rec("bob").punches[0].outcome, PunchOutcome::relayed);
  EXPECT_TRUE(peers("alice").link(id("bob"))->path().relayed());
  send("alice", "bob", std::string(200'000, 'r'));
  run(20s);
  ASSERT_EQ(rec("bob").messages.size(), 1U);
  EXPECT_EQ(rec("bob").messages[0].second.size(), 200'000U);
}

TEST_F(NodeWorld, NoByteIsLostWhileTheRelayedLinkBecomesDirect) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  punch();
  int sent = 0;
  const auto pump = [&](TimePoint at_time) {
    if (!peers("alice").connected(id("bob"))) return;
    while (sent < 400) {
      const std::string chunk = std::to_string(sent) + std::string(5000, 'x');
      if (peers("alice").send(at_time, id("bob"), rec("alice").channel, as_bytes(chunk)) != SendStatus::taken) return;
      ++sent;
    }
  };
  rec("alice").on_writable = pump;
  for (int i = 0; i < 300; ++i) {
    run(10ms);
    pump(now());
  }
  run(30s);
  EXPECT_EQ(rec("alice").punches.at(0).outcome, PunchOutcome::direct);
  ASSERT_EQ(rec("bob").messages.size(), 400U);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(rec("bob").messages[static_cast<std::size_t>(i)].second, std::to_string(i) + std::string(5000, 'x'));
  }
}

TEST_F(NodeWorld, ARelayThatDoesNotServeRefusesWithAReason) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  start("alice");
  start("bob");
  NodeConfig no_relay;
  no_relay.relay = false;
  start("rendezvous", no_relay);
  punch();
  run(20s);
  ASSERT_EQ(rec("alice").punches.size(), 1U);
  EXPECT_EQ(rec("alice").punches[0].outcome, PunchOutcome::failed);
  EXPECT_EQ(rec("alice").punches[0].reason, "the peer does not relay");
}

TEST_F(NodeWorld, ATargetThatTheRelayDoesNotKnowFailsAtOnce) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  connect("alice", "rendezvous");
  run(2s);
  peers("alice").connect_via(now(), id("bob"), id("rendezvous"));
  run(1s);
  ASSERT_EQ(rec("alice").punches.size(), 1U);
  EXPECT_EQ(rec("alice").punches[0].outcome, PunchOutcome::failed);
  EXPECT_LT(rec("alice").punches[0].elapsed, 100ms);
}

TEST_F(NodeWorld, BothSidesMayAskForEachOtherAtOnce) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  punch();
  peers("bob").connect_via(now(), id("alice"), id("rendezvous"));
  run(30s);
  ASSERT_TRUE(peers("alice").connected(id("bob")));
  EXPECT_FALSE(peers("alice").link(id("bob"))->path().relayed());
  EXPECT_EQ(peers("alice").link(id("bob"))->session(), peers("bob").link(id("alice"))->session());
  EXPECT_EQ(rec("alice").punches.size(), 1U);
  EXPECT_EQ(rec("bob").punches.size(), 1U);
}

TEST_F(NodeWorld, AKeepaliveBelowTheMappingsLifetimeKeepsAPunchedPathAlive) {  // cases N2: 30 s mappings
  topology(two_homes("eim/apdf", "eim/apdf", "30 s"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  punch();
  run(600s);
  EXPECT_TRUE(rec("alice").disconnected.empty());
  send("alice", "bob", "still there");
  run(1s);
  ASSERT_EQ(rec("bob").messages.size(), 1U);
}

TEST_F(NodeWorld, ANatRebindingCostsAProbeNotTheConnection) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  for (const char* host : {"alice", "bob", "rendezvous"}) start(host);
  connect("alice", "rendezvous");
  run(5s);
  network_->nat("alice.nat").rebind(now());
  send("alice", "rendezvous", "from another port");
  run(1s);
  ASSERT_EQ(rec("rendezvous").messages.size(), 1U);
  EXPECT_EQ(send("rendezvous", "alice", "and back"), SendStatus::taken);
  run(1s);
  ASSERT_EQ(rec("alice").messages.size(), 1U);
  EXPECT_TRUE(rec("alice").disconnected.empty());
}

TEST_F(NodeWorld, AHostWithoutUdpIsReachedThroughTheRelayOverTcp) {
  topology(two_homes("eim/apdf", "eim/apdf"));
  NodeConfig tcp_only;
  tcp_only.udp = false;
  start("alice", tcp_only);
  start("bob");
  start("rendezvous");
  punch();
  run(40s);
  ASSERT_EQ(rec("alice").punches.size(), 1U);
  EXPECT_EQ(rec("alice").punches[0].outcome, PunchOutcome::relayed);
  send("alice", "bob", "over tcp and a relay");
  run(2s);
  EXPECT_EQ(rec("bob").messages.size(), 1U);
}

}  // namespace
}  // namespace peerbed
