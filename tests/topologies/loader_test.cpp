#include "topologies/loader.h"

#include <gtest/gtest.h>

#include <set>

#include "topologies/validate.h"

namespace peerbed {
namespace {

const std::string kHomes = R"(title: Two homes
hosts:
  alice: {nat: eim/apdf}
  bob: {nat: eim/apdf}
  rendezvous: {}
routers: [core]
links:
  alice.wan: {from: alice.nat, to: core, rate: 50 Mbit/s, delay: 10 ms, queue: 100 packets}
  bob.wan: {from: bob.nat, to: core}
  rendezvous.wan: {from: rendezvous, to: core}
)";

Topology load(const std::string& text, const std::vector<YamlOverride>& overrides = {}) {
  auto topology = parse_topology(text, "homes.yaml", overrides);
  EXPECT_TRUE(topology) << topology.error().message;
  return topology ? *topology : Topology{};
}

std::string error_of(const std::string& text, const std::vector<YamlOverride>& overrides = {}) {
  const auto topology = parse_topology(text, "t.yaml", overrides);
  if (topology) return "no error";
  EXPECT_EQ(topology.error().kind, ErrorKind::bad_input);
  return topology.error().message;
}

std::string error_with(const std::string& key, const std::string& value) { return error_of(kHomes, {{key, value}}); }

TEST(TopologyLoader, AShortNatBecomesADeviceWithALanInFront) {
  const Topology topology = load(kHomes);
  EXPECT_EQ(topology.name, "homes");
  EXPECT_EQ(topology.title, "Two homes");
  ASSERT_NE(topology.find_node("alice.nat"), nullptr);
  EXPECT_EQ(topology.find_node("alice.nat")->kind, NodeKind::nat);
  EXPECT_EQ(topology.find_node("alice.nat")->outside_link, "alice.wan");
  ASSERT_NE(topology.find_link("alice.lan"), nullptr);
  EXPECT_EQ(topology.find_link("alice.lan")->a, "alice");
  EXPECT_EQ(topology.find_link("alice.lan")->b, "alice.nat");
  const LinkSpec& wan = *topology.find_link("alice.wan");
  for (const LinkDirection* direction : {&wan.a_to_b, &wan.b_to_a}) {
    EXPECT_EQ(direction->rate, DataRate{50'000'000});
    EXPECT_EQ(direction->delay, 10ms);
    EXPECT_EQ(direction->queue.packets, 100);
    EXPECT_EQ(direction->queue.bytes, std::nullopt);
  }
}

TEST(TopologyLoader, UpAndDownOverrideOneDirection) {
  const Topology topology = load(R"(
hosts: {a: , b: }
links:
  wan: {from: a, to: b, delay: 10 ms, loss: 1 %, up: {rate: 1 Mbit/s, loss: 2 %}, down: {delay: 20 ms, jitter: 1 ms, queue: 64 KiB}}
)");
  const LinkSpec& wan = *topology.find_link("wan");
  EXPECT_EQ(wan.a_to_b.rate, DataRate{1'000'000});
  EXPECT_EQ(wan.b_to_a.rate, std::nullopt);
  EXPECT_EQ(wan.a_to_b.delay, 10ms);
  EXPECT_EQ(wan.b_to_a.delay, 20ms);
  EXPECT_EQ(wan.b_to_a.jitter, 1ms);
  EXPECT_EQ(wan.a_to_b.loss, 0.02);
  EXPECT_EQ(wan.b_to_a.loss, 0.01);
  EXPECT_EQ(wan.a_to_b.queue.packets, 1000);
  EXPECT_EQ(wan.b_to_a.queue.bytes, DataSize{65536});
  EXPECT_EQ(wan.b_to_a.queue.packets, std::nullopt);
}

TEST(TopologyLoader, EveryNatSwitchIsRead) {
  const Topology topology = load(R"(
hosts: {a: {to: cgn}, b: {to: core}}
routers: [core]
nats:
  cgn:
    behavior: apdm/adf
    ports: sequential
    port_range: 2000-2999
    udp_timeout: 60 s
    udp_unreplied_timeout: 20 s
    tcp_established_timeout: 1 h
    tcp_transitory_timeout: 1 min
    icmp_timeout: 10 s
    outbound_refresh: no
    inbound_refresh: no
    hairpin: yes
    address: [203.0.113.1, 203.0.113.2]
    to: core
)");
  NatBehavior expected;
  expected.mapping = Dependence::address_and_port_dependent;
  expected.filtering = Dependence::address_dependent;
  expected.allocation = PortAllocation::sequential;
  expected.first_port = 2000;
  expected.last_port = 2999;
  expected.udp_timeout = 60s;
  expected.udp_unreplied_timeout = 20s;
  expected.tcp_established_timeout = 1h;
  expected.tcp_transitory_timeout = 1min;
  expected.icmp_timeout = 10s;
  expected.outbound_refresh = expected.inbound_refresh = false;
  expected.hairpin = true;
  const NodeSpec& cgn = *topology.find_node("cgn");
  EXPECT_EQ(cgn.nat, expected);
  EXPECT_EQ(cgn.addresses, (std::vector{IpAddress::v4(203, 0, 113, 1), IpAddress::v4(203, 0, 113, 2)}));
  EXPECT_EQ(cgn.outside_link, "cgn.access");
}

TEST(TopologyLoader, OneTimeoutForANamedTypeMeansBothOfItsTimeouts) {
  const Topology topology = load(kHomes, {{"hosts.alice.nat", "{behavior: linux, udp_timeout: 20 s}"}});
  EXPECT_EQ(topology.find_node("alice.nat")->nat.udp_timeout, 20s);
  EXPECT_EQ(topology.find_node("alice.nat")->nat.udp_unreplied_timeout, std::nullopt);
}

TEST(TopologyLoader, AGroupMakesHostsWithTheirNatsAndLinks) {
  const Topology topology = load(R"(
hosts:
  peer: {count: 300, to: core, nat: symmetric, access: {rate: 10 Mbit/s, up: {rate: 1 Mbit/s}}, lan: {delay: 2 ms}}
  seed: {to: core}
routers: [core]
)");
  EXPECT_EQ(topology.nodes.size(), 300U * 2 + 2);
  EXPECT_EQ(topology.find_node("peer-299")->group, "peer");
  EXPECT_EQ(topology.find_node("seed")->group, "");
  const LinkSpec& access = *topology.find_link("peer-7.access");
  EXPECT_EQ(access.a, "peer-7.nat");
  EXPECT_EQ(access.b, "core");
  EXPECT_EQ(access.a_to_b.rate, DataRate{1'000'000});
  EXPECT_EQ(access.b_to_a.rate, DataRate{10'000'000});
  EXPECT_EQ(topology.find_link("peer-7.lan")->a_to_b.delay, 2ms);
}

TEST(TopologyLoader, ALinkThatComesWithAHostCanBeChangedButNotMoved) {
  const std::string text = "hosts: {a: {to: r}, b: {to: r}}\nrouters: [r]\nlinks:\n  a.access: {delay: 9 ms}\n";
  EXPECT_EQ(load(text).find_link("a.access")->a_to_b.delay, 9ms);
  EXPECT_EQ(load(text).find_link("b.access")->a_to_b.delay, 0ms);
  EXPECT_EQ(error_of("hosts: {a: {to: r}, b: {to: r}}\nrouters: [r]\nlinks:\n  a.access: {to: b}\n"),
            "t.yaml:4: links.a.access.to: this link comes with its host or nat; its ends cannot be changed");
}

// Clouds --------------------------------------------------------------------------------------------------------------

TEST(TopologyClouds, DealOutRegionsByWeightAndKeepTheNamedOnes) {
  const Topology topology = load(R"(
hosts:
  peer: {count: 40, to: net}
  far: {to: net, region: moon}
clouds:
  net:
    regions: {earth: 3, moon: 1}
    delay: {earth: {earth: 10 ms, moon: 1280 ms}, moon: {moon: 5 ms}}
    jitter: 1 ms
    loss: 0.1 %
)");
  ASSERT_EQ(topology.clouds.size(), 1U);
  const CloudSpec& net = topology.clouds[0];
  EXPECT_EQ(net.delay, (std::vector<std::vector<Duration>>{{10ms, 1280ms}, {1280ms, 5ms}}));
  EXPECT_EQ(net.jitter, 1ms);
  EXPECT_EQ(net.loss, 0.001);
  ASSERT_EQ(net.region_of.size(), 41U);
  EXPECT_EQ(std::count(net.region_of.begin(), net.region_of.end() - 1, 1U), 10);
  EXPECT_EQ(net.region_of.back(), 1U);
}

TEST(TopologyClouds, OneDelayDoesForAll) {
  const Topology topology = load("hosts: {p: {count: 3, to: net}}\nclouds: {net: {delay: 30 ms}}\n");
  EXPECT_EQ(topology.clouds[0].delay, (std::vector<std::vector<Duration>>{{30ms}}));
  EXPECT_EQ(topology.clouds[0].region_of, (std::vector<std::size_t>{0, 0, 0}));
}

TEST(TopologyClouds, SayWhatIsMissing) {
  const std::string hosts = "hosts: {p: {count: 3, to: net}}\n";
  EXPECT_EQ(error_of(hosts + "clouds:\n  net: {regions: [a, b], delay: {a: {b: 1 ms}, b: {b: 1 ms}}}\n"),
            "t.yaml:3: clouds.net: there is no delay from 'a' to 'a'");
  EXPECT_EQ(error_of(hosts + "clouds:\n  net: {regions: [europe], delay: {eurpe: {europe: 1 ms}}}\n"),
            "t.yaml:3: clouds.net.delay.eurpe: 'eurpe' is no region; did you mean 'europe'?");
  EXPECT_EQ(
      error_of("hosts:\n  p: {to: net, region: venus}\n  q: {to: net}\nclouds: {net: {regions: [europe, asia]}}\n"),
      "t.yaml:2: hosts.p.region: 'venus' is no region of net; known are europe, asia");
  EXPECT_EQ(error_of("hosts:\n  p: {to: r, region: venus}\n  q: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: hosts.p.region: link 'p.access' does not lead to a cloud, so it has no region");
  EXPECT_EQ(error_of(hosts + "clouds: {net: {data: gossip-regions, delay: 1 ms}}\n"),
            "t.yaml:2: clouds.net.delay: stands beside 'data', which says that already");
  EXPECT_TRUE(error_of(hosts + "clouds: {net: {data: nothing}}\n").ends_with("nothing/regions.csv cannot be read"));
}

// Bad input -----------------------------------------------------------------------------------------------------------

TEST(TopologyErrors, AnUnknownKey) {
  EXPECT_EQ(error_of("hosts: {a: , b: }\nlinks:\n  wan: {from: a, to: b, dely: 10 ms}\n"),
            "t.yaml:3: unknown key 'dely' in link 'wan'; did you mean 'delay'?");
  EXPECT_EQ(error_of("host: {}\n"), "t.yaml:1: unknown key 'host' in the topology; did you mean 'hosts'?");
  EXPECT_EQ(error_of("hosts:\n  a: {natt: linux}\n"), "t.yaml:2: unknown key 'natt' in host 'a'; did you mean 'nat'?");
  EXPECT_EQ(error_of("hosts:\n  a: {nat: {timeout: 3 s}}\n").substr(0, 51),
            "t.yaml:2: unknown key 'timeout' in nat of host 'a';");
  EXPECT_EQ(error_of("hosts: {a: , b: }\nlinks:\n  wan: {from: a, to: b, up: {los: 1 %}}\n"),
            "t.yaml:3: unknown key 'los' in up of link 'wan'; did you mean 'loss'?");
}

TEST(TopologyErrors, AQuantityWithoutAUnitOrBelowZero) {
  const std::string link = "hosts: {a: , b: }\nlinks:\n  wan: {from: a, to: b, ";
  EXPECT_EQ(error_of(link + "delay: 10}\n"), "t.yaml:3: links.wan.delay: '10' has no unit; write for example '10 ms'");
  EXPECT_EQ(error_of(link + "delay: -1 ms}\n"), "t.yaml:3: links.wan.delay: '-1 ms' is negative");
  EXPECT_EQ(error_of(link + "delay: 2 h}\n"), "t.yaml:3: links.wan.delay: '7200 s' is above 3600 s");
  EXPECT_EQ(error_of(link + "rate: 10}\n"),
            "t.yaml:3: links.wan.rate: '10' has no unit; write for example '10 Mbit/s'");
  EXPECT_EQ(error_of(link + "rate: 0 Mbit/s}\n"),
            "t.yaml:3: links.wan.rate: '0 Mbit/s' is no rate; it must be above zero");
  EXPECT_EQ(error_of(link + "loss: 101 %}\n"), "t.yaml:3: links.wan.loss: '101 %' is above 100 %");
  EXPECT_EQ(error_of(link + "queue: 10}\n"),
            "t.yaml:3: links.wan.queue: '10' has no unit; write for example '100 packets' or '64 KiB'");
  EXPECT_EQ(error_of(link + "queue: -3 packets}\n"), "t.yaml:3: links.wan.queue: '-3 packets' is negative");
  EXPECT_EQ(
      error_of(link + "queue: long}\n"),
      "t.yaml:3: links.wan.queue: 'long' is no queue limit; write for example '100 packets', '64 KiB' or 'unlimited'");
}

TEST(TopologyErrors, ALinkToNobody) {
  EXPECT_EQ(error_of("hosts: {alice: , bob: }\nlinks:\n  wan: {from: alice, to: bbo}\n"),
            "t.yaml:3: link 'wan' leads to unknown node 'bbo'; did you mean 'bob'?");
  EXPECT_EQ(error_of("hosts: {alice: , bob: }\nlinks:\n  wan: {from: alice}\n"), "t.yaml:3: link 'wan' has no 'to'");
  EXPECT_EQ(error_of("hosts: {alice: , bob: }\nlinks:\n  wan: {from: alice, to: alice}\n"),
            "t.yaml:3: link 'wan' leads from 'alice' to itself");
  EXPECT_EQ(error_of("hosts:\n  alice: {to: cor}\n  bob: {to: core}\nrouters: [core]\n"),
            "t.yaml:2: link 'alice.access' leads to unknown node 'cor'; did you mean 'core'?");
}

TEST(TopologyErrors, AnythingTwice) {
  EXPECT_EQ(error_of("hosts:\n  a: {}\n  b: {}\n  a: {}\n"),
            "t.yaml:4: 'a' is written twice in hosts; first on line 2");
  EXPECT_EQ(error_of("hosts:\n  a: {to: a}\nrouters: [a]\n"),
            "t.yaml:2: two nodes are called 'a': a router and a host");
  EXPECT_EQ(error_of("hosts:\n  a: {}\n  b: {}\nlinks:\n  wan: {from: a, to: b}\n  wan: {from: b, to: a}\n"),
            "t.yaml:6: 'wan' is written twice in links; first on line 5");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, address: 203.0.113.5}\n  b: {to: r, address: 203.0.113.5}\nrouters: [r]\n"),
            "t.yaml:3: 203.0.113.5 of b is already an address of a");
}

