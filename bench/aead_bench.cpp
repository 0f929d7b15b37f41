// What sealing costs through core/crypto, beside the same libsodium calls made directly in the same run, and what a
// handshake costs beside its bare X25519 operations. Run with --benchmark_enable_random_interleaving=true
// --benchmark_repetitions=9, so that a noisy moment meets both sides of a comparison.
#include <benchmark/benchmark.h>
#include <sodium.h>

#include <array>

#include "core/base/check.h"
#include "core/crypto/aead.h"
#include "core/crypto/noise.h"

namespace {

using namespace peerbed;

constexpr std::size_t kHeader = 16;  // about what a transport packet authenticates besides its payload

AeadKey test_key() {
  AeadKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::uint8_t>(i);
  return key;
}

void seal_and_open(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const AeadKey key = test_key();
  const Bytes header(kHeader, 7);
  Bytes packet(size + kAeadTagSize, 1);
  std::uint64_t nonce = 0;
  for (auto _ : state) {
    seal(key, nonce, header, MutableBytes(packet).first(size), packet);
    const bool opened = open(key, nonce, header, packet, packet);
    PEERBED_CHECK(opened, "what was sealed opens");
    ++nonce;
    benchmark::DoNotOptimize(packet.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(size) * state.iterations());
}

void seal_and_open_raw_libsodium(benchmark::State& state) {
  PEERBED_CHECK(sodium_init() >= 0, "libsodium starts");
  const auto size = static_cast<std::size_t>(state.range(0));
  const AeadKey key = test_key();
  const Bytes header(kHeader, 7);
  Bytes packet(size + kAeadTagSize, 1);
  std::array<std::uint8_t, 12> nonce{};
  for (auto _ : state) {
    crypto_aead_chacha20poly1305_ietf_encrypt(packet.data(), nullptr, packet.data(), size, header.data(), header.size(),
                                              nullptr, nonce.data(), key.bytes.data());
    const int opened =
        crypto_aead_chacha20poly1305_ietf_decrypt(packet.data(), nullptr, nullptr, packet.data(), packet.size(),
                                                  header.data(), header.size(), nonce.data(), key.bytes.data());
    PEERBED_CHECK(opened == 0, "what was sealed opens");
    sodium_increment(nonce.data() + 4, 8);
    benchmark::DoNotOptimize(packet.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(size) * state.iterations());
}

SecretKey test_secret(std::uint8_t seed) {
  SecretKey secret{};
  secret.fill(seed);
  return secret;
}

/// Both sides, ephemeral keys, three messages with empty payloads, transport keys.
void noise_xx_handshake(benchmark::State& state) {
  const KeyPair alice = make_key_pair(test_secret(1)), bob = make_key_pair(test_secret(2));
  std::array<std::uint8_t, 128> message{}, payload{};
  for (auto _ : state) {
    NoiseXX a(NoiseRole::initiator, alice, as_bytes("bench"), test_secret(3));
    NoiseXX b(NoiseRole::responder, bob, as_bytes("bench"), test_secret(4));
    for (int i = 0; i < 3; ++i) {
      NoiseXX& from = i % 2 == 0 ? a : b;
      NoiseXX& to = i % 2 == 0 ? b : a;
      const Result<std::size_t> size = from.write_message({}, message);
      const bool accepted = to.read_message(BytesView(message).first(size.value()), payload).has_value();
      PEERBED_CHECK(accepted, "a handshake message is accepted");
    }
    benchmark::DoNotOptimize(a.split());
    benchmark::DoNotOptimize(b.split());
  }
}

/// The floor under a handshake: two ephemeral keys and, on each side, ee, es and se.
void noise_xx_raw_x25519(benchmark::State& state) {
  PEERBED_CHECK(sodium_init() >= 0, "libsodium starts");
  const KeyPair alice = make_key_pair(test_secret(1)), bob = make_key_pair(test_secret(2));
  SecretKey out{};
  for (auto _ : state) {
    for (int side = 0; side < 2; ++side) {
      PEERBED_CHECK(crypto_scalarmult_base(out.data(), alice.secret.data()) == 0, "X25519 of the base point");
      for (int i = 0; i < 3; ++i) {
        PEERBED_CHECK(crypto_scalarmult(out.data(), alice.secret.data(), bob.public_key.key.data()) == 0, "X25519");
      }
    }
    benchmark::DoNotOptimize(out.data());
  }
}

BENCHMARK(seal_and_open)->Arg(64)->Arg(1200);
BENCHMARK(seal_and_open_raw_libsodium)->Arg(64)->Arg(1200);
BENCHMARK(noise_xx_handshake)->Unit(benchmark::kMicrosecond);
BENCHMARK(noise_xx_raw_x25519)->Unit(benchmark::kMicrosecond);

}  // namespace
