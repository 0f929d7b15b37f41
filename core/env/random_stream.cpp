#include "core/env/random_stream.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/base/check.h"
#include "core/base/int128.h"

namespace peerbed {
namespace {

std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t owner, std::string_view purpose) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over the purpose
  for (const char c : purpose) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  std::uint64_t state = seed;
  state = split_mix(state) ^ owner;
  state = split_mix(state) ^ hash;
  for (std::uint64_t& word : state_) word = split_mix(state);
}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  PEERBED_CHECK(bound > 0, "a random number below zero was asked for");
  // Lemire 2019: multiply, and reject the few values that would make it unfair.
  auto product = static_cast<Uint128>(next()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Uint128>(next()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

std::int64_t RandomStream::between(std::int64_t low, std::int64_t high) {
  PEERBED_CHECK(low <= high, "the range of a random number is empty");
  const auto width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (width == ~std::uint64_t{0}) return static_cast<std::int64_t>(next());
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(width + 1));
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

bool RandomStream::chance(double probability) { return probability > 0 && uniform() < probability; }

double RandomStream::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double RandomStream::normal(double mean, double deviation) {  // Box and Muller; the second value is not kept
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  return mean + deviation * radius * std::cos(angle);
}

void RandomStream::fill(MutableBytes out) {
  for (std::size_t i = 0; i < out.size();) {
    std::uint64_t word = next();
    for (std::size_t k = 0; k < 8 && i < out.size(); ++k, ++i, word >>= 8) out[i] = static_cast<std::uint8_t>(word);
  }
}

}  // namespace peerbed
