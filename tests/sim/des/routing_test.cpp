// Packets find their way: routers, clouds, TTL, and what cannot be realised.
#include "sim/des/host.h"
#include "tests/sim/des/plane.h"

namespace peerbed::sim::test {
namespace {

constexpr IpAddress kNobody = IpAddress::v4(192, 0, 2, 9);

TEST(Routing, TheShortestPathByDelayIsTaken) {
  //        r1 --1ms-- r2 --1ms-- r3
  //  a ----/                      \---- b          and a direct link r1-r3 of 5 ms
  auto network = make(topology({host("a", 1), host("b", 2), router("r1"), router("r2"), router("r3")},
                               {link("a", "r1", way(1ms)), link("r1", "r3", way(5ms)), link("r1", "r2", way(1ms)),
                                link("r2", "r3", way(1ms)), link("r3", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(b.received[0].at, TimePoint(4ms));
  EXPECT_EQ(a.received[0].at, TimePoint(8ms));
  EXPECT_EQ(network->link_counters("r1-r3", true).sent.packets, 0U);
  EXPECT_EQ(network->counters().hops, 8U);
}

TEST(Routing, OfEqualPathsTheOneWithFewerHopsIsTaken) {
  auto network = make(topology({host("a", 1), host("b", 2), router("r1"), router("r2"), router("r3")},
                               {link("a", "r1", way(1ms)), link("r1", "r2", way(1ms)), link("r2", "r3", way(1ms)),
                                link("r1", "r3", way(2ms)), link("r3", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  EXPECT_EQ(b.received.size(), 1U);
  EXPECT_EQ(network->link_counters("r1-r3", true).delivered.packets, 1U);
}

TEST(Routing, ARingOfRoutersDeliversBetweenAllPairs) {
  constexpr int kRouters = 9;
  std::vector<NodeSpec> nodes;
  std::vector<LinkSpec> links;
  for (int i = 0; i < kRouters; ++i) {
    nodes.push_back(host("h" + std::to_string(i), static_cast<std::uint8_t>(i + 1)));
    nodes.push_back(router("r" + std::to_string(i)));
    links.push_back(link("h" + std::to_string(i), "r" + std::to_string(i), way(0ms)));
    links.push_back(link("r" + std::to_string(i), "r" + std::to_string((i + 1) % kRouters), way(1ms)));
  }
  auto network = make(topology(nodes, links));
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < kRouters; ++i) peers.push_back(std::make_unique<Peer>(*network, "h" + std::to_string(i)));
  for (int i = 0; i < kRouters; ++i) {
    for (int j = 0; j < kRouters; ++j) {
      const Endpoint to{public_address(static_cast<std::uint8_t>(j + 1)), kPort};
      if (i != j) peers[static_cast<std::size_t>(i)]->send(to, as_bytes("x"));
    }
  }
  network->run_until(TimePoint(1s));
  for (int j = 0; j < kRouters; ++j) {
    const auto& received = peers[static_cast<std::size_t>(j)]->received;
    ASSERT_EQ(received.size(), static_cast<std::size_t>(kRouters - 1));
    for (const auto& r : received) {
      const int i = r.from.address.octets[3] - 1;
      const int around = std::abs(i - j);
      EXPECT_EQ(r.at, TimePoint(1ms * std::min(around, kRouters - around)));
    }
  }
}

TEST(Routing, EveryRouterTakesOneFromTheTtl) {
  auto network = make(topology({host("a", 1), host("b", 2), router("r1"), router("r2"), router("r3")},
                               {link("a", "r1", way(1ms)), link("r1", "r2", way(1ms)), link("r2", "r3", way(1ms)),
                                link("r3", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  a.send(b.local(), as_bytes("dies at r3"), 3);
  network->run_until(TimePoint(1s));
  EXPECT_TRUE(b.received.empty());
  EXPECT_EQ(dropped(*network, DropReason::ttl_expired), 1U);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::ttl_exceeded);
  EXPECT_EQ(a.errors[0].to, b.local());
  a.send(b.local(), as_bytes("just enough"), 4);
  network->run_until(TimePoint(2s));
  EXPECT_EQ(b.received.size(), 1U);
  EXPECT_EQ(a.errors.size(), 1U);
  expect_conserved(*network);
}

TEST(Routing, AnAddressOfNobodyHasNoRouteAndTheSenderIsTold) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a");
  EXPECT_EQ(a.send({kNobody, 9}, as_bytes("x")), 1U);
  EXPECT_TRUE(a.errors.empty());  // rule 1
  network->run_until(TimePoint(1s));
  EXPECT_EQ(dropped(*network, DropReason::no_route), 1U);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::network);
  EXPECT_EQ(a.errors[0].to, (Endpoint{kNobody, 9}));
  expect_conserved(*network);
}

TEST(Routing, AClosedPortAnswersWithAnIcmpErrorAfterARoundTrip) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  Peer a(*network, "a");
  a.send({public_address(2), 1234}, as_bytes("x"));
  network->run_until(TimePoint(20ms) - Duration(1));
  EXPECT_TRUE(a.errors.empty());
  network->run_until(TimePoint(20ms));
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::port);
  EXPECT_EQ(dropped(*network, DropReason::no_port), 1U);
  // RFC 1122 §3.2.2: an error about an error is not sent. The socket that the error is for is gone.
  a.send({public_address(2), 1234}, as_bytes("x"));
  a.socket.reset();
  network->run_until(TimePoint(1s));
  EXPECT_EQ(dropped(*network, DropReason::stray_icmp), 1U);
  expect_conserved(*network);
}

TEST(Routing, AHostOfTwoAddressesAnswersFromTheOneThatWasAsked) {
  Topology t = topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))});
  t.nodes[1].addresses.push_back(public_address(3));
  auto network = make(t);
  Peer a(*network, "a"), first(*network, "b", kPort, public_address(2)), second(*network, "b", kPort, public_address(3));
  second.echoes = true;
  a.send({public_address(3), kPort}, as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(a.received[0].from, (Endpoint{public_address(3), kPort}));
  EXPECT_TRUE(first.received.empty());
}

TEST(Routing, AHostWithTwoLinksUsesTheOneThatLeadsToTheDestination) {
  // a and b share a cable of their own beside the network that also has c.
  auto network = make(topology({host("a", 1), host("b", 2), host("c", 3), router("r")},
                               {link("a", "r", way(10ms)), link("a", "b", way(1ms)), link("b", "r", way(10ms)), link("c", "r", way(2ms))}));
  Peer a(*network, "a"), b(*network, "b"), c(*network, "c");
  a.send(c.local(), as_bytes("x"));
  c.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(c.received.size(), 1U);
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(c.received[0].at, TimePoint(12ms));
  EXPECT_EQ(network->link_counters("a-b", true).sent.packets, 0U);  // hosts do not forward
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(2s));
  ASSERT_EQ(b.received.size(), 2U);
  // Both links know b's address; the first one of a's is taken.
  EXPECT_EQ(b.received[1].at, TimePoint(1s + 20ms));
}

TEST(Routing, LoopbackAndOwnAddressesNeverTouchALink) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a", kPort, IpAddress::any(Family::v4));
  a.send({IpAddress::loopback(Family::v4), kPort}, as_bytes("loopback"));
  a.send({public_address(1), kPort}, as_bytes("own"));
  network->run_until(TimePoint{});
  ASSERT_EQ(a.received.size(), 2U);
  EXPECT_EQ(a.received[0].from.address, IpAddress::loopback(Family::v4));
  EXPECT_EQ(a.received[1].from.address, public_address(1));
  EXPECT_EQ(network->link_counters("a-b", true).sent.packets, 0U);
  expect_conserved(*network);
}

TEST(Routing, AHostThatIsDownNeitherSendsNorReceives) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  network->set_host_up("b", false);
  a.send(b.local(), as_bytes("x"));
  b.send(a.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  EXPECT_TRUE(a.received.empty() && b.received.empty());
  EXPECT_EQ(dropped(*network, DropReason::host_down), 2U);
  network->set_host_up("b", true);
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(2s));
  EXPECT_EQ(b.received.size(), 1U);
  expect_conserved(*network);
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

TEST(Routing, ADatagramAboveTheMtuIsRefusedIfItMustNotBeFragmented) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  EXPECT_EQ(a.send(b.local(), Bytes(1473)), 1U);
  EXPECT_EQ(a.send(b.local(), Bytes(1472)), 1U);
  network->run_until(TimePoint(1s));
  EXPECT_EQ(b.received.size(), 1U);
  EXPECT_EQ(dropped(*network, DropReason::too_big), 1U);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].reason, UnreachableReason::too_big);
  EXPECT_EQ(a.errors[0].mtu, 1500);
  expect_conserved(*network);
}

