// A seeded stream of random numbers with its own distributions: those of the standard library differ between
// implementations, and equal seeds must give equal runs on every compiler.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/bytes.h"

namespace peerbed {

/// xoshiro256** (Blackman and Vigna 2018), seeded by SplitMix64 over (seed, owner, purpose).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t owner, std::string_view purpose);

  [[nodiscard]] std::uint64_t next();
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);                   ///< uniform in [0, bound), bound > 0, unbiased
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high);  ///< uniform, both ends included
  [[nodiscard]] double uniform();                                           ///< [0, 1), 53 bits
  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] double exponential(double mean);
  [[nodiscard]] double normal(double mean, double deviation);
  void fill(MutableBytes out);

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      using std::swap;
      swap(items[i - 1], items[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace peerbed
