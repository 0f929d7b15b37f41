#include "topologies/nat_behavior.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

TEST(NatBehaviorText, EveryPairIsReadAndWrittenBack) {
  for (const char* mapping : {"eim", "adm", "apdm"}) {
    for (const char* filtering : {"eif", "adf", "apdf"}) {
      const std::string text = std::string(mapping) + "/" + filtering;
      const auto behavior = parse_nat_behavior(text);
      ASSERT_TRUE(behavior) << text;
      EXPECT_EQ(to_string(*behavior), text);
    }
  }
}

// The street names in RFC 4787's words, as RFC 4787 §5 and RFC 5780 §1 relate them to those of RFC 3489.
TEST(NatBehaviorText, StreetNamesAreTheirRfcPairs) {
  EXPECT_EQ(to_string(*parse_nat_behavior("full-cone")), "eim/eif");
  EXPECT_EQ(to_string(*parse_nat_behavior("restricted-cone")), "eim/adf");
  EXPECT_EQ(to_string(*parse_nat_behavior("port-restricted")), "eim/apdf");
  EXPECT_EQ(to_string(*parse_nat_behavior("symmetric")), "apdm/apdf");
  EXPECT_EQ(to_string(*parse_nat_behavior("linux")), "eim/apdf");
  EXPECT_EQ(*parse_nat_behavior("EIM/APDF"), *parse_nat_behavior("port-restricted"));
}

TEST(NatBehaviorText, EveryNamedTypeIsFoundAndExplained) {
  for (const NamedNat& nat : named_nats()) {
    const auto parsed = parse_nat_behavior(nat.name);
    ASSERT_TRUE(parsed) << nat.name;
    EXPECT_EQ(*parsed, nat.behavior);
    EXPECT_FALSE(nat.description.empty());
  }
}

TEST(NatBehaviorText, AWrongNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(parse_nat_behavior("symetric").error().message, "'symetric' is no NAT type; did you mean 'symmetric'?");
  EXPECT_EQ(parse_nat_behavior("eim/apdx").error().message, "'apdx' is no NAT filtering; did you mean 'apdf'?");
  EXPECT_EQ(parse_nat_behavior("eif/apdf").error().message, "'eif' is no NAT mapping; did you mean 'eim'?");
  EXPECT_EQ(
      parse_nat_behavior("weird").error().message,
      "'weird' is no NAT type; known are behave, full-cone, restricted-cone, port-restricted, symmetric, linux, pf, "
      "cellular; or write mapping/filtering, such as 'eim/apdf'");
}

}  // namespace
}  // namespace peerbed
