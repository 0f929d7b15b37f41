#include "core/crypto/noise.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/env/random_stream.h"

namespace peerbed {
namespace {

SecretKey secret_of(std::string_view hex) {
  SecretKey secret{};
  const Bytes bytes = from_hex(hex).value();
  EXPECT_EQ(bytes.size(), secret.size());
  std::copy_n(bytes.begin(), std::min(bytes.size(), secret.size()), secret.begin());
  return secret;
}

SecretKey random_secret(RandomStream& random) {
  SecretKey secret{};
  random.fill(secret);
  return secret;
}

Result<Bytes> written(NoiseXX& machine, BytesView payload) {
  Bytes out(payload.size() + NoiseXX::kOverhead[1]);
  const Result<std::size_t> size = machine.write_message(payload, out);
  if (!size) return size.error();
  out.resize(*size);
  return out;
}

Result<Bytes> read(NoiseXX& machine, BytesView message) {
  Bytes payload(message.size());
  const Result<std::size_t> size = machine.read_message(message, payload);
  if (!size) return size.error();
  payload.resize(*size);
  return payload;
}

/// What an observer can see of a machine.
struct Look {
  std::array<std::uint8_t, 32> hash;
  PeerId remote;
  bool turn, complete;
  bool operator==(const Look&) const = default;
};
Look look(const NoiseXX& machine) {
  return {machine.handshake_hash(), machine.remote_static(), machine.my_turn(), machine.complete()};
}

struct Pair {
  explicit Pair(std::uint64_t seed, std::string_view prologue_a = "app/1", std::string_view prologue_b = "app/1")
      : random(seed, 0, "noise test"),
        a_keys(make_key_pair(random_secret(random))),
        b_keys(make_key_pair(random_secret(random))),
        a(NoiseRole::initiator, a_keys, as_bytes(prologue_a), random_secret(random)),
        b(NoiseRole::responder, b_keys, as_bytes(prologue_b), random_secret(random)) {}

  /// Passes messages until `count` have gone over.
  void advance(int count) {
    for (int i = 0; i < count; ++i) {
      NoiseXX& from = i % 2 == 0 ? a : b;
      NoiseXX& to = i % 2 == 0 ? b : a;
      const Result<Bytes> message = written(from, as_bytes("payload"));
      ASSERT_TRUE(message) << message.error().message;
      const Result<Bytes> payload = read(to, *message);
      ASSERT_TRUE(payload) << payload.error().message;
      ASSERT_EQ(as_text(*payload), "payload");
    }
  }

  RandomStream random;
  KeyPair a_keys, b_keys;
  NoiseXX a, b;
};

void expect_same_end(const Pair& pair) {
  ASSERT_TRUE(pair.a.complete());
  ASSERT_TRUE(pair.b.complete());
  EXPECT_EQ(pair.a.handshake_hash(), pair.b.handshake_hash());
  EXPECT_EQ(pair.a.remote_static(), pair.b_keys.public_key);
  EXPECT_EQ(pair.b.remote_static(), pair.a_keys.public_key);
  const NoiseKeys a = pair.a.split(), b = pair.b.split();
  EXPECT_EQ(a.send.bytes, b.receive.bytes);
  EXPECT_EQ(a.receive.bytes, b.send.bytes);
  EXPECT_NE(a.send.bytes, a.receive.bytes);
}

struct Vector {
  struct Message {
    bool from_initiator = false;
    Bytes payload, ciphertext;
  };
  std::string name, handshake_hash;
  Bytes prologue;
  SecretKey initiator_static{}, initiator_ephemeral{}, responder_static{}, responder_ephemeral{};
  std::vector<Message> messages;
};

std::vector<Vector> load_vectors() {
  std::ifstream file(PEERBED_SOURCE_DIR "/tests/data/noise/xx_25519_chachapoly_sha256.txt");
  const auto bytes = [](const std::string& hex) { return hex == "-" ? Bytes{} : from_hex(hex).value(); };
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find(" = ");
    EXPECT_NE(equals, std::string::npos) << line;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 3);
    if (name == "name") vectors.emplace_back().name = value;
    Vector& vector = vectors.back();
    if (name == "prologue") vector.prologue = bytes(value);
    if (name == "initiator_static") vector.initiator_static = secret_of(value);
    if (name == "initiator_ephemeral") vector.initiator_ephemeral = secret_of(value);
    if (name == "responder_static") vector.responder_static = secret_of(value);
    if (name == "responder_ephemeral") vector.responder_ephemeral = secret_of(value);
    if (name == "handshake_hash") vector.handshake_hash = value;
    if (name == "message") {
      std::istringstream words(value);
      std::string sender, payload, ciphertext;
      words >> sender >> payload >> ciphertext;
      vector.messages.push_back({sender == "initiator", bytes(payload), bytes(ciphertext)});
    }
  }
  return vectors;
}

