// TCP on the plane: what the conformance suite cannot ask, because it needs loss, NATs and exact times.
#include "sim/des/host.h"
#include "sim/des/host_tcp.h"
#include "tests/sim/des/plane.h"

namespace peerbed::sim::test {
namespace {

constexpr IpAddress kInside = IpAddress::v4(192, 168, 1, 2);

/// Writes `outgoing`, reads all, remembers what was told and when.
class Talker final : public StreamHandler {
 public:
  void on_connected(TimePoint now) override {
    connected = now;
    write();
  }
  void on_readable(TimePoint) override {
    Bytes buffer(64 * 1024);
    for (;;) {
      const ReceiveResult r = socket->receive(buffer);
      incoming.insert(incoming.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(r.bytes));
      if (r.bytes == 0 || r.end) return;
    }
  }
  void on_writable(TimePoint) override { write(); }
  void on_closed(TimePoint now, CloseReason reason) override {
    closed = reason;
    closed_at = now;
    if (when_closed) when_closed();
  }
  void write() {
    while (sent < outgoing.size()) {
      const BytesView rest = BytesView(outgoing).subspan(sent);
      const std::size_t taken = socket->send({&rest, 1});
      sent += taken;
      if (taken == 0) return;
    }
    if (ends) socket->shutdown_send();
  }
  void connect(Network& network, std::string_view host, const Endpoint& remote, std::optional<Endpoint> local = std::nullopt) {
    auto made = network.environment(host).connect_stream({remote, local}, *this);
    ASSERT_TRUE(made.has_value()) << (made.has_error() ? made.error().message : "");
    socket = std::move(*made);
  }

  std::unique_ptr<StreamSocket> socket;
  Bytes outgoing, incoming;
  std::size_t sent = 0;
  bool ends = false;
  std::optional<TimePoint> connected;
  std::optional<CloseReason> closed;
  TimePoint closed_at{};
  std::function<void()> when_closed;
};

class Door final : public ListenerHandler {
 public:
  Door(Network& network, std::string_view host, const Endpoint& local) {
    listener = *network.environment(host).listen_stream(local, *this);
  }
  void on_accepted(TimePoint now, std::unique_ptr<StreamSocket> socket) override {
    accepted.push_back(std::make_unique<Talker>());
    accepted.back()->socket = std::move(socket);
    accepted.back()->socket->set_handler(*accepted.back());
    accepted.back()->connected = now;
    accepted.back()->ends = true;
    accepted.back()->write();
  }
  std::unique_ptr<StreamListener> listener;
  std::vector<std::unique_ptr<Talker>> accepted;
};

Bytes noise(std::size_t size) {
  RandomStream random(9, size, "noise");
  Bytes bytes(size);
  random.fill(bytes);
  return bytes;
}

TEST(StreamOnThePlane, AHandshakeTakesOneRoundTripAndThreeHeaders) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  Door door(*network, "b", {public_address(2), 80});
  Talker a;
  a.connect(*network, "a", {public_address(2), 80});
  network->run_until(TimePoint(1s));
  EXPECT_EQ(a.connected, TimePoint(20ms));
  ASSERT_EQ(door.accepted.size(), 1U);
  EXPECT_EQ(door.accepted[0]->connected, TimePoint(30ms));
  EXPECT_EQ(network->link_counters("a-b", true).delivered.bytes % 40, 0U);  // nothing but headers
}

TEST(StreamOnThePlane, BytesArriveWholeThroughLossAndJitterBothWays) {
  LinkDirection bad = way(10ms, DataRate{20'000'000});
  bad.loss = 0.03;
  bad.jitter = 3ms;
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", bad)}));
  Door door(*network, "b", {public_address(2), 80});
  Talker a;
  a.outgoing = noise(2'000'000);
  a.ends = true;
  a.connect(*network, "a", {public_address(2), 80});
  network->run_until(TimePoint(300s));
  ASSERT_EQ(door.accepted.size(), 1U);
  EXPECT_TRUE(door.accepted[0]->incoming == a.outgoing);
  EXPECT_EQ(a.closed, CloseReason::finished);
  EXPECT_EQ(door.accepted[0]->closed, CloseReason::finished);
  EXPECT_GT(network->environment("a").host().tcp().counters().segments_retransmitted, 0U);
  expect_conserved(*network);
  // Handles go, TIME_WAIT ends, and nothing of the connections stays.
  a.socket.reset();
  door.accepted.clear();
  network->run_until(TimePoint(400s));
  EXPECT_EQ(network->environment("a").host().tcp().connections(), 0U);
  EXPECT_EQ(network->environment("b").host().tcp().connections(), 0U);
  EXPECT_EQ(network->conservation().in_flight.packets, 0U);
}

TEST(StreamOnThePlane, ALongTransferFillsTheLink) {
  // 20 Mbit/s, 40 ms: what is left after headers (1460 of 1500) and slow start. Queue of a bandwidth-delay product.
  LinkDirection direction = way(20ms, DataRate{20'000'000});
  direction.queue = {.packets = 70, .bytes = std::nullopt};
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", direction)}));
  Door door(*network, "b", {public_address(2), 80});
  Talker a;
  a.outgoing = noise(20'000'000);
  a.ends = true;
  a.connect(*network, "a", {public_address(2), 80});
  network->run_until(TimePoint(60s));
  ASSERT_EQ(door.accepted.size(), 1U);
  ASSERT_TRUE(door.accepted[0]->incoming == a.outgoing);
  const double ideal = 20'000'000 * 8 / (20e6 * 1460 / 1500);
  EXPECT_LT(to_seconds(door.accepted[0]->closed_at - TimePoint{}), ideal / 0.9);
}

TEST(StreamOnThePlane, AClosedPortRefusesAfterOneRoundTrip) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  Talker a;
  a.connect(*network, "a", {public_address(2), 80});
  network->run_until(TimePoint(1s));
  EXPECT_EQ(a.closed, CloseReason::refused);
  EXPECT_EQ(a.closed_at, TimePoint(20ms));
  EXPECT_EQ(dropped(*network, DropReason::no_port), 1U);
}

