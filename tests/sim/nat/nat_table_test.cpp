#include "sim/nat/nat_table.h"

#include <gtest/gtest.h>

#include <set>

namespace peerbed::sim {
namespace {

using enum Dependence;

constexpr TimePoint kStart{100s};
const IpAddress kOutsideAddress = IpAddress::v4(192, 0, 2, 1);
const Endpoint kAlice{IpAddress::v4(10, 0, 0, 2), 4000};
const Endpoint kBob{IpAddress::v4(10, 0, 0, 3), 4000};
const IpAddress kServer1 = IpAddress::v4(198, 51, 100, 1), kServer2 = IpAddress::v4(198, 51, 100, 2);
const std::array<Endpoint, 4> kServers{Endpoint{kServer1, 7001}, Endpoint{kServer1, 7002}, Endpoint{kServer2, 7001},
                                       Endpoint{kServer2, 7002}};
constexpr Duration kTick{1};

NatBehavior with(Dependence mapping, Dependence filtering) {
  NatBehavior behavior;
  behavior.mapping = mapping;
  behavior.filtering = filtering;
  return behavior;
}

NatTable table(const NatBehavior& behavior, std::vector<IpAddress> addresses = {kOutsideAddress}) {
  return {behavior, std::move(addresses), RandomStream(1, 1, "nat")};
}

std::vector<std::uint16_t> ports_towards_the_servers(NatTable& nat, const Endpoint& inside) {
  std::vector<std::uint16_t> ports;
  for (const Endpoint& server : kServers) ports.push_back(nat.outbound(Protocol::udp, inside, server, kStart)->port);
  return ports;
}

std::size_t distinct(const std::vector<std::uint16_t>& ports) { return std::set(ports.begin(), ports.end()).size(); }

// RFC 4787 REQ-1 and RFC 5780 §4.3: one socket, two addresses with two ports each.
TEST(NatMapping, AnEndpointIndependentMappingIsTheSameForAllFourServers) {
  NatTable nat = table(with(endpoint_independent, address_and_port_dependent));
  EXPECT_EQ(ports_towards_the_servers(nat, kAlice), (std::vector<std::uint16_t>(4, 4000)));
  EXPECT_EQ(nat.mappings(kStart), 1U);
}

TEST(NatMapping, AnAddressDependentMappingChangesWithTheServersAddressOnly) {
  NatTable nat = table(with(address_dependent, address_and_port_dependent));
  const auto ports = ports_towards_the_servers(nat, kAlice);
  EXPECT_EQ(ports[0], ports[1]);
  EXPECT_EQ(ports[2], ports[3]);
  EXPECT_NE(ports[0], ports[2]);
}

TEST(NatMapping, AnAddressAndPortDependentMappingChangesWithEveryServer) {
  NatTable nat = table(with(address_and_port_dependent, address_and_port_dependent));
  EXPECT_EQ(distinct(ports_towards_the_servers(nat, kAlice)), 4U);
}

TEST(NatMapping, IsFoundAgainNotMadeAgain) {
  for (const Dependence mapping : {endpoint_independent, address_dependent, address_and_port_dependent}) {
    NatTable nat = table(with(mapping, endpoint_independent));
    const auto first = ports_towards_the_servers(nat, kAlice);
    EXPECT_EQ(ports_towards_the_servers(nat, kAlice), first);
  }
}

// REQ-2: paired pooling.
TEST(NatMapping, AllPortsOfOneHostShareOneExternalAddress) {
  const IpAddress second = IpAddress::v4(192, 0, 2, 2);
  NatTable nat = table(with(address_and_port_dependent, endpoint_independent), {kOutsideAddress, second});
  std::array<std::set<IpAddress>, 2> seen;
  for (std::uint16_t port = 4000; port < 4050; ++port) {
    for (std::size_t host = 0; host < 2; ++host) {
      const Endpoint inside{IpAddress::v4(10, 0, 0, static_cast<std::uint8_t>(2 + host)), port};
      seen[host].insert(nat.outbound(Protocol::udp, inside, kServers[port % 4U], kStart)->address);
    }
  }
  EXPECT_EQ(seen[0], std::set{kOutsideAddress});
  EXPECT_EQ(seen[1], std::set{second});
  EXPECT_TRUE(nat.is_external(second));
  EXPECT_FALSE(nat.is_external(kServer1));
}

// REQ-3: no overloading, whatever the allocation.
TEST(NatPorts, TwoHostsWithTheSameSourcePortNeverShareAnExternalPort) {
  for (const PortAllocation allocation :
       {PortAllocation::preserve, PortAllocation::sequential, PortAllocation::random}) {
    NatBehavior behavior = with(endpoint_independent, endpoint_independent);
    behavior.allocation = allocation;
    NatTable nat = table(behavior);
    std::set<std::uint16_t> given;
    for (std::uint8_t host = 1; host <= 200; ++host) {
      given.insert(nat.outbound(Protocol::udp, {IpAddress::v4(10, 0, 0, host), 4000}, kServers[0], kStart)->port);
    }
    EXPECT_EQ(given.size(), 200U);
  }
}

TEST(NatPorts, APreservingNatMovesTheSecondHostToTheNextFreePort) {
  NatTable nat = table(NatBehavior{});
  EXPECT_EQ(nat.outbound(Protocol::udp, {kBob.address, 4001}, kServers[0], kStart)->port, 4001);
  EXPECT_EQ(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart)->port, 4000);
  EXPECT_EQ(nat.outbound(Protocol::udp, kBob, kServers[0], kStart)->port, 4002);
}

TEST(NatPorts, APreservingNatGoesRoundAtTheEndOfItsRange) {
  NatBehavior behavior;
  behavior.first_port = 5000;
  behavior.last_port = 5099;
  NatTable nat = table(behavior);
  EXPECT_EQ(nat.outbound(Protocol::udp, {kAlice.address, 5099}, kServers[0], kStart)->port, 5099);
  EXPECT_EQ(nat.outbound(Protocol::udp, {kBob.address, 5099}, kServers[0], kStart)->port, 5000);
}

TEST(NatPorts, UdpAndTcpAndIcmpHavePortsOfTheirOwn) {
  NatTable nat = table(NatBehavior{});
  for (const Protocol protocol : {Protocol::udp, Protocol::tcp, Protocol::icmp}) {
    EXPECT_EQ(nat.outbound(protocol, kAlice, kServers[0], kStart)->port, 4000);
  }
}

// REQ-3a.
TEST(NatPorts, WellKnownPortsStayWellKnownAndOthersStayOthers) {
  for (const PortAllocation allocation :
       {PortAllocation::preserve, PortAllocation::sequential, PortAllocation::random}) {
    NatBehavior behavior;
    behavior.first_port = 1;
    behavior.allocation = allocation;
    NatTable nat = table(behavior);
    for (std::uint8_t host = 1; host <= 200; ++host) {
      const IpAddress inside = IpAddress::v4(10, 0, 0, host);
      EXPECT_LT(nat.outbound(Protocol::udp, {inside, 1023}, kServers[0], kStart)->port, 1024);
      EXPECT_GE(nat.outbound(Protocol::udp, {inside, 65535}, kServers[0], kStart)->port, 1024);
    }
  }
}

TEST(NatPorts, AWellKnownPortOutsideTheRangeGetsOneFromTheRange) {
  NatTable nat = table(NatBehavior{});
  EXPECT_EQ(nat.outbound(Protocol::udp, {kAlice.address, 53}, kServers[0], kStart)->port, 1024);
}

TEST(NatPorts, ASequentialNatCountsUp) {
  NatBehavior behavior = with(address_and_port_dependent, endpoint_independent);
  behavior.allocation = PortAllocation::sequential;
  behavior.first_port = 20000;
  behavior.last_port = 20003;
  NatTable nat = table(behavior);
  EXPECT_EQ(ports_towards_the_servers(nat, kAlice), (std::vector<std::uint16_t>{20000, 20001, 20002, 20003}));
}

TEST(NatPorts, RandomPortsCoverTheRangeEvenly) {
  NatBehavior behavior = with(endpoint_independent, endpoint_independent);
  behavior.allocation = PortAllocation::random;
  behavior.first_port = 10000;
  behavior.last_port = 10999;
  NatTable nat = table(behavior);
  // All 1000 ports are drawn without replacement; among the first 200, each fifth of the range holds 40 with a standard
  // deviation of sqrt(200 * 0.2 * 0.8 * 800/999) = 5.1 (hypergeometric): five of those are allowed.
  std::array<int, 5> fifths{};
  std::set<std::uint16_t> given;
  for (int i = 0; i < 1000; ++i) {
    const Endpoint inside{kAlice.address, static_cast<std::uint16_t>(30000 + i)};
    const std::uint16_t port = nat.outbound(Protocol::udp, inside, kServers[0], kStart)->port;
    given.insert(port);
    if (i < 200) ++fifths[static_cast<std::size_t>(port - 10000) / 200];
  }
  EXPECT_EQ(given.size(), 1000U);
  EXPECT_EQ(*given.begin(), 10000);
  EXPECT_EQ(*given.rbegin(), 10999);
  for (const int count : fifths) EXPECT_NEAR(count, 40, 26);
}

TEST(NatPorts, EqualSeedsGiveEqualPorts) {
  NatBehavior behavior = with(address_and_port_dependent, endpoint_independent);
  behavior.allocation = PortAllocation::random;
  NatTable one = table(behavior), two = table(behavior);
  EXPECT_EQ(ports_towards_the_servers(one, kAlice), ports_towards_the_servers(two, kAlice));
  NatTable three(behavior, {kOutsideAddress}, RandomStream(2, 1, "nat"));
  EXPECT_NE(ports_towards_the_servers(one, kBob), ports_towards_the_servers(three, kBob));
}

TEST(NatPorts, WhenAllAreTakenTheNewFlowIsDroppedAndTheOldOnesStay) {
  for (const PortAllocation allocation :
       {PortAllocation::preserve, PortAllocation::sequential, PortAllocation::random}) {
    NatBehavior behavior = with(endpoint_independent, endpoint_independent);
    behavior.allocation = allocation;
    behavior.first_port = 2000;
    behavior.last_port = 2129;  // crosses words of the port map on both sides
    NatTable nat = table(behavior);
    for (std::uint16_t i = 0; i < 130; ++i) {
      ASSERT_TRUE(
          nat.outbound(Protocol::udp, {kAlice.address, static_cast<std::uint16_t>(9000 + i)}, kServers[0], kStart));
    }
    EXPECT_FALSE(nat.outbound(Protocol::udp, kBob, kServers[0], kStart));
    EXPECT_EQ(nat.last_drop(), NatDrop::out_of_ports);
    EXPECT_EQ(nat.counters().drops[static_cast<std::size_t>(NatDrop::out_of_ports)], 1U);
    EXPECT_TRUE(nat.outbound(Protocol::tcp, kBob, kServers[0], kStart)) << "TCP has ports of its own";
    EXPECT_TRUE(nat.outbound(Protocol::udp, {kAlice.address, 9000}, kServers[1], kStart)) << "RFC 6888 REQ-11";
    // The moment the first ones expire, there is room again.
    EXPECT_FALSE(nat.outbound(Protocol::udp, kBob, kServers[0], kStart + behavior.udp_timeout - kTick));
    EXPECT_TRUE(nat.outbound(Protocol::udp, kBob, kServers[0], kStart + behavior.udp_timeout));
  }
}

// REQ-8 and RFC 5780 §4.4.
TEST(NatFilter, LetsInWhatItsKindLetsIn) {
  const auto passes = [](Dependence filtering, Protocol protocol) {
    NatTable nat = table(with(endpoint_independent, filtering));
    const Endpoint external = *nat.outbound(protocol, kAlice, kServers[0], kStart, {.syn = true});
    std::vector<bool> result;
    for (const Endpoint& server : kServers) {
      const auto inside = nat.inbound(protocol, server, external, kStart, {.syn = true});
      if (inside) {
        EXPECT_EQ(*inside, kAlice);
      } else {
        EXPECT_EQ(nat.last_drop(), NatDrop::filtered);
      }
      result.push_back(inside.has_value());
    }
    return result;
  };
  for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
    EXPECT_EQ(passes(endpoint_independent, protocol), (std::vector<bool>{true, true, true, true}));
    EXPECT_EQ(passes(address_dependent, protocol), (std::vector<bool>{true, true, false, false}));
    EXPECT_EQ(passes(address_and_port_dependent, protocol), (std::vector<bool>{true, false, false, false}));
  }
}