// tests/data/noise/SOURCE.txt
TEST(NoiseXX, WritesAndReadsThePublicTestVectorsByteForByte) {
  const std::vector<Vector> vectors = load_vectors();
  ASSERT_EQ(vectors.size(), 6U);
  int hashes = 0;
  for (const Vector& vector : vectors) {
    SCOPED_TRACE(vector.name);
    ASSERT_GE(vector.messages.size(), 5U);
    const KeyPair initiator_keys = make_key_pair(vector.initiator_static);
    const KeyPair responder_keys = make_key_pair(vector.responder_static);
    NoiseXX initiator(NoiseRole::initiator, initiator_keys, vector.prologue, vector.initiator_ephemeral);
    NoiseXX responder(NoiseRole::responder, responder_keys, vector.prologue, vector.responder_ephemeral);
    for (std::size_t i = 0; i < 3; ++i) {
      const Vector::Message& expected = vector.messages[i];
      ASSERT_EQ(expected.from_initiator, i % 2 == 0);
      NoiseXX& from = expected.from_initiator ? initiator : responder;
      NoiseXX& to = expected.from_initiator ? responder : initiator;
      const Result<Bytes> message = written(from, expected.payload);
      ASSERT_TRUE(message) << message.error().message;
      EXPECT_EQ(to_hex(*message), to_hex(expected.ciphertext)) << "message " << i + 1;
      EXPECT_EQ(message->size(), expected.payload.size() + NoiseXX::kOverhead[i]);
      const Result<Bytes> payload = read(to, expected.ciphertext);
      ASSERT_TRUE(payload) << payload.error().message;
      EXPECT_EQ(*payload, expected.payload);
    }
    ASSERT_TRUE(initiator.complete() && responder.complete());
    EXPECT_EQ(initiator.handshake_hash(), responder.handshake_hash());
    if (!vector.handshake_hash.empty()) {
      ++hashes;
      EXPECT_EQ(to_hex(initiator.handshake_hash()), vector.handshake_hash);
    }
    EXPECT_EQ(initiator.remote_static(), responder_keys.public_key);
    EXPECT_EQ(responder.remote_static(), initiator_keys.public_key);

    const NoiseKeys of_initiator = initiator.split(), of_responder = responder.split();
    std::array<std::uint64_t, 2> nonces{};
    for (std::size_t i = 3; i < vector.messages.size(); ++i) {
      const Vector::Message& expected = vector.messages[i];
      const NoiseKeys& from = expected.from_initiator ? of_initiator : of_responder;
      const NoiseKeys& to = expected.from_initiator ? of_responder : of_initiator;
      const std::uint64_t nonce = nonces[expected.from_initiator ? 0 : 1]++;
      Bytes sealed(expected.payload.size() + kAeadTagSize), opened(expected.payload.size());
      seal(from.send, nonce, {}, expected.payload, sealed);
      EXPECT_EQ(to_hex(sealed), to_hex(expected.ciphertext)) << "transport message " << i;
      EXPECT_TRUE(open(to.receive, nonce, {}, sealed, opened));
      EXPECT_EQ(opened, expected.payload);
    }
  }
  EXPECT_EQ(hashes, 1);
}

