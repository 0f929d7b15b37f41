#include <gtest/gtest.h>

#include <fstream>

#include "topologies/loader.h"

namespace peerbed {
namespace {

TEST(TopologyDocumentation, EveryExampleLoads) {
  std::ifstream page(PEERBED_SOURCE_DIR "/docs/topologies.md");
  ASSERT_TRUE(page.is_open());
  std::string line, example;
  bool inside = false;
  int examples = 0;
  while (std::getline(page, line)) {
    if (!inside && line == "```yaml") {
      inside = true;
      example.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++examples;
      const auto topology = parse_topology(example, "docs/topologies.md");
      EXPECT_TRUE(topology) << topology.error().message << '\n' << example;
    } else if (inside) {
      example += line + '\n';
    }
  }
  EXPECT_GE(examples, 3);
}

TEST(TopologyDocumentation, EveryOverrideThatItShowsApplies) {
  const std::string text = R"(
hosts:
  alice: {nat: linux}
  peer: {count: 20, to: core}
  bob: {to: cgn}
routers: [core]
nats: {cgn: {to: core}}
links: {alice.wan: {from: alice.nat, to: core}}
)";
  for (const YamlOverride& change : std::vector<YamlOverride>{{"links.alice.wan.loss", "1 %"},
                                                              {"links.alice.wan.up.rate", "5 Mbit/s"},
                                                              {"links.peer-17.access.delay", "300 ms"},
                                                              {"hosts.alice.nat", "apdm/apdf"},
                                                              {"hosts.alice.nat.hairpin", "yes"},
                                                              {"hosts.alice.nat", "none"},
                                                              {"hosts.peer.count", "5000"},
                                                              {"nats.cgn.udp_timeout", "35 s"}}) {
    const auto topology = parse_topology(text, "t.yaml", std::span(&change, 1));
    EXPECT_TRUE(topology) << topology.error().message;
  }
}

}  // namespace
}  // namespace peerbed
