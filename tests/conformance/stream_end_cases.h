// Streams: how they end. Rules 4, 7 and 8.
#pragma once

#include "tests/conformance/world.h"

namespace peerbed::conformance {

template <class W>
class StreamEndConformance : public Conformance<W> {};
TYPED_TEST_SUITE_P(StreamEndConformance);

TYPED_TEST_P(StreamEndConformance, AfterShutdownDataStillFlowsTheOtherWay) {  // rule 8
  for (const Family family : this->kFamilies) {
    auto pair = this->make_pair(family);
    ASSERT_NE(pair.server, nullptr);
    pair.client->send(as_bytes("request"));
    pair.client->shutdown();
    ASSERT_TRUE(this->until([&] { return pair.server->ended; }));
    EXPECT_EQ(pair.server->text(), "request");
    EXPECT_FALSE(pair.server->is_closed());
    const BytesView more = as_bytes("more");
    EXPECT_EQ(call([&] { return pair.client->socket->send({&more, 1}); }), 0U) << "nothing is taken after the FIN";
    this->world.run_for(kQuiet);
    EXPECT_FALSE(pair.client->is_closed());
    pair.server->outgoing = pattern(300'000);
    pair.server->then_shuts = true;
    pair.server->pump();
    ASSERT_TRUE(this->until([&] { return pair.client->is_closed() && pair.server->is_closed(); }));
    EXPECT_TRUE(pair.client->incoming == pair.server->outgoing);
    EXPECT_EQ(pair.client->closed[0], CloseReason::finished);
    EXPECT_EQ(pair.server->closed[0], CloseReason::finished);
  }
}

TYPED_TEST_P(StreamEndConformance, OnClosedComesOnceAndLast) {  // rule 7; the recorder checks "last"
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.client->shutdown();
  pair.server->shutdown();
  EXPECT_FALSE(pair.client->is_closed() || pair.server->is_closed());  // rule 1
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed() && pair.server->is_closed(); }));
  pair.client->shutdown();  // after the end: no effect, no harm
  EXPECT_EQ(call([&] { return pair.client->socket->send({}); }), 0U);
  Bytes buffer(8);
  EXPECT_EQ(pair.client->socket->receive(buffer).bytes, 0U);
  this->world.run_for(kQuiet);
  EXPECT_EQ(pair.client->closed, std::vector{CloseReason::finished});
  EXPECT_EQ(pair.server->closed, std::vector{CloseReason::finished});
  EXPECT_EQ(pair.client->trace.back(), "closed");
  pair.client->socket.reset();
  pair.server->socket.reset();
  this->world.run_for(kQuiet);
  EXPECT_EQ(pair.client->closed.size() + pair.server->closed.size(), 2U);
}

TYPED_TEST_P(StreamEndConformance, WhatWasSentBeforeTheEndArrivesBeforeTheEnd) {
  auto listener = this->listen(1);
  auto client = std::make_unique<StreamRecorder>(this->watches[0]);
  client->outgoing = pattern(5000);
  client->then_shuts = true;  // all in on_connected
  this->start(*client, 0, listener->local());
  ASSERT_TRUE(this->until([&] { return !listener->accepted.empty() && listener->accepted[0]->ended; }));
  EXPECT_EQ(listener->accepted[0]->incoming, client->outgoing);
}

TYPED_TEST_P(StreamEndConformance, TheEndIsKeptForALateReader) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->reads = false;
  pair.server->shutdown();
  pair.client->send(as_bytes("read me later"));
  pair.client->shutdown();
  this->world.run_for(kQuiet);
  EXPECT_FALSE(pair.server->is_closed()) << "the end was not received yet";
  pair.server->drain();
  EXPECT_EQ(pair.server->text(), "read me later");
  if (!pair.server->ended) pair.server->drain();
  EXPECT_TRUE(pair.server->ended);
  ASSERT_TRUE(this->until([&] { return pair.server->is_closed() && pair.client->is_closed(); }));
  EXPECT_EQ(pair.server->closed[0], CloseReason::finished);
  EXPECT_EQ(pair.client->closed[0], CloseReason::finished);
}

TYPED_TEST_P(StreamEndConformance, DestroyingResetsTheConnection) {
  for (const Family family : this->kFamilies) {
    auto pair = this->make_pair(family);
    ASSERT_NE(pair.server, nullptr);
    pair.client->socket.reset();
    ASSERT_TRUE(this->until([&] { return pair.server->is_closed(); }));
    EXPECT_EQ(pair.server->closed[0], CloseReason::reset);
    EXPECT_FALSE(pair.server->ended);
    EXPECT_FALSE(pair.client->is_closed()) << "rule 7: not after the owner destroyed the handle";
    const BytesView late = as_bytes("late");
    EXPECT_EQ(call([&] { return pair.server->socket->send({&late, 1}); }), 0U);
  }
}

