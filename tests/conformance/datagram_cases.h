// Datagrams: rules 1, 4, 6 and 9, marks, addresses and errors.
#pragma once

#include <map>
#include <set>

#include "tests/conformance/world.h"

namespace peerbed::conformance {

template <class W>
class DatagramConformance : public Conformance<W> {};
TYPED_TEST_SUITE_P(DatagramConformance);

TYPED_TEST_P(DatagramConformance, ADatagramArrivesWholeWithItsAddresses) {
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    EXPECT_NE(a->local().port, 0);
    EXPECT_EQ(a->local().address, this->world.address(0, family));
    const TimePoint sent_at = this->world.now();
    EXPECT_EQ(a->send(b->local(), as_bytes("hello")), 1U);
    ASSERT_TRUE(this->until([&] { return b->received.size() == 1; }));
    EXPECT_EQ(as_text(b->received[0].payload), "hello");
    EXPECT_EQ(b->received[0].from, a->local());
    EXPECT_EQ(b->received[0].to, b->local().address);
    EXPECT_GE(b->received[0].at, sent_at);
    EXPECT_TRUE(a->received.empty());
  }
}

TYPED_TEST_P(DatagramConformance, EverySizeArrivesWhole) {  // rule 6
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    std::vector<Bytes> sent;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1200}, std::size_t{1201},
                                   std::size_t{1472}, this->world.largest_datagram(family)}) {
      if (size > this->world.largest_datagram(family)) continue;  // 1472 above IPv6 on an Ethernet path
      sent.push_back(pattern(size));
      EXPECT_EQ(a->send(b->local(), sent.back()), 1U);
    }
    ASSERT_TRUE(this->until([&] { return b->received.size() == sent.size(); }));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(b->received[i].payload, sent[i]) << "size " << sent[i].size();
    }
  }
}

TYPED_TEST_P(DatagramConformance, AnOversizedDatagramIsDroppedAndCountsAsTaken) {
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    const Bytes oversized(this->world.largest_datagram(family) + 1);
    const std::array<OutgoingDatagram, 3> batch{
        OutgoingDatagram{b->local(), as_bytes("before"), Ecn::not_ect, 0},
        OutgoingDatagram{b->local(), oversized, Ecn::not_ect, 0},
        OutgoingDatagram{b->local(), as_bytes("after"), Ecn::not_ect, 0},
    };
    EXPECT_EQ(a->send(batch), 3U);
    ASSERT_TRUE(this->until([&] { return b->received.size() == 2; }));
    EXPECT_EQ(as_text(b->received[0].payload), "before");
    EXPECT_EQ(as_text(b->received[1].payload), "after");
    this->world.run_for(kQuiet);
    EXPECT_EQ(b->received.size(), 2U);
    for (const Unreachable& u : a->unreachable) EXPECT_EQ(u.reason, UnreachableReason::too_big);
  }
}

TYPED_TEST_P(DatagramConformance, ABatchToSeveralDestinationsArrivesInOrderAtEach) {
  auto a = this->open(0);
  std::vector<std::unique_ptr<DatagramRecorder>> receivers;
  for (const std::size_t host : {std::size_t{1}, std::size_t{2}, std::size_t{1}}) receivers.push_back(this->open(host));
  // Runs of one size to one destination, a shorter last one, and changes of size and destination inside: everything
  // that a segmenting sender could get wrong.
  std::vector<OutgoingDatagram> batch;
  std::vector<Bytes> payloads;
  std::map<std::size_t, std::vector<Bytes>> expected;
  payloads.reserve(200);
  std::uint64_t salt = 0;
  const auto add = [&](std::size_t to, std::size_t size) {
    payloads.push_back(pattern(size, ++salt));
    expected[to].push_back(payloads.back());
    batch.push_back({receivers[to]->local(), payloads.back(), Ecn::not_ect, 0});
  };
  for (int i = 0; i < 70; ++i) add(0, 1200);
  add(0, 300);
  add(0, 1200);
  for (int i = 0; i < 20; ++i) add(static_cast<std::size_t>(i % 3), 800);
  for (int i = 0; i < 5; ++i) add(1, 0);
  for (int i = 0; i < 10; ++i) add(1, static_cast<std::size_t>(100 + i));
  for (int i = 0; i < 10; ++i) add(2, static_cast<std::size_t>(500 - i));
  std::size_t taken = 0;
  ASSERT_TRUE(this->until([&] {
    if (taken < batch.size()) taken += a->send(std::span(batch).subspan(taken));
    for (const auto& [to, list] : expected) {
      if (receivers[to]->received.size() < list.size()) return false;
    }
    return true;
  }));
  EXPECT_EQ(taken, batch.size());
  for (const auto& [to, list] : expected) {
    ASSERT_EQ(receivers[to]->received.size(), list.size());
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(receivers[to]->received[i].payload, list[i]) << i;
  }
}