TEST(StreamOnThePlane, AClosedConnectionMayBeOpenedAgainInItsLastCallback) {
  // What a hole puncher does: the same endpoints, at once, from inside on_closed.
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  const Endpoint local{public_address(1), 5000}, remote{public_address(2), 80};
  Talker a;
  int tries = 0;
  a.when_closed = [&] {
    if (++tries == 3) return;
    a.socket.reset();
    a.connect(*network, "a", remote, local);
  };
  a.connect(*network, "a", remote, local);
  network->run_until(TimePoint(1s));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(a.closed_at, TimePoint(60ms));
  a.socket.reset();
  network->run_until(TimePoint(2s));
  EXPECT_EQ(network->environment("a").host().tcp().connections(), 0U);
}

TEST(StreamOnThePlane, TwoConnectionsOfTheSameEndpointsAreRefused) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  Door door(*network, "b", {public_address(2), 80});
  Talker first, second;
  first.connect(*network, "a", {public_address(2), 80}, Endpoint{public_address(1), 5000});
  auto again = network->environment("a").connect_stream({{public_address(2), 80}, Endpoint{public_address(1), 5000}}, second);
  ASSERT_TRUE(again.has_error());
  EXPECT_EQ(again.error().kind, ErrorKind::unavailable);
}

TEST(StreamOnThePlane, TwoHomesPunchByOpeningAtOnce) {  // RFC 5128 §3.4: simultaneous open through two NATs
  for (const Duration skew : {0ms, 5ms, 15ms}) {
    NatBehavior nat_behavior;  // endpoint-independent mapping, port-preserving; filtered by address and port
    auto network = make(topology({node("a", NodeKind::host, {kInside}), nat("nat-a", 101, "nat-a-r", nat_behavior),
                                  node("b", NodeKind::host, {kInside}), nat("nat-b", 102, "nat-b-r", nat_behavior), router("r")},
                                 {link("a", "nat-a", way(1ms)), link("nat-a", "r", way(10ms)), link("b", "nat-b", way(1ms)),
                                  link("nat-b", "r", way(10ms))}));
    Talker a, b;
    a.outgoing = noise(100'000);
    b.outgoing = noise(50'000);
    a.ends = b.ends = true;
    const Endpoint inside{kInside, 5000};
    a.connect(*network, "a", {public_address(102), 5000}, inside);
    network->at(TimePoint(skew), [&] { b.connect(*network, "b", {public_address(101), 5000}, inside); });
    network->run_until(TimePoint(60s));
    EXPECT_TRUE(a.connected.has_value()) << peerbed::to_string(skew);
    EXPECT_TRUE(b.connected.has_value()) << peerbed::to_string(skew);
    EXPECT_TRUE(a.incoming == b.outgoing && b.incoming == a.outgoing) << peerbed::to_string(skew);
    EXPECT_EQ(a.closed, CloseReason::finished);
    EXPECT_EQ(b.closed, CloseReason::finished);
  }
}

TEST(StreamOnThePlane, AHostThatVanishesIsNoticedByItsPeer) {
  auto network = make(topology({host("a", 1), host("b", 2)}, {link("a", "b", way(10ms))}));
  Door door(*network, "b", {public_address(2), 80});
  Talker a;
  a.connect(*network, "a", {public_address(2), 80});
  network->run_until(TimePoint(1s));
  network->set_host_up("b", false);
  a.outgoing = noise(1000);
  a.write();
  network->run_until(TimePoint(3h));
  EXPECT_EQ(a.closed, CloseReason::timed_out);
}

}  // namespace
}  // namespace peerbed::sim::test