TEST(TopologyErrors, HostsThatCannotReachEachOther) {
  EXPECT_EQ(error_of("hosts:\n  alice: {to: east}\n  rendezvous: {to: west}\nrouters: [east, west]\n"),
            "t.yaml:2: no path from alice to rendezvous");
  EXPECT_EQ(error_of("hosts:\n  alice: {to: east}\n  bob:\nrouters: [east]\n"), "t.yaml:3: host 'bob' has no link");
  EXPECT_EQ(error_of("hosts:\n  a: \n  b: \n  c: \nlinks:\n  x: {from: a, to: b}\n  y: {from: b, to: c}\n"),
            "t.yaml:2: no path from a to c")
      << "hosts do not forward";
  EXPECT_EQ(error_of("title: Nobody\n"), "t.yaml: the topology has no hosts");
}

TEST(TopologyErrors, ANatWithoutItsTwoSides) {
  EXPECT_EQ(error_of("hosts:\n  alice: {nat: linux}\n  bob: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: nat 'alice.nat' has no link that leads out; write one with 'from: alice.nat'");
  EXPECT_EQ(
      error_of("hosts:\n  a: {to: n}\n  b: {to: r}\nrouters: [r]\nnats:\n  n: linux\nlinks:\n  x: {from: n, to: r}\n"
               "  y: {from: n, to: r}\n"),
      "t.yaml:6: nat 'n' has two links that lead out, 'x' and 'y'; a link from an inside node must say 'to: n'");
  EXPECT_EQ(error_of("hosts: {b: {to: r}}\nrouters: [r]\nnats:\n  n: {behavior: linux, to: r}\n"),
            "t.yaml:4: nat 'n' has nothing inside; write a link with 'to: n'");
  EXPECT_EQ(
      error_of("hosts:\n  a: {nat: linux, to: r}\n  b: {to: r}\nrouters: [r]\nlinks:\n  bypass: {from: a, to: r}\n"),
      "t.yaml:2: there is a way round nat 'a.nat': its inside and its outside are one network");
  EXPECT_EQ(error_of("hosts:\n  a: {to: lan}\n  b: {to: r}\nrouters: [r, lan]\nnats:\n  n: {to: r}\n  m: {to: r}\n"
                     "links:\n  x: {from: lan, to: n}\n  y: {from: lan, to: m}\n"),
            "t.yaml:7: nats 'n' and 'm' share one inside network; hosts there would have two ways out");
  EXPECT_EQ(error_of("hosts: {a: {to: p}, b: {to: q}}\nrouters: [p, q]\nnats:\n  n: {to: q}\n  m: {to: p}\n"
                     "links:\n  x: {from: p, to: n}\n  y: {from: q, to: m}\n"),
            "t.yaml:4: nat 'n' leads out into itself by way of other nats");
}

TEST(TopologyErrors, NatSettings) {
  const auto nat = [](const std::string& settings) {
    return error_of("hosts:\n  a: {to: r, nat: " + settings + "}\n  b: {to: r}\nrouters: [r]\n");
  };
  EXPECT_EQ(nat("eim/apdx"), "t.yaml:2: hosts.a.nat: 'apdx' is no NAT filtering; did you mean 'apdf'?");
  EXPECT_EQ(nat("{behavior: lunix}"), "t.yaml:2: hosts.a.nat.behavior: 'lunix' is no NAT type; did you mean 'linux'?");
  EXPECT_EQ(nat("{udp_timeout: 0 s}"), "t.yaml:2: hosts.a.nat.udp_timeout: must be above zero");
  EXPECT_EQ(nat("{udp_timeout: 10 s, udp_unreplied_timeout: 20 s}"),
            "t.yaml:2: hosts.a.nat.udp_unreplied_timeout: must not be above udp_timeout");
  EXPECT_EQ(nat("{port_range: 5-1}"),
            "t.yaml:2: hosts.a.nat.port_range: '5-1' is no range of ports; write for example '1024-65535'");
  EXPECT_EQ(nat("{hairpin: perhaps}"), "t.yaml:2: hosts.a.nat.hairpin: 'perhaps' is neither yes nor no");
  EXPECT_EQ(nat("{ports: preserved}"), "t.yaml:2: hosts.a.nat.ports: 'preserved' is unknown; did you mean 'preserve'?");
}

TEST(TopologyErrors, CountsAndNamesAreBounded) {
  EXPECT_EQ(error_of("hosts:\n  p: {count: 1000000000, to: r}\nrouters: [r]\n"),
            "t.yaml:2: hosts.p.count: '1000000000' is above 100000");
  EXPECT_EQ(error_of("hosts:\n  p: {count: 0, to: r}\nrouters: [r]\n"), "t.yaml:2: hosts.p.count: '0' is below 1");
  EXPECT_EQ(error_of("hosts:\n  p: {count: 60000, to: r}\n  q: {count: 60000, to: r}\nrouters: [r]\n"),
            "t.yaml:3: hosts.q: more than 100000 hosts in one topology");
  EXPECT_EQ(error_of("hosts:\n  'a b': {to: r}\nrouters: [r]\n"),
            "t.yaml:2: 'a b' is no name; use up to 64 letters, digits, '-', '_' and '.'");
}

TEST(TopologyErrors, SettingsWithoutEffect) {
  EXPECT_EQ(error_of("hosts:\n  a: {access: {delay: 1 ms}}\n"), "t.yaml:2: hosts.a.access: has no effect without 'to'");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, lan: {delay: 1 ms}}\n"),
            "t.yaml:2: hosts.a.lan: has no effect without 'nat'");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, family: v4, address: 203.0.113.1}\n"),
            "t.yaml:2: hosts.a.family: stands beside 'address', which says that already");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, count: 2, address: 203.0.113.1}\n"),
            "t.yaml:2: hosts.a.address: one address cannot be that of every host of a group");
}

