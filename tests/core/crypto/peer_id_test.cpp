#include "core/crypto/peer_id.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/env/random_stream.h"

namespace peerbed {
namespace {

PeerId peer_of(std::string_view hex) {
  PeerId id;
  const Bytes bytes = from_hex(hex).value();
  std::copy(bytes.begin(), bytes.end(), id.key.begin());
  return id;
}

// Expected texts made with Python's base64.b32encode, which is RFC 4648 §6.
TEST(PeerId, TextIsBase32OfTheKeyInLowerCaseWithoutPadding) {
  EXPECT_EQ(PeerId{}.to_string(), std::string(52, 'a'));
  EXPECT_EQ(peer_of("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f").to_string(),
            "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq");
  EXPECT_EQ(peer_of("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff").to_string(),
            "777777777777777777777777777777777777777777777777777q");
  EXPECT_EQ(peer_of("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a").to_string(),
            "quqpacmjgctvi5elpxolipxxlig36oqney4bv5hlusuy5ku3jzva");
}

TEST(PeerId, ShortStringIsTheBeginningOfTheText) {
  const PeerId id = peer_of("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  EXPECT_EQ(id.short_string(), id.to_string().substr(0, 8));
}

TEST(PeerId, EveryKeySurvivesTheWayThroughText) {
  RandomStream random(1, 1, "peer ids");
  for (int i = 0; i < 1000; ++i) {
    PeerId id;
    random.fill(id.key);
    const Result<PeerId> parsed = PeerId::parse(id.to_string());
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, id);
  }
}

TEST(PeerId, ParseTellsAWrongLength) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{51}, std::size_t{53}, std::size_t{64}}) {
    const Result<PeerId> parsed = PeerId::parse(std::string(size, 'a'));
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(parsed.error().message, "a peer id has 52 characters, this one has " + std::to_string(size));
  }
}

TEST(PeerId, ParseRefusesEveryCharacterOutsideTheAlphabetAtEveryPlace) {
  for (std::size_t place = 0; place < 52; ++place) {
    for (int value = 0; value < 256; ++value) {
      const char c = static_cast<char>(value);
      if ((c >= 'a' && c <= 'z') || (c >= '2' && c <= '7')) continue;
      std::string text(52, 'a');
      text[place] = c;
      const Result<PeerId> parsed = PeerId::parse(text);
      ASSERT_FALSE(parsed) << "value " << value << " at " << place;
      EXPECT_NE(parsed.error().message.find("character " + std::to_string(place + 1)), std::string::npos);
    }
  }
  EXPECT_EQ(PeerId::parse("B" + std::string(51, 'a')).error().message,
            "a peer id is written with a-z and 2-7 in lower case, but character 1 is 'B'");
  EXPECT_EQ(PeerId::parse("\n" + std::string(51, 'a')).error().message,
            "a peer id is written with a-z and 2-7 in lower case, but character 1 is byte 0x0a");
}

TEST(PeerId, ParseRefusesTrailingBitsSoThatAPeerHasOneText) {
  // 256 bits leave one bit of the key in the last character: only 'a' (00000) and 'q' (10000) can end a text.
  int accepted = 0;
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyz234567")) {
    const Result<PeerId> parsed = PeerId::parse(std::string(51, 'a') + c);
    EXPECT_EQ(parsed.has_value(), c == 'a' || c == 'q') << c;
    if (parsed) {
      ++accepted;
      EXPECT_EQ(parsed->to_string().back(), c);
    } else {
      EXPECT_EQ(parsed.error().message, std::string("the last character of the peer id is '") + c +
                                            "', which no peer id ends in; is it mistyped?");
    }
  }
  EXPECT_EQ(accepted, 2);
}

}  // namespace
}  // namespace peerbed
