// Several tables against each other: hole punching between every pair of behaviours, and NATs in series.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "sim/nat/nat_table.h"

namespace peerbed::sim {
namespace {

using enum Dependence;

constexpr TimePoint kStart{100s};
const Endpoint kServer{IpAddress::v4(203, 0, 113, 1), 3478};

/// A host behind one or more NATs in series, innermost first. Packets take the path that a network would give them.
struct Peer {
  Endpoint host;
  std::vector<NatTable> nats;
  std::set<Endpoint> targets;
  bool reached = false;

  std::optional<Endpoint> send(const Endpoint& to, TimePoint now) {
    Endpoint from = host;
    for (NatTable& nat : nats) {
      const auto external = nat.outbound(Protocol::udp, from, to, now);
      if (!external) return std::nullopt;
      from = *external;
    }
    return from;
  }
  bool receive(const Endpoint& from, Endpoint to, TimePoint now) {
    for (auto nat = nats.rbegin(); nat != nats.rend(); ++nat) {
      if (!nat->is_external(to.address)) return false;
      const auto inside = nat->inbound(Protocol::udp, from, to, now);
      if (!inside) return false;
      to = *inside;
    }
    return to == host;
  }
};

NatBehavior behaviour(Dependence mapping, Dependence filtering, PortAllocation allocation = PortAllocation::preserve) {
  NatBehavior b;
  b.mapping = mapping;
  b.filtering = filtering;
  b.allocation = allocation;
  return b;
}

Peer make_peer(std::uint8_t number, const std::vector<NatBehavior>& behaviours) {
  Peer peer{{IpAddress::v4(10, number, 0, 2), static_cast<std::uint16_t>(4000 + number)}, {}, {}, false};
  for (std::size_t i = 0; i < behaviours.size(); ++i) {
    const auto octet = static_cast<std::uint8_t>(i);
    peer.nats.emplace_back(behaviours[i], std::vector{IpAddress::v4(192, 0, octet, number)},
                           RandomStream(1, number, "nat"));
  }
  return peer;
}

/// Both know the other's server-reflexive endpoint and send to it; each answers to the source that it sees. No
/// prediction.
bool punch(Peer& a, Peer& b) {
  TimePoint now = kStart;
  const Endpoint reflexive_a = *a.send(kServer, now), reflexive_b = *b.send(kServer, now);
  a.targets = {reflexive_b};
  b.targets = {reflexive_a};
  for (int round = 0; round < 6; ++round) {
    for (const auto& [from, to] : {std::pair{&a, &b}, {&b, &a}}) {
      now += 10ms;
      for (const Endpoint& target : std::set(from->targets)) {
        const auto source = from->send(target, now);
        if (!source || !to->receive(*source, target, now)) continue;
        to->reached = true;
        to->targets.insert(*source);
      }
    }
  }
  return a.reached && b.reached;
}

Dependence parse(const std::string& word) {
  return word.starts_with("EI")   ? endpoint_independent
         : word.starts_with("AD") ? address_dependent
                                  : address_and_port_dependent;
}

TEST(HolePunching, SucceedsForExactlyThePairsOfTheExpectedMatrix) {
  for (const PortAllocation allocation :
       {PortAllocation::preserve, PortAllocation::sequential, PortAllocation::random}) {
    std::ifstream file(PEERBED_SOURCE_DIR "/tests/data/expected/nat_udp_punch_matrix.csv");
    ASSERT_TRUE(file.is_open());
    std::string line;
    std::getline(file, line);
    ASSERT_EQ(line, "mapping_a,filter_a,mapping_b,filter_b,direct_ok");
    int cells = 0;
    while (std::getline(file, line)) {
      std::stringstream fields(line);
      std::array<std::string, 5> field;
      for (std::string& f : field) std::getline(fields, f, ',');
      Peer a = make_peer(1, {behaviour(parse(field[0]), parse(field[1]), allocation)});
      Peer b = make_peer(2, {behaviour(parse(field[2]), parse(field[3]), allocation)});
      EXPECT_EQ(punch(a, b), field[4] == "1") << line;
      ++cells;
    }
    EXPECT_EQ(cells, 81);
  }
}

// The parts of a series, as seen from outside.
TEST(NatsInSeries, TheWorseMappingWins) {
  const std::array kinds{endpoint_independent, address_dependent, address_and_port_dependent};
  const std::array servers{Endpoint{kServer.address, 1}, Endpoint{kServer.address, 2},
                           Endpoint{IpAddress::v4(203, 0, 113, 2), 1}, Endpoint{IpAddress::v4(203, 0, 113, 2), 2}};
  const auto seen = [&](const std::vector<NatBehavior>& series) {
    Peer peer = make_peer(1, series);
    std::set<std::uint16_t> ports;
    for (const Endpoint& server : servers) ports.insert(peer.send(server, kStart)->port);
    return ports.size();
  };
  const std::array<std::size_t, 3> expected{1, 2, 4};
  for (std::size_t home = 0; home < 3; ++home) {
    for (std::size_t carrier = 0; carrier < 3; ++carrier) {
      EXPECT_EQ(seen({behaviour(kinds[home], endpoint_independent), behaviour(kinds[carrier], endpoint_independent)}),
                expected[std::max(home, carrier)]);
    }
  }
}

TEST(NatsInSeries, TheStricterFilterWins) {
  const std::array kinds{endpoint_independent, address_dependent, address_and_port_dependent};
  const std::array others{Endpoint{kServer.address, 9}, Endpoint{IpAddress::v4(203, 0, 113, 9), 9}};
  for (std::size_t home = 0; home < 3; ++home) {
    for (std::size_t carrier = 0; carrier < 3; ++carrier) {
      Peer peer =
          make_peer(1, {behaviour(endpoint_independent, kinds[home]), behaviour(endpoint_independent, kinds[carrier])});
      const Endpoint external = *peer.send(kServer, kStart);
      const std::size_t strictest = std::max(home, carrier);
      EXPECT_TRUE(peer.receive(kServer, external, kStart));
      EXPECT_EQ(peer.receive(others[0], external, kStart), strictest < 2);
      EXPECT_EQ(peer.receive(others[1], external, kStart), strictest < 1);
    }
  }
}

TEST(NatsInSeries, TheShorterTimeoutWins) {
  for (const bool carrier_is_shorter : {true, false}) {
    NatBehavior home, carrier;
    (carrier_is_shorter ? carrier : home).udp_timeout = 35s;  // the median of carrier NATs in Richter et al., IMC 2016
    for (const auto& [wait, lives] : {std::pair<Duration, bool>{35s - 1ns, true}, {35s, false}}) {
      Peer peer = make_peer(1, {home, carrier});
      const Endpoint external = *peer.send(kServer, kStart);
      EXPECT_EQ(peer.receive(kServer, external, kStart + wait), lives);
    }
  }
}

TEST(NatsInSeries, TwoHomesBehindOneCarrierMeetOnlyIfItTurnsPacketsRound) {
  for (const bool hairpin : {true, false}) {
    NatBehavior carrier_behaviour;
    carrier_behaviour.hairpin = hairpin;
    NatTable carrier(carrier_behaviour, {IpAddress::v4(192, 0, 2, 1)}, RandomStream(1, 9, "nat"));
    std::array<Peer, 2> homes{make_peer(1, {NatBehavior{}}), make_peer(2, {NatBehavior{}})};
    std::array<Endpoint, 2> reflexive;
    for (std::size_t i = 0; i < 2; ++i) {
      reflexive[i] = *carrier.outbound(Protocol::udp, *homes[i].send(kServer, kStart), kServer, kStart);
    }
    std::array<bool, 2> reached{};
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        const auto middle = homes[i].send(reflexive[1 - i], kStart);
        const auto turned = carrier.hairpin(Protocol::udp, *middle, reflexive[1 - i], kStart);
        if (turned && homes[1 - i].receive(turned->source, turned->destination, kStart)) reached[1 - i] = true;
      }
    }
    EXPECT_EQ(reached[0] && reached[1], hairpin);
  }
}

}  // namespace
}  // namespace peerbed::sim