// Overrides -----------------------------------------------------------------------------------------------------------

TEST(TopologyOverrides, ChangeLinksHostsAndNats) {
  EXPECT_EQ(load(kHomes, {{"links.alice.wan.loss", "1 %"}}).find_link("alice.wan")->b_to_a.loss, 0.01);
  EXPECT_EQ(load(kHomes, {{"links.alice.wan.up.loss", "1 %"}}).find_link("alice.wan")->b_to_a.loss, 0);
  EXPECT_EQ(to_string(load(kHomes, {{"hosts.alice.nat", "apdm/apdf"}}).find_node("alice.nat")->nat), "apdm/apdf");
  const Topology switched = load(kHomes, {{"hosts.alice.nat.hairpin", "yes"}, {"hosts.alice.nat.udp_timeout", "30 s"}});
  EXPECT_TRUE(switched.find_node("alice.nat")->nat.hairpin);
  EXPECT_EQ(switched.find_node("alice.nat")->nat.udp_timeout, 30s);
  EXPECT_EQ(to_string(switched.find_node("alice.nat")->nat), "eim/apdf");
  EXPECT_FALSE(switched.find_node("bob.nat")->nat.hairpin);
}

TEST(TopologyOverrides, ReachLinksThatComeWithHosts) {
  EXPECT_EQ(load(kHomes, {{"links.alice.lan.delay", "3 ms"}}).find_link("alice.lan")->a_to_b.delay, 3ms);
  const std::string group = "hosts: {p: {count: 30, to: r}}\nrouters: [r]\n";
  const Topology topology = load(group, {{"links.p-17.access.delay", "300 ms"}});
  EXPECT_EQ(topology.find_link("p-17.access")->a_to_b.delay, 300ms);
  EXPECT_EQ(topology.find_link("p-16.access")->a_to_b.delay, 0ms);
  EXPECT_EQ(error_of(group, {{"links.p-30.access.delay", "300 ms"}}),
            "--set links.p-30.access.delay=300 ms: there is no 'links' in t.yaml; known are hosts, routers");
}

