// Streams: opening them, moving bytes, backpressure.
#pragma once

#include "tests/conformance/world.h"

namespace peerbed::conformance {

template <class W>
class StreamConformance : public Conformance<W> {};
TYPED_TEST_SUITE_P(StreamConformance);

TYPED_TEST_P(StreamConformance, AConnectionIsToldToBothEndsAndTheEndpointsAgree) {
  for (const Family family : this->kFamilies) {
    auto pair = this->make_pair(family);
    ASSERT_NE(pair.server, nullptr);
    EXPECT_EQ(pair.client->socket->remote_endpoint(), pair.listener->local());
    EXPECT_EQ(pair.server->socket->local_endpoint(), pair.listener->local());
    EXPECT_EQ(pair.server->socket->remote_endpoint(), pair.client->socket->local_endpoint());
    EXPECT_EQ(pair.server->connected, 0U) << "on_connected is for an active open only";
    EXPECT_FALSE(pair.client->is_closed());
  }
}

TYPED_TEST_P(StreamConformance, BytesFlowBothWays) {
  for (const Family family : this->kFamilies) {
    auto pair = this->make_pair(family);
    ASSERT_NE(pair.server, nullptr);
    EXPECT_EQ(pair.client->send(as_bytes("question")), 8U);
    ASSERT_TRUE(this->until([&] { return pair.server->text() == "question"; }));
    EXPECT_EQ(pair.server->send(as_bytes("answer")), 6U);
    ASSERT_TRUE(this->until([&] { return pair.client->text() == "answer"; }));
  }
}

TYPED_TEST_P(StreamConformance, AClosedPortRefuses) {
  for (const Family family : this->kFamilies) {
    auto client = this->connect(0, {this->world.address(1, family), this->world.unused_port()});
    if (client->socket == nullptr) continue;  // known at once: an error of connect_stream
    ASSERT_TRUE(this->until([&] { return client->is_closed(); }));
    EXPECT_EQ(client->closed[0], CloseReason::refused);
    EXPECT_EQ(client->connected, 0U);
  }
}

TYPED_TEST_P(StreamConformance, AnAddressWithoutARouteEndsTheConnect) {
  for (const Family family : this->kFamilies) {
    auto client = this->connect(0, {this->world.unreachable_address(family), 9});
    if (client->socket == nullptr) continue;
    ASSERT_TRUE(this->until([&] { return client->is_closed(); }, 200s));  // a SYN may have to time out
    EXPECT_TRUE(client->closed[0] == CloseReason::unreachable || client->closed[0] == CloseReason::timed_out);
    EXPECT_EQ(client->connected, 0U);
  }
}

TYPED_TEST_P(StreamConformance, BeforeTheConnectionStandsNothingIsTaken) {
  auto listener = this->listen(1);
  auto client = this->connect(0, listener->local());
  ASSERT_NE(client->socket, nullptr);
  EXPECT_EQ(client->connected, 0U);  // rule 1
  const BytesView early = as_bytes("early");
  EXPECT_EQ(call([&] { return client->socket->send({&early, 1}); }), 0U);
  Bytes buffer(10);
  const ReceiveResult nothing = client->socket->receive(buffer);
  EXPECT_EQ(nothing.bytes, 0U);
  EXPECT_FALSE(nothing.end);
  ASSERT_TRUE(this->until([&] { return client->connected == 1; }));
  EXPECT_EQ(client->send(as_bytes("now")), 3U);
  ASSERT_TRUE(this->until([&] { return !listener->accepted.empty() && listener->accepted[0]->text() == "now"; }));
}

TYPED_TEST_P(StreamConformance, SlicesAreGatheredInOrder) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  // More slices than one system call takes on any system (IOV_MAX is 1024 on Linux), some of them empty.
  std::string expected;
  std::vector<std::string> texts;
  for (int i = 0; i < 1500; ++i) texts.push_back(i % 7 == 0 ? "" : std::to_string(i) + ",");
  std::vector<BytesView> slices;
  for (const std::string& t : texts) {
    slices.push_back(as_bytes(t));
    expected += t;
  }
  std::size_t taken = pair.client->send(slices);
  ASSERT_TRUE(this->until([&] {
    if (taken < expected.size()) taken += pair.client->send(as_bytes(std::string_view(expected).substr(taken)));
    return pair.server->incoming.size() == expected.size();
  }));
  EXPECT_EQ(pair.server->text(), expected);
  EXPECT_EQ(pair.client->send(std::span<const BytesView>{}), 0U);
  EXPECT_EQ(pair.client->send(BytesView{}), 0U);
}

