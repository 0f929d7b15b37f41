#include "core/transport/frames.h"

#include <gtest/gtest.h>

#include "core/transport/ack_ranges.h"
#include "core/transport/packet.h"

namespace peerbed {
namespace {

TEST(PacketNumber, IsDecodedAsInAppendixA3OfTheRfc) {
  // RFC 9000 §A.3 gives 0xa82f30ea + 0x9b32 (16 bits) -> 0xa82f9b32; with 32 bits the window is 2^32.
  EXPECT_EQ(decode_packet_number(0, 0), 0U);
  EXPECT_EQ(decode_packet_number(0xa82f30eb, 0xa82f9b32), 0xa82f9b32U);
  EXPECT_EQ(decode_packet_number(0xffffffff, 0x00000001), 0x100000001U);
  EXPECT_EQ(decode_packet_number(0x100000001, 0xfffffffe), 0xfffffffeU);
  EXPECT_EQ(decode_packet_number(0x300000000, 0x00000005), 0x300000005U);
}

TEST(PacketNumber, IsExactForEveryDistanceBelowHalfTheWindow) {
  for (const std::uint64_t expected : {0ULL, 5ULL, 0x7fffffffULL, 0x80000000ULL, 0xfffffffeULL, 0x1234567890ULL}) {
    for (const std::int64_t delta : {-2'000'000'000LL, -1LL, 0LL, 1LL, 2'000'000'000LL}) {
      if (delta < 0 && expected < static_cast<std::uint64_t>(-delta)) continue;
      const std::uint64_t number = expected + static_cast<std::uint64_t>(delta);
      EXPECT_EQ(decode_packet_number(expected, static_cast<std::uint32_t>(number)), number);
    }
  }
}

TEST(Packet, TheFirstByteCollidesNeitherWithStunNorWithBencoding) {
  Bytes buffer(64);
  ByteWriter sealed(buffer);
  encode_sealed_header(sealed, 1, 2);
  EXPECT_TRUE(is_peerbed_datagram(buffer));
  for (unsigned first = 0; first < 0x80; ++first) {  // STUN 0x00..0x3f, TURN channels 0x40..0x4f, 'd' 0x64
    const Bytes other{static_cast<std::uint8_t>(first)};
    EXPECT_FALSE(is_peerbed_datagram(other));
  }
}

TEST(Packet, HandshakeAndSealedPacketsCoalesce) {
  Bytes buffer(200);
  ByteWriter out(buffer);
  const Bytes message(50, 0xee), body(40, 0xbb);
  encode_handshake_header(out, HandshakeType::confirm, 7, 8, message.size());
  out.bytes(message);
  encode_sealed_header(out, 7, 99);
  out.bytes(body);
  BytesView datagram = out.written();
  const auto first = take_packet(datagram);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->sealed);
  EXPECT_EQ(first->type, HandshakeType::confirm);
  EXPECT_EQ(first->destination, 7U);
  EXPECT_EQ(first->source, 8U);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), first->message.begin(), first->message.end()));
  const auto second = take_packet(datagram);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->sealed);
  EXPECT_EQ(second->truncated_number, 99U);
  EXPECT_EQ(second->header.size(), kSealedHeaderSize);
  EXPECT_TRUE(std::equal(body.begin(), body.end(), second->body.begin(), second->body.end()));
  EXPECT_TRUE(datagram.empty());
}

TEST(Packet, TruncationAtEveryByteIsRefused) {
  Bytes buffer(200);
  ByteWriter out(buffer);
  encode_handshake_header(out, HandshakeType::respond, 7, 8, 50);
  out.zeros(50);
  for (std::size_t n = 0; n < out.size(); ++n) {
    BytesView cut = out.written().first(n);
    EXPECT_FALSE(take_packet(cut));
  }
}

class FrameRoundTrip : public ::testing::Test {
 protected:
  Frame one() {
    FrameReader reader(out.written());
    Frame frame;
    EXPECT_TRUE(reader.next(frame));
    Frame none;
    EXPECT_FALSE(reader.next(none));
    EXPECT_FALSE(reader.failed());
    return frame;
  }
  std::array<std::uint8_t, 2000> buffer{};
  ByteWriter out{buffer};
};

