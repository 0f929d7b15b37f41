// A link does what its knobs say, to the nanosecond.
#include <cmath>

#include "tests/sim/des/plane.h"

namespace peerbed::sim::test {
namespace {

struct Wire {
  explicit Wire(const LinkDirection& direction, std::uint64_t seed = 1)
      : network(make(topology({host("a", 1), host("b", 2)}, {link("a", "b", direction)}), seed)), a(*network, "a"), b(*network, "b") {}
  LinkCounters counters(bool a_to_b = true) { return network->link_counters("a-b", a_to_b); }
  std::unique_ptr<Network> network;
  Peer a, b;
};

TEST(Link, OnePacketTakesItsSerialisationAndTheDelay) {
  Wire wire(way(20ms, DataRate{8'000'000}));
  wire.a.send_sized(wire.b.local(), 1000);  // 1000 B at 8 Mbit/s: 1 ms
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 1U);
  EXPECT_EQ(wire.b.received[0].at, TimePoint(21ms));
  EXPECT_EQ(wire.b.received[0].from, wire.a.local());
}

TEST(Link, WithoutARateOnlyTheDelayCounts) {
  Wire wire(way(20ms));
  for (int i = 0; i < 100; ++i) wire.a.send_sized(wire.b.local(), 1500);
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 100U);
  for (const auto& r : wire.b.received) EXPECT_EQ(r.at, TimePoint(20ms));
  EXPECT_EQ(wire.b.batches, 1U);  // what arrives together is told together
}