TYPED_TEST_P(StreamEndConformance, DestroyingAfterOneDirectionEndedStillResets) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.client->shutdown();
  ASSERT_TRUE(this->until([&] { return pair.server->ended; }));
  pair.server->socket.reset();  // it had more to say, and never ended its direction
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed(); }));
  EXPECT_EQ(pair.client->closed[0], CloseReason::reset);
}

TYPED_TEST_P(StreamEndConformance, DestroyingAfterBothDirectionsEndedIsNoReset) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.client->shutdown();
  ASSERT_TRUE(this->until([&] { return pair.server->ended; }));
  pair.server->send(as_bytes("goodbye"));
  pair.server->shutdown();
  pair.server->socket.reset();  // at once: the last bytes and the FIN may not even have left
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed(); }));
  EXPECT_EQ(pair.client->text(), "goodbye");
  EXPECT_EQ(pair.client->closed[0], CloseReason::finished);
}

TYPED_TEST_P(StreamEndConformance, DestroyingWhileConnectingIsSilent) {
  auto listener = this->listen(1);
  auto client = this->connect(0, listener->local());
  ASSERT_NE(client->socket, nullptr);
  client->socket.reset();
  this->world.run_for(kQuiet);
  EXPECT_TRUE(client->trace.empty());
  // A peer that was accepted meanwhile learns that it was a false start.
  for (const auto& s : listener->accepted) EXPECT_EQ(s->closed, std::vector{CloseReason::reset});
}

TYPED_TEST_P(StreamEndConformance, AStreamMayBeDestroyedInOnConnected) {  // rule 4
  auto listener = this->listen(1);
  auto client = std::make_unique<StreamRecorder>(this->watches[0]);
  client->when_connected = [&](TimePoint) { client->socket.reset(); };
  this->start(*client, 0, listener->local());
  ASSERT_TRUE(this->until([&] { return client->connected == 1; }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(client->trace, std::vector<std::string>{"connected"});
  for (const auto& s : listener->accepted) EXPECT_EQ(s->closed, std::vector{CloseReason::reset});
}

TYPED_TEST_P(StreamEndConformance, AStreamMayBeDestroyedInOnReadable) {  // rule 4
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->when_readable = [&](TimePoint) { pair.server->socket.reset(); };
  pair.client->send(as_bytes("x"));
  pair.client->shutdown();
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed(); }));
  EXPECT_EQ(pair.server->trace, std::vector<std::string>{"readable"});
  EXPECT_EQ(pair.client->closed[0], CloseReason::reset);
}

TYPED_TEST_P(StreamEndConformance, AStreamMayBeDestroyedInOnWritable) {  // rule 4
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->reads = false;
  pair.client->outgoing = pattern(32U << 20);
  pair.client->when_writable = [&](TimePoint) { pair.client->socket.reset(); };
  pair.client->pump();
  ASSERT_TRUE(pair.client->refused);
  this->world.run_for(kQuiet);
  pair.server->reads = true;
  pair.server->drain();
  ASSERT_TRUE(this->until([&] { return pair.client->writable == 1 && pair.server->is_closed(); }));
  EXPECT_EQ(pair.server->closed[0], CloseReason::reset);
}

TYPED_TEST_P(StreamEndConformance, AStreamMayBeDestroyedInOnClosed) {  // rule 4
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->when_closed = [&](TimePoint) { pair.server->socket.reset(); };
  pair.client->when_closed = [&](TimePoint) { pair.client->socket.reset(); };
  pair.client->shutdown();
  pair.server->shutdown();
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed() && pair.server->is_closed(); }));
  auto refused = std::make_unique<StreamRecorder>(this->watches[0]);
  refused->when_closed = [&](TimePoint) { refused->socket.reset(); };
  this->start(*refused, 0, {this->world.address(1, Family::v4), this->world.unused_port()});
  if (refused->socket != nullptr) {
    EXPECT_TRUE(this->until([&] { return refused->is_closed(); }));
  }
}

TYPED_TEST_P(StreamEndConformance, AnAcceptedStreamMayBeDroppedInOnAccepted) {  // rule 4
  auto listener = this->listen(1);
  int turned_away = 0;
  listener->instead = [&](TimePoint, std::unique_ptr<StreamSocket> socket) {
    socket.reset();
    ++turned_away;
  };
  auto client = this->connect(0, listener->local());
  ASSERT_NE(client->socket, nullptr);
  ASSERT_TRUE(this->until([&] { return turned_away == 1 && client->is_closed(); }));
  EXPECT_TRUE(client->closed[0] == CloseReason::reset || client->closed[0] == CloseReason::refused);
}

