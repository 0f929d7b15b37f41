// Randomness, secrets, addresses, and rule 5.
#pragma once

#include <algorithm>

#include "tests/conformance/world.h"

namespace peerbed::conformance {

template <class W>
class EnvironmentConformance : public Conformance<W> {};
TYPED_TEST_SUITE_P(EnvironmentConformance);

TYPED_TEST_P(EnvironmentConformance, TheSamePurposeGivesTheSameStream) {
  Environment& env = this->world.host(0);
  RandomStream a = env.random_stream("pacing");
  RandomStream b = env.random_stream("pacing");
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t first = a.next();
    const std::uint64_t second = b.next();
    EXPECT_EQ(first, second);
  }
}

TYPED_TEST_P(EnvironmentConformance, DifferentPurposesAndHostsGiveDifferentStreams) {
  RandomStream a = this->world.host(0).random_stream("pacing");
  RandomStream b = this->world.host(0).random_stream("dialing");
  RandomStream c = this->world.host(1).random_stream("pacing");
  const std::uint64_t from_a = a.next();
  const std::uint64_t from_b = b.next();
  const std::uint64_t from_c = c.next();
  EXPECT_NE(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

TYPED_TEST_P(EnvironmentConformance, TheSeedDecidesTheStreams) {
  TypeParam same(this->kSeed);
  TypeParam other(this->kSeed + 1);
  RandomStream a = this->world.host(2).random_stream("x");
  RandomStream b = same.host(2).random_stream("x");
  RandomStream c = other.host(2).random_stream("x");
  const std::uint64_t from_a = a.next();
  const std::uint64_t from_b = b.next();
  const std::uint64_t from_c = c.next();
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

TYPED_TEST_P(EnvironmentConformance, NoTwoSecretsAreEqual) {
  std::vector<std::array<std::uint8_t, 32>> secrets(8);
  for (std::size_t i = 0; i < secrets.size(); ++i) this->world.host(i % kHosts).fill_secret(secrets[i]);
  std::sort(secrets.begin(), secrets.end());
  EXPECT_EQ(std::adjacent_find(secrets.begin(), secrets.end()), secrets.end());
  this->world.host(0).fill_secret({});  // nothing asked, nothing done
}

TYPED_TEST_P(EnvironmentConformance, ALongSecretIsFilledToItsEnd) {
  Bytes secret(4096);
  this->world.host(0).fill_secret(secret);
  // 32 zero bytes in a row by chance: 2^-256 at each place.
  EXPECT_EQ(std::search_n(secret.begin(), secret.end(), 32, std::uint8_t{0}), secret.end());
}

TYPED_TEST_P(EnvironmentConformance, TheHostsOwnAddressesAreListedInAStableOrder) {
  for (std::size_t h = 0; h < kHosts; ++h) {
    const std::vector<IpAddress> addresses = this->world.host(h).local_addresses();
    EXPECT_EQ(addresses, this->world.host(h).local_addresses());
    for (const Family family : this->kFamilies) {
      EXPECT_NE(std::find(addresses.begin(), addresses.end(), this->world.address(h, family)), addresses.end());
    }
    for (const IpAddress& a : addresses) EXPECT_FALSE(a.is_any());
  }
}

TYPED_TEST_P(EnvironmentConformance, EventsCanBeRecorded) {
  Environment& env = this->world.host(0);
  env.events().record(this->world.now(), "conformance.event",
                      {{"number", std::int64_t{1}}, {"text", std::string_view("x")}});
  EXPECT_EQ(&env.events(), &env.events());
}

/// Everything that happened in a small, busy scenario: timers, batches that are answered, a stream both ways.
template <class W>
std::string trace_of_a_run(std::uint64_t seed) {
  W world(seed);
  std::array<Watch, kHosts> watches;
  std::string trace;
  const auto note = [&](TimePoint at, std::string_view what, std::size_t n) {
    trace += std::to_string(at.time_since_epoch().count()) + " " + std::string(what) + " " + std::to_string(n) + "\n";
  };
  RandomStream random = world.host(0).random_stream("trace");

  DatagramRecorder a(watches[0]), b(watches[1]);
  a.socket = std::move(*world.host(0).open_datagram_socket({{world.address(0, Family::v4), 0}, true}, a));
  b.socket = std::move(*world.host(1).open_datagram_socket({{world.address(1, Family::v4), 0}, true}, b));
  note(TimePoint{}, "port", a.local().port);
  note(TimePoint{}, "port", b.local().port);
  a.when_received = [&](TimePoint now) { note(now, "a received", a.received.size()); };
  b.when_received = [&](TimePoint now) {
    note(now, "b received", b.received.size());
    b.send(b.received.back().from, pattern(20));
  };

  ListenerRecorder listener(watches[2]);
  listener.listener = std::move(*world.host(2).listen_stream({world.address(2, Family::v6), 0}, listener));
  listener.when_accepted = [&](StreamRecorder& s) {
    s.outgoing = pattern(50'000, 2);
    s.then_shuts = true;
    s.when_closed = [&](TimePoint now) { note(now, "server closed", s.incoming.size()); };
    s.pump();
  };
  StreamRecorder client(watches[0]);
  client.outgoing = pattern(70'000, 3);
  client.then_shuts = true;
  client.when_closed = [&](TimePoint now) { note(now, "client closed", client.incoming.size()); };
  client.socket = std::move(*world.host(0).connect_stream({listener.local(), std::nullopt}, client));

  TimerRecorder timer(watches[0]);
  timer.timer = world.host(0).make_timer(timer);
  timer.then = [&](TimePoint now) {
    note(now, "timer", timer.fired.size());
    const Bytes payload = pattern(static_cast<std::size_t>(random.between(0, 1200)));
    const auto count = static_cast<std::size_t>(random.between(1, 8));
    const std::vector<OutgoingDatagram> batch(count, {b.local(), payload, Ecn::ect0, 0});
    note(now, "taken", a.send(batch));
    if (timer.fired.size() < 50) timer.timer->arm(now + Duration(random.between(0, 3'000'000)));
  };
  timer.timer->arm(world.now());
  EXPECT_TRUE(world.run_until(
      [&] { return timer.fired.size() == 50 && client.is_closed() && listener.accepted.front()->is_closed(); }, 20s));
  world.run_for(1s);
  std::array<std::uint8_t, 8> secret{};
  world.host(1).fill_secret(secret);
  return trace + to_hex(secret);
}

TYPED_TEST_P(EnvironmentConformance, EqualSeedsGiveEqualCallbacks) {  // rule 5
  if constexpr (TypeParam::kIsVirtual) {
    const std::string first = trace_of_a_run<TypeParam>(11);
    EXPECT_EQ(first, trace_of_a_run<TypeParam>(11));
    EXPECT_NE(first, trace_of_a_run<TypeParam>(12));
  } else {
    GTEST_SKIP() << "rule 5 speaks of virtual time";
  }
}

REGISTER_TYPED_TEST_SUITE_P(EnvironmentConformance, TheSamePurposeGivesTheSameStream,
                            DifferentPurposesAndHostsGiveDifferentStreams, TheSeedDecidesTheStreams,
                            NoTwoSecretsAreEqual, ALongSecretIsFilledToItsEnd,
                            TheHostsOwnAddressesAreListedInAStableOrder, EventsCanBeRecorded,
                            EqualSeedsGiveEqualCallbacks);

}  // namespace peerbed::conformance
