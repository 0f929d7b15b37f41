#include <gtest/gtest.h>

#include "tests/core/transport/party.h"

namespace peerbed {
namespace {

class UdpTransportTest : public test::TransportWorld {
 protected:
  void open(TransportConfig config = {}) {
    for (const char* host : {"a", "b", "c"}) party(host, config).open_udp({any(4001)});
  }
};

TEST_F(UdpTransportTest, ADialedLinkIsEstablishedOnBothEndsAfterItsRoundTrips) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  Link& link = a.dial_udp(now(), endpoint("b"), b.keys.public_key);
  EXPECT_FALSE(link.established());
  run(1s);
  ASSERT_EQ(a.established.size(), 1U);
  ASSERT_EQ(b.incoming.size(), 1U);
  EXPECT_EQ(a.established[0], &link);
  EXPECT_TRUE(b.established.empty());  // on_incoming_link is all it gets
  EXPECT_EQ(link.remote(), b.keys.public_key);
  EXPECT_EQ(b.incoming[0]->remote(), a.keys.public_key);
  EXPECT_EQ(link.session(), b.incoming[0]->session());
  EXPECT_TRUE(link.initiator());
  EXPECT_FALSE(b.incoming[0]->initiator());
  EXPECT_GE(a.established_at - TimePoint{}, 40ms);  // 2 x (10 + 10) ms
  EXPECT_LT(a.established_at - TimePoint{}, 42ms);
  ASSERT_FALSE(b.observed.empty());
  EXPECT_EQ(b.observed[0], endpoint("b"));
  ASSERT_FALSE(a.observed.empty());
  EXPECT_EQ(a.observed[0], endpoint("a"));
}

TEST_F(UdpTransportTest, AStreamCarriesMegabytesAtNearlyTheRateOfTheLink) {
  open();
  test::Party& a = party("a");
  Link& link = a.dial_udp(now(), endpoint("b"));
  run(200ms);
  const TimePoint start = now();
  a.send(now(), link, 20'000'000);
  run(10s);
  test::Party& b = party("b");
  ASSERT_TRUE(b.ended_at.contains(0));
  EXPECT_EQ(b.received[0], 20'000'000U);
  // 20 MB at 100 Mbit/s take 1.6 s without headers; slow start and headers may add a third.
  EXPECT_LT(to_seconds(b.ended_at[0] - start), 2.2);
}

TEST_F(UdpTransportTest, SmallWritesOfOneEventShareADatagram) {
  open();
  test::Party& a = party("a");
  Link& link = a.dial_udp(now(), endpoint("b"));
  run(500ms);
  const std::uint64_t before = a.udp->stats().datagrams_sent;
  const StreamId id = link.open_stream(now());
  for (int i = 0; i < 50; ++i) {
    const std::array<std::uint8_t, 10> bytes{};
    const BytesView slice(bytes);
    EXPECT_EQ(link.write(now(), id, std::span(&slice, 1)), 10U);
  }
  party("b").reading = false;
  run(5ms);
  EXPECT_EQ(a.udp->stats().datagrams_sent - before, 1U);
}

TEST_F(UdpTransportTest, AnUnknownIdentityOrAnotherApplicationIsRefused) {
  open();
  TransportConfig other;
  other.application = "other";
  test::Party stranger(network->environment("c"), 77, other);
  stranger.open_udp({any(5005)});
  test::Party& a = party("a");
  a.dial_udp(now(), endpoint("b"), stranger.keys.public_key);
  a.dial_udp(now(), endpoint("c", 5005));
  run(15s);
  ASSERT_EQ(a.closed.size(), 2U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::handshake_failed);
  EXPECT_EQ(a.closed[1].second, LinkCloseReason::handshake_failed);
  EXPECT_TRUE(stranger.incoming.empty());
  EXPECT_TRUE(party("b").incoming.empty());
}

TEST_F(UdpTransportTest, ADialToNobodyTimesOutAndLeavesNothingBehind) {
  open();
  test::Party& a = party("a");
  a.dial_udp(now(), Endpoint{address("b"), 9});
  run(20s);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::timed_out);
  EXPECT_EQ(a.closed_at - TimePoint{}, 10s);
  EXPECT_EQ(a.udp->stats().links, 0U);
}

