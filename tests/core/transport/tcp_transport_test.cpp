#include <gtest/gtest.h>

#include "tests/core/transport/party.h"

namespace peerbed {
namespace {

class TcpTransportTest : public test::TransportWorld {
 protected:
  void open(TransportConfig config = {}) {
    for (const char* host : {"a", "b", "c"}) party(host, config).open_tcp({any(4001)});
  }
};

TEST_F(TcpTransportTest, ADialedLinkIsEstablishedOnBothEnds) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  TcpDialOptions options;
  options.expected = b.keys.public_key;
  Link& link = a.dial_tcp(now(), endpoint("b"), options);
  run(1s);
  ASSERT_EQ(a.established.size(), 1U);
  ASSERT_EQ(b.incoming.size(), 1U);
  EXPECT_EQ(link.kind(), LinkKind::tcp);
  EXPECT_EQ(link.remote(), b.keys.public_key);
  EXPECT_EQ(link.session(), b.incoming[0]->session());
  ASSERT_FALSE(b.observed.empty());
  EXPECT_EQ(b.observed[0], endpoint("b"));
  ASSERT_FALSE(a.observed.empty());
  EXPECT_EQ(a.observed[0].address, address("a"));
}

TEST_F(TcpTransportTest, StreamsAndDatagramsGoBothWays) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  Link& link = a.dial_tcp(now(), endpoint("b"));
  run(1s);
  a.send(now(), link, 3'000'000);
  b.send(now(), *b.incoming[0], 2'000'000);
  EXPECT_TRUE(link.send_datagram(now(), as_bytes("hello")));
  run(5s);
  EXPECT_EQ(b.received[0], 3'000'000U);
  EXPECT_TRUE(b.ended_at.contains(0));
  EXPECT_EQ(a.received[1], 2'000'000U);
  ASSERT_EQ(b.datagrams.size(), 1U);
  EXPECT_EQ(as_text(b.datagrams[0]), "hello");
}

TEST_F(TcpTransportTest, ASlowReaderHoldsTheWriterAndBoundsTheMemory) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  Link& link = a.dial_tcp(now(), endpoint("b"));
  run(1s);
  b.reading = false;
  a.send(now(), link, 50'000'000);
  run(5s);
  // One stream window at the reader and one send buffer at the writer: no more was taken.
  const TransportConfig config;
  EXPECT_LE((a.written[{&link, 0}]), static_cast<std::uint64_t>((config.stream_window + config.stream_send_buffer).bytes));
  EXPECT_TRUE(a.closed.empty());
  b.reading = true;
  b.on_stream_readable(now(), *b.incoming[0], 0);
  run(10s);
  EXPECT_EQ(b.received[0], 50'000'000U);
}

TEST_F(TcpTransportTest, NobodyListeningIsRefused) {
  open();
  test::Party& a = party("a");
  a.dial_tcp(now(), Endpoint{address("b"), 9});
  EXPECT_TRUE(a.closed.empty());
  run(1s);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::refused);
  EXPECT_EQ(a.tcp->links(), 0U);
}

TEST_F(TcpTransportTest, AnUnexpectedIdentityFailsTheHandshake) {
  open();
  test::Party& a = party("a");
  TcpDialOptions options;
  options.expected = party("c").keys.public_key;
  a.dial_tcp(now(), endpoint("b"), options);
  run(1s);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::handshake_failed);
  EXPECT_TRUE(party("b").incoming.empty());
}

TEST_F(TcpTransportTest, AnotherApplicationFailsTheHandshake) {
  open();
  TransportConfig other;
  other.application = "other";
  test::Party stranger(network->environment("c"), 77, other);
  stranger.open_tcp({any(5005)});
  party("a").dial_tcp(now(), endpoint("c", 5005));
  run(1s);
  ASSERT_EQ(party("a").closed.size(), 1U);
  EXPECT_EQ(party("a").closed[0].second, LinkCloseReason::handshake_failed);
  EXPECT_TRUE(stranger.incoming.empty());
}

TEST_F(TcpTransportTest, CloseIsSeenAsRemoteAfterAllThatWasSentBefore) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  Link& link = a.dial_tcp(now(), endpoint("b"));
  run(1s);
  link.close(now());
  run(1s);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_EQ(a.closed[0].second, LinkCloseReason::local);
  ASSERT_EQ(b.closed.size(), 1U);
  EXPECT_EQ(b.closed[0].second, LinkCloseReason::remote);
  EXPECT_EQ(a.tcp->links(), 0U);
  EXPECT_EQ(b.tcp->links(), 0U);
}

TEST_F(TcpTransportTest, ASilentPeerTimesOutAndAKeptAliveOneDoesNot) {
  TransportConfig config;
  config.keepalive = 10s;
  open(config);
  test::Party& a = party("a");
  a.dial_tcp(now(), endpoint("b"));
  run(120s);
  EXPECT_TRUE(a.closed.empty());
  network->set_host_up("b", false);
  run(60s);
  ASSERT_EQ(a.closed.size(), 1U);
  EXPECT_TRUE(a.closed[0].second == LinkCloseReason::timed_out || a.closed[0].second == LinkCloseReason::reset);
}

TEST_F(TcpTransportTest, SimultaneousOpenWorksWhenOneSideTakesTheRespondersPart) {
  open();
  test::Party& a = party("a");
  test::Party& b = party("b");
  TcpDialOptions from_a, from_b;
  from_a.local = endpoint("a", 7001);
  from_b.local = endpoint("b", 7002);
  from_b.responder = true;
  Link& link_a = a.dial_tcp(now(), *from_b.local, from_a);
  Link& link_b = b.dial_tcp(now(), *from_a.local, from_b);
  run(3s);
  ASSERT_TRUE(link_a.established());
  ASSERT_TRUE(link_b.established());
  EXPECT_EQ(link_a.session(), link_b.session());
  EXPECT_EQ(b.established.size(), 1U);
  a.send(now(), link_a, 10'000);
  run(1s);
  EXPECT_EQ(b.received[0], 10'000U);
}

TEST_F(TcpTransportTest, ABrokenFirstMessageEndsOnlyThatSocket) {
  open();
  struct Raw final : StreamHandler {
    void on_connected(TimePoint) override {
      const Bytes garbage(4000, 0x01);
      const BytesView slice(garbage);
      socket->send(std::span(&slice, 1));
    }
    void on_readable(TimePoint) override {}
    void on_writable(TimePoint) override {}
    void on_closed(TimePoint, CloseReason) override { closed = true; }
    std::unique_ptr<StreamSocket> socket;
    bool closed = false;
  } raw;
  ConnectOptions options;
  options.remote = endpoint("b");
  auto socket = network->environment("c").connect_stream(options, raw);
  ASSERT_TRUE(socket);
  raw.socket = std::move(*socket);
  run(2s);
  EXPECT_TRUE(raw.closed);
  EXPECT_TRUE(party("b").incoming.empty());
  EXPECT_EQ(party("b").tcp->links(), 0U);
  party("a").dial_tcp(now(), endpoint("b"));
  run(1s);
  EXPECT_EQ(party("b").incoming.size(), 1U);
}

}  // namespace
}  // namespace peerbed