TEST(NatFilter, IsIndependentOfTheMapping) {
  NatTable nat = table(with(address_and_port_dependent, endpoint_independent));
  const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  EXPECT_TRUE(nat.inbound(Protocol::udp, kServers[3], external, kStart));
}

TEST(NatFilter, WhatItDropsRefreshesNothing) {
  NatBehavior behavior;
  NatTable nat = table(behavior);
  const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[1], external, kStart + behavior.udp_timeout - kTick));
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], external, kStart + behavior.udp_timeout));
  EXPECT_EQ(nat.last_drop(), NatDrop::expired);
}

TEST(NatFilter, AKeepaliveToOnePeerDoesNotHoldTheHoleToAnotherOpen) {
  NatBehavior behavior;
  NatTable nat = table(behavior);
  const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[2], kStart));
  ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + 100s));
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[2], external, kStart + behavior.udp_timeout));
  EXPECT_EQ(nat.last_drop(), NatDrop::filtered);
  EXPECT_TRUE(nat.inbound(Protocol::udp, kServers[0], external, kStart + 100s + behavior.udp_timeout - kTick));
}

TEST(NatFilter, SaysWhyItDropped) {
  NatTable nat = table(NatBehavior{});
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], {kOutsideAddress, 4000}, kStart));
  EXPECT_EQ(nat.last_drop(), NatDrop::no_mapping);
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], {kServer2, 4000}, kStart)) << "not an address of this NAT";
  EXPECT_EQ(nat.last_drop(), NatDrop::no_mapping);
  ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart));
  EXPECT_EQ(nat.last_drop(), NatDrop::none);
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[3], {kOutsideAddress, 4000}, kStart));
  EXPECT_EQ(nat.last_drop(), NatDrop::filtered);
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], {kOutsideAddress, 4000}, kStart + 1h));
  EXPECT_EQ(nat.last_drop(), NatDrop::expired);
  const auto& drops = nat.counters().drops;
  EXPECT_EQ(drops[static_cast<std::size_t>(NatDrop::no_mapping)], 2U);
  EXPECT_EQ(drops[static_cast<std::size_t>(NatDrop::filtered)], 1U);
  EXPECT_EQ(drops[static_cast<std::size_t>(NatDrop::expired)], 1U);
}