TEST(NoiseXX, BothSidesEndWithTheSameKeysAndKnowEachOther) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Pair pair(seed);
    ASSERT_NO_FATAL_FAILURE(pair.advance(3));
    expect_same_end(pair);
  }
}

TEST(NoiseXX, AnotherProloguesInitiatorRefusesMessageTwo) {
  Pair pair(1, "app/1", "app/2");
  ASSERT_NO_FATAL_FAILURE(pair.advance(1));
  const Result<Bytes> message = written(pair.b, {});
  ASSERT_TRUE(message);
  const Look before = look(pair.a);
  EXPECT_FALSE(read(pair.a, *message));
  EXPECT_EQ(look(pair.a), before);
  EXPECT_EQ(pair.a.remote_static(), PeerId{});
}

// Message 1 is in clear, so its reader cannot tell; the writer can, at message 2, because the hash covers it.
TEST(NoiseXX, EveryCorruptionOfMessageOneIsFoundWhenMessageTwoIsRead) {
  Pair pair(2);
  const Bytes first = written(pair.a, as_bytes("hello")).value();
  NoiseXX honest = pair.b;
  ASSERT_TRUE(read(honest, first));
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (const std::uint8_t flip : {std::uint8_t{1}, std::uint8_t{0x80}, std::uint8_t{0xff}}) {
      Bytes corrupt = first;
      corrupt[i] ^= flip;
      NoiseXX deceived = pair.b;
      if (!read(deceived, corrupt)) continue;  // a point of small order by chance would be refused at once
      const Result<Bytes> reply = written(deceived, {});
      ASSERT_TRUE(reply);
      const Look before = look(pair.a);
      EXPECT_FALSE(read(pair.a, *reply)) << "byte " << i;
      EXPECT_EQ(look(pair.a), before);
    }
  }
  pair.b = honest;
  ASSERT_TRUE(read(pair.a, written(pair.b, {}).value()));
  ASSERT_TRUE(read(pair.b, written(pair.a, {}).value()));
  expect_same_end(pair);
}

TEST(NoiseXX, EveryFlippedBitOfMessagesTwoAndThreeIsRefusedAndTheMachineGoesOn) {
  for (const int number : {1, 2}) {
    Pair pair(3);
    ASSERT_NO_FATAL_FAILURE(pair.advance(number));
    NoiseXX& from = number == 1 ? pair.b : pair.a;
    NoiseXX& to = number == 1 ? pair.a : pair.b;
    const Bytes message = written(from, as_bytes("payload")).value();
    const Look before = look(to);
    for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
      Bytes corrupt = message;
      corrupt[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
      const Result<Bytes> result = read(to, corrupt);
      ASSERT_FALSE(result) << "message " << number + 1 << ", bit " << bit;
      EXPECT_EQ(result.error().kind, ErrorKind::protocol);
      ASSERT_EQ(look(to), before);
    }
    ASSERT_TRUE(read(to, message));
    if (number == 1) {
      ASSERT_TRUE(read(pair.b, written(pair.a, {}).value()));
    }
    expect_same_end(pair);
  }
}

TEST(NoiseXX, EveryTruncationAndExtensionOfASealedMessageIsRefused) {
  Pair pair(4);
  ASSERT_NO_FATAL_FAILURE(pair.advance(1));
  Bytes message = written(pair.b, as_bytes("payload")).value();
  const Look before = look(pair.a);
  for (std::size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(read(pair.a, BytesView(message).first(size))) << size;
  }
  message.push_back(0);
  EXPECT_FALSE(read(pair.a, message));
  EXPECT_EQ(look(pair.a), before);
  message.pop_back();
  EXPECT_TRUE(read(pair.a, message));
}

TEST(NoiseXX, RandomBytesInAnyQuantityLeaveTheMachineUsable) {
  Pair pair(5);
  ASSERT_NO_FATAL_FAILURE(pair.advance(1));
  const Bytes message = written(pair.b, {}).value();
  for (int i = 0; i < 300; ++i) {
    Bytes noise(static_cast<std::size_t>(pair.random.below(300)));
    pair.random.fill(noise);
    EXPECT_FALSE(read(pair.a, noise));
  }
  ASSERT_TRUE(read(pair.a, message));
  ASSERT_TRUE(read(pair.b, written(pair.a, {}).value()));
  expect_same_end(pair);
}