TYPED_TEST_P(StreamConformance, EightMebibytesFlowBothWaysAtOnce) {
  auto listener = this->listen(1);
  listener->when_accepted = [&](StreamRecorder& s) {
    s.outgoing = pattern(8U << 20, 1);
    s.then_shuts = true;
    s.pump();
  };
  auto client = std::make_unique<StreamRecorder>(this->watches[0]);
  client->outgoing = pattern(8U << 20, 2);
  client->then_shuts = true;
  this->start(*client, 0, listener->local());
  ASSERT_TRUE(this->until([&] {
    return client->is_closed() && !listener->accepted.empty() && listener->accepted[0]->is_closed();
  }, 30s));
  StreamRecorder& server = *listener->accepted[0];
  EXPECT_EQ(client->incoming == server.outgoing, true);
  EXPECT_EQ(server.incoming == client->outgoing, true);
  EXPECT_TRUE(client->ended && server.ended);
  EXPECT_EQ(client->closed[0], CloseReason::finished);
  EXPECT_EQ(server.closed[0], CloseReason::finished);
}

TYPED_TEST_P(StreamConformance, AReceiverThatDoesNotReadStopsTheSender) {  // rule 9
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->reads = false;
  pair.client->outgoing = pattern(32U << 20);
  pair.client->pump();
  // It stops when all buffers on the way are full: no progress for a while.
  std::size_t before = pair.client->sent;
  for (int rounds = 0; rounds < 100; ++rounds) {
    this->world.run_for(kQuiet);
    if (pair.client->sent == before) break;
    before = pair.client->sent;
  }
  const std::size_t stopped_at = pair.client->sent;
  EXPECT_LT(stopped_at, pair.client->outgoing.size()) << "nothing bounds what is buffered towards a slow reader";
  EXPECT_TRUE(pair.client->refused);
  EXPECT_EQ(pair.server->readable, 1U) << "on_readable comes again only after receive() was drained";
  // Reading goes on, and so does the sender, by on_writable alone.
  pair.server->reads = true;
  pair.server->drain();
  ASSERT_TRUE(this->until([&] { return pair.server->incoming.size() == pair.client->outgoing.size(); }, 30s));
  EXPECT_GT(pair.client->writable, 0U);
  EXPECT_TRUE(pair.server->incoming == pair.client->outgoing);
}

TYPED_TEST_P(StreamConformance, ReadableComesAgainOnlyAfterADrain) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  Bytes small(4);
  std::string got;
  pair.server->when_readable = [&](TimePoint) {
    const ReceiveResult r = pair.server->socket->receive(small);
    got += as_text(BytesView(small).first(r.bytes));
  };
  pair.client->send(as_bytes("0123456789"));
  ASSERT_TRUE(this->until([&] { return pair.server->readable == 1; }));
  pair.client->send(as_bytes("more"));
  this->world.run_for(kQuiet);
  EXPECT_EQ(pair.server->readable, 1U);
  EXPECT_EQ(got, "0123");
  // The rest is drained outside of a callback; after that new data is told again.
  pair.server->drain();
  EXPECT_EQ(pair.server->text(), "456789more");
  pair.client->send(as_bytes("last"));
  ASSERT_TRUE(this->until([&] { return pair.server->readable == 2; }));
}

TYPED_TEST_P(StreamConformance, SmallWritesKeepTheirOrder) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  std::string expected;
  auto timer = this->make_timer(0);
  timer->then = [&](TimePoint now) {
    for (int i = 0; i < 10; ++i) {
      const std::string word = std::to_string(expected.size()) + " ";
      ASSERT_EQ(pair.client->send(as_bytes(word)), word.size());
      expected += word;
    }
    if (timer->fired.size() < 20) this->arm(*timer, now + 1ms);
  };
  this->arm(*timer, this->world.now());
  ASSERT_TRUE(this->until(
      [&] { return timer->fired.size() == 20 && pair.server->incoming.size() == expected.size(); }));
  EXPECT_EQ(pair.server->text(), expected);
}