// REQ-5 and REQ-6, to the nanosecond, for every filter (each keeps its times elsewhere).
class NatTimer : public testing::TestWithParam<Dependence> {};
INSTANTIATE_TEST_SUITE_P(Filters, NatTimer,
                         testing::Values(endpoint_independent, address_dependent, address_and_port_dependent));

TEST_P(NatTimer, TheMappingLivesForItsTimeoutAndNotANanosecondMore) {
  const NatBehavior behavior = with(endpoint_independent, GetParam());
  for (const auto& [wait, lives] : {std::pair{behavior.udp_timeout - kTick, true}, {behavior.udp_timeout, false}}) {
    NatTable nat = table(behavior);
    const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
    EXPECT_EQ(nat.inbound(Protocol::udp, kServers[0], external, kStart + wait).has_value(), lives);
  }
}

TEST_P(NatTimer, AnOutboundPacketRefreshesExactly) {
  const NatBehavior behavior = with(endpoint_independent, GetParam());
  for (const auto& [wait, lives] : {std::pair{behavior.udp_timeout - kTick, true}, {behavior.udp_timeout, false}}) {
    NatTable nat = table(behavior);
    const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
    ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + 77s));
    EXPECT_EQ(nat.inbound(Protocol::udp, kServers[0], external, kStart + 77s + wait).has_value(), lives);
  }
}