TEST(Routing, AFragmentedDatagramPaysForTheHeadersOfItsFragments) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a", kPort, std::nullopt, false), b(*network, "b");
  a.send(b.local(), Bytes(4000));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(b.received[0].payload.size(), 4000U);
  // 4008 bytes of UDP in fragments of at most 1480: three of them (RFC 791 §3.2).
  EXPECT_EQ(network->link_counters("a-b", true).delivered.bytes, 4008U + 3 * 20U);
}

// ---- backpressure --------------------------------------------------------------------------------------------------

TEST(Routing, ASenderIsStoppedByItsOwnLinkAndGoesOnWhenHalfOfItsBufferIsFree) {
  LinkDirection slow = way(1ms, DataRate{8'000'000});
  slow.queue = {.packets = std::nullopt, .bytes = std::nullopt};
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", slow)}));
  Peer a(*network, "a"), b(*network, "b");
  std::size_t sent = 0;
  while (a.send_sized(b.local(), 1000) == 1) ++sent;
  EXPECT_EQ(sent, Host::kSendBuffer / 1000);
  network->run_until(TimePoint(100ms));  // 100 packets have left: fewer than half of the buffer
  EXPECT_EQ(a.writable, 0U);
  network->run_until(TimePoint(110ms));
  EXPECT_EQ(a.writable, 1U);
  EXPECT_EQ(a.send_sized(b.local(), 1000), 1U);
  network->run_until(TimePoint(2s));
  EXPECT_EQ(a.writable, 1U);
  EXPECT_EQ(b.received.size(), sent + 1);
  EXPECT_EQ(network->link_counters("a-b", true).queue_full.packets, 0U);
}

