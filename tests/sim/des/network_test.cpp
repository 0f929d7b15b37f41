// What holds for every network: conservation, determinism, independence of draws, and no allocation on the way.
#include <cstdlib>
#include <new>

#include "sim/des/host.h"
#include "tests/sim/des/plane.h"

namespace {
std::size_t allocations = 0;
}  // namespace

// Counted for the whole test program; only differences are looked at.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace peerbed::sim::test {
namespace {

LinkDirection random_direction(RandomStream& random) {
  LinkDirection direction = way(Duration(random.between(0, 20'000'000)));
  if (random.chance(0.7)) direction.rate = DataRate{random.between(100'000, 50'000'000)};
  if (random.chance(0.4)) direction.jitter = Duration(random.between(0, 5'000'000));
  if (random.chance(0.4)) direction.loss = random.uniform() * 0.2;
  if (random.chance(0.5)) direction.queue = {.packets = random.between(0, 20), .bytes = std::nullopt};
  if (random.chance(0.2)) direction.queue = {.packets = std::nullopt, .bytes = DataSize{random.between(0, 20'000)}};
  return direction;
}

/// A tree of routers with some rings, hosts on it, homes with one or two layers of NAT, sometimes a cloud in the middle.
Topology random_topology(RandomStream& random) {
  Topology t;
  t.name = "random";
  const auto name = [](const char* kind, std::uint64_t i) { return kind + std::to_string(i); };
  const std::uint64_t routers = 1 + random.below(5), hosts = 2 + random.below(6), homes = 1 + random.below(4);
  const auto add_link = [&](const std::string& a, const std::string& b) {
    const LinkDirection forth = random_direction(random);
    const LinkDirection back = random_direction(random);
    t.links.push_back({a + "-" + b, a, b, forth, back});
  };
  for (std::uint64_t i = 0; i < routers; ++i) {
    t.nodes.push_back(router(name("r", i)));
    if (i > 0) add_link(name("r", i), name("r", random.below(i)));
  }
  if (routers > 2 && random.chance(0.7)) t.links.push_back({"ring", "r0", name("r", routers - 1), random_direction(random), way(1ms)});
  std::vector<std::string> joints;
  for (std::uint64_t i = 0; i < routers; ++i) joints.push_back(name("r", i));
  if (random.chance(0.6)) {
    t.nodes.push_back(node("cloud", NodeKind::cloud));
    add_link("cloud", "r0");
    joints.push_back("cloud");
  }
  for (std::uint64_t i = 0; i < hosts; ++i) {
    t.nodes.push_back(host(name("h", i), static_cast<std::uint8_t>(1 + i)));
    add_link(name("h", i), joints[random.below(joints.size())]);
  }
  for (std::uint64_t i = 0; i < homes; ++i) {
    NatBehavior nat_behavior;
    nat_behavior.mapping = static_cast<Dependence>(random.below(3));
    nat_behavior.filtering = static_cast<Dependence>(random.below(3));
    nat_behavior.hairpin = random.chance(0.5);
    std::string up = joints[random.below(joints.size())];
    if (random.chance(0.3)) {
      t.nodes.push_back(nat(name("carrier", i), static_cast<std::uint8_t>(100 + i), name("carrier", i) + "-" + up, nat_behavior));
      add_link(name("carrier", i), up);
      up = name("carrier", i);
      t.nodes.push_back(node(name("n", i), NodeKind::nat, {IpAddress::v4(100, 64, 0, static_cast<std::uint8_t>(i + 1))}));
    } else {
      t.nodes.push_back(node(name("n", i), NodeKind::nat, {public_address(static_cast<std::uint8_t>(150 + i))}));
    }
    t.nodes.back().outside_link = name("n", i) + "-" + up;
    t.nodes.back().nat = nat_behavior;
    add_link(name("n", i), up);
    const std::uint64_t inside = 1 + random.below(2);
    for (std::uint64_t k = 0; k < inside; ++k) {
      const std::string inner = name("i", 10 * i + k);
      t.nodes.push_back(node(inner, NodeKind::host, {IpAddress::v4(192, 168, 1, static_cast<std::uint8_t>(2 + k))}));
      add_link(inner, name("n", i));
    }
  }
  if (joints.back() == "cloud") {
    CloudSpec cloud;
    cloud.name = "cloud";
    cloud.delay = {{1ms, 30ms}, {40ms, 2ms}};
    cloud.jitter = Duration(random.between(0, 5'000'000));
    cloud.loss = 0.05;
    for (const LinkSpec& l : t.links) {
      if (l.a == "cloud" || l.b == "cloud") cloud.region_of.push_back(random.below(2));
    }
    t.clouds.push_back(cloud);
  }
  return t;
}

/// Sends to addresses that are there, that may be reached, and that are not; on open and on closed ports; now and then with a low TTL.
class Babbler final : public TimerHandler, public DatagramHandler {
 public:
  Babbler(Environment& environment, const std::vector<Endpoint>& targets)
      : targets_(targets), random_(environment.random_stream("babble")), timer_(environment.make_timer(*this)) {
    socket_ = *environment.open_datagram_socket({{environment.local_addresses().front(), kPort}, false}, *this);
    timer_->arm(TimePoint{});
  }
  void on_timer(TimePoint now) override {
    const std::uint64_t n = random_.below(4);
    for (std::uint64_t i = 0; i < n; ++i) {
      const Bytes payload(static_cast<std::size_t>(random_.chance(0.05) ? random_.between(1400, 6000) : random_.between(0, 1400)));
      const auto ttl = static_cast<std::uint8_t>(random_.chance(0.2) ? random_.between(1, 5) : 0);
      const OutgoingDatagram datagram{targets_[random_.below(targets_.size())], payload, Ecn::not_ect, ttl};
      socket_->send({&datagram, 1});
    }
    if (now < TimePoint(2s)) timer_->arm(now + Duration(random_.between(0, 20'000'000)));
  }
  void on_datagrams(TimePoint, std::span<const IncomingDatagram> batch) override {
    if (!random_.chance(0.4)) return;
    const OutgoingDatagram answer{batch.front().from, batch.front().payload, Ecn::not_ect, 0};
    socket_->send({&answer, 1});
  }
  void on_writable(TimePoint) override {}
  void on_unreachable(TimePoint, const Unreachable&) override {}

 private:
  const std::vector<Endpoint>& targets_;
  RandomStream random_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<DatagramSocket> socket_;
};

struct Outcome {
  std::uint64_t trace = 0, events = 0;
  Tally made, delivered;
  DropTallies drops{};
  bool operator==(const Outcome&) const = default;
};

Outcome run_randomly(std::uint64_t seed, bool look_often) {
  RandomStream random(seed, 0, "random topologies");
  const Topology t = random_topology(random);
  auto network = make(t, seed);
  std::vector<Endpoint> targets;
  for (const NodeSpec& spec : t.nodes) {
    for (const IpAddress& address : spec.addresses) {
      targets.push_back({address, kPort});
      if (random.chance(0.3)) targets.push_back({address, 9});
    }
  }
  targets.push_back({IpAddress::v4(192, 0, 2, 1), kPort});
  std::vector<std::unique_ptr<Babbler>> babblers;
  for (const std::string& name : network->host_names()) babblers.push_back(std::make_unique<Babbler>(network->environment(name), targets));
  for (int i = 0; i < 20; ++i) {
    const LinkSpec& spec = t.links[random.below(t.links.size())];
    const LinkDirection forth = random_direction(random);
    const LinkDirection back = random_direction(random);
    network->at(TimePoint(Duration(random.between(0, 2'000'000'000))), [&network, &spec, forth, back] { network->set_link(spec.name, forth, back); });
  }
  if (look_often) {
    for (int i = 0; i < 200; ++i) {
      network->run_until(TimePoint(10ms * i));
      const Conservation found = network->conservation();
      EXPECT_TRUE(found.holds()) << "seed " << seed << " at " << i << ": " << found.to_string();
      network->run_events(7);  // in the middle of an instant, too
      EXPECT_TRUE(network->conservation().holds());
    }
  }
  network->run_until(TimePoint(60s));
  const Conservation found = network->conservation();
  EXPECT_TRUE(found.holds()) << "seed " << seed << ": " << found.to_string();
  EXPECT_EQ(found.in_flight, (Tally{})) << "everything has arrived or was dropped, seed " << seed;
  return {network->trace_hash(), network->counters().events, found.made, found.delivered, found.dropped};
}

TEST(Network, WhatGoesInComesOutOrIsAccountedForInRandomTopologies) {
  DropTallies all{};
  std::uint64_t delivered = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Outcome run = run_randomly(seed, true);
    for (std::size_t i = 0; i < kDropReasons; ++i) all[i] += run.drops[i];
    delivered += run.delivered.packets;
  }
  EXPECT_GT(delivered, 10'000U);
  // The topologies are worth something only if they reach most of the ways to lose a packet.
  for (const DropReason reason : {DropReason::loss, DropReason::queue_full, DropReason::no_route, DropReason::no_port, DropReason::ttl_expired,
                                  DropReason::nat_no_mapping, DropReason::nat_filtered, DropReason::nat_hairpin_off}) {
    EXPECT_GT(all[static_cast<std::size_t>(reason)].packets, 0U) << to_string(reason);
  }
}

TEST(Network, EqualSeedsGiveEqualTracesAndOthersDoNot) {  // rule 5
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome first = run_randomly(seed, false);
    EXPECT_TRUE(first == run_randomly(seed, false)) << "seed " << seed;
    EXPECT_NE(first.trace, run_randomly(seed + 100, false).trace);
  }
}

TEST(Network, EveryCompilerGivesTheSameTrace) {
  // The number changes with every change of behaviour, and must then be the same from g++ and clang again.
  std::uint64_t all = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) all = all * 31 + run_randomly(seed, false).trace;
  EXPECT_EQ(all, 10895764867485926346ULL);
}

TEST(Network, LookingAtANetworkDoesNotChangeIt) {
  EXPECT_EQ(run_randomly(3, true).trace, run_randomly(3, false).trace);
}

TEST(Network, AnotherLinkChangesNobodyElsesDraws) {
  LinkDirection lossy = way(1ms);
  lossy.loss = 0.5;
  const auto fate = [&](bool with_more) {
    Topology t = topology({host("a", 1), host("b", 2), router("r")}, {link("a", "r", lossy), link("r", "b", lossy)});
    if (with_more) {
      t.nodes.insert(t.nodes.begin(), host("c", 3));
      t.links.insert(t.links.begin(), link("c", "r", lossy));
    }
    auto network = make(t);
    Peer a(*network, "a"), b(*network, "b");
    std::unique_ptr<Peer> c;
    if (with_more) c = std::make_unique<Peer>(*network, "c");
    std::string arrived;
    for (int i = 0; i < 200; ++i) {
      a.send(b.local(), Bytes{static_cast<std::uint8_t>(i)});
      if (c != nullptr) c->send(a.local(), as_bytes("x"));
      network->run_until(network->now() + 10ms);
    }
    for (const auto& r : b.received) arrived.push_back(static_cast<char>(r.payload[0]));
    return arrived;
  };
  const std::string alone = fate(false);
  EXPECT_GT(alone.size(), 20U);
  EXPECT_EQ(alone, fate(true));
}

TEST(Network, AHopCostsNoAllocation) {
  // Two hops, a NAT and a cloud between echoing hosts; jitter and rates included.
  LinkDirection direction = way(1ms, DataRate{50'000'000});
  direction.jitter = 1ms;
  Topology t = topology({node("a", NodeKind::host, {IpAddress::v4(192, 168, 1, 2)}), nat("nat", 100, "nat-cloud"), node("cloud", NodeKind::cloud), host("b", 2)},
                        {link("a", "nat", direction), link("nat", "cloud", direction), link("cloud", "b", direction)});
  CloudSpec cloud;
  cloud.name = "cloud";
  cloud.delay = {{10ms}};
  cloud.region_of = {0, 0};
  cloud.jitter = 1ms;
  t.clouds.push_back(cloud);
  auto network = make(t);

  struct Echo final : DatagramHandler {
    void on_datagrams(TimePoint, std::span<const IncomingDatagram> batch) override {
      for (const IncomingDatagram& d : batch) {
        const OutgoingDatagram answer{d.from, d.payload, Ecn::not_ect, 0};
        socket->send({&answer, 1});
      }
    }
    void on_writable(TimePoint) override {}
    void on_unreachable(TimePoint, const Unreachable&) override {}
    std::unique_ptr<DatagramSocket> socket;
  } a, b;
  a.socket = *network->environment("a").open_datagram_socket({{IpAddress::v4(192, 168, 1, 2), kPort}, true}, a);
  b.socket = *network->environment("b").open_datagram_socket({{public_address(2), kPort}, true}, b);
  for (int i = 0; i < 700; ++i) {  // more than the heap holds before the buckets take over
    const Bytes payload(static_cast<std::size_t>(i));
    network->at(TimePoint(Duration(i * 50'000)), [&a, payload] {
      const OutgoingDatagram one{{public_address(2), kPort}, payload, Ecn::not_ect, 0};
      a.socket->send({&one, 1});
    });
  }
  network->run_until(TimePoint(20s));
  const std::uint64_t hops = network->counters().hops;
  const std::size_t before = allocations;
  network->run_until(TimePoint(40s));
  EXPECT_GT(network->counters().hops - hops, 100'000U);
  EXPECT_EQ(allocations - before, 0U);
}

TEST(Network, TheTapSeesEveryHop) {
  auto network = make(topology({host("a", 1), host("b", 2), router("r")}, {link("a", "r", way(1ms)), link("r", "b", way(1ms))}));
  std::vector<std::string> seen;
  network->set_tap([&](const Hop& hop) {
    seen.push_back(network->link_names()[hop.link] + (hop.a_to_b ? " > " : " < ") + std::string(as_text(hop.packet.payload())) + " " +
                   std::to_string(hop.at.time_since_epoch() / 1ms));
  });
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send(b.local(), as_bytes("x"));
  network->run_until(TimePoint(1s));
  EXPECT_EQ(seen, (std::vector<std::string>{"a-r > x 1", "r-b > x 2", "r-b < x 3", "a-r < x 4"}));
}

TEST(Network, DriverCallsComeInOrderAndMayScheduleMore) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))}));
  std::string order;
  network->at(TimePoint(2ms), [&] { order += "c"; });
  network->at(TimePoint(1ms), [&] {
    order += "a";
    network->at(TimePoint(1ms), [&] { order += "b"; });
    network->at(TimePoint{}, [&] { order += "B"; });  // the past is now
  });
  network->run_until(TimePoint(1ms));
  EXPECT_EQ(order, "abB");
  EXPECT_EQ(network->now(), TimePoint(1ms));
  EXPECT_EQ(network->run_events(100), 1U);
  EXPECT_EQ(order, "abBc");
  EXPECT_EQ(network->next_event_time(), std::nullopt);
}

}  // namespace
}  // namespace peerbed::sim::test