TEST_P(NatTimer, AnInboundPacketRefreshesOnlyWhereTheBehaviourSaysSo) {
  for (const bool refreshes : {true, false}) {
    NatBehavior behavior = with(endpoint_independent, GetParam());
    behavior.inbound_refresh = refreshes;
    NatTable nat = table(behavior);
    const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
    ASSERT_TRUE(nat.inbound(Protocol::udp, kServers[0], external, kStart + 60s));
    EXPECT_EQ(nat.inbound(Protocol::udp, kServers[0], external, kStart + behavior.udp_timeout).has_value(), refreshes);
  }
}

TEST_P(NatTimer, ANatWithoutOutboundRefreshForgetsATalkativeHost) {
  NatBehavior behavior = with(endpoint_independent, GetParam());
  behavior.outbound_refresh = behavior.inbound_refresh = false;
  NatTable nat = table(behavior);
  const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  for (Duration t = 10s; t < behavior.udp_timeout; t += 10s) {
    ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + t));
  }
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], external, kStart + behavior.udp_timeout));
}

TEST_P(NatTimer, AnUnrepliedSessionMayLiveShorter) {
  NatBehavior behavior = with(endpoint_independent, GetParam());
  behavior.udp_unreplied_timeout = 30s;  // as Linux
  NatTable silent = table(behavior);
  const Endpoint external = *silent.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  ASSERT_TRUE(silent.outbound(Protocol::udp, kAlice, kServers[0], kStart + 20s));
  EXPECT_FALSE(silent.inbound(Protocol::udp, kServers[0], external, kStart + 50s));
  NatTable answered = table(behavior);
  ASSERT_TRUE(answered.outbound(Protocol::udp, kAlice, kServers[0], kStart));
  ASSERT_TRUE(answered.inbound(Protocol::udp, kServers[0], external, kStart + 30s - kTick));
  EXPECT_TRUE(answered.inbound(Protocol::udp, kServers[0], external, kStart + 30s + 120s - 2 * kTick));
}

