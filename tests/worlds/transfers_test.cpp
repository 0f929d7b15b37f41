#include "tests/worlds/world.h"

namespace peerbed {
namespace {

using test::failures;
using test::run_catalog;
using test::run_text;

TEST(Transfers, AFileArrivesWholeThroughLossInBothDirections) {
  for (const char* congestion : {"newreno", "cubic"}) {
    for (const char* loss : {"0 %", "1 %", "10 %"}) {
      const auto result = run_text(std::string("topology: two-hosts\nduration: 600 s\nlinks:\n  wan: {loss: ") + loss + "}\nnodes:\n  '*': {congestion: " + congestion +
                                   "}\nworkload:\n  - bulk: {from: alice, to: bob, size: 2 MB}\nexpect:\n"
                                   "  - flow.bulk.hash_ok == true\n  - flow.bulk.complete == true\n  - flow.bulk.bytes == 2 MB\n");
      EXPECT_EQ(failures(result), "") << congestion << " at " << loss;
    }
  }
}

TEST(Transfers, AnUnimpairedLinkIsFilled) {
  // 100 Mbit/s of IP bytes; 1232 bytes of UDP payload cost 28 of UDP and IP headers, and some 35 of ours: above 93 % is left.
  const auto result = run_text(R"(topology: two-hosts
duration: 30 s
workload:
  - bulk: {from: alice, to: bob, duration: 5 s, warmup: 2 s}
expect:
  - flow.bulk.goodput >= 90 Mbit/s
  - flow.bulk.goodput <= 97 Mbit/s
  - flow.bulk.hash_ok == true
)");
  EXPECT_EQ(failures(result), "");
}

TEST(Transfers, ThroughARelayAndWithoutADirectPath) {
  const auto result = run_text(R"(topology: two-homes
duration: 120 s
nodes:
  alice: {nat: apdm/apdf}
  bob: {nat: apdm/apdf}
workload:
  - bulk: {from: alice, to: bob, via: rendezvous, at: 1 s, size: 1 MB}
expect:
  - flow.bulk.hash_ok == true
  - flow.bulk.complete == true
)");
  EXPECT_EQ(failures(result), "");
}

TEST(Transfers, OverTcpWhereUdpIsOff) {
  const auto result = run_text(R"(topology: two-hosts
duration: 60 s
nodes:
  "*": {udp: no}
workload:
  - bulk: {from: alice, to: bob, size: 2 MB}
expect:
  - flow.bulk.hash_ok == true
  - flow.bulk.complete == true
)");
  EXPECT_EQ(failures(result), "");
}

TEST(Transfers, SmallMessagesComeWholeAndInOrderWithinTheirWindow) {
  EXPECT_EQ(failures(run_catalog("small-messages")), "");
}

TEST(Transfers, AFloodReachesEveryNodeOnceByExactlyTheMessagesThatItTakes) {
  EXPECT_EQ(failures(run_catalog("swarm", 1, {{"hosts.fast.count", "20"}, {"hosts.peer.count", "80"}})), "");
}

}  // namespace
}  // namespace peerbed