TYPED_TEST_P(StreamEndConformance, AListenerMayBeDestroyedInOnAccepted) {  // rule 4
  auto listener = this->listen(1);
  listener->when_accepted = [&](StreamRecorder&) { listener->listener.reset(); };
  const Endpoint endpoint = listener->local();
  std::vector<std::unique_ptr<StreamRecorder>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(this->connect(0, endpoint));
  ASSERT_TRUE(this->until([&] { return listener->accepted.size() == 1; }));
  // Those that waited to be accepted, or came later, are turned away; the accepted one works.
  ASSERT_TRUE(this->until([&] {
    return std::count_if(clients.begin(), clients.end(), [](const auto& c) { return c->is_closed(); }) == 4;
  }));
  EXPECT_EQ(listener->accepted.size(), 1U);
  listener->accepted[0]->send(as_bytes("welcome"));
  ASSERT_TRUE(this->until([&] {
    return std::count_if(clients.begin(), clients.end(), [](const auto& c) { return c->text() == "welcome"; }) == 1;
  }));
}

TYPED_TEST_P(StreamEndConformance, OneCallbackMayDestroyAnotherStream) {  // rule 4
  auto first = this->make_pair();
  auto second = this->make_pair();
  ASSERT_NE(first.server, nullptr);
  ASSERT_NE(second.server, nullptr);
  first.server->when_readable = [&](TimePoint) { second.server->socket.reset(); };
  second.server->when_readable = [&](TimePoint) { first.server->socket.reset(); };
  first.client->send(as_bytes("1"));
  second.client->send(as_bytes("2"));
  ASSERT_TRUE(this->until([&] { return first.client->is_closed() || second.client->is_closed(); }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(first.server->trace.size() + second.server->trace.size(), 1U);
}

TYPED_TEST_P(StreamEndConformance, AResetAfterDataIsToldOnceAndTheSenderLearnsIt) {
  auto pair = this->make_pair();
  ASSERT_NE(pair.server, nullptr);
  pair.server->reads = false;
  pair.client->outgoing = pattern(32U << 20);
  pair.client->pump();
  this->world.run_for(kQuiet);
  pair.server->socket.reset();  // with unread bytes in its buffer, and the client blocked
  ASSERT_TRUE(this->until([&] { return pair.client->is_closed(); }));
  EXPECT_EQ(pair.client->closed[0], CloseReason::reset);
  this->world.run_for(kQuiet);
  EXPECT_EQ(pair.client->closed.size(), 1U);
}

TYPED_TEST_P(StreamEndConformance, APortCanBeUsedAgainAfterAConnectionFromIt) {
  // Rendezvous code connects again and again from one port, so TIME-WAIT of one peer must not block another peer.
  const Endpoint local{this->world.address(0, Family::v4), this->world.unused_port()};
  for (std::size_t round = 0; round < 4; ++round) {
    auto listener = this->listen(1 + round % 2);
    listener->when_accepted = [](StreamRecorder& s) { s.shutdown(); };
    auto client = std::make_unique<StreamRecorder>(this->watches[0]);
    client->then_shuts = true;
    this->start(*client, 0, listener->local(), local);
    ASSERT_NE(client->socket, nullptr) << "round " << round;
    ASSERT_TRUE(this->until([&] { return client->is_closed(); }));
    EXPECT_EQ(client->closed[0], CloseReason::finished) << "round " << round;
  }
}

REGISTER_TYPED_TEST_SUITE_P(StreamEndConformance, AfterShutdownDataStillFlowsTheOtherWay, OnClosedComesOnceAndLast,
                            WhatWasSentBeforeTheEndArrivesBeforeTheEnd, TheEndIsKeptForALateReader,
                            DestroyingResetsTheConnection, DestroyingAfterOneDirectionEndedStillResets,
                            DestroyingAfterBothDirectionsEndedIsNoReset, DestroyingWhileConnectingIsSilent,
                            AStreamMayBeDestroyedInOnConnected, AStreamMayBeDestroyedInOnReadable,
                            AStreamMayBeDestroyedInOnWritable, AStreamMayBeDestroyedInOnClosed,
                            AnAcceptedStreamMayBeDroppedInOnAccepted, AListenerMayBeDestroyedInOnAccepted,
                            OneCallbackMayDestroyAnotherStream, AResetAfterDataIsToldOnceAndTheSenderLearnsIt,
                            APortCanBeUsedAgainAfterAConnectionFromIt);

}  // namespace peerbed::conformance