TEST(NatTimer, AnExpiredMappingIsMadeAnew) {
  NatBehavior behavior;
  behavior.allocation = PortAllocation::sequential;
  NatTable nat = table(behavior);
  EXPECT_EQ(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart)->port, 1024);
  EXPECT_EQ(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + behavior.udp_timeout)->port, 1025);
  EXPECT_EQ(nat.counters().mappings_made, 2U);
  EXPECT_EQ(nat.counters().mappings_expired, 1U);
}

// RFC 5508 REQ-1a, REQ-2.
TEST(NatIcmp, AQueryMappingIsEndpointIndependentAndLivesAMinute) {
  NatTable nat = table(with(address_and_port_dependent, address_and_port_dependent));
  const Endpoint query{kAlice.address, 77};
  const Endpoint external = *nat.outbound(Protocol::icmp, query, {kServer1, 0}, kStart);
  EXPECT_EQ(*nat.outbound(Protocol::icmp, query, {kServer2, 0}, kStart), external);
  EXPECT_EQ(nat.inbound(Protocol::icmp, {kServer2, 0}, external, kStart + 60s - kTick), query);
  EXPECT_FALSE(nat.inbound(Protocol::icmp, {kServer1, 0}, external, kStart + 60s));
}

// RFC 4787 REQ-12.
TEST(NatIcmp, AnErrorFindsItsWayFromAnySourceAndChangesNothing) {
  NatBehavior behavior;
  NatTable nat = table(behavior);
  const Endpoint external = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  EXPECT_EQ(nat.inside_of(Protocol::udp, external, kStart + 60s), kAlice);
  EXPECT_TRUE(nat.inbound(Protocol::udp, kServers[0], external, kStart + 61s)) << "an error must not end the mapping";
  EXPECT_EQ(nat.inside_of(Protocol::udp, external, kStart + 61s + behavior.udp_timeout - kTick), kAlice);
  EXPECT_EQ(nat.inside_of(Protocol::udp, external, kStart + 61s + behavior.udp_timeout), std::nullopt)
      << "nor refresh it";
}

// REQ-9 and 9a.
TEST(NatHairpin, PresentsTheExternalSource) {
  NatBehavior behavior = with(endpoint_independent, endpoint_independent);
  behavior.hairpin = true;
  NatTable nat = table(behavior);
  const Endpoint bobs = *nat.outbound(Protocol::udp, kBob, kServers[0], kStart);
  const auto turned = nat.hairpin(Protocol::udp, kAlice, bobs, kStart);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->destination, kBob);
  EXPECT_EQ(turned->source, *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart));
  EXPECT_EQ(nat.counters().hairpinned, 1U);
}

TEST(NatHairpin, TheFilterHoldsUntilBothHaveSent) {
  NatBehavior behavior = with(endpoint_independent, address_and_port_dependent);
  behavior.hairpin = true;
  NatTable nat = table(behavior);
  const Endpoint alices = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  const Endpoint bobs = *nat.outbound(Protocol::udp, kBob, kServers[0], kStart);
  EXPECT_FALSE(nat.hairpin(Protocol::udp, kAlice, bobs, kStart));
  EXPECT_EQ(nat.last_drop(), NatDrop::filtered);
  EXPECT_TRUE(nat.hairpin(Protocol::udp, kBob, alices, kStart));
  EXPECT_TRUE(nat.hairpin(Protocol::udp, kAlice, bobs, kStart));
}

