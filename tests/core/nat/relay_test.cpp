#include <gtest/gtest.h>

#include <set>

#include "core/nat/relay_client.h"
#include "core/nat/relay_server.h"

namespace peerbed {
namespace {

PeerId peer(std::uint8_t n) {
  PeerId id;
  id.key[0] = n;
  return id;
}

const PeerId kA = peer(1), kB = peer(2), kC = peer(3), kRelay = peer(9);

struct Port final : RelayServerPort {
  bool can_relay_to(const PeerId& p) const override { return reachable.contains(p); }
  void send_relay_message(TimePoint, const PeerId& to, const RelayMessage& m) override { messages.emplace_back(to, m); }
  bool send_relay_datagram(TimePoint, const PeerId& to, BytesView d) override {
    datagrams.emplace_back(to, Bytes(d.begin(), d.end()));
    return true;
  }
  std::set<PeerId> reachable{kA, kB, kC};
  std::vector<std::pair<PeerId, RelayMessage>> messages;
  std::vector<std::pair<PeerId, Bytes>> datagrams;
};

class Relay : public testing::Test {
 protected:
  RelayMessage open(const PeerId& from, const PeerId& to, std::uint32_t request = 1) {
    RelayMessage m;
    m.request = request;
    m.peer = to;
    port_.messages.clear();
    server_->on_open(now_, from, m);
    return port_.messages.back().second;
  }
  void datagram(const PeerId& from, std::uint32_t circuit, std::size_t size = 10) {
    Bytes bytes(kRelayHeaderSize + size, 7);
    ByteWriter writer(bytes);
    write_relay_header(writer, {RelayDirection::to_relay, circuit});
    std::array<std::uint8_t, 2048> scratch;
    server_->on_datagram(now_, from, circuit, bytes, scratch);
  }
  void limit(const RelayLimits& limits) { server_.emplace(limits, port_); }

  TimePoint now_{};
  Port port_;
  std::optional<RelayServer> server_{std::in_place, RelayLimits{}, port_};
};

TEST_F(Relay, TheTargetLearnsOfACircuitBeforeTheOpenerCanUseIt) {
  const RelayMessage answer = open(kA, kB);
  ASSERT_EQ(port_.messages.size(), 2U);
  EXPECT_EQ(port_.messages[0].first, kB);
  EXPECT_EQ(port_.messages[0].second.type, RelayMessageType::incoming);
  EXPECT_EQ(port_.messages[0].second.peer, kA);
  EXPECT_EQ(answer.type, RelayMessageType::opened);
}

TEST_F(Relay, DatagramsGoToTheOtherEndAndOnlyFromAnEnd) {
  const std::uint32_t circuit = open(kA, kB).circuit;
  datagram(kA, circuit);
  datagram(kB, circuit);
  datagram(kC, circuit);
  datagram(kA, circuit + 1);
  ASSERT_EQ(port_.datagrams.size(), 2U);
  EXPECT_EQ(port_.datagrams[0].first, kB);
  EXPECT_EQ(port_.datagrams[1].first, kA);
  EXPECT_EQ(parse_relay_header(port_.datagrams[0].second)->direction, RelayDirection::from_relay);
  EXPECT_EQ(server_->stats().dropped, 2U);
}

TEST_F(Relay, RefusalsSayWhy) {
  EXPECT_EQ(open(kA, kA).refusal, RelayRefusal::self);
  EXPECT_EQ(open(kA, peer(77)).refusal, RelayRefusal::not_connected);
  limit({.max_circuits = 1, .max_circuits_per_peer = 16, .bytes_per_direction = {}, .duration = {}});
  EXPECT_EQ(open(kA, kB).type, RelayMessageType::opened);
  EXPECT_EQ(open(kC, kB).refusal, RelayRefusal::no_room);
}

TEST_F(Relay, NoPeerTakesMoreCircuitsThanItsShare) {
  limit({.max_circuits = 100, .max_circuits_per_peer = 2, .bytes_per_direction = {}, .duration = {}});
  EXPECT_EQ(open(kA, kB).type, RelayMessageType::opened);
  EXPECT_EQ(open(kA, kC).type, RelayMessageType::opened);
  EXPECT_EQ(open(kA, kB).refusal, RelayRefusal::no_room);
  EXPECT_EQ(open(kC, kB).type, RelayMessageType::opened);
}

TEST_F(Relay, ACircuitIsClosedForBothAtItsByteLimitPerDirection) {  // as circuit relay v2: 128 KiB each way
  limit({.max_circuits = 9, .max_circuits_per_peer = 9, .bytes_per_direction = DataSize{100}, .duration = {}});
  const std::uint32_t circuit = open(kA, kB).circuit;
  for (int i = 0; i < 10; ++i) datagram(kA, circuit);
  for (int i = 0; i < 10; ++i) datagram(kB, circuit);
  EXPECT_EQ(port_.datagrams.size(), 20U);
  port_.messages.clear();
  datagram(kA, circuit);
  EXPECT_EQ(port_.datagrams.size(), 20U);
  EXPECT_EQ(port_.messages.size(), 2U);
  EXPECT_EQ(server_->circuits(), 0U);
}

TEST_F(Relay, ACircuitIsClosedAtItsAge) {
  limit({.max_circuits = 1, .max_circuits_per_peer = 9, .bytes_per_direction = {}, .duration = 2min});
  open(kA, kB);
  now_ += 2min;
  EXPECT_EQ(open(kC, kB).type, RelayMessageType::opened);  // the old one made room
}

TEST_F(Relay, ALostPeerEndsItsCircuitsAndTheOthersAreTold) {
  const std::uint32_t circuit = open(kA, kB).circuit;
  port_.messages.clear();
  server_->on_peer_disconnected(now_, kA);
  ASSERT_EQ(port_.messages.size(), 1U);
  EXPECT_EQ(port_.messages[0].first, kB);
  EXPECT_EQ(port_.messages[0].second.circuit, circuit);
}

TEST_F(Relay, AStrangerCannotCloseACircuit) {
  const std::uint32_t circuit = open(kA, kB).circuit;
  server_->on_closed(now_, kC, circuit);
  EXPECT_EQ(server_->circuits(), 1U);
  server_->on_closed(now_, kB, circuit);
  EXPECT_EQ(server_->circuits(), 0U);
}

TEST(RelayClient, EqualNumbersOfTwoRelaysAreTwoCircuits) {
  RelayClient client;
  std::optional<RelayMessage> reply;
  RelayMessage incoming;
  incoming.type = RelayMessageType::incoming;
  incoming.circuit = 5;
  incoming.peer = kA;
  const auto first = client.on_message(kRelay, incoming, reply);
  const auto second = client.on_message(kC, incoming, reply);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->circuit, second->circuit);
  EXPECT_EQ(client.local_number(kRelay, 5), first->circuit);
  EXPECT_EQ(client.find(second->circuit)->relay, kC);
}

TEST(RelayClient, AnAnswerThatNobodyWaitsForIsClosedAgain) {
  RelayClient client;
  const RelayMessage request = client.open(kB, kRelay);
  client.forget_request(kB);
  RelayMessage opened;
  opened.type = RelayMessageType::opened;
  opened.request = request.request;
  opened.circuit = 8;
  std::optional<RelayMessage> reply;
  EXPECT_FALSE(client.on_message(kRelay, opened, reply));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->type, RelayMessageType::closed);
  EXPECT_EQ(reply->circuit, 8U);
}

