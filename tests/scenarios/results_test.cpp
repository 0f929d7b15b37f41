#include "scenarios/results.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "scenarios/campaign.h"
#include "scenarios/run_folder.h"

namespace peerbed {
namespace {

namespace fs = std::filesystem;

RunResult some_result() {
  RunResult result;
  result.scenario = "demo";
  result.title = "A <demo>";
  result.backend = "sim";
  result.seed = 18446744073709551615U;
  result.digest = std::string(64, 'a');
  result.set = {{"links.wan.loss", "1 %"}};
  result.metrics.set_text("punch.outcome", "relayed");
  result.metrics.set_number("flow.a.goodput", "bit/s", 1234567.5);
  result.metrics.set_samples("connect.time", "s", {0.25, 0.5, 0.75});
  for (const char* text : {"punch.outcome == direct", "flow.a.goodput > 1 Mbit/s", "nothing > 1"}) {
    const auto expectation = Expectation::parse(text);
    result.expectations.push_back({text, "", expectation->evaluate(result.metrics)});
  }
  result.verdict = Verdict::fail;
  return result;
}

TEST(Results, FollowTheSchema) {
  const auto parsed = boost::json::parse(results_json(some_result())).as_object();
  EXPECT_EQ(parsed.at("schema").as_string(), "peerbed.results/1");
  EXPECT_EQ(parsed.at("scenario").as_string(), "demo");
  EXPECT_EQ(parsed.at("backend").as_string(), "sim");
  EXPECT_EQ(parsed.at("seed").as_uint64(), 18446744073709551615U);
  EXPECT_EQ(parsed.at("verdict").as_string(), "fail");
  EXPECT_EQ(parsed.at("digest").as_string().size(), 64U);
  const auto& expectations = parsed.at("expectations").as_array();
  ASSERT_EQ(expectations.size(), 3U);
  EXPECT_EQ(expectations[0].at("expr").as_string(), "punch.outcome == direct");
  EXPECT_EQ(expectations[0].at("value").as_string(), "relayed");
  EXPECT_FALSE(expectations[0].at("ok").as_bool());
  EXPECT_EQ(expectations[1].at("value").as_double(), 1234567.5);
  EXPECT_EQ(expectations[1].at("bound").as_int64(), 1000000);
  EXPECT_TRUE(expectations[1].at("ok").as_bool());
  EXPECT_TRUE(expectations[2].at("value").is_null());
  EXPECT_TRUE(expectations[2].as_object().contains("reason"));
  const auto& metrics = parsed.at("metrics").as_object();
  EXPECT_EQ(metrics.at("punch.outcome").at("value").as_string(), "relayed");
  EXPECT_EQ(metrics.at("flow.a.goodput").at("unit").as_string(), "bit/s");
  const auto& times = metrics.at("connect.time").as_object();
  for (const char* key : {"unit", "count", "mean", "min", "p50", "p90", "p99", "max"}) EXPECT_TRUE(times.contains(key)) << key;
  EXPECT_EQ(times.at("p50").as_double(), 0.5);
  const auto& engine = parsed.at("engine").as_object();
  for (const char* key : {"events", "packets", "sim_s", "wall_s", "cpu_s", "peak_rss_bytes", "version", "compiler"}) EXPECT_TRUE(engine.contains(key)) << key;
}

TEST(Results, JunitCountsFailuresAndEscapes) {
  auto result = some_result();
  result.scenario = "a<b>&\"c\"";
  const auto xml = junit_xml(result);
  EXPECT_NE(xml.find("<testsuite name=\"a&lt;b&gt;&amp;&quot;c&quot;\" tests=\"4\" failures=\"2\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("<failure message=\"punch.outcome == direct: relayed, bound direct\"/>"), std::string::npos) << xml;
}

TEST(Results, AggregatesOverSeedsWithAnInterval) {
  std::vector<RunSummary> runs(3);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].values.push_back({"flow.a.goodput", "bit/s", 1e6 * static_cast<double>(i + 1), "", false});
    runs[i].values.push_back({"punch.outcome", "", 0, i == 0 ? "relayed" : "direct", true});
  }
  const auto metrics = aggregate(runs);
  const auto& goodput = metrics.at("flow.a.goodput");
  EXPECT_EQ(goodput.n, 3U);
  EXPECT_DOUBLE_EQ(goodput.mean, 2e6);
  ASSERT_TRUE(goodput.ci95);
  EXPECT_NEAR(goodput.ci95->second - goodput.mean, 4.302653 * 1e6 / std::sqrt(3.0), 1);  // t(0.975, 2)
  EXPECT_EQ(metrics.at("punch.outcome").texts.at("direct"), 2U);
}

class Folders : public ::testing::Test {
 protected:
  Folders() : root_(fs::temp_directory_path() / ("peerbed-folders-" + std::to_string(::getpid()))) { fs::create_directories(root_); }
  ~Folders() override { fs::remove_all(root_); }
  fs::path root_;
};

TEST_F(Folders, ARunFolderAppearsWholeOrNotAtAll) {
  const auto final_path = (root_ / "run").string();
  {
    auto folder = RunFolder::open(root_.string());
    ASSERT_TRUE(folder);
    ASSERT_TRUE(folder->write("results.json", "{}"));
    EXPECT_FALSE(fs::exists(final_path));
  }
  EXPECT_TRUE(fs::is_empty(root_)) << "what was not committed is gone";
  auto folder = RunFolder::open(root_.string());
  ASSERT_TRUE(folder->write("results.json", "{}"));
  ASSERT_TRUE(folder->commit(final_path));
  EXPECT_TRUE(fs::exists(final_path + "/results.json"));
}

TEST_F(Folders, ACommitReplacesAnEarlierRunAsAWhole) {
  const auto final_path = (root_ / "run").string();
  for (const char* file : {"first", "second"}) {
    auto folder = RunFolder::open(root_.string());
    ASSERT_TRUE(folder->write(file, "x"));
    ASSERT_TRUE(folder->commit(final_path));
  }
  EXPECT_FALSE(fs::exists(final_path + "/first"));
  EXPECT_TRUE(fs::exists(final_path + "/second"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(Folders, LeftoversOfTheDeadAreRemovedThoseOfTheLivingAreNot) {
  fs::create_directories(root_ / ".unfinished-999999999-0");
  fs::create_directories(root_ / (".unfinished-" + std::to_string(::getpid()) + "-7"));
  fs::create_directories(root_ / ".unfinished-note");
  remove_stale(root_.string());
  EXPECT_FALSE(fs::exists(root_ / ".unfinished-999999999-0"));
  EXPECT_TRUE(fs::exists(root_ / (".unfinished-" + std::to_string(::getpid()) + "-7")));
  EXPECT_TRUE(fs::exists(root_ / ".unfinished-note"));
}

TEST_F(Folders, SomebodyElsesFolderIsNotOverwritten) {
  std::ofstream(root_ / "thesis.tex") << "years of work";
  EXPECT_FALSE(check_output(root_.string()));
  EXPECT_TRUE(check_output((root_ / "new").string()));
  EXPECT_FALSE(check_output((root_ / "thesis.tex").string()));
}

}  // namespace
}  // namespace peerbed