TYPED_TEST_P(StreamConformance, ManyConnectionsReachOneListener) {
  auto listener = this->listen(1);
  std::vector<std::unique_ptr<StreamRecorder>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<StreamRecorder>(this->watches[0]));
    clients.back()->outgoing = pattern(100, static_cast<std::uint64_t>(i + 1));
    clients.back()->then_shuts = true;
    this->start(*clients.back(), static_cast<std::size_t>(i % 2) * 2, listener->local());
  }
  ASSERT_TRUE(this->until([&] {
    if (listener->accepted.size() < clients.size()) return false;
    return std::all_of(listener->accepted.begin(), listener->accepted.end(), [](const auto& s) { return s->ended; });
  }));
  std::vector<Bytes> sent, got;
  for (const auto& c : clients) sent.push_back(c->outgoing);
  for (const auto& s : listener->accepted) got.push_back(s->incoming);
  std::sort(sent.begin(), sent.end());
  std::sort(got.begin(), got.end());
  EXPECT_EQ(sent, got);
}

TYPED_TEST_P(StreamConformance, AListenerOnAnAnyAddressAcceptsOnTheHostsAddress) {
  for (const Family family : this->kFamilies) {
    auto listener = this->listen(1, Endpoint{IpAddress::any(family), this->world.unused_port()});
    const Endpoint remote{this->world.address(1, family), listener->local().port};
    auto client = this->connect(0, remote);
    ASSERT_TRUE(this->until([&] { return client->connected == 1 && listener->accepted.size() == 1; }));
    EXPECT_EQ(listener->accepted[0]->socket->local_endpoint(), remote);
  }
}

TYPED_TEST_P(StreamConformance, TwoListenersCannotShareAnEndpoint) {
  auto first = this->listen(1);
  ListenerRecorder second(this->watches[1]);
  auto result = this->world.host(1).listen_stream(first->local(), second);
  ASSERT_TRUE(result.has_error());
  EXPECT_EQ(result.error().kind, ErrorKind::unavailable);
  EXPECT_FALSE(result.error().message.empty());
}

TYPED_TEST_P(StreamConformance, AListenerThatWasDestroyedRefusesAndFreesItsPort) {
  auto listener = this->listen(1);
  const Endpoint endpoint = listener->local();
  auto early = this->connect(0, endpoint);
  ASSERT_TRUE(this->until([&] { return listener->accepted.size() == 1; }));
  listener->listener.reset();
  auto late = this->connect(0, endpoint);
  if (late->socket != nullptr) {
    ASSERT_TRUE(this->until([&] { return late->is_closed(); }));
    EXPECT_EQ(late->closed[0], CloseReason::refused);
  }
  // What it had accepted lives on, and its port can be listened on again.
  early->send(as_bytes("still here"));
  ASSERT_TRUE(this->until([&] { return listener->accepted[0]->text() == "still here"; }));
  auto again = this->listen(1, endpoint);
  auto third = this->connect(0, endpoint);
  ASSERT_TRUE(this->until([&] { return again->accepted.size() == 1; }));
  EXPECT_EQ(listener->accepted.size(), 1U);
}

TYPED_TEST_P(StreamConformance, AConnectionMayComeFromTheListenersOwnPort) {  // TCP hole punching needs it
  for (const Family family : this->kFamilies) {
    auto own = this->listen(0, Endpoint{this->world.address(0, family), this->world.unused_port()});
    auto far = this->listen(1, family);
    auto out = this->connect(0, far->local(), own->local());
    ASSERT_NE(out->socket, nullptr);
    ASSERT_TRUE(this->until([&] { return out->connected == 1 && far->accepted.size() == 1; }));
    EXPECT_EQ(out->socket->local_endpoint(), own->local());
    EXPECT_EQ(far->accepted[0]->socket->remote_endpoint(), own->local());
    // The listener still listens.
    auto in = this->connect(2, own->local());
    ASSERT_TRUE(this->until([&] { return in->connected == 1 && own->accepted.size() == 1; }));
    out->send(as_bytes("out"));
    in->send(as_bytes("in"));
    ASSERT_TRUE(this->until([&] { return far->accepted[0]->text() == "out" && own->accepted[0]->text() == "in"; }));
  }
}

