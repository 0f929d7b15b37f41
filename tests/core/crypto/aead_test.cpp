#include "core/crypto/aead.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "core/base/bytes.h"

namespace peerbed {
namespace {

AeadKey key_of(std::string_view hex) {
  AeadKey key;
  const std::optional<Bytes> bytes = from_hex(hex);
  EXPECT_TRUE(bytes && bytes->size() == key.bytes.size());
  if (bytes && bytes->size() == key.bytes.size()) std::copy(bytes->begin(), bytes->end(), key.bytes.begin());
  return key;
}

// RFC 8439 §A.5: the one vector of the RFC whose 12-byte nonce starts with the four zero bytes of Noise. Its counter
// 0102030405060708 is bytes 01..08 in the nonce, so 0x0807060504030201 in little-endian order.
constexpr std::string_view kKey = "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0";
constexpr std::uint64_t kNonce = 0x0807060504030201;
constexpr std::string_view kAssociated = "f33388860000000000004e91";
constexpr std::string_view kPlaintext =
    "496e7465726e65742d4472616674732061726520647261667420646f63756d656e74732076616c696420666f722061206d6178696d756d20"
    "6f6620736978206d6f6e74687320616e64206d617920626520757064617465642c207265706c616365642c206f72206f62736f6c65746564"
    "206279206f7468657220646f63756d656e747320617420616e792074696d652e20497420697320696e617070726f70726961746520746f20"
    "75736520496e7465726e65742d447261667473206173207265666572656e6365206d6174657269616c206f7220746f206369746520746865"
    "6d206f74686572207468616e206173202fe2809c776f726b20696e2070726f67726573732e2fe2809d";
constexpr std::string_view kSealed =
    "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0bdb7b73c321b0100"
    "d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c8559797a06ef4f0ef61c186324e2b350638"
    "3606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523eaf4534d7f83fa115"
    "5b0047718cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a10"
    "49e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709beead9d67890cbb22392336fea1851f"
    "38";

TEST(Aead, SealsTheVectorOfRfc8439A5) {
  const Bytes plaintext = from_hex(kPlaintext).value();
  Bytes sealed(plaintext.size() + kAeadTagSize);
  seal(key_of(kKey), kNonce, from_hex(kAssociated).value(), plaintext, sealed);
  EXPECT_EQ(to_hex(sealed), kSealed);
}

TEST(Aead, OpensTheVectorOfRfc8439A5InPlace) {
  Bytes text = from_hex(kSealed).value();
  ASSERT_TRUE(open(key_of(kKey), kNonce, from_hex(kAssociated).value(), text, text));
  text.resize(text.size() - kAeadTagSize);
  EXPECT_EQ(to_hex(text), kPlaintext);
}

// The RFC's main vector (§2.8.2) has a nonce that Noise never makes, so it checks the library under seal() alone.
TEST(Aead, TheLibraryGivesTheVectorOfRfc8439Section282) {
  const AeadKey key = key_of("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
  const std::string_view text =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen "
      "would be it.";
  const Bytes associated = from_hex("50515253c0c1c2c3c4c5c6c7").value();
  const Bytes nonce = from_hex("070000004041424344454647").value();
  Bytes sealed(text.size() + kAeadTagSize);
  crypto_aead_chacha20poly1305_ietf_encrypt(sealed.data(), nullptr, as_bytes(text).data(), text.size(),
                                            associated.data(), associated.size(), nullptr, nonce.data(),
                                            key.bytes.data());
  EXPECT_EQ(to_hex(sealed),
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a"
            "9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9d"
            "e576d26586cec64b6116"
            "1ae10b594f09e26a7e902ecbd0600691");
}

TEST(Aead, SealsInPlaceAsItSealsApart) {
  const AeadKey key = key_of(kKey);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{1200}}) {
    Bytes plaintext(size);
    for (std::size_t i = 0; i < size; ++i) plaintext[i] = static_cast<std::uint8_t>(i * 7);
    Bytes apart(size + kAeadTagSize);
    seal(key, 5, as_bytes("header"), plaintext, apart);
    Bytes in_place = plaintext;
    in_place.resize(size + kAeadTagSize);
    seal(key, 5, as_bytes("header"), MutableBytes(in_place).first(size), in_place);
    EXPECT_EQ(in_place, apart);
    ASSERT_TRUE(open(key, 5, as_bytes("header"), in_place, in_place));
    in_place.resize(size);
    EXPECT_EQ(in_place, plaintext);
  }
}

TEST(Aead, RefusesEveryFlippedBitOfTextAndAssociatedData) {
  const AeadKey key = key_of(kKey);
  Bytes associated = from_hex(kAssociated).value();
  Bytes sealed(40 + kAeadTagSize), out(40);
  seal(key, 9, associated, Bytes(40, 0x5a), sealed);
  ASSERT_TRUE(open(key, 9, associated, sealed, out));
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8));
    sealed[bit / 8] ^= mask;
    EXPECT_FALSE(open(key, 9, associated, sealed, out)) << "bit " << bit;
    sealed[bit / 8] ^= mask;
  }
  for (std::size_t bit = 0; bit < associated.size() * 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8));
    associated[bit / 8] ^= mask;
    EXPECT_FALSE(open(key, 9, associated, sealed, out)) << "associated bit " << bit;
    associated[bit / 8] ^= mask;
  }
}

TEST(Aead, RefusesEveryOtherNonceAndKey) {
  AeadKey key = key_of(kKey);
  Bytes sealed(8 + kAeadTagSize), out(8);
  seal(key, 0, {}, Bytes(8, 1), sealed);
  ASSERT_TRUE(open(key, 0, {}, sealed, out));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(open(key, std::uint64_t{1} << bit, {}, sealed, out)) << bit;
  key.bytes[31] ^= 1;
  EXPECT_FALSE(open(key, 0, {}, sealed, out));
}

TEST(Aead, RefusesWhatIsShorterThanATag) {
  const AeadKey key = key_of(kKey);
  Bytes out(kAeadTagSize);
  for (std::size_t size = 0; size < kAeadTagSize; ++size) EXPECT_FALSE(open(key, 0, {}, Bytes(size), out)) << size;
}

}  // namespace
}  // namespace peerbed