TYPED_TEST_P(DatagramConformance, ALongBatchOfOneSizeArrivesWhole) {
  // More bytes than one IP packet can carry, and more segments than one kernel call takes.
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    std::vector<Bytes> payloads;
    std::vector<OutgoingDatagram> batch;
    for (std::uint64_t i = 0; i < 150; ++i) payloads.push_back(pattern(1200, i + 1));
    for (const Bytes& p : payloads) batch.push_back({b->local(), p, Ecn::ect0, 0});
    std::size_t taken = 0;
    ASSERT_TRUE(this->until([&] {
      if (taken < batch.size()) taken += a->send(std::span(batch).subspan(taken));
      return b->received.size() == batch.size();
    }));
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_EQ(b->received[i].payload, payloads[i]) << i;
      EXPECT_EQ(b->received[i].ecn, Ecn::ect0);
      EXPECT_EQ(b->received[i].to, b->local().address);
    }
  }
}

TYPED_TEST_P(DatagramConformance, EcnMarksArrive) {  // RFC 3168 §5
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    const std::array marks{Ecn::ect0, Ecn::not_ect, Ecn::ect1, Ecn::ce, Ecn::ect0, Ecn::ect0};
    std::vector<OutgoingDatagram> batch;
    for (const Ecn mark : marks) batch.push_back({b->local(), as_bytes("marked"), mark, 0});
    EXPECT_EQ(a->send(batch), marks.size());
    ASSERT_TRUE(this->until([&] { return b->received.size() == marks.size(); }));
    for (std::size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(b->received[i].ecn, marks[i]) << i;
  }
}

TYPED_TEST_P(DatagramConformance, ATimeToLiveIsAcceptedPerDatagram) {
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    const std::array<OutgoingDatagram, 3> batch{
        OutgoingDatagram{b->local(), as_bytes("x1"), Ecn::not_ect, 64},
        OutgoingDatagram{b->local(), as_bytes("x2"), Ecn::ect0, 255},
        OutgoingDatagram{b->local(), as_bytes("x3"), Ecn::not_ect, 0},
    };
    EXPECT_EQ(a->send(batch), 3U);
    ASSERT_TRUE(this->until([&] { return b->received.size() == 3; }));
    EXPECT_EQ(as_text(b->received[2].payload), "x3");
    EXPECT_EQ(b->received[1].ecn, Ecn::ect0);
  }
}

TYPED_TEST_P(DatagramConformance, AnAnyAddressReceivesOnTheHostsAddressAndSaysWhich) {
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, Endpoint{IpAddress::any(family), 0});
    EXPECT_TRUE(b->local().address.is_any());
    EXPECT_NE(b->local().port, 0);
    const Endpoint to{this->world.address(1, family), b->local().port};
    a->send(to, as_bytes("to any"));
    ASSERT_TRUE(this->until([&] { return b->received.size() == 1; }));
    EXPECT_EQ(b->received[0].to, this->world.address(1, family));
    b->send(b->received[0].from, as_bytes("from any"));
    ASSERT_TRUE(this->until([&] { return a->received.size() == 1; }));
    EXPECT_EQ(as_text(a->received[0].payload), "from any");
    EXPECT_EQ(a->received[0].from.port, b->local().port);
  }
}

TYPED_TEST_P(DatagramConformance, ChosenPortsDiffer) {
  std::set<std::uint16_t> ports;
  std::vector<std::unique_ptr<DatagramRecorder>> sockets;
  for (int i = 0; i < 50; ++i) {
    sockets.push_back(this->open(0));
    ports.insert(sockets.back()->local().port);
  }
  EXPECT_EQ(ports.size(), 50U);
  EXPECT_FALSE(ports.contains(0));
}

TYPED_TEST_P(DatagramConformance, AnAddressInUseIsAnError) {
  const Endpoint local{this->world.address(0, Family::v4), this->world.unused_port()};
  DatagramRecorder recorder(this->watches[0]);
  {
    auto first = this->open(0, local);
    EXPECT_EQ(first->local(), local);
    auto second = this->world.host(0).open_datagram_socket({local, true}, recorder);
    ASSERT_TRUE(second.has_error());
    EXPECT_EQ(second.error().kind, ErrorKind::unavailable);
    EXPECT_FALSE(second.error().message.empty());
  }
  auto third = this->open(0, local);  // free again as soon as the first was destroyed
  EXPECT_EQ(third->local(), local);
}

