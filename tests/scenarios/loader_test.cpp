#include "scenarios/loader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace peerbed {
namespace {

namespace fs = std::filesystem;

/// Scenario files of one test, in a folder of their own.
class ScenarioLoader : public ::testing::Test {
 protected:
  ScenarioLoader() {
    folder_ = fs::temp_directory_path() / ("peerbed-loader-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~ScenarioLoader() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  /// The error without the folder's name, which differs from run to run.
  std::string error_of(const std::string& text, std::vector<std::pair<std::string, std::string>> set = {}) const {
    ScenarioRequest request;
    request.name_or_path = write("s.yaml", text);
    request.set = std::move(set);
    const auto scenario = load_scenario(request);
    if (scenario) return "no error";
    EXPECT_EQ(scenario.error().kind, ErrorKind::bad_input);
    std::string message = scenario.error().message;
    for (auto at = message.find(folder_.string() + "/"); at != std::string::npos; at = message.find(folder_.string() + "/"))
      message.erase(at, folder_.string().size() + 1);
    return message;
  }
  Scenario load(const std::string& text, std::vector<std::pair<std::string, std::string>> set = {}) const {
    ScenarioRequest request;
    request.name_or_path = write("s.yaml", text);
    request.set = std::move(set);
    auto scenario = load_scenario(request);
    EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
    return scenario ? std::move(*scenario) : Scenario{};
  }
  SweepPlan plan(const std::string& text, std::vector<std::pair<std::string, std::string>> set = {}, std::optional<int> repeat = {}) const {
    ScenarioRequest request;
    request.name_or_path = write("s.yaml", text);
    request.set = std::move(set);
    request.repeat = repeat;
    const auto made = plan_sweep(request);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? *made : SweepPlan{};
  }

  fs::path folder_;
};

const std::string kBase = R"(title: a test
topology: two-homes
seed: 5
duration: 30 s
workload:
  - punch: {from: alice, to: bob, via: rendezvous, at: 1 s}
)";

TEST_F(ScenarioLoader, ReadsWhatStandsThere) {
  const auto scenario = load(kBase + R"(nodes:
  alice: {nat: apdm/apdf, congestion: newreno, keepalive: 20 s}
  "*": {tcp: no}
links:
  alice.wan: {loss: 1 %}
faults:
  - rebind: {nat: alice.nat, at: 20 s}
  - link: {link: bob.wan, at: 10 s, loss: 5 %, direction: a_to_b}
  - stop: {node: bob, at: 25 s}
expect:
  - punch.outcome == relayed
  - {that: punch.time < 3 s, on: sim}
)");
  EXPECT_EQ(scenario.name, "s");
  EXPECT_EQ(scenario.seed, 5U);
  EXPECT_EQ(scenario.duration, 30s);
  EXPECT_EQ(to_string(scenario.topology.find_node("alice.nat")->nat), "apdm/apdf");
  EXPECT_EQ(to_string(scenario.topology.find_node("bob.nat")->nat), "eim/apdf");
  EXPECT_DOUBLE_EQ(scenario.topology.find_link("alice.wan")->a_to_b.loss, 0.01);
  const auto alice = scenario.node_config(*scenario.topology.find_node("alice"));
  EXPECT_EQ(alice.congestion, "newreno");
  EXPECT_EQ(alice.keepalive, 20s);
  EXPECT_FALSE(alice.tcp);
  EXPECT_EQ(scenario.node_config(*scenario.topology.find_node("bob")).congestion, "cubic");
  ASSERT_EQ(scenario.faults.size(), 3U);
  EXPECT_EQ(scenario.faults[1].change.direction, LinkChange::Direction::a_to_b);
  EXPECT_EQ(scenario.expectations[1].on, std::vector<std::string>{"sim"});
}

TEST_F(ScenarioLoader, EveryMistakeIsOneSentenceWithFileLineAndKey) {
  EXPECT_EQ(error_of("titel: x\n" + kBase), "s.yaml:1: unknown key 'titel' in the scenario; did you mean 'title'?");
  EXPECT_EQ(error_of("title: x\nworkload:\n  - punch: {from: alice, to: bob, via: rendezvous}\n"), "s.yaml:1: the scenario has no 'topology'");
  EXPECT_EQ(error_of("topology: two-homes\n"), "s.yaml:1: the scenario has no 'workload': its nodes would do nothing");
  EXPECT_EQ(error_of("topology: two-home\nworkload: []\n"), "s.yaml:1: topology: there is no topology 'two-home' in the catalogue; did you mean 'two-homes'?");
  EXPECT_EQ(error_of(kBase + "nodes:\n  alise: {tcp: no}\n"), "s.yaml:8: the topology has no host, group or match for 'alise'; did you mean 'alice'?");
  EXPECT_EQ(error_of(kBase + "nodes:\n  alice: {congestion: cubik}\n"), "s.yaml:8: nodes.alice.congestion: 'cubik' is unknown; did you mean 'cubic'?");
  EXPECT_EQ(error_of(kBase + "nodes:\n  alice:\n    keepalives: 3 s\n"), "s.yaml:9: unknown key 'keepalives' in node 'alice'; did you mean 'keepalive'?");
  EXPECT_EQ(error_of("topology: two-homes\nworkload:\n  - pinch: {}\n"), "s.yaml:3: unknown workload 'pinch'; did you mean 'punch'?");
  EXPECT_EQ(error_of("topology: two-homes\nworkload:\n  - punch: {from: alice, to: bob}\n"), "s.yaml:3: workload 'punch' has no 'via'");
  EXPECT_EQ(error_of("topology: two-homes\nworkload:\n  - punch: {from: alice, to: bobb, via: rendezvous}\n"),
            "s.yaml:3: workload[0].punch.to: the topology has no host 'bobb'; did you mean 'bob'?");
  EXPECT_EQ(error_of(kBase + "expect:\n  - punch.outcome = relayed\n"),
            "s.yaml:8: cannot read the expectation 'punch.outcome = relayed': a comparison (==, !=, <, <=, >, >=) is missing");
  EXPECT_EQ(error_of(kBase + "faults:\n  - rebind: {nat: alice.nta, at: 1 s}\n"),
            "s.yaml:8: faults[0].rebind.nat: the topology has no nat 'alice.nta'; did you mean 'alice.nat'?");
  EXPECT_EQ(error_of(kBase + "faults:\n  - rebind: {nat: alice.nat}\n"), "s.yaml:8: fault 'rebind' has no 'at'");
  EXPECT_EQ(error_of(kBase + "duration: 5\n").substr(0, 9), "s.yaml:7:");
  EXPECT_EQ(error_of("topology: two-homes\nduration: 5\nworkload: []\n").substr(0, 19), "s.yaml:2: duration:");
}

TEST_F(ScenarioLoader, AMistakeOfTheCommandLineNamesTheFlag) {
  EXPECT_EQ(error_of(kBase, {{"links.alice.wam.loss", "1 %"}}).substr(0, 45), "--set links.alice.wam.loss=1 %: there is no '");
  EXPECT_EQ(error_of(kBase, {{"nodes.alice.congestion", "vegas"}}).substr(0, 58), "--set nodes.alice.congestion=vegas: nodes.alice.congestion");
  EXPECT_EQ(error_of(kBase, {{"workload.bulk.size", "1 MB"}}), "--set workload.bulk.size=1 MB: there is no 'bulk' in workload; known are punch");
  EXPECT_EQ(error_of(kBase, {{"expect", "[]"}}), "--set expect=[]: 'expect' cannot be set from outside");
}

TEST_F(ScenarioLoader, EveryKeyCanBeSet) {
  const auto scenario = load(kBase, {{"nodes.bob.nat", "eim/eif"},
                                     {"nodes.bob.tcp", "no"},
                                     {"links.bob.wan.delay", "40 ms"},
                                     {"hosts.alice.nat", "adm/adf"},
                                     {"workload.punch.at", "3 s"},
                                     {"seed", "9"},
                                     {"duration", "10 s"}});
  EXPECT_EQ(to_string(scenario.topology.find_node("bob.nat")->nat), "eim/eif");
  EXPECT_EQ(to_string(scenario.topology.find_node("alice.nat")->nat), "adm/adf");
  EXPECT_EQ(scenario.topology.find_link("bob.wan")->b_to_a.delay, 40ms);
  EXPECT_FALSE(scenario.node_config(*scenario.topology.find_node("bob")).tcp);
  EXPECT_EQ(scenario.seed, 9U);
  EXPECT_EQ(scenario.duration, 10s);
}

TEST_F(ScenarioLoader, TheResolvedFileNeedsNoOtherAndSaysTheSame) {
  const auto first = load(kBase + "links:\n  alice.wan: {loss: 1 %}\nnodes:\n  alice: {nat: adm/eif}\nexpect:\n  - punch.direct == 1\n",
                          {{"hosts.alice.nat", "apdm/adf"}, {"links.bob.wan.delay", "33 ms"}, {"seed", "77"}});
  ScenarioRequest request;
  request.name_or_path = write("inputs.yaml", first.resolved);
  const auto again = load_scenario(request);
  ASSERT_TRUE(again) << again.error().message << "\n" << first.resolved;
  EXPECT_EQ(again->seed, 77U);
  EXPECT_EQ(to_string(again->topology.find_node("alice.nat")->nat), "apdm/adf") << first.resolved;
  EXPECT_EQ(again->topology.find_link("bob.wan")->a_to_b.delay, 33ms);
  EXPECT_DOUBLE_EQ(again->topology.find_link("alice.wan")->a_to_b.loss, 0.01);
  EXPECT_EQ(again->expectations.size(), 1U);
  EXPECT_EQ(again->resolved, first.resolved);
}

TEST_F(ScenarioLoader, ATableGivesEachPointItsOwnBound) {
  write("t.csv", "mapping_a,filter_a,direct_ok\nEIM,EIF,1\nEIM,APDF,0\n");
  const std::string text = kBase + "expect:\n  - that: punch.direct == direct_ok\n    table: t.csv\n    row: {mapping_a/filter_a: nodes.alice.nat}\n";
  const auto open = load(text, {{"nodes.alice.nat", "eim/eif"}});
  const auto shut = load(text, {{"nodes.alice.nat", "eim/apdf"}});
  Metrics metrics;
  metrics.set_number("punch.direct", "", 1);
  const auto holds = [&](const Scenario& s) {
    return s.expectations[0].that.evaluate(metrics, [&](std::string_view name) { return s.lookup(s.expectations[0], name); }).ok;
  };
  EXPECT_TRUE(holds(open));
  EXPECT_FALSE(holds(shut));
  EXPECT_EQ(shut.expectations[0].origin, "t.csv:3");
  EXPECT_EQ(error_of(text), "s.yaml:10: expect[0].row.mapping_a/filter_a: neither the scenario nor --set gives 'nodes.alice.nat' a value");
  EXPECT_EQ(error_of(text, {{"nodes.alice.nat", "adm/eif"}}), "s.yaml:10: expect[0].row: the table has no row with mapping_a/filter_a = adm/eif");
}

TEST_F(ScenarioLoader, AnExpectationMayHoldAtSomePointsOnly) {
  const std::string text = kBase + "expect:\n  - {that: punch.direct == 1, when: {nodes.alice.congestion: newreno}}\nnodes:\n  alice: {congestion: cubic}\n";
  EXPECT_EQ(load(text).expectations.size(), 0U);
  EXPECT_EQ(load(text, {{"nodes.alice.congestion", "newreno"}}).expectations.size(), 1U);
}

TEST_F(ScenarioLoader, ASweepIsTheProductOfItsAxesTheFirstIsTheSlowest) {
  const auto made = plan(kBase + "sweep:\n  repeat: 3\n  nodes.alice.nat: [eim/eif, apdm/apdf]\n  links.bob.wan.loss: [0 %, 1 %, 5 %]\n");
  EXPECT_TRUE(made.campaign);
  EXPECT_EQ(made.points(), 6U);
  EXPECT_EQ(made.repeat, 3);
  EXPECT_EQ(made.seed, 5U);
  EXPECT_EQ(made.values_of(0), (std::vector<std::pair<std::string, std::string>>{{"nodes.alice.nat", "eim/eif"}, {"links.bob.wan.loss", "0 %"}}));
  EXPECT_EQ(made.values_of(4), (std::vector<std::pair<std::string, std::string>>{{"nodes.alice.nat", "apdm/apdf"}, {"links.bob.wan.loss", "1 %"}}));
}

TEST_F(ScenarioLoader, SetFixesASweptKeyAndAListSweepsAnyKey) {
  const std::string text = kBase + "sweep:\n  nodes.alice.nat: [eim/eif, apdm/apdf]\n";
  EXPECT_EQ(plan(text, {{"nodes.alice.nat", "eim/adf"}}).points(), 1U);
  const auto widened = plan(text, {{"links.bob.wan.loss", "[0 %, 1 %, 2 %]"}}, 2);
  EXPECT_EQ(widened.points(), 6U);
  EXPECT_EQ(widened.repeat, 2);
  EXPECT_FALSE(plan(kBase).campaign);
}

TEST_F(ScenarioLoader, AMistakeInTheLastValueOfASweepIsFoundBeforeAnythingRuns) {
  ScenarioRequest request;
  request.name_or_path = write("s.yaml", kBase + "sweep:\n  nodes.alice.nat: [eim/eif, eim/apfd]\n");
  const auto made = plan_sweep(request);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("eim/apfd"), std::string::npos) << made.error().message;
}

TEST(ScenarioCatalog, EveryScenarioOfTheCatalogueLoads) {
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(std::string(PEERBED_SOURCE_DIR) + "/scenarios/catalog")) {
    ScenarioRequest request;
    request.name_or_path = entry.path().string();
    const auto made = plan_sweep(request);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    ++found;
  }
  EXPECT_GE(found, 5U);
}

TEST(NodeSelector, IsANameAGroupOrAGlob) {
  NodeSpec node;
  node.name = "peer-12";
  node.group = "peer";
  EXPECT_TRUE(selects("peer-12", node));
  EXPECT_TRUE(selects("peer", node));
  EXPECT_TRUE(selects("*", node));
  EXPECT_TRUE(selects("p*-1?", node));
  EXPECT_FALSE(selects("peer-1", node));
  EXPECT_FALSE(selects("p?-12", node));
}

}  // namespace
}  // namespace peerbed