// The points of order 1, 2, 4 and 8 and their non-canonical forms, as listed for Curve25519 at cr.yp.to/ecdh.html.
// RFC 7748 §6.1: their result is all zeros, which would make a key that everybody knows.
const std::vector<std::string>& small_order_points() {
  static const std::vector<std::string> points{
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "0000000000000000000000000000000000000000000000000000000000000080",
      "0100000000000000000000000000000000000000000000000000000000000080",
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b880",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f11d7",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
  return points;
}

TEST(NoiseXX, AnEphemeralPointOfSmallOrderIsRefusedAndTheMachineGoesOn) {
  Pair pair(6);
  const Bytes first = written(pair.a, {}).value();
  for (const std::string& point : small_order_points()) {
    const Look before = look(pair.b);
    EXPECT_FALSE(read(pair.b, from_hex(point).value())) << point;
    EXPECT_EQ(look(pair.b), before);
  }
  ASSERT_TRUE(read(pair.b, first));
  const Bytes second = written(pair.b, {}).value();
  for (const std::string& point : small_order_points()) {
    Bytes forged = from_hex(point).value();
    forged.insert(forged.end(), second.begin() + 32, second.end());
    const Result<Bytes> result = read(pair.a, forged);
    ASSERT_FALSE(result) << point;
    EXPECT_EQ(result.error().message, "the peer's ephemeral key has small order");
  }
  ASSERT_TRUE(read(pair.a, second));
}

// A dishonest peer can seal a static "key" of small order correctly: the handshake must not accept it as an identity.
TEST(NoiseXX, AStaticPointOfSmallOrderIsRefused) {
  for (const std::string& point : small_order_points()) {
    const Bytes bytes = from_hex(point).value();
    KeyPair forged;
    std::copy(bytes.begin(), bytes.end(), forged.public_key.key.begin());
    forged.secret[0] = 8;

    Pair as_responder(7);
    as_responder.b = NoiseXX(NoiseRole::responder, forged, as_bytes("app/1"), random_secret(as_responder.random));
    ASSERT_NO_FATAL_FAILURE(as_responder.advance(1));
    const Result<Bytes> second = read(as_responder.a, written(as_responder.b, {}).value());
    ASSERT_FALSE(second) << point;
    EXPECT_EQ(second.error().message, "the peer's static key has small order");

    Pair as_initiator(8);
    as_initiator.a = NoiseXX(NoiseRole::initiator, forged, as_bytes("app/1"), random_secret(as_initiator.random));
    ASSERT_NO_FATAL_FAILURE(as_initiator.advance(2));
    const Result<Bytes> third = read(as_initiator.b, written(as_initiator.a, {}).value());
    ASSERT_FALSE(third) << point;
    EXPECT_EQ(third.error().message, "the peer's static key has small order");
    EXPECT_EQ(as_initiator.b.remote_static(), PeerId{});
  }
}

// A static key without its secret: the sealed key opens, the payload does not.
TEST(NoiseXX, AStolenPublicKeyIsNoIdentity) {
  Pair pair(9);
  KeyPair thief = make_key_pair(random_secret(pair.random));
  thief.public_key = pair.a_keys.public_key;
  pair.a = NoiseXX(NoiseRole::initiator, thief, as_bytes("app/1"), random_secret(pair.random));
  ASSERT_NO_FATAL_FAILURE(pair.advance(2));
  EXPECT_FALSE(read(pair.b, written(pair.a, {}).value()));
  EXPECT_EQ(pair.b.remote_static(), PeerId{});
  EXPECT_FALSE(pair.b.complete());
}

TEST(NoiseXX, SpeaksOnlyInTurn) {
  Pair pair(10);
  EXPECT_TRUE(pair.a.my_turn());
  EXPECT_FALSE(pair.b.my_turn());
  EXPECT_FALSE(written(pair.b, {}));
  const Bytes first = written(pair.a, {}).value();
  EXPECT_FALSE(pair.a.my_turn());
  EXPECT_FALSE(written(pair.a, {}));
  EXPECT_FALSE(read(pair.a, first)) << "an initiator takes no message 1, not even its own reflected";
  ASSERT_TRUE(read(pair.b, first));
  EXPECT_TRUE(pair.b.my_turn());
  EXPECT_FALSE(read(pair.b, first)) << "a repeated message 1 does not start again";
  ASSERT_TRUE(read(pair.a, written(pair.b, {}).value()));
  const Bytes third = written(pair.a, {}).value();
  EXPECT_TRUE(pair.a.complete());
  ASSERT_TRUE(read(pair.b, third));
  EXPECT_FALSE(read(pair.b, third));
  EXPECT_FALSE(written(pair.a, {}));
  EXPECT_FALSE(pair.a.my_turn() || pair.b.my_turn());
  expect_same_end(pair);
}

TEST(NoiseXX, TheRemoteKeyIsKnownOnlyAfterItsMessageAuthenticates) {
  Pair pair(11);
  ASSERT_NO_FATAL_FAILURE(pair.advance(1));
  EXPECT_EQ(pair.b.remote_static(), PeerId{});
  ASSERT_TRUE(read(pair.a, written(pair.b, {}).value()));
  EXPECT_EQ(pair.a.remote_static(), pair.b_keys.public_key);
  EXPECT_EQ(pair.b.remote_static(), PeerId{});
  ASSERT_TRUE(read(pair.b, written(pair.a, {}).value()));
  EXPECT_EQ(pair.b.remote_static(), pair.a_keys.public_key);
}

TEST(NoiseXX, ABufferThatIsTooSmallIsAnErrorAndChangesNothing) {
  Pair pair(12);
  Bytes out(NoiseXX::kOverhead[0] + 4);
  EXPECT_FALSE(pair.a.write_message(as_bytes("hello"), out));
  EXPECT_TRUE(pair.a.my_turn());
  const Bytes first = written(pair.a, as_bytes("hello")).value();
  Bytes payload(4);
  EXPECT_FALSE(pair.b.read_message(first, payload));
  EXPECT_FALSE(pair.b.my_turn());
  payload.resize(5);
  ASSERT_TRUE(pair.b.read_message(first, payload));
  EXPECT_EQ(as_text(payload), "hello");
}

// Noise specification §3: a message has at most 65535 bytes.
TEST(NoiseXX, AMessageHasAtMost65535Bytes) {
  Pair pair(13);
  for (std::size_t i = 0; i < 3; ++i) {
    NoiseXX& from = i % 2 == 0 ? pair.a : pair.b;
    NoiseXX& to = i % 2 == 0 ? pair.b : pair.a;
    const Bytes payload(65535 - NoiseXX::kOverhead[i], 0x33);
    EXPECT_FALSE(written(from, Bytes(payload.size() + 1)));
    const Bytes message = written(from, payload).value();
    EXPECT_EQ(message.size(), 65535U);
    EXPECT_FALSE(read(to, Bytes(65536)));
    ASSERT_EQ(read(to, message).value(), payload);
  }
  expect_same_end(pair);
}

TEST(NoiseXX, PayloadsOfMessagesTwoAndThreeAreSealed) {
  Pair pair(14);
  const std::string secret = "a payload that nobody else reads";
  ASSERT_NO_FATAL_FAILURE(pair.advance(1));
  const Bytes second = written(pair.b, as_bytes(secret)).value();
  ASSERT_TRUE(read(pair.a, second));
  const Bytes third = written(pair.a, as_bytes(secret)).value();
  for (const Bytes* message : {&second, &third}) {
    EXPECT_EQ(as_text(*message).find(secret), std::string_view::npos);
    // Nor does a static key go in clear.
    EXPECT_EQ(as_text(*message).find(as_text(pair.a_keys.public_key.key)), std::string_view::npos);
    EXPECT_EQ(as_text(*message).find(as_text(pair.b_keys.public_key.key)), std::string_view::npos);
  }
}

}  // namespace
}  // namespace peerbed