TEST(TopologyOverrides, NoneTakesTheNatAwayAndTheHostStepsForward) {
  const Topology topology = load(kHomes, {{"hosts.alice.nat", "none"}});
  EXPECT_EQ(topology.find_node("alice.nat"), nullptr);
  EXPECT_EQ(topology.find_link("alice.wan")->a, "alice");
  EXPECT_FALSE(topology.find_node("alice")->addresses[0].is_private());
}

TEST(TopologyOverrides, ThatMatchNothingAreErrors) {
  EXPECT_EQ(error_with("links.alice.wam.loss", "1 %"),
            "--set links.alice.wam.loss=1 %: there is no 'alice.wam' in links; did you mean 'alice.wan'?");
  EXPECT_EQ(error_with("links.alice.wan.los", "1 %"),
            "--set links.alice.wan.los=1 %: unknown key 'los' in link 'alice.wan'; did you mean 'loss'?");
  EXPECT_EQ(error_with("hosts.alcie.nat", "linux"),
            "--set hosts.alcie.nat=linux: there is no 'alcie' in hosts; did you mean 'alice'?");
  EXPECT_EQ(error_with("hosts.alice.nat", "lunix"),
            "--set hosts.alice.nat=lunix: hosts.alice.nat: 'lunix' is no NAT type; did you mean 'linux'?");
}