TEST(Link, RateCountsIpBytesOfBothFamilies) {
  Topology t = topology({host("a", 1), host("b", 2)}, {link("a", "b", way(0ms, DataRate{8'000'000}))});
  IpAddress six_a{Family::v6, {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, six_b = six_a;
  six_b.octets[15] = 2;
  t.nodes[0].addresses.push_back(six_a);
  t.nodes[1].addresses.push_back(six_b);
  auto network = make(t);
  Peer a(*network, "a", kPort, six_a), b(*network, "b", kPort, six_b);
  a.send(b.local(), Bytes(952));
  network->run_until(TimePoint(1s));
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(b.received[0].at, TimePoint(1ms));  // 952 + 48
  EXPECT_EQ(network->link_counters("a-b", true).delivered, (Tally{1, 1000}));
}

TEST(Link, FractionsOfNanosecondsAddUp) {
  // 1500 B at 7 Mbit/s take 1 714 285 5/7 ns. Seven of them take 12 ms exactly.
  Wire wire(way(0ms, DataRate{7'000'000}));
  for (int i = 0; i < 70; ++i) wire.a.send_sized(wire.b.local(), 1500);
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 70U);
  EXPECT_EQ(wire.b.received[0].at, TimePoint(Duration(1'714'286)));  // rounded up: it has not left before
  for (std::size_t i = 6; i < 70; i += 7) EXPECT_EQ(wire.b.received[i].at, TimePoint(12ms * static_cast<int>((i + 1) / 7)));
}

TEST(Link, TheQueueHoldsItsPacketsBehindTheOneOnTheWire) {
  LinkDirection direction = way(5ms, DataRate{8'000'000});
  direction.queue = {.packets = 10, .bytes = std::nullopt};
  Wire wire(direction);
  for (int i = 0; i < 50; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->run_until(TimePoint(1s));
  EXPECT_EQ(wire.b.received.size(), 11U);  // one on the wire and ten behind it
  EXPECT_EQ(wire.counters().queue_full, (Tally{39, 39'000}));
  EXPECT_EQ(wire.counters().queue_high_water_packets, 10U);
  EXPECT_EQ(wire.counters().queue_high_water_bytes, 10'000U);
  EXPECT_EQ(wire.b.received.back().at, TimePoint(16ms));
  EXPECT_EQ(dropped(*wire.network, DropReason::queue_full), 39U);
}

TEST(Link, AQueueInBytesTakesWhatFits) {
  LinkDirection direction = way(0ms, DataRate{8'000'000});
  direction.queue = {.packets = std::nullopt, .bytes = DataSize{2500}};
  Wire wire(direction);
  wire.a.send_sized(wire.b.local(), 1000);  // on the wire
  wire.a.send_sized(wire.b.local(), 1400);
  wire.a.send_sized(wire.b.local(), 1101);  // 2501: does not fit
  wire.a.send_sized(wire.b.local(), 1100);  // 2500: does
  wire.a.send_sized(wire.b.local(), 100);
  wire.network->run_until(TimePoint(1s));
  EXPECT_EQ(wire.b.received.size(), 3U);
  EXPECT_EQ(wire.counters().queue_full, (Tally{2, 1201}));
  EXPECT_EQ(wire.counters().queue_high_water_bytes, 2500U);
}

TEST(Link, AQueueOfNoPacketsStillSendsOne) {
  LinkDirection direction = way(0ms, DataRate{8'000'000});
  direction.queue = {.packets = 0, .bytes = std::nullopt};
  Wire wire(direction);
  for (int i = 0; i < 3; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->run_until(TimePoint(1ms));
  // The first has left at this very time, so the wire is free again.
  for (int i = 0; i < 3; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->run_until(TimePoint(1s));
  EXPECT_EQ(wire.b.received.size(), 2U);
}

TEST(Link, APacketThatHasBegunToLeaveFreesItsPlaceAtThatMoment) {
  LinkDirection direction = way(0ms, DataRate{8'000'000});
  direction.queue = {.packets = 1, .bytes = std::nullopt};
  Wire wire(direction);
  const auto send = [&] { wire.a.send_sized(wire.b.local(), 1000); };
  send();
  send();  // waits until 1 ms
  wire.network->at(TimePoint(1ms) - Duration(1), send);  // too early
  wire.network->at(TimePoint(1ms), send);                // just in time
  wire.network->run_until(TimePoint(1s));
  EXPECT_EQ(wire.b.received.size(), 3U);
  EXPECT_EQ(wire.counters().queue_full.packets, 1U);
}

TEST(Link, TheDirectionsAreIndependent) {
  Topology t = topology({host("a", 1), host("b", 2)}, {link("a", "b", way(1ms))});
  t.links[0].b_to_a = way(30ms, DataRate{8'000'000});
  auto network = make(t);
  Peer a(*network, "a"), b(*network, "b");
  b.echoes = true;
  a.send_sized(b.local(), 1000);
  network->run_until(TimePoint(1s));
  ASSERT_EQ(a.received.size(), 1U);
  EXPECT_EQ(a.received[0].at, TimePoint(1ms + 30ms + 1ms));
}

TEST(Link, LossIsBernoulli) {
  // 99 % of runs lie within 2.576 standard deviations of the binomial distribution. 20 seeds: by chance one may lie outside
  // (P(more than 2 of 20) = 0.001), and the sum of all must lie inside as well.
  constexpr int kPackets = 20'000, kSeeds = 20;
  for (const double p : {0.001, 0.05, 0.5}) {
    int outside = 0;
    double total = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      LinkDirection direction = way(1ms);
      direction.loss = p;
      Wire wire(direction, seed);
      for (int i = 0; i < kPackets; i += 100) {
        wire.network->at(TimePoint(1ms * i), [&] {
          for (int k = 0; k < 100; ++k) wire.a.send_sized(wire.b.local(), 100);
        });
      }
      wire.network->run_until(TimePoint(60s));
      const auto lost = static_cast<double>(wire.counters().lost.packets);
      EXPECT_EQ(wire.b.received.size() + wire.counters().lost.packets, static_cast<std::size_t>(kPackets));
      total += lost;
      if (std::abs(lost - kPackets * p) > 2.576 * std::sqrt(kPackets * p * (1 - p))) ++outside;
    }
    EXPECT_LE(outside, 2) << "loss " << p;
    EXPECT_NEAR(total, kSeeds * kPackets * p, 2.576 * std::sqrt(kSeeds * kPackets * p * (1 - p))) << "loss " << p;
  }
}

TEST(Link, JitterNeverReordersAndStaysInItsRange) {
  LinkDirection direction = way(10ms);
  direction.jitter = 5ms;
  Wire wire(direction);
  constexpr std::uint32_t kPackets = 5000;
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    wire.network->at(TimePoint(Duration(100us) * i), [&wire, i] {
      Bytes payload(4);
      ByteWriter(payload).u32(i);
      wire.a.send(wire.b.local(), payload);
    });
  }
  wire.network->run_until(TimePoint(10s));
  ASSERT_EQ(wire.b.received.size(), kPackets);
  Duration least = 1h, most{};
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    ASSERT_EQ(ByteReader(wire.b.received[i].payload).u32(), i);
    const Duration took = wire.b.received[i].at - TimePoint(Duration(100us) * i);
    least = std::min(least, took);
    most = std::max(most, took);
  }
  EXPECT_GE(least, 10ms);
  EXPECT_LE(most, 15ms);
  EXPECT_LT(least, 14ms);  // with 50 packets within the jitter, few arrive at its lower end; none would mean it is not drawn
  EXPECT_GT(most, 14'900us);
}

TEST(Link, JitterOfLonelyPacketsIsUniform) {
  LinkDirection direction = way(10ms);
  direction.jitter = 8ms;
  Wire wire(direction);
  constexpr int kPackets = 4000;
  for (int i = 0; i < kPackets; ++i) wire.network->at(TimePoint(1s * i), [&] { wire.a.send_sized(wire.b.local(), 100); });
  wire.network->run_until(TimePoint(1s * kPackets));
  ASSERT_EQ(wire.b.received.size(), static_cast<std::size_t>(kPackets));
  std::array<int, 8> per_ms{};
  for (int i = 0; i < kPackets; ++i) {
    const Duration jitter = wire.b.received[static_cast<std::size_t>(i)].at - TimePoint(1s * i + 10ms);
    ++per_ms[std::min<std::size_t>(7, static_cast<std::size_t>(jitter / 1ms))];
  }
  double chi_squared = 0;
  for (const int n : per_ms) chi_squared += (n - kPackets / 8.0) * (n - kPackets / 8.0) / (kPackets / 8.0);
  EXPECT_LT(chi_squared, 24.3);  // 7 degrees of freedom, 99.9 %
}

// ---- changes in time -----------------------------------------------------------------------------------------------

TEST(Link, ASlowerRateHoldsForWhatWaitsButNotForWhatIsOnTheWire) {
  Wire wire(way(0ms, DataRate{8'000'000}));
  for (int i = 0; i < 4; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->at(TimePoint(500us), [&] { wire.network->set_link("a-b", way(0ms, DataRate{4'000'000}), way(0ms)); });
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 4U);
  EXPECT_EQ(wire.b.received[0].at, TimePoint(1ms));
  EXPECT_EQ(wire.b.received[1].at, TimePoint(3ms));
  EXPECT_EQ(wire.b.received[3].at, TimePoint(7ms));
  EXPECT_EQ(wire.network->link("a-b").a_to_b.rate, DataRate{4'000'000});
}

TEST(Link, AFasterRateDrainsTheQueueSooner) {
  Wire wire(way(2ms, DataRate{8'000'000}));
  for (int i = 0; i < 4; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->at(TimePoint(500us), [&] { wire.network->set_link("a-b", way(2ms, DataRate{80'000'000}), way(2ms)); });
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 4U);
  EXPECT_EQ(wire.b.received[0].at, TimePoint(3ms));
  EXPECT_EQ(wire.b.received[1].at, TimePoint(3100us));
  EXPECT_EQ(wire.b.received[3].at, TimePoint(3300us));
  expect_conserved(*wire.network);
}

TEST(Link, LiftingTheRateFreesTheQueueWhenTheWireIsFree) {
  Wire wire(way(2ms, DataRate{8'000'000}));
  for (int i = 0; i < 4; ++i) wire.a.send_sized(wire.b.local(), 1000);
  wire.network->at(TimePoint(500us), [&] {
    wire.network->set_link("a-b", way(2ms), way(2ms));
    wire.a.send_sized(wire.b.local(), 1000);
  });
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 5U);
  for (const auto& r : wire.b.received) EXPECT_EQ(r.at, TimePoint(3ms));
  expect_conserved(*wire.network);
}

TEST(Link, AShorterDelayDoesNotOvertake) {
  Wire wire(way(50ms));
  wire.a.send(wire.b.local(), as_bytes("first"));
  wire.network->at(TimePoint(10ms), [&] {
    wire.network->set_link("a-b", way(1ms), way(1ms));
    wire.a.send(wire.b.local(), as_bytes("second"));
  });
  wire.network->run_until(TimePoint(1s));
  ASSERT_EQ(wire.b.received.size(), 2U);
  EXPECT_EQ(as_text(wire.b.received[0].payload), "first");
  EXPECT_EQ(wire.b.received[1].at, TimePoint(50ms));
}

TEST(Link, ManyChangesOfManyKindsLoseAndReorderNothing) {
  RandomStream random(3, 0, "changes");
  Wire wire(way(1ms, DataRate{8'000'000}));
  std::uint32_t sent = 0;
  for (int i = 0; i < 3000; ++i) {
    wire.network->at(TimePoint(Duration(random.between(0, 2'000'000'000))), [&] {
      LinkDirection direction = way(Duration(random.between(0, 3'000'000)));
      if (random.chance(0.8)) direction.rate = DataRate{random.between(1'000'000, 100'000'000)};
      if (random.chance(0.3)) direction.jitter = Duration(random.between(0, 1'000'000));
      direction.queue = {.packets = std::nullopt, .bytes = std::nullopt};
      wire.network->set_link("a-b", direction, way(1ms));
    });
    wire.network->at(TimePoint(Duration(random.between(0, 2'000'000'000))), [&] {
      Bytes payload(static_cast<std::size_t>(random.between(4, 1400)));
      ByteWriter(payload).u32(sent);
      sent += static_cast<std::uint32_t>(wire.a.send(wire.b.local(), payload));
    });
    if (i % 100 == 0) {
      wire.network->at(TimePoint(1ms * (i / 2)), [&] { expect_conserved(*wire.network); });
    }
  }
  wire.network->run_until(TimePoint(60s));
  ASSERT_EQ(wire.b.received.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) ASSERT_EQ(ByteReader(wire.b.received[i].payload).u32(), i);
  expect_conserved(*wire.network);
}

}  // namespace
}  // namespace peerbed::sim::test