TYPED_TEST_P(DatagramConformance, AnAddressOfNobodyCannotBeBound) {
  DatagramRecorder recorder(this->watches[0]);
  const Endpoint foreign{IpAddress::v4(203, 0, 113, 77), 0};
  EXPECT_TRUE(this->world.host(0).open_datagram_socket({foreign, true}, recorder).has_error());
}

TYPED_TEST_P(DatagramConformance, TheFamiliesDoNotShareAPort) {
  const std::uint16_t port = this->world.unused_port();
  auto four = this->open(1, Endpoint{IpAddress::any(Family::v4), port});
  auto six = this->open(1, Endpoint{IpAddress::any(Family::v6), port});
  auto a4 = this->open(0, Family::v4);
  auto a6 = this->open(0, Family::v6);
  a4->send({this->world.address(1, Family::v4), port}, as_bytes("four"));
  a6->send({this->world.address(1, Family::v6), port}, as_bytes("six"));
  ASSERT_TRUE(this->until([&] { return four->received.size() == 1 && six->received.size() == 1; }));
  EXPECT_EQ(as_text(four->received[0].payload), "four");
  EXPECT_EQ(as_text(six->received[0].payload), "six");
}

TYPED_TEST_P(DatagramConformance, TwoSocketsOfOneEnvironmentTalk) {
  auto a = this->open(0);
  auto b = this->open(0);
  std::string order;
  a->when_received = [&](TimePoint) {
    order += as_text(a->received.back().payload);
    if (a->received.size() < 3) a->send(b->local(), as_bytes("ping "));
  };
  b->when_received = [&](TimePoint) {
    order += as_text(b->received.back().payload);
    b->send(a->local(), as_bytes("pong "));
  };
  EXPECT_EQ(a->send(b->local(), as_bytes("ping ")), 1U);
  EXPECT_TRUE(order.empty());  // rule 1
  ASSERT_TRUE(this->until([&] { return a->received.size() == 3; }));
  EXPECT_EQ(order, "ping pong ping pong ping pong ");
}

TYPED_TEST_P(DatagramConformance, ASocketMaySendToItself) {  // rule 1: not even this calls back inside send
  auto a = this->open(0);
  EXPECT_EQ(a->send(a->local(), as_bytes("me")), 1U);
  EXPECT_TRUE(a->received.empty());
  ASSERT_TRUE(this->until([&] { return a->received.size() == 1; }));
  EXPECT_EQ(a->received[0].from, a->local());
}

TYPED_TEST_P(DatagramConformance, APortWithoutASocketIsReportedUnreachable) {
  for (const Family family : this->kFamilies) {
    auto a = this->open(0, family);
    auto b = this->open(1, family);
    const Endpoint nobody{this->world.address(1, family), this->world.unused_port()};
    const std::array<OutgoingDatagram, 3> batch{
        OutgoingDatagram{b->local(), as_bytes("one"), Ecn::not_ect, 0},
        OutgoingDatagram{nobody, as_bytes("lost"), Ecn::not_ect, 0},
        OutgoingDatagram{b->local(), as_bytes("two"), Ecn::not_ect, 0},
    };
    EXPECT_EQ(a->send(batch), 3U);
    ASSERT_TRUE(this->until([&] { return !a->unreachable.empty() && b->received.size() == 2; }));
    EXPECT_EQ(a->unreachable[0].to, nobody);
    EXPECT_EQ(a->unreachable[0].reason, UnreachableReason::port);
    // The error is a hint about one destination: the socket works on, in both directions.
    EXPECT_EQ(a->send(b->local(), as_bytes("three")), 1U);
    b->send(a->local(), as_bytes("four"));
    ASSERT_TRUE(this->until([&] { return b->received.size() == 3 && a->received.size() == 1; }));
    EXPECT_EQ(a->unreachable.size(), 1U);
    EXPECT_TRUE(b->unreachable.empty());
  }
}

TYPED_TEST_P(DatagramConformance, ErrorsPendingOnTheSocketDoNotEatDatagrams) {
  // Every second datagram meets a closed port, and the next one is sent when its error is already waiting.
  auto a = this->open(0);
  auto b = this->open(1);
  const Endpoint nobody{this->world.address(1, Family::v4), this->world.unused_port()};
  for (std::uint8_t i = 0; i < 20; ++i) {
    EXPECT_EQ(a->send(nobody, as_bytes("lost")), 1U);
    EXPECT_EQ(a->send(b->local(), Bytes{i}), 1U);
  }
  ASSERT_TRUE(this->until([&] { return b->received.size() == 20; }));
  for (std::uint8_t i = 0; i < 20; ++i) EXPECT_EQ(b->received[i].payload, Bytes{i});
}