TEST_F(UdpTransportTest, AFamilyWithoutASocketIsRefusedAtOnceButNotInsideTheCall) {
  open();
  test::Party& a = party("a");
  a.dial_udp(now(), Endpoint{IpAddress::loopback(Family::v6), 4001});
  EXPECT_TRUE(a.closed.empty());
  run(1ms);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::refused);
}

TEST_F(UdpTransportTest, CloseReachesThePeerAndBothEndsForget) {
  open();
  test::Party& a = party("a");
  Link& link = a.dial_udp(now(), endpoint("b"));
  run(500ms);
  link.close(now());
  EXPECT_TRUE(a.closed.empty());
  run(100ms);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::local);
  ASSERT_EQ(party("b").closed.size(), 1U);
  EXPECT_EQ(party("b").closed[0].second, LinkCloseReason::remote);
  EXPECT_EQ(a.udp->stats().links, 0U);
  EXPECT_EQ(party("b").udp->stats().links, 0U);
}

TEST_F(UdpTransportTest, ALostCloseIsSaidAgainToAPeerThatGoesOnSending) {
  open();
  test::Party& a = party("a");
  Link& link = a.dial_udp(now(), endpoint("b"));
  run(500ms);
  const LinkSpec spec = network->link("la");
  LinkDirection dead = spec.a_to_b;
  dead.loss = 1;
  network->set_link("la", dead, spec.b_to_a);
  link.close(now());
  run(30ms);
  network->set_link("la", spec.a_to_b, spec.b_to_a);
  test::Party& b = party("b");
  EXPECT_TRUE(b.closed.empty());
  b.send(now(), *b.incoming[0], 100);
  run(200ms);
  ASSERT_EQ(b.closed.size(), 1U);
  EXPECT_EQ(b.closed[0].second, LinkCloseReason::remote);
}

TEST_F(UdpTransportTest, StunAndDhtShareTheSocket) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  const Bytes stun{0x00, 0x01, 0x00, 0x00, 0x21, 0x12, 0xa4, 0x42};
  EXPECT_TRUE(a.udp->send_other(now(), endpoint("b"), stun));
  EXPECT_TRUE(a.udp->send_other(now(), endpoint("b"), as_bytes("d1:q4:ping1:y1:qe")));
  EXPECT_FALSE(a.udp->send_other(now(), Endpoint{IpAddress::loopback(Family::v6), 1}, stun));
  run(100ms);
  ASSERT_EQ(b.others.size(), 2U);
  EXPECT_EQ(b.others[0], stun);
  EXPECT_EQ(as_text(b.others[1]), "d1:q4:ping1:y1:qe");
  EXPECT_EQ(b.udp->stats().links, 0U);
}

TEST_F(UdpTransportTest, ASmallFirstMessageOpensNoState) {
  open();
  test::Party& b = party("b");
  Bytes small(600, 0);
  ByteWriter writer(small);
  encode_handshake_header(writer, HandshakeType::initiate, 0, 7, 40);
  for (int i = 0; i < 100; ++i) party("a").udp->send_other(now(), endpoint("b"), small);
  run(100ms);
  EXPECT_EQ(b.udp->stats().handshakes_malformed, 100U);
  EXPECT_EQ(b.udp->stats().links, 0U);
  EXPECT_EQ(b.udp->stats().datagrams_sent, 0U);
}

TEST_F(UdpTransportTest, IncomingHandshakesAreBoundedAndForgotten) {
  TransportConfig config;
  config.max_incoming = 10;
  party("b", config).open_udp({any(4001)});
  test::Party& a = party("a");
  a.open_udp({any(4001)});
  for (std::uint8_t i = 0; i < 50; ++i) {  // first messages of nobody
    Bytes message(1232, 0);
    ByteWriter writer(message);
    encode_handshake_header(writer, HandshakeType::initiate, 0, i + 1U, 40);
    const Bytes key(40, static_cast<std::uint8_t>(i + 9));
    writer.bytes(key);
    a.udp->send_other(now(), endpoint("b"), message);
  }
  run(1s);
  test::Party& b = party("b");
  EXPECT_EQ(b.udp->stats().handshakes_incoming, 10U);
  EXPECT_EQ(b.udp->stats().handshakes_refused, 40U);
  EXPECT_EQ(b.udp->stats().links, 10U);
  run(15s);
  EXPECT_EQ(b.udp->stats().links, 0U);
  EXPECT_TRUE(b.incoming.empty());
  EXPECT_TRUE(b.closed.empty());  // nobody was told of them, nobody is told of their end
  a.dial_udp(now(), endpoint("b"));
  run(1s);
  EXPECT_EQ(b.incoming.size(), 1U);
}

