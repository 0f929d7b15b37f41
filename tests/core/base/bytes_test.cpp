#include "core/base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace peerbed {
namespace {

TEST(Varint, TheExamplesOfRfc9000AppendixA1) {
  const std::pair<std::string_view, std::uint64_t> examples[]{{"c2197c5eff14e88c", 151288809941952652ULL},
                                                              {"9d7f3e7d", 494878333},
                                                              {"7bbd", 15293},
                                                              {"25", 37}};
  for (const auto& [hex, value] : examples) {
    const Bytes encoded = *from_hex(hex);
    ByteReader reader(encoded);
    EXPECT_EQ(reader.varint(), value);
    EXPECT_TRUE(reader.done());
    std::array<std::uint8_t, 8> out{};
    ByteWriter writer(out);
    writer.varint(value);
    EXPECT_EQ(to_hex(writer.written()), hex);
  }
}

TEST(ByteReader, AReadPastTheEndFailsForGoodAndYieldsZeros) {
  const Bytes two{1, 2};
  ByteReader reader(two);
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.u8(), 0U);
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteReader, ACutVarintFails) {
  const Bytes cut{0xc0, 1};
  ByteReader reader(cut);
  EXPECT_EQ(reader.varint(), 0U);
  EXPECT_TRUE(reader.failed());
}

TEST(ByteWriter, AWriteThatDoesNotFitWritesNothing) {
  std::array<std::uint8_t, 3> out{};
  ByteWriter writer(out);
  writer.u16(0x0102);
  writer.u16(0x0304);
  EXPECT_TRUE(writer.failed());
  EXPECT_EQ(writer.size(), 2U);
  EXPECT_EQ(out[2], 0);
}

TEST(Hex, OddLengthAndForeignCharactersAreRefused) {
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("zz"));
  EXPECT_EQ(to_hex(*from_hex("00FFa0")), "00ffa0");
}

}  // namespace
}  // namespace peerbed