TEST_F(FrameRoundTrip, Stream) {
  encode_stream_head(out, 6, 70'000, 3, true);
  out.bytes(as_bytes("abc"));
  const Frame f = one();
  EXPECT_EQ(f.type, FrameType::stream);
  EXPECT_EQ(f.stream, 6U);
  EXPECT_EQ(f.value, 70'000U);
  EXPECT_TRUE(f.fin);
  EXPECT_EQ(as_text(f.data), "abc");
  EXPECT_EQ(out.size(), 3 + stream_frame_overhead(6, 70'000, 3));
}

TEST_F(FrameRoundTrip, ObservedAddressOfBothFamilies) {
  const Endpoint v4{IpAddress::v4(192, 0, 2, 7), 4242};
  encode_observed_address(out, v4);
  EXPECT_EQ(one().endpoint, v4);
  out = ByteWriter(buffer);
  const Endpoint v6{IpAddress::loopback(Family::v6), 1};
  encode_observed_address(out, v6);
  EXPECT_EQ(one().endpoint, v6);
}

TEST_F(FrameRoundTrip, TheControlFrames) {
  encode_reset_stream(out, 4, 17, 1000);
  Frame f = one();
  EXPECT_EQ(f.type, FrameType::reset_stream);
  EXPECT_EQ(f.code, 17U);
  EXPECT_EQ(f.value, 1000U);
  out = ByteWriter(buffer);
  encode_max_stream_data(out, 9, kMaxVarint);
  f = one();
  EXPECT_EQ(f.stream, 9U);
  EXPECT_EQ(f.value, kMaxVarint);
  out = ByteWriter(buffer);
  encode_path_token(out, FrameType::path_challenge, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(one().token, (PathToken{1, 2, 3, 4, 5, 6, 7, 8}));
  out = ByteWriter(buffer);
  encode_close(out, CloseCode::duplicate);
  EXPECT_EQ(one().value, 3U);
}

TEST_F(FrameRoundTrip, PaddingIsSkipped) {
  out.zeros(5);
  encode_ping(out);
  out.zeros(7);
  EXPECT_EQ(one().type, FrameType::ping);
}

TEST_F(FrameRoundTrip, AckKeepsRangesDelayAndEcnCounts) {
  IntervalSet ranges;
  ranges.insert(0, 5);
  ranges.insert(7, 8);
  ranges.insert(100, 200);
  const EcnCounts ecn{10, 0, 3};
  ASSERT_TRUE(encode_ack(out, ranges, 1234us, &ecn));
  FrameReader reader(out.written());
  Frame f;
  ASSERT_TRUE(reader.next(f));
  const AckFrame& ack = reader.ack();
  ASSERT_EQ(ack.count, 3U);
  EXPECT_EQ(ack.ranges[0], (Interval{100, 200}));
  EXPECT_EQ(ack.ranges[1], (Interval{7, 8}));
  EXPECT_EQ(ack.ranges[2], (Interval{0, 5}));
  EXPECT_EQ(ack.delay, 1234us);
  EXPECT_TRUE(ack.has_ecn);
  EXPECT_EQ(ack.ecn, ecn);
}

TEST_F(FrameRoundTrip, AckGivesUpItsOldestRangesWhenThereIsNoRoom) {
  IntervalSet ranges;
  for (std::uint64_t i = 0; i < 60; ++i) ranges.insert(i * 1000, i * 1000 + 500);
  for (std::size_t room = 0; room < 300; ++room) {
    std::array<std::uint8_t, 300> small{};
    ByteWriter writer(MutableBytes(small).first(room));
    if (!encode_ack(writer, ranges, 0ns, nullptr)) {
      EXPECT_EQ(writer.size(), 0U);
      continue;
    }
    EXPECT_FALSE(writer.failed());
    FrameReader reader(writer.written());
    Frame f;
    ASSERT_TRUE(reader.next(f));
    EXPECT_EQ(reader.ack().largest(), 59'499U);
    for (std::size_t i = 0; i < reader.ack().count; ++i) EXPECT_EQ(reader.ack().ranges[i], ranges[59 - i]);
  }
}

TEST(FrameReader, ARangeBelowZeroIsMalformed) {
  for (const Bytes& bad : {Bytes{0x02, 5, 0, 0, 6},            // first range longer than the largest number
                           Bytes{0x02, 5, 0, 1, 2, 3, 0},      // gap reaches below zero
                           Bytes{0x02, 10, 0, 1, 2, 3, 9},     // second range reaches below zero
                           Bytes{0x02, 5, 0, 3, 0, 0, 0}}) {   // more blocks than there are
    FrameReader reader(bad);
    Frame f;
    EXPECT_FALSE(reader.next(f));
    EXPECT_TRUE(reader.failed());
  }
}

TEST(FrameReader, UnknownTypesAndTruncationAreMalformed) {
  for (const Bytes& bad : {Bytes{0x40}, Bytes{0x0a, 1, 20, 1, 2}, Bytes{0x20, 5, 1, 2, 3, 4, 0, 1}, Bytes{0x1a, 1, 2, 3}, Bytes{0x31, 5, 1}}) {
    FrameReader reader(bad);
    Frame f;
    EXPECT_FALSE(reader.next(f));
    EXPECT_TRUE(reader.failed());
  }
}

TEST(AckRanges, TakeEachNumberOnce) {
  AckRanges ranges;
  EXPECT_TRUE(ranges.add(5));
  EXPECT_FALSE(ranges.add(5));
  EXPECT_TRUE(ranges.add(3));
  EXPECT_TRUE(ranges.add(4));
  EXPECT_EQ(ranges.ranges().size(), 1U);
  EXPECT_EQ(ranges.next_expected(), 6U);
}

TEST(AckRanges, AreBoundedAndForgottenNumbersCountAsSeen) {
  AckRanges ranges;
  for (std::uint64_t i = 0; i < 2 * AckRanges::kMaxRanges; ++i) EXPECT_TRUE(ranges.add(2 * i));
  EXPECT_EQ(ranges.ranges().size(), AckRanges::kMaxRanges);
  EXPECT_FALSE(ranges.add(1));  // too old to tell: a replay would look the same
  EXPECT_TRUE(ranges.add(4 * AckRanges::kMaxRanges - 3));
}

TEST(AckRanges, ForgetWhatThePeerKnowsButNeverTheLargest) {
  AckRanges ranges;
  for (const std::uint64_t n : {0U, 1U, 2U, 7U, 8U}) ranges.add(n);
  ranges.forget_below(100);
  EXPECT_EQ(ranges.ranges().size(), 1U);
  EXPECT_EQ(ranges.ranges().back(), (Interval{8, 9}));
  EXPECT_TRUE(ranges.seen(7));
  EXPECT_FALSE(ranges.seen(9));
}

TEST(IntervalSet, AgreesWithASetOfNumbers) {
  IntervalSet set;
  std::array<bool, 64> model{};
  std::uint64_t state = 1;
  for (int step = 0; step < 20'000; ++step) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t begin = (state >> 33) % 64, end = std::min<std::uint64_t>(64, begin + (state >> 50) % 12);
    const bool insert = ((state >> 20) & 3) != 0;
    insert ? set.insert(begin, end) : set.erase(begin, end);
    for (std::uint64_t n = begin; n < end; ++n) model[n] = insert;
    std::uint64_t count = 0;
    for (std::uint64_t n = 0; n < 64; ++n) {
      ASSERT_EQ(set.contains(n), model[n]);
      count += model[n] ? 1 : 0;
    }
    ASSERT_EQ(set.covered(0, 64), count);
    for (std::size_t i = 1; i < set.size(); ++i) ASSERT_LT(set[i - 1].end, set[i].begin);
  }
}

}  // namespace
}  // namespace peerbed
