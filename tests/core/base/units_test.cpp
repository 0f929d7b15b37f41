#include "core/base/units.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

TEST(Units, DurationsNeedAUnitAndKeepNanoseconds) {
  EXPECT_EQ(parse_duration("10 ms").value(), 10ms);
  EXPECT_EQ(parse_duration("1.5s").value(), 1500ms);
  EXPECT_EQ(parse_duration("250 us").value(), 250us);
  EXPECT_EQ(parse_duration("2 min").value(), 2min);
  EXPECT_EQ(parse_duration("10").error().message, "'10' has no unit; write for example '10 ms'");
  EXPECT_EQ(parse_duration("10 msec").error().message, "'10 msec' has an unknown unit 'msec'; known are ns, us, ms, s, min, h");
  EXPECT_EQ(parse_duration("-1 s").error().message, "'-1 s' is negative");
  EXPECT_EQ(parse_duration("fast").error().message, "'fast' is not a quantity; write for example '10 ms'");
  EXPECT_FALSE(parse_duration("nan s"));
  EXPECT_FALSE(parse_duration("1e300 h"));
}

TEST(Units, SizesKnowPowersOfTenAndOfTwo) {
  EXPECT_EQ(parse_data_size("1.5 KiB").value().bytes, 1536);
  EXPECT_EQ(parse_data_size("64 kB").value().bytes, 64'000);
  EXPECT_EQ(parse_data_size("1 GiB").value().bytes, 1'073'741'824);
  EXPECT_FALSE(parse_data_size("1 Kb"));
}

TEST(Units, RatesAreBitsPerSecondAndNeverZero) {
  EXPECT_EQ(parse_data_rate("5 Mbit/s").value().bits_per_second, 5'000'000);
  EXPECT_EQ(parse_data_rate("0 Mbit/s").error().message, "'0 Mbit/s' is no rate; it must be above zero");
}

TEST(Units, FractionsTakePercentOrAPlainNumberUpToOne) {
  EXPECT_DOUBLE_EQ(parse_fraction("1 %").value(), 0.01);
  EXPECT_DOUBLE_EQ(parse_fraction("0.25").value(), 0.25);
  EXPECT_EQ(parse_fraction("101 %").error().message, "'101 %' is above 100 %");
}

TEST(Units, TextFormsAreShortAndReadBackExactly) {
  EXPECT_EQ(to_string(Duration(1500us)), "1.5 ms");
  EXPECT_EQ(to_string(Duration(0)), "0 ns");
  EXPECT_EQ(to_string(DataRate{2'500'000}), "2.5 Mbit/s");
  for (const Duration d : {Duration(1), Duration(1001ns), Duration(123456789ns), Duration(3600s)}) {
    EXPECT_EQ(parse_duration(to_string(d)).value(), d) << to_string(d);
  }
}

TEST(DataRate, SerialisationTimeIsRoundedUpToTheNanosecond) {
  EXPECT_EQ((DataRate{1'000'000'000}.time_for(DataSize{1500})), 12us);
  EXPECT_EQ((DataRate{3}.time_for(DataSize{1})), Duration(2'666'666'667));
  EXPECT_EQ((DataRate{100'000'000'000}.time_for(DataSize{1})), Duration(1));  // 0.08 ns
}

}  // namespace
}  // namespace peerbed