// Addresses -----------------------------------------------------------------------------------------------------------

TEST(TopologyAddresses, PublicHostsAreDualStackAndHostsBehindNatsAreNot) {
  const Topology topology = load(kHomes);
  const auto& rendezvous = topology.find_node("rendezvous")->addresses;
  ASSERT_EQ(rendezvous.size(), 2U);
  EXPECT_TRUE(rendezvous[0].to_string().starts_with("198.18.0."));
  EXPECT_TRUE(rendezvous[1].to_string().starts_with("2001:db8::"));
  EXPECT_EQ(topology.find_node("alice")->addresses, std::vector{IpAddress::v4(192, 168, 0, 2)});
  EXPECT_EQ(topology.find_node("bob")->addresses, std::vector{IpAddress::v4(192, 168, 1, 2)});
  EXPECT_EQ(topology.find_node("alice.nat")->addresses.size(), 1U);
  EXPECT_EQ(error_with("hosts.alice.family", "dual"),
            "t.yaml:3: alice is behind nat 'alice.nat', where there is IPv4 only");
}

TEST(TopologyAddresses, ErrorsOfAHostPointAtTheHost) {
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, nat: linux, family: v6}\n  b: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: a is behind nat 'a.nat', where there is IPv4 only");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, nat: linux, address: 2001:db8::5}\n  b: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: 2001:db8::5 of a is IPv6; NATs and what is behind them have IPv4 only");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, address: 224.0.0.1}\n  b: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: 224.0.0.1 of a is not an address that a host can have");
  EXPECT_EQ(error_of("hosts:\n  a: {to: r, address: 1.2.3}\n  b: {to: r}\nrouters: [r]\n"),
            "t.yaml:2: hosts.a.address: '1.2.3' is not an IP address");
}