// ---- clouds --------------------------------------------------------------------------------------------------------

Topology cloud_of_three() {
  Topology t = topology({node("cloud", NodeKind::cloud), host("a", 1), host("b", 2), host("c", 3)},
                        {link("a", "cloud", way(1ms)), link("cloud", "b", way(2ms)), link("c", "cloud", way(3ms))});
  CloudSpec cloud;
  cloud.name = "cloud";
  cloud.delay = {{5ms, 40ms}, {60ms, 7ms}};
  cloud.region_of = {0, 1, 1};
  t.clouds = {cloud};
  return t;
}

TEST(Cloud, DelaysAreThoseOfThePairOfRegionsInTheirDirection) {
  auto network = make(cloud_of_three());
  Peer a(*network, "a"), b(*network, "b"), c(*network, "c");
  a.send(b.local(), as_bytes("x"));
  b.send(a.local(), as_bytes("x"));
  c.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  ASSERT_EQ(b.received.size(), 2U);
  EXPECT_EQ(a.received[0].at, TimePoint(2ms + 60ms + 1ms));
  EXPECT_EQ(b.received[0].at, TimePoint(3ms + 7ms + 2ms));
  EXPECT_EQ(b.received[1].at, TimePoint(1ms + 40ms + 2ms));
}

TEST(Cloud, ItsJitterKeepsTheOrderOfEachPair) {
  Topology t = cloud_of_three();
  t.clouds[0].jitter = 10ms;
  auto network = make(t);
  Peer a(*network, "a"), b(*network, "b"), c(*network, "c");
  for (std::uint32_t i = 0; i < 2000; ++i) {
    network->at(TimePoint(1ms * i), [&, i] {
      Bytes payload(4);
      ByteWriter(payload).u32(i);
      a.send(b.local(), payload);
      c.send(b.local(), payload);
    });
  }
  network->run_until(TimePoint(10s));
  ASSERT_EQ(b.received.size(), 4000U);
  std::uint32_t from_a = 0, from_c = 0;
  Duration most{};
  for (const auto& r : b.received) {
    std::uint32_t& next = r.from == a.local() ? from_a : from_c;
    ASSERT_EQ(ByteReader(r.payload).u32(), next);
    if (r.from == a.local()) most = std::max(most, r.at - TimePoint(1ms * next));
    ++next;
  }
  EXPECT_GT(most, 52ms);
  EXPECT_LE(most, 53ms);  // 1 + 40 + 10 + 2
}

