// Packets through NAT devices: realms, mapping and filtering on the path, two layers, hairpin, ICMP errors, rebinding.
#include "sim/des/host.h"
#include "tests/sim/des/plane.h"

namespace peerbed::sim::test {
namespace {

constexpr IpAddress kInside = IpAddress::v4(192, 168, 1, 2);

NatBehavior behavior(std::string_view text) {
  auto parsed = parse_nat_behavior(text);
  EXPECT_TRUE(parsed.has_value());
  return *parsed;
}

/// a -1ms- nat -1ms- r -1ms- {b, c}
Topology home(const NatBehavior& nat_behavior) {
  return topology({node("a", NodeKind::host, {kInside}), nat("nat", 100, "nat-r", nat_behavior), router("r"), host("b", 2), host("c", 3)},
                  {link("a", "nat", way(1ms)), link("nat", "r", way(1ms)), link("r", "b", way(1ms)), link("r", "c", way(1ms))});
}

TEST(NatOnThePath, AnInsideHostIsSeenWithTheExternalAddressAndGetsItsAnswer) {
  auto network = make(home(behavior("eim/apdf")));
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send(b.local(), as_bytes("hello"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(b.received[0].from, (Endpoint{public_address(100), kPort}));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(a.received[0].from, b.local());
  EXPECT_EQ(a.received[0].at, TimePoint(6ms));
  EXPECT_EQ(network->nat("nat").mappings(network->now()), 1U);
  expect_conserved(*network);
}

TEST(NatOnThePath, WhatNobodyAskedForIsDroppedWithItsReason) {
  auto network = make(home(behavior("eim/apdf")));
  Peer a(*network, "a"), b(*network, "b"), c(*network, "c");
  c.send({public_address(100), kPort}, as_bytes("unasked"));
  network->run_until(TimePoint(1s));
  EXPECT_EQ(dropped(*network, DropReason::nat_no_mapping), 1U);
  a.send(b.local(), as_bytes("opens for b only"));
  network->run_until(TimePoint(2s));
  c.send({public_address(100), kPort}, as_bytes("filtered"));
  network->run_until(TimePoint(3s));
  EXPECT_EQ(dropped(*network, DropReason::nat_filtered), 1U);
  EXPECT_TRUE(a.received.empty());
  network->run_until(TimePoint(10min));
  b.send({public_address(100), kPort}, as_bytes("too late"));
  network->run_until(TimePoint(11min));
  EXPECT_EQ(dropped(*network, DropReason::nat_expired), 1U);
  expect_conserved(*network);
}

TEST(NatOnThePath, TwoHomesMayUseTheSameInsideAddresses) {
  auto network = make(topology(
      {node("a", NodeKind::host, {kInside}), nat("nat-a", 101, "nat-a-r"), node("b", NodeKind::host, {kInside}), nat("nat-b", 102, "nat-b-r"), router("r")},
      {link("a", "nat-a", way(1ms)), link("nat-a", "r", way(10ms)), link("b", "nat-b", way(1ms)), link("nat-b", "r", way(10ms))}));
  Peer a(*network, "a"), b(*network, "b");
  // Both send to the other's outside at once: the packets cross, and each finds the hole that the other way made.
  a.send({public_address(102), kPort}, as_bytes("from a"));
  b.send({public_address(101), kPort}, as_bytes("from b"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(a.received[0].from, (Endpoint{public_address(102), kPort}));
  EXPECT_EQ(a.received[0].at, TimePoint(22ms));
}

TEST(NatOnThePath, HostsBehindOneNatReachEachOtherDirectly) {
  auto network = make(topology({node("a", NodeKind::host, {kInside}), node("b", NodeKind::host, {IpAddress::v4(192, 168, 1, 3)}),
                                nat("nat", 100, "nat-c"), host("c", 3)},
                               {link("a", "nat", way(1ms)), link("b", "nat", way(1ms)), link("nat", "c", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(b.received[0].from, a.local());
  EXPECT_EQ(network->nat("nat").mappings(network->now()), 0U);
}

TEST(NatOnThePath, HairpinPresentsTheExternalSourceWhereItIsOn) {  // RFC 4787 REQ-9
  for (const bool on : {true, false}) {
    NatBehavior nat_behavior = behavior("eim/eif");
    nat_behavior.hairpin = on;
    auto network = make(topology({node("a", NodeKind::host, {kInside}), node("b", NodeKind::host, {IpAddress::v4(192, 168, 1, 3)}),
                                  nat("nat", 100, "nat-c", nat_behavior), host("c", 3)},
                                 {link("a", "nat", way(1ms)), link("b", "nat", way(1ms)), link("nat", "c", way(1ms))}));
    Peer a(*network, "a", 4001), b(*network, "b", 4002), c(*network, "c");
    b.send(c.local(), as_bytes("makes b's mapping"));
    network->run_until(TimePoint(1s));
    a.send(c.received.at(0).from, as_bytes("through the outside"));
    network->run_until(TimePoint(2s));
    EXPECT_EQ(b.received.size(), on ? 1U : 0U);
    EXPECT_EQ(dropped(*network, DropReason::nat_hairpin_off), on ? 0U : 1U);
    if (on) {
      EXPECT_EQ(b.received.at(0).from, (Endpoint{public_address(100), 4001}));
    }
    expect_conserved(*network);
  }
}

TEST(NatOnThePath, AnIcmpErrorTurnsRoundAsThePacketDid) {
  NatBehavior nat_behavior = behavior("eim/eif");
  nat_behavior.hairpin = true;
  auto network = make(topology({node("a", NodeKind::host, {kInside}), node("b", NodeKind::host, {IpAddress::v4(192, 168, 1, 3)}),
                                nat("nat", 100, "nat-c", nat_behavior), host("c", 3)},
                               {link("a", "nat", way(1ms)), link("b", "nat", way(1ms)), link("nat", "c", way(1ms))}));
  Peer a(*network, "a", 4001), c(*network, "c");
  auto b = std::make_unique<Peer>(*network, "b", 4002);
  b->send(c.local(), as_bytes("makes b's mapping"));
  network->run_until(TimePoint(1s));
  b.reset();
  a.send({public_address(100), 4002}, as_bytes("to a port that is closed by now"));
  network->run_until(TimePoint(2s));
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].to, (Endpoint{public_address(100), 4002}));
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::port);
  expect_conserved(*network);
}

// ---- two layers ----------------------------------------------------------------------------------------------------

/// a -1ms- home -1ms- carrier -1ms- b
Topology two_layers() {
  NodeSpec home_nat = node("home", NodeKind::nat, {IpAddress::v4(100, 64, 0, 7)});
  home_nat.outside_link = "home-carrier";
  home_nat.nat = behavior("eim/apdf");
  return topology({node("a", NodeKind::host, {kInside}), home_nat, nat("carrier", 100, "carrier-b", behavior("apdm/apdf")), host("b", 2)},
                  {link("a", "home", way(1ms)), link("home", "carrier", way(1ms)), link("carrier", "b", way(1ms))});
}

TEST(NatOnThePath, TwoLayersTranslateTwice) {
  auto network = make(two_layers());
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(b.received[0].from.address, public_address(100));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(a.received[0].at, TimePoint(6ms));
  EXPECT_EQ(network->nat("home").mappings(network->now()), 1U);
  EXPECT_EQ(network->nat("carrier").mappings(network->now()), 1U);
}

TEST(NatOnThePath, AnIcmpErrorFindsItsWayBackThroughTwoLayers) {  // RFC 5508 §4.2
  auto network = make(two_layers());
  Peer a(*network, "a");
  const Endpoint closed{public_address(2), 9};
  a.send(closed, as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].to, closed);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::port);
  EXPECT_EQ(dropped(*network, DropReason::stray_icmp), 0U);
  expect_conserved(*network);
}

TEST(NatOnThePath, AnIcmpErrorFromInsideNamesTheExternalEndpoint) {
  auto network = make(home(behavior("eim/eif")));
  auto a = std::make_unique<Peer>(*network, "a");
  Peer b(*network, "b");
  a->send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  a.reset();  // the port is closed now, the mapping is still there
  b.send({public_address(100), kPort}, as_bytes("anybody?"));
  network->run_until(TimePoint(2s));
  ASSERT_EQ(b.errors.size(), 1U);
  EXPECT_EQ(b.errors[0].to, (Endpoint{public_address(100), kPort}));
  EXPECT_EQ(b.errors[0].reason, UnreachableReason::port);
}

TEST(NatOnThePath, ALowTtlOpensTheOwnNatsAndDiesBeforeTheOthers) {
  auto network = make(topology(
      {node("a", NodeKind::host, {kInside}), nat("nat-a", 101, "nat-a-r1"), node("b", NodeKind::host, {kInside}), nat("nat-b", 102, "nat-b-r2"),
       router("r1"), router("r2")},
      {link("a", "nat-a", way(1ms)), link("nat-a", "r1", way(1ms)), link("r1", "r2", way(5ms)), link("b", "nat-b", way(1ms)),
       link("nat-b", "r2", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  a.send({public_address(102), kPort}, as_bytes("prime"), 2);  // past nat-a, dies at r1
  network->run_until(TimePoint(100ms));
  EXPECT_EQ(dropped(*network, DropReason::ttl_expired), 1U);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::ttl_exceeded);
  EXPECT_EQ(network->nat("nat-a").mappings(network->now()), 1U);
  b.send({public_address(101), kPort}, as_bytes("through the primed hole"));
  network->run_until(TimePoint(200ms));
  EXPECT_EQ(a.received.size(), 1U);
  // With a TTL of one, the packet dies in the NAT itself and makes no mapping.
  Peer other(*network, "a", 5000);
  other.send({public_address(102), kPort}, as_bytes("x"), 1);
  network->run_until(TimePoint(300ms));
  EXPECT_EQ(network->nat("nat-a").mappings(network->now()), 1U);
  EXPECT_EQ(other.errors.size(), 1U);
}

TEST(NatOnThePath, AnAddressOfNobodyMakesNoMapping) {
  auto network = make(home(behavior("eim/eif")));
  Peer a(*network, "a");
  a.send({IpAddress::v4(192, 0, 2, 9), 9}, as_bytes("x"));
  network->run_until(TimePoint(1s));
  EXPECT_EQ(network->nat("nat").mappings(network->now()), 0U);
  EXPECT_EQ(dropped(*network, DropReason::no_route), 1U);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::network);
}

// ---- faults --------------------------------------------------------------------------------------------------------

TEST(NatOnThePath, ARebindingForgetsAllMappings) {
  auto network = make(home(behavior("eim/eif")));
  Peer a(*network, "a"), b(*network, "b");
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_TRUE(network->rebind_nat("nat").has_value());
  b.send({public_address(100), kPort}, as_bytes("to the old mapping"));
  network->run_until(TimePoint(2s));
  EXPECT_TRUE(a.received.empty());
}

TEST(NatOnThePath, ANewExternalAddressIsRoutedAndTheOldOneIsNot) {
  auto network = make(home(behavior("eim/eif")));
  Peer a(*network, "a"), b(*network, "b");
  a.send(b.local(), as_bytes("before"));
  network->run_until(TimePoint(1s));
  // One more is on its way to the old address when it goes.
  b.send({public_address(100), kPort}, as_bytes("in flight"));
  network->at(network->now() + 1500us, [&] {
    EXPECT_TRUE(network->rebind_nat("nat", std::vector{public_address(150)}).has_value());
  });
  network->run_until(TimePoint(2s));
  EXPECT_EQ(dropped(*network, DropReason::no_host), 1U);
  b.send({public_address(100), kPort}, as_bytes("nobody there"));
  a.send(b.local(), as_bytes("after"));
  network->run_until(TimePoint(3s));
  EXPECT_EQ(dropped(*network, DropReason::no_route), 1U);
  ASSERT_EQ(b.received.size(), 2U);
  EXPECT_EQ(b.received[1].from.address, public_address(150));
  b.echoes = true;
  a.send(b.local(), as_bytes("echo"));
  network->run_until(TimePoint(4s));
  EXPECT_EQ(a.received.size(), 1U);
  EXPECT_TRUE(network->rebind_nat("nat", std::vector{public_address(2)}).has_error());  // b has it
  EXPECT_TRUE(network->rebind_nat("nat", std::vector<IpAddress>{}).has_error());
  expect_conserved(*network);
}

}  // namespace
}  // namespace peerbed::sim::test
