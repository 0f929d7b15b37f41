// Whole nodes behind whole NATs.
#include "tests/worlds/world.h"

namespace peerbed {
namespace {

using test::failures;
using test::run_catalog;
using test::run_text;

TEST(Punching, EveryPairOfRfc4787BehavioursEndsAsTheirWordsSay) {
  ScenarioRequest request;
  request.name_or_path = "punch-matrix";
  const auto plan = plan_sweep(request);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->points(), 81U);
  int direct = 0;
  for (std::size_t point = 0; point < plan->points(); ++point) {
    const auto result = test::run_request(plan->request(point, 1));
    EXPECT_EQ(failures(result), "") << result.set[0].second << " and " << result.set[1].second;
    direct += std::get<std::string>(result.metrics.find("punch.outcome")->value) == "direct" ? 1 : 0;
  }
  // tests/data/expected/nat_udp_punch_matrix.csv: the sum of its last column.
  EXPECT_EQ(direct, 45);
}

TEST(Punching, WithoutAWayThroughTheRelayedLinkStaysAndWorks) { EXPECT_EQ(failures(run_catalog("punch-relay-fallback")), ""); }

TEST(Punching, SucceedsUnderHeavyLossWithinItsAttempts) {
  // 10 % on both access links and in both directions. An attempt sends about a dozen probes from each side, and needs one of
  // them to get there and its answer back: the chance that all miss is far below 1 %. What is left to go wrong is the way there.
  int direct = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto result = run_text(R"(topology: two-homes
duration: 60 s
nodes:
  "*": {tcp: no}
links:
  alice.wan: {loss: 10 %}
  bob.wan: {loss: 10 %}
workload:
  - punch: {from: alice, to: bob, via: rendezvous, at: 10 s}
expect:
  - punch.outcome != none
)",
                                 seed);
    EXPECT_EQ(failures(result), "") << seed;
    direct += std::get<std::string>(result.metrics.find("punch.outcome")->value) == "direct" ? 1 : 0;
  }
  EXPECT_GE(direct, 19);
}

TEST(Punching, TwoPeersBehindOneNatThatDoesNotTurnPacketsRoundMeetOnTheirLan) {
  const auto result = run_text(R"(topology:
  hosts: {alice: {}, bob: {}, rendezvous: {}}
  routers: [core]
  nats: {home: eim/apdf}
  links:
    home.wan: {from: home, to: core, delay: 20 ms}
    alice.lan: {from: alice, to: home, delay: 1 ms}
    bob.lan: {from: bob, to: home, delay: 1 ms}
    rendezvous.wan: {from: rendezvous, to: core, delay: 5 ms}
duration: 30 s
workload:
  - punch: {from: alice, to: bob, via: rendezvous}
expect:
  - punch.outcome == direct
  - punch.rtt < 10 ms
)");
  EXPECT_EQ(failures(result), "");
}

TEST(Punching, ANatThatRestartsDoesNotEndTheConversation) { EXPECT_EQ(failures(run_catalog("rebind-keeps-flow")), ""); }

TEST(Punching, APeerThatStopsEndsTheFlowAndNotTheRun) {
  const auto result = run_text(R"(topology: two-hosts
duration: 60 s
workload:
  - messages: {from: alice, to: bob, size: 100 B, duration: 50 s, interval: 100 ms}
faults:
  - stop: {node: bob, at: 10 s}
expect:
  - flow.messages.delivered > 90
  - flow.messages.delivered <= 101
  - flow.messages.complete == false
)");
  EXPECT_EQ(failures(result), "");
  EXPECT_LT(result.engine.sim_s, 59) << "a flow that failed is done";
}

}  // namespace
}  // namespace peerbed
