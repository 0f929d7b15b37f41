#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "topologies/loader.h"
#include "topologies/validate.h"

namespace peerbed {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TopologyCatalog, HoldsTheTopologiesThatScenariosCount) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog_topologies()) names.push_back(entry.name);
  for (const char* expected : {"cgnat", "cloud", "dumbbell", "star", "two-homes", "two-hosts"}) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), expected) != names.end()) << expected;
  }
}

TEST(TopologyCatalog, EveryFileLoadsAndHasATitleAndAFigure) {
  for (const CatalogEntry& entry : catalog_topologies()) {
    const auto topology = load_topology(entry.name);
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(topology->name, entry.name);
    EXPECT_EQ(topology->title, entry.title);
    EXPECT_FALSE(topology->title.empty());
    EXPECT_TRUE(text_of(entry.path).starts_with("# ")) << entry.path << " must begin with a figure";
  }
}

TEST(TopologyCatalog, AWrongNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(load_topology("two-home").error().message,
            "there is no topology 'two-home' in the catalog; did you mean 'two-homes'?");
  EXPECT_EQ(load_topology("./nowhere.yaml").error().message,
            "./nowhere.yaml: cannot be read: No such file or directory");
}

TEST(TopologyCatalog, TheDumbbellGrows) {
  const std::vector<YamlOverride> ten{{"hosts.left.count", "10"}, {"hosts.right.count", "10"}};
  const auto topology = load_topology("dumbbell", ten);
  ASSERT_TRUE(topology);
  EXPECT_NE(topology->find_node("right-9"), nullptr);
  EXPECT_NE(topology->find_link("bottleneck"), nullptr);
}

TEST(TopologyCatalog, BehindTheCarrierTheHomesHaveSharedAddresses) {
  const auto topology = load_topology("cgnat");
  ASSERT_TRUE(topology);
  EXPECT_TRUE(topology->find_node("alice.nat")->addresses[0].to_string().starts_with("100.64.0."));
  EXPECT_FALSE(topology->find_node("carol.nat")->addresses[0].is_private());
  EXPECT_EQ(topology->find_node("cgn")->outside_link, "cgn.access");
}

TEST(TopologyCatalog, TheCloudHasThePublishedDelaysAndShares) {
  const auto topology = load_topology("cloud");
  ASSERT_TRUE(topology);
  const CloudSpec& net = topology->clouds.at(0);
  ASSERT_EQ(net.delay.size(), 8U);
  EXPECT_EQ(net.delay[0][0], 2ms);    // australia, australia
  EXPECT_EQ(net.delay[0][1], 165ms);  // australia, europe
  // Region shares of 100 hosts, within one host: 5599 and 2894 of 11326.
  const auto in = [&](std::size_t region) { return std::count(net.region_of.begin(), net.region_of.end(), region); };
  EXPECT_NEAR(static_cast<double>(in(1)), 100 * 5599.0 / 11326, 1);
  EXPECT_NEAR(static_cast<double>(in(4)), 100 * 2894.0 / 11326, 1);
}

// Whatever stands in a file, the loader answers with a topology or with a sentence that names the file.
void expect_an_answer(const std::string& text) {
  const auto topology = parse_topology(text, "t.yaml");
  if (topology) return;
  EXPECT_TRUE(topology.error().message.starts_with("t.yaml")) << topology.error().message;
  EXPECT_EQ(topology.error().message.find('\n'), std::string::npos);
}

TEST(TopologyRobustness, EveryTruncationIsAnswered) {
  for (const CatalogEntry& entry : catalog_topologies()) {
    const std::string text = text_of(entry.path);
    for (std::size_t length = 0; length < text.size(); ++length) expect_an_answer(text.substr(0, length));
  }
}

TEST(TopologyRobustness, EveryMutationIsAnswered) {
  std::mt19937 random(1);  // a test's own noise; nothing is measured with it
  const std::string alphabet = " \n:{}[],-&*#'\"%0123456789.abcdefnatlinkhosts\t|>!@\\";
  for (const CatalogEntry& entry : catalog_topologies()) {
    const std::string text = text_of(entry.path);
    for (int round = 0; round < 1000; ++round) {
      std::string changed = text;
      for (int i = 0; i < 1 + round % 4; ++i) changed[random() % changed.size()] = alphabet[random() % alphabet.size()];
      expect_an_answer(changed);
    }
  }
}

TEST(TopologyRobustness, EveryLineTwiceOrMissingIsAnswered) {
  for (const CatalogEntry& entry : catalog_topologies()) {
    std::vector<std::string> lines;
    std::stringstream text(text_of(entry.path));
    for (std::string line; std::getline(text, line);) lines.push_back(line + '\n');
    for (std::size_t changed = 0; changed < lines.size(); ++changed) {
      std::string missing, doubled;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i != changed) missing += lines[i];
        doubled += i == changed ? lines[i] + lines[i] : lines[i];
      }
      expect_an_answer(missing);
      expect_an_answer(doubled);
    }
  }
}

}  // namespace
}  // namespace peerbed