TEST(RelayClient, AnotherPeerCannotAnswerForTheRelay) {
  RelayClient client;
  RelayMessage opened = client.open(kB, kRelay);
  opened.type = RelayMessageType::opened;
  opened.circuit = 8;
  std::optional<RelayMessage> reply;
  EXPECT_FALSE(client.on_message(kC, opened, reply));
  EXPECT_EQ(client.on_message(kRelay, opened, reply)->peer, kB);
}

TEST(RelayClient, ALostRelayFailsWhatWaitsForItAndEndsItsCircuits) {
  RelayClient client;
  RelayMessage opened = client.open(kB, kRelay);
  (void)client.open(kC, kRelay);
  opened.type = RelayMessageType::opened;
  opened.circuit = 8;
  std::optional<RelayMessage> reply;
  (void)client.on_message(kRelay, opened, reply);
  const auto events = client.on_relay_disconnected(kRelay);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].type, RelayEvent::Type::refused);
  EXPECT_EQ(events[0].peer, kC);
  EXPECT_EQ(events[1].type, RelayEvent::Type::closed);
  EXPECT_EQ(client.circuits(), 0U);
}

TEST(RelayMessage, EveryTypeReadsBackAndCutOnesAreRefused) {
  for (int type = 0; type <= 4; ++type) {
    RelayMessage message;
    message.type = static_cast<RelayMessageType>(type);
    if (type <= 1 || type == 3) message.request = 77;
    if (type == 1 || type == 2 || type == 4) message.circuit = 0x01020304;
    if (type == 0 || type == 2) message.peer = kB;
    if (type == 3) message.refusal = RelayRefusal::no_room;
    const Bytes bytes = encode_relay_message(message);
    EXPECT_EQ(parse_relay_message(bytes), message) << type;
    for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_relay_message(BytesView(bytes).first(n)));
  }
}

}  // namespace
}  // namespace peerbed