TEST_F(UdpTransportTest, AHundredLinksShareOneSocketAndOneTimer) {
  open();
  test::Party& a = party("a");
  for (int i = 0; i < 100; ++i) a.dial_udp(now(), endpoint(i % 2 == 0 ? "b" : "c"));
  run(2s);
  EXPECT_EQ(a.established.size(), 100U);
  EXPECT_EQ(party("b").incoming.size(), 50U);
  const std::uint64_t wakeups = a.udp->stats().timer_wakeups;
  run(20s);
  EXPECT_LE(a.udp->stats().timer_wakeups - wakeups, 2U);  // idle links need no time
}

TEST_F(UdpTransportTest, ARelayedLinkMovesToADirectPathWithoutLosingAByte) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  // The relay is two queues: circuit 7 on a's side is circuit 9 on b's.
  struct Relay final : CircuitSender {
    bool send_on_circuit(TimePoint, std::uint32_t circuit, BytesView payload) override {
      (circuit == 7 ? to_b : to_a).emplace_back(payload.begin(), payload.end());
      return circuit == 7 || circuit == 9;
    }
    std::size_t max_circuit_datagram() const override { return 1150; }
    std::vector<Bytes> to_a, to_b;
  } relay;
  a.udp->set_circuit_sender(&relay);
  b.udp->set_circuit_sender(&relay);
  const auto carry = [&](Duration how_long) {
    for (const TimePoint end = now() + how_long; now() < end; run(1ms)) {
      std::vector<Bytes> to_a, to_b;
      to_a.swap(relay.to_a);
      to_b.swap(relay.to_b);
      for (const Bytes& d : to_b) b.udp->on_circuit_datagram(now(), 9, d);
      for (const Bytes& d : to_a) a.udp->on_circuit_datagram(now(), 7, d);
    }
  };
  Link& link = a.udp->dial(now(), b.keys.public_key, Path{{}, 7}, a);
  carry(100ms);
  ASSERT_EQ(a.established.size(), 1U);
  ASSERT_EQ(b.incoming.size(), 1U);
  EXPECT_TRUE(b.incoming[0]->path().relayed());
  a.send(now(), link, 3'000'000);
  carry(100ms);
  link.probe_path(now(), Path{endpoint("b"), 0});
  carry(200ms);
  ASSERT_FALSE(a.validated.empty());
  EXPECT_EQ(a.validated[0], (Path{endpoint("b"), 0}));
  ASSERT_FALSE(b.validated.empty());  // our probe was answered with the peer's own
  EXPECT_EQ(b.validated[0], (Path{endpoint("a"), 0}));
  EXPECT_TRUE(link.use_path(now(), Path{endpoint("b"), 0}));
  carry(3s);
  EXPECT_EQ(link.path(), (Path{endpoint("b"), 0}));
  EXPECT_EQ(b.incoming[0]->path(), (Path{endpoint("a"), 0}));
  EXPECT_EQ(b.received[0], 3'000'000U);
  EXPECT_TRUE(b.ended_at.contains(0));
}

TEST_F(UdpTransportTest, EqualSeedsGiveEqualRuns) {
  std::array<std::uint64_t, 2> hashes{};
  for (std::uint64_t& hash : hashes) {
    parties.clear();
    SetUp();
    open();
    test::Party& a = party("a");
    Link& link = a.dial_udp(now(), endpoint("b"));
    run(200ms);
    a.send(now(), link, 1'000'000);
    run(2s);
    hash = network->trace_hash();
    parties.clear();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace peerbed