TEST(Cloud, ItsLossIsCountedAsLoss) {
  Topology t = cloud_of_three();
  t.clouds[0].loss = 0.2;
  auto network = make(t);
  Peer a(*network, "a"), b(*network, "b");
  for (int i = 0; i < 10'000; ++i) network->at(TimePoint(1ms * i), [&] { a.send(b.local(), as_bytes("x")); });
  network->run_until(TimePoint(20s));
  const auto lost = static_cast<double>(dropped(*network, DropReason::loss));
  EXPECT_NEAR(lost, 2000, 2.576 * 40);  // 99 % of the binomial distribution: deviation sqrt(10000 x 0.2 x 0.8) = 40
  EXPECT_EQ(b.received.size() + dropped(*network, DropReason::loss), 10'000U);
  expect_conserved(*network);
}

// ---- what cannot be realised ---------------------------------------------------------------------------------------

std::string error_of(const Topology& t) {
  auto made = realise(t, 1);
  return made.has_error() ? made.error().message : "";
}

TEST(Realise, TwoHostsWithOneAddressInOneRealmAreRefusedByName) {
  const std::string error = error_of(topology({host("a", 1), host("b", 1)}, {link("a", "b", way(1ms))}));
  EXPECT_NE(error.find("of b"), std::string::npos) << error;
  EXPECT_NE(error.find("of a"), std::string::npos) << error;
  EXPECT_NE(error.find("198.51.100.1"), std::string::npos) << error;
}

TEST(Realise, ACloudWithoutDelaysOrWithTooFewRegionsIsRefused) {
  Topology t = cloud_of_three();
  t.clouds[0].region_of.pop_back();
  EXPECT_NE(error_of(t).find("'cloud'"), std::string::npos);
  t = cloud_of_three();
  t.clouds[0].region_of[0] = 2;
  EXPECT_NE(error_of(t).find("square"), std::string::npos);
  t.clouds.clear();
  EXPECT_NE(error_of(t).find("delays"), std::string::npos);
}

TEST(Realise, AnUnknownEndOfALinkIsRefused) {
  EXPECT_NE(error_of(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms)), link("a", "x", way(1ms))})).find("x"), std::string::npos);
}

TEST(Realise, HostsWithoutAddressesGetSome) {
  auto network = make(topology({node("a", NodeKind::host), node("b", NodeKind::host)}, {link("a", "b", way(1ms))}));
  Peer a(*network, "a"), b(*network, "b");
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  EXPECT_EQ(b.received.size(), 1U);
}

}  // namespace
}  // namespace peerbed::sim::test