TEST(TopologyAddresses, FamilyAndExplicitAddressesAreHonoured) {
  const Topology topology = load(R"(
hosts:
  four: {to: r, family: v4}
  six: {to: r, family: v6}
  fixed: {to: r, address: [198.18.0.1, 2001:db8::1]}
  home: {to: r, nat: {behavior: linux, address: 198.18.0.2}, address: 192.168.7.7}
  other: {to: r, nat: linux, address: 192.168.7.7}
routers: [r]
)");
  EXPECT_EQ(topology.find_node("four")->addresses.size(), 1U);
  EXPECT_EQ(topology.find_node("six")->addresses.size(), 1U);
  EXPECT_EQ(topology.find_node("six")->addresses[0].family, Family::v6);
  EXPECT_NE(topology.find_node("four")->addresses[0], topology.find_node("fixed")->addresses[0]);
  EXPECT_NE(topology.find_node("six")->addresses[0], topology.find_node("fixed")->addresses[1]);
  EXPECT_EQ(topology.find_node("home.nat")->addresses, std::vector{IpAddress::v4(198, 18, 0, 2)});
  EXPECT_EQ(topology.find_node("home")->addresses, topology.find_node("other")->addresses)
      << "RFC 4787 REQ-7: equal private addresses behind different NATs are everyday life";
}

