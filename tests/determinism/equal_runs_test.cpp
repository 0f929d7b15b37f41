// Equal inputs give equal runs, to the last packet; another seed gives another.
#include <gtest/gtest.h>

#include "scenarios/loader.h"
#include "scenarios/runner.h"

namespace peerbed {
namespace {

RunResult run(const std::string& name, std::uint64_t seed, std::vector<std::pair<std::string, std::string>> set = {}) {
  ScenarioRequest request;
  request.name_or_path = name;
  request.seed = seed;
  request.set = std::move(set);
  auto scenario = load_scenario(request);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  RunControls controls;
  controls.events = EventDetail::none;
  auto finished = run_scenario(*scenario, **find_backend("sim"), controls, "");
  EXPECT_TRUE(finished.has_value()) << finished.error().message;
  return std::move(finished->result);
}

class EqualRuns : public ::testing::TestWithParam<std::string> {};

TEST_P(EqualRuns, SeedSevenTwiceIsOneDigestAndSeedEightIsAnother) {
  std::vector<std::pair<std::string, std::string>> set;
  if (GetParam() == "swarm") set = {{"hosts.fast.count", "10"}, {"hosts.peer.count", "40"}};
  if (GetParam() == "lossy-bulk") set = {{"workload.bulk.duration", "5 s"}, {"workload.bulk.warmup", "1 s"}, {"links.wan.loss", "1 %"}, {"nodes.*.congestion", "cubic"}};
  if (GetParam() == "small-messages") set = {{"workload.messages.count", "2000"}};
  const auto first = run(GetParam(), 7, set), second = run(GetParam(), 7, set), other = run(GetParam(), 8, set);
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_NE(first.digest, other.digest);
  EXPECT_EQ(first.engine.events, second.engine.events);
  EXPECT_GT(first.engine.events, 100U);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EqualRuns,
                         ::testing::Values("punch-relay-fallback", "lossy-bulk", "small-messages", "swarm", "rebind-keeps-flow"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace peerbed