TYPED_TEST_P(DatagramConformance, ASocketMayBeDestroyedInsideItsBatch) {  // rule 4
  auto a = this->open(0);
  auto b = this->open(1);
  b->when_received = [&](TimePoint) { b->socket.reset(); };
  std::vector<OutgoingDatagram> batch(100, OutgoingDatagram{b->local(), as_bytes("many"), Ecn::not_ect, 0});
  EXPECT_GT(a->send(batch), 0U);
  ASSERT_TRUE(this->until([&] { return b->batches == 1; }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(b->batches, 1U);
}

TYPED_TEST_P(DatagramConformance, ASocketMayBeDestroyedInsideAnotherOnesCallback) {  // rule 4
  auto a = this->open(0);
  auto b = this->open(1);
  auto c = this->open(1);
  b->when_received = [&](TimePoint) { c->socket.reset(); };
  c->when_received = [&](TimePoint) { b->socket.reset(); };
  const std::array<OutgoingDatagram, 2> batch{
      OutgoingDatagram{b->local(), as_bytes("to b"), Ecn::not_ect, 0},
      OutgoingDatagram{c->local(), as_bytes("to c"), Ecn::not_ect, 0},
  };
  EXPECT_EQ(a->send(batch), 2U);
  ASSERT_TRUE(this->until([&] { return b->batches + c->batches == 1; }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(b->batches + c->batches, 1U);
}

TYPED_TEST_P(DatagramConformance, ASocketMayBeDestroyedInOnUnreachable) {  // rule 4
  auto a = this->open(0);
  const Endpoint nobody{this->world.address(1, Family::v4), this->world.unused_port()};
  a->when_unreachable = [&](TimePoint) { a->socket.reset(); };
  for (int i = 0; i < 5; ++i) a->send(nobody, as_bytes("lost"));
  ASSERT_TRUE(this->until([&] { return a->unreachable.size() == 1; }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(a->unreachable.size(), 1U);
}

TYPED_TEST_P(DatagramConformance, AnEmptyBatchTakesNothing) {
  auto a = this->open(0);
  EXPECT_EQ(a->send(std::span<const OutgoingDatagram>{}), 0U);
}

TYPED_TEST_P(DatagramConformance, ARefusedSuffixIsFollowedByOnWritable) {  // rule 9
  auto a = this->open(0);
  auto b = this->open(1);
  const Bytes payload = pattern(1200);
  std::vector<OutgoingDatagram> batch(64, OutgoingDatagram{b->local(), payload, Ecn::not_ect, 0});
  std::size_t taken = batch.size();
  for (int i = 0; i < 500 && taken == batch.size(); ++i) taken = a->send(batch);  // 38 MB at most
  if (taken == batch.size()) {
    GTEST_SKIP() << "this world takes everything, and drops what it cannot carry";
  }
  EXPECT_EQ(a->writable, 0U);
  ASSERT_TRUE(this->until([&] { return a->writable == 1; }));
  EXPECT_GT(a->send(std::span(batch).first(1)), 0U);
  // Without another refusal there is no further word.
  this->world.run_for(kQuiet);
  EXPECT_EQ(a->writable, 1U);
}

TYPED_TEST_P(DatagramConformance, WritableIsNotToldWithoutARefusal) {
  auto a = this->open(0);
  auto b = this->open(1);
  EXPECT_EQ(a->send(b->local(), as_bytes("x")), 1U);
  ASSERT_TRUE(this->until([&] { return b->received.size() == 1; }));
  this->world.run_for(kQuiet);
  EXPECT_EQ(a->writable + b->writable, 0U);
}

REGISTER_TYPED_TEST_SUITE_P(DatagramConformance, ADatagramArrivesWholeWithItsAddresses, EverySizeArrivesWhole,
                            AnOversizedDatagramIsDroppedAndCountsAsTaken,
                            ABatchToSeveralDestinationsArrivesInOrderAtEach, ALongBatchOfOneSizeArrivesWhole,
                            EcnMarksArrive, ATimeToLiveIsAcceptedPerDatagram,
                            AnAnyAddressReceivesOnTheHostsAddressAndSaysWhich, ChosenPortsDiffer,
                            AnAddressInUseIsAnError, AnAddressOfNobodyCannotBeBound, TheFamiliesDoNotShareAPort,
                            TwoSocketsOfOneEnvironmentTalk, ASocketMaySendToItself,
                            APortWithoutASocketIsReportedUnreachable, ErrorsPendingOnTheSocketDoNotEatDatagrams,
                            ASocketMayBeDestroyedInsideItsBatch, ASocketMayBeDestroyedInsideAnotherOnesCallback,
                            ASocketMayBeDestroyedInOnUnreachable, AnEmptyBatchTakesNothing,
                            ARefusedSuffixIsFollowedByOnWritable, WritableIsNotToldWithoutARefusal);

}  // namespace peerbed::conformance