TYPED_TEST_P(StreamConformance, TwoConnectionsMayComeFromOnePort) {
  auto first = this->listen(1);
  auto second = this->listen(2);
  const Endpoint local{this->world.address(0, Family::v4), this->world.unused_port()};
  auto a = this->connect(0, first->local(), local);
  auto b = this->connect(0, second->local(), local);
  ASSERT_NE(a->socket, nullptr);
  ASSERT_NE(b->socket, nullptr);
  ASSERT_TRUE(this->until([&] {
    return a->connected == 1 && b->connected == 1 && first->accepted.size() == 1 && second->accepted.size() == 1;
  }));
  EXPECT_EQ(first->accepted[0]->socket->remote_endpoint(), local);
  EXPECT_EQ(second->accepted[0]->socket->remote_endpoint(), local);
  a->send(as_bytes("a"));
  b->send(as_bytes("b"));
  ASSERT_TRUE(this->until([&] { return first->accepted[0]->text() == "a" && second->accepted[0]->text() == "b"; }));
}

TYPED_TEST_P(StreamConformance, TheSameConnectionCannotBeOpenedTwice) {
  auto listener = this->listen(1);
  const Endpoint local{this->world.address(0, Family::v4), this->world.unused_port()};
  auto first = this->connect(0, listener->local(), local);
  ASSERT_TRUE(this->until([&] { return first->connected == 1; }));
  auto second = this->connect(0, listener->local(), local);
  if (second->socket != nullptr) {
    ASSERT_TRUE(this->until([&] { return second->is_closed(); }));
    EXPECT_EQ(second->closed[0], CloseReason::local_error);
  }
  EXPECT_FALSE(first->is_closed());
  first->send(as_bytes("unharmed"));
  ASSERT_TRUE(this->until(
      [&] { return listener->accepted.size() == 1 && listener->accepted[0]->text() == "unharmed"; }));
}

TYPED_TEST_P(StreamConformance, ALocalAddressOfNobodyCannotBeUsed) {
  auto listener = this->listen(1);
  auto client = this->connect(0, listener->local(), Endpoint{IpAddress::v4(203, 0, 113, 77), 0});
  if (client->socket != nullptr) {
    ASSERT_TRUE(this->until([&] { return client->is_closed(); }));
    EXPECT_EQ(client->closed[0], CloseReason::local_error);
  }
}

TYPED_TEST_P(StreamConformance, ASimultaneousOpenEndsInOneConnection) {  // RFC 9293 §3.5, figure 8
  for (const Family family : this->kFamilies) {
    const Endpoint at_a{this->world.address(0, family), this->world.unused_port()};
    const Endpoint at_b{this->world.address(1, family), this->world.unused_port()};
    const std::shared_ptr<void> nat_of_b = this->world.swallow_syns(at_b);
    auto a = this->connect(0, at_b, at_a);
    auto b = this->connect(1, at_a, at_b);
    ASSERT_NE(a->socket, nullptr);
    ASSERT_NE(b->socket, nullptr);
    ASSERT_TRUE(this->until([&] { return a->connected == 1 && b->connected == 1; }));
    EXPECT_EQ(a->socket->local_endpoint(), at_a);
    EXPECT_EQ(b->socket->remote_endpoint(), at_a);
    a->send(as_bytes("from a"));
    b->send(as_bytes("from b"));
    ASSERT_TRUE(this->until([&] { return a->text() == "from b" && b->text() == "from a"; }));
    EXPECT_FALSE(a->is_closed() || b->is_closed());
    a->shutdown();
    b->shutdown();
    ASSERT_TRUE(this->until([&] { return a->is_closed() && b->is_closed(); }));
    EXPECT_EQ(a->closed[0], CloseReason::finished);
    EXPECT_EQ(b->closed[0], CloseReason::finished);
  }
}

REGISTER_TYPED_TEST_SUITE_P(StreamConformance, AConnectionIsToldToBothEndsAndTheEndpointsAgree, BytesFlowBothWays,
                            AClosedPortRefuses, AnAddressWithoutARouteEndsTheConnect,
                            BeforeTheConnectionStandsNothingIsTaken, SlicesAreGatheredInOrder,
                            EightMebibytesFlowBothWaysAtOnce, AReceiverThatDoesNotReadStopsTheSender,
                            ReadableComesAgainOnlyAfterADrain, SmallWritesKeepTheirOrder,
                            ManyConnectionsReachOneListener, AListenerOnAnAnyAddressAcceptsOnTheHostsAddress,
                            TwoListenersCannotShareAnEndpoint, AListenerThatWasDestroyedRefusesAndFreesItsPort,
                            AConnectionMayComeFromTheListenersOwnPort, TwoConnectionsMayComeFromOnePort,
                            TheSameConnectionCannotBeOpenedTwice, ALocalAddressOfNobodyCannotBeUsed,
                            ASimultaneousOpenEndsInOneConnection);

}  // namespace peerbed::conformance