void expect_unique_addresses_per_realm(const Topology& topology) {
  std::size_t members = 0;
  for (const Realm& realm : realms_of(topology)) {
    std::set<IpAddress> seen;
    for (const std::size_t member : realm.members) {
      EXPECT_FALSE(topology.nodes[member].addresses.empty());
      for (const IpAddress& address : topology.nodes[member].addresses) {
        EXPECT_TRUE(seen.insert(address).second) << address.to_string();
        EXPECT_EQ(address.family == Family::v4 && address.is_private(), realm.gateway.has_value())
            << address.to_string();
      }
    }
    members += realm.members.size();
  }
  const auto routers =
      static_cast<std::size_t>(std::count_if(topology.nodes.begin(), topology.nodes.end(), [](const NodeSpec& n) {
        return n.kind == NodeKind::router || n.kind == NodeKind::cloud;
      }));
  EXPECT_EQ(members + routers, topology.nodes.size());
}

TEST(TopologyAddresses, AreUniqueInEveryRealmWhateverItsSize) {
  expect_unique_addresses_per_realm(load(kHomes));
  // 600 homes of one (more than there are 192.168.N.0/24), one office of 300 (more than fit into one), two layers of
  // NAT.
  const Topology topology = load(R"(
hosts:
  home: {count: 600, to: net, nat: linux}
  desk: {count: 300, to: office}
  customer: {count: 300, to: cgn, nat: linux}
  public: {count: 1000, to: net}
nats:
  office: {to: net}
  cgn: {to: net}
clouds: {net: {delay: 10 ms}}
)");
  expect_unique_addresses_per_realm(topology);
  EXPECT_TRUE(topology.find_node("customer-299.nat")->addresses[0].to_string().starts_with("100.64."));
  EXPECT_TRUE(topology.find_node("desk-299")->addresses[0].to_string().starts_with("10."));
}

// Generated and hand-made topologies are checked alike, and completing twice changes nothing.
TEST(TopologyAddresses, CompletingACompleteTopologyChangesNothing) {
  Topology topology = load(kHomes);
  const Topology before = topology;
  ASSERT_FALSE(complete_structure(topology));
  ASSERT_FALSE(assign_addresses(topology, std::vector<FamilyWish>(topology.nodes.size())));
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    EXPECT_EQ(topology.nodes[i].addresses, before.nodes[i].addresses);
    EXPECT_EQ(topology.nodes[i].outside_link, before.nodes[i].outside_link);
  }
}

TEST(TopologyLoader, AHundredThousandHostsLoad) {
  const Topology topology = load("hosts: {p: {count: 100000, to: net}}\nclouds: {net: {data: gossip-regions}}\n");
  EXPECT_EQ(topology.nodes.size(), 100'001U);
  EXPECT_EQ(topology.clouds[0].region_of.size(), 100'000U);
}

}  // namespace
}  // namespace peerbed