TEST(NatHairpin, IsRefusedWhereTheBehaviourHasNone) {
  NatTable nat = table(with(endpoint_independent, endpoint_independent));
  const Endpoint bobs = *nat.outbound(Protocol::udp, kBob, kServers[0], kStart);
  EXPECT_FALSE(nat.hairpin(Protocol::udp, kAlice, bobs, kStart));
  EXPECT_EQ(nat.last_drop(), NatDrop::hairpin_off);
  EXPECT_EQ(nat.mappings(kStart), 1U) << "a packet that is refused makes no mapping";
}

// REQ-11: what happens on a collision is port choice alone; mapping and filtering stay what they are.
TEST(NatDeterminism, ACollisionChangesThePortAndNothingElse) {
  NatTable nat = table(with(endpoint_independent, address_dependent));
  ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart));
  const auto ports = ports_towards_the_servers(nat, kBob);
  EXPECT_EQ(distinct(ports), 1U) << "still endpoint-independent";
  EXPECT_NE(ports[0], kBob.port);
  NatTable other = table(with(endpoint_independent, address_dependent));
  ASSERT_TRUE(other.outbound(Protocol::udp, kAlice, kServers[0], kStart));
  const Endpoint bobs = *other.outbound(Protocol::udp, kBob, kServers[0], kStart);
  EXPECT_TRUE(other.inbound(Protocol::udp, kServers[1], bobs, kStart));
  EXPECT_FALSE(other.inbound(Protocol::udp, kServers[2], bobs, kStart)) << "still address-dependent";
}

TEST(NatRebind, DropsEveryMappingAndTakesTheNewAddress) {
  NatTable nat = table(with(endpoint_independent, endpoint_independent));
  const Endpoint old = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  nat.rebind(kStart + 1s);
  EXPECT_EQ(nat.mappings(kStart + 1s), 0U);
  EXPECT_FALSE(nat.inbound(Protocol::udp, kServers[0], old, kStart + 1s));
  EXPECT_EQ(nat.last_drop(), NatDrop::no_mapping);
  const IpAddress renumbered = IpAddress::v4(192, 0, 2, 99);
  ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + 1s));
  nat.rebind(kStart + 2s, std::vector{renumbered});
  EXPECT_FALSE(nat.is_external(kOutsideAddress));
  EXPECT_EQ(*nat.outbound(Protocol::udp, kAlice, kServers[0], kStart + 2s), (Endpoint{renumbered, 4000}));
  EXPECT_TRUE(nat.inbound(Protocol::udp, kServers[1], {renumbered, 4000}, kStart + 2s));
}

TEST(NatRebind, ASequentialNatGivesOtherPortsThanBefore) {
  NatBehavior behavior;
  behavior.allocation = PortAllocation::sequential;
  NatTable nat = table(behavior);
  const Endpoint before = *nat.outbound(Protocol::udp, kAlice, kServers[0], kStart);
  nat.rebind(kStart);
  EXPECT_NE(*nat.outbound(Protocol::udp, kAlice, kServers[0], kStart), before);
}

TEST(NatMemory, AnIdleTableIsSmallAndAChurningOneDoesNotGrow) {
  NatBehavior behavior = with(address_and_port_dependent, address_and_port_dependent);
  behavior.allocation = PortAllocation::random;
  NatTable nat = table(behavior);
  EXPECT_LE(nat.memory_bytes(), 1024U);
  // Five new flows a second, each alive for 120 s: 600 at a time, for a day of virtual time.
  std::size_t after_an_hour = 0;
  std::uint32_t flow = 0;
  for (int second = 0; second < 86'400; ++second) {
    const TimePoint now = kStart + std::chrono::seconds(second);
    for (int i = 0; i < 5; ++i, ++flow) {
      const Endpoint server{IpAddress::v4(0xc6336400U + (flow & 0xff)),
                            static_cast<std::uint16_t>(1 + (flow >> 8) % 60000)};
      ASSERT_TRUE(nat.outbound(Protocol::udp, kAlice, server, now));
    }
    if (second == 3600) after_an_hour = nat.memory_bytes();
  }
  EXPECT_EQ(nat.mappings(kStart + 86'399s), 5U * 120U);
  EXPECT_LE(nat.memory_bytes(), 2 * after_an_hour);
  EXPECT_EQ(nat.mappings(kStart + 86'399s + 120s), 0U);
  EXPECT_EQ(nat.sessions(kStart + 86'399s + 120s), 0U);
}

}  // namespace
}  // namespace peerbed::sim
