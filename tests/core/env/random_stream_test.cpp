#include "core/env/random_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

namespace peerbed {
namespace {

TEST(RandomStream, SeedOwnerAndPurposeEachMakeAnotherStream) {
  RandomStream a(1, 2, "x"), same(1, 2, "x"), seed(2, 2, "x"), owner(1, 3, "x"), purpose(1, 2, "y");
  const std::uint64_t first = a.next();
  EXPECT_EQ(same.next(), first);
  EXPECT_NE(seed.next(), first);
  EXPECT_NE(owner.next(), first);
  EXPECT_NE(purpose.next(), first);
}

TEST(RandomStream, BoundedNumbersAreUniformByChiSquare) {
  RandomStream stream(7, 0, "uniform");
  constexpr std::size_t kBins = 10;
  constexpr int kDraws = 100'000;
  std::array<int, kBins> bins{};
  for (int i = 0; i < kDraws; ++i) ++bins[static_cast<std::size_t>(stream.below(kBins))];
  double chi = 0;
  for (const int count : bins) chi += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi, 27.9);  // 99.9 % quantile of chi-square with 9 degrees of freedom
}

TEST(RandomStream, RangesIncludeBothEnds) {
  RandomStream stream(7, 0, "range");
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t v = stream.between(-2, 2);
    ASSERT_GE(v, -2);
    ASSERT_LE(v, 2);
    low = low || v == -2;
    high = high || v == 2;
  }
  EXPECT_TRUE(low && high);
}

TEST(RandomStream, MeansAndDeviationsAreThoseAskedFor) {
  RandomStream stream(7, 0, "moments");
  constexpr int kDraws = 100'000;
  double sum = 0, sum_normal = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    sum += stream.exponential(2.0);
    const double x = stream.normal(5.0, 3.0);
    sum_normal += x;
    squares += (x - 5) * (x - 5);
  }
  // Four standard errors of each estimate.
  EXPECT_NEAR(sum / kDraws, 2.0, 4 * 2.0 / std::sqrt(kDraws));
  EXPECT_NEAR(sum_normal / kDraws, 5.0, 4 * 3.0 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws), 3.0, 4 * 3.0 / std::sqrt(2.0 * kDraws));
}

TEST(RandomStream, AShuffleKeepsEveryItem) {
  RandomStream stream(7, 0, "shuffle");
  std::array<int, 50> items{};
  std::iota(items.begin(), items.end(), 0);
  stream.shuffle(std::span<int>(items));
  EXPECT_FALSE(std::is_sorted(items.begin(), items.end()));
  std::sort(items.begin(), items.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(items[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace peerbed
