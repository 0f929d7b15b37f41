#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "scenarios/measure/formulas.h"
#include "scenarios/measure/metrics.h"
#include "scenarios/measure/quantity.h"
#include "scenarios/measure/series.h"
#include "scenarios/measure/statistics.h"
#include "scenarios/measure/table.h"

namespace peerbed {
namespace {

TEST(Statistics, PercentilesInterpolateBetweenClosestRanks) {
  const std::array<double, 4> sorted{1, 2, 3, 4};  // numpy.percentile([1, 2, 3, 4], [0, 25, 50, 90, 100])
  EXPECT_DOUBLE_EQ(percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(sorted, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(percentile(sorted, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile(sorted, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(percentile(sorted, 1), 4);
}

TEST(Statistics, TheConfidenceIntervalIsStudents) {
  const std::array<double, 5> values{4.9, 5.1, 5.0, 5.3, 4.7};
  // Mean 5, s = 0.2236, t(0.975, 4) = 2.776445: half width 0.27764.
  const auto interval = confidence_interval_95(values);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->first, 4.72236, 1e-4);
  EXPECT_NEAR(interval->second, 5.27764, 1e-4);
  EXPECT_FALSE(confidence_interval_95(std::array<double, 1>{5}));
}

TEST(Statistics, ManySmallValuesAreNotLostInALargeSum) {
  std::vector<double> values(1'000'001, 1e-8);
  values[0] = 1e8;
  EXPECT_NEAR(mean(values) * static_cast<double>(values.size()) - 1e8, 0.01, 1e-6);
}

TEST(Formulas, AgreeWithTheTableOfExpectedValues) {
  std::ifstream in(std::string(PEERBED_SOURCE_DIR) + "/tests/data/expected/throughput_vs_loss_mbps.csv");
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  if (line.ends_with('\r')) line.pop_back();
  ASSERT_EQ(line, "rtt_s,p,mathis_b1,mathis_b2,tfrc_rfc5348,pftk_b1_rto1s,pftk_b2_rto1s,cubic_rfc9438");
  int rows = 0;
  while (std::getline(in, line)) {
    std::array<double, 8> column{};
    std::istringstream cells(line);
    std::string cell;
    for (double& value : column) {
      std::getline(cells, cell, ',');
      value = std::stod(cell);
    }
    LossPath path;
    path.mss_bytes = 1460;
    path.rtt_s = column[0];
    path.loss = column[1];
    path.acked_per_ack = 1;
    EXPECT_NEAR(mathis(path) * 1e-6, column[2], 6e-5) << line;
    EXPECT_NEAR(pftk(path) * 1e-6, column[5], 6e-5) << line;
    path.acked_per_ack = 2;
    EXPECT_NEAR(mathis(path) * 1e-6, column[3], 6e-5) << line;
    EXPECT_NEAR(pftk(path) * 1e-6, column[6], 6e-5) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 36);
}

TEST(Quantity, IsWrittenForPeople) {
  EXPECT_EQ(to_string(Quantity::rate(9.41e6)), "9.41 Mbit/s");
  EXPECT_EQ(to_string(Quantity::time(0.0123)), "12.3 ms");
  EXPECT_EQ(to_string(Quantity::time(65)), "65 s");
  EXPECT_EQ(to_string(Quantity::size(12.3e6)), "12.3 MB");
  EXPECT_EQ(to_string(Quantity::plain(42)), "42");
}

TEST(Quantity, TheLongestUnitIsMeant) {
  EXPECT_EQ(unit_at("ms")->name, "ms");
  EXPECT_EQ(unit_at("min)")->name, "min");
  EXPECT_EQ(unit_at("Mbit/s / 2")->name, "Mbit/s");
  EXPECT_EQ(unit_at("meters"), nullptr);
  EXPECT_EQ(unit_at("/ 2"), nullptr);
}

TEST(Metrics, ADistributionOfNothingIsAbsent) {
  Metrics metrics;
  metrics.set_samples("connect.time", "s", {});
  EXPECT_EQ(metrics.find("connect.time"), nullptr);
  metrics.set_samples("connect.time", "s", {3, 1, 2});
  EXPECT_EQ(std::get<Distribution>(metrics.find("connect.time")->value).sorted, (std::vector<double>{1, 2, 3}));
}

TEST(Series, IsLongFormAndCountsFromItsOrigin) {
  Series series(TimePoint(2s));
  series.add(TimePoint(2500ms), "flow.a.cwnd", 14720);
  series.add(TimePoint(3s), "flow.a.rtt", 0.0501);
  EXPECT_EQ(series.to_csv(), "time_s,name,value\n0.5,flow.a.cwnd,14720\n1,flow.a.rtt,0.0501\n");
}

TEST(Table, ARowIsFoundByJoinedColumnsInAnyCase) {
  const auto table = Table::parse("mapping_a,filter_a,direct_ok\nEIM,EIF,1\nEIM,APDF,0\n");
  ASSERT_TRUE(table);
  const std::pair<std::string, std::string> wanted[] = {{"mapping_a/filter_a", "eim/apdf"}};
  const auto row = table->find(wanted);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->line, 3U);
  EXPECT_EQ(row->values, (std::vector<std::pair<std::string, std::string>>{{"direct_ok", "0"}}));
  const std::pair<std::string, std::string> absent[] = {{"mapping_a/filter_a", "adm/eif"}};
  EXPECT_EQ(table->find(absent).error().message, "the table has no row with mapping_a/filter_a = adm/eif");
  const std::pair<std::string, std::string> mistyped[] = {{"maping_a", "eim"}};
  EXPECT_EQ(table->find(mistyped).error().message, "the table has no column 'maping_a'; did you mean 'mapping_a'?");
  EXPECT_EQ(Table::parse("a,b\n1\n").error().message, "line 2 of the table has 1 columns, its header 2");
}

}  // namespace
}  // namespace peerbed
