#include "core/base/endpoint.h"

#include <gtest/gtest.h>

namespace peerbed {
namespace {

TEST(Endpoint, BothFamiliesReadBackFromTheirText) {
  for (const std::string_view text : {"192.0.2.1:80", "[2001:db8::1]:65535", "0.0.0.0:0"}) {
    EXPECT_EQ(Endpoint::parse(text).value().to_string(), text);
  }
}

TEST(Endpoint, WhatIsNoEndpointIsRefused) {
  for (const std::string_view text : {"192.0.2.1", "2001:db8::1:80", "[192.0.2.1]:80", "192.0.2.1:65536", "192.0.2.1:", ":80",
                                      "host:80", "192.0.2.1:8x", ""}) {
    EXPECT_FALSE(Endpoint::parse(text)) << text;
  }
}

TEST(IpAddress, PrivateRangesAreThoseOfTheirRfcs) {
  for (const std::string_view text : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "169.254.1.1",
                                      "127.0.0.1", "fd00::1", "fe80::1", "::1"}) {
    EXPECT_TRUE(IpAddress::parse(text).value().is_private()) << text;
  }
  for (const std::string_view text : {"172.32.0.1", "100.128.0.1", "192.0.2.1", "198.18.0.1", "2001:db8::1"}) {
    EXPECT_FALSE(IpAddress::parse(text).value().is_private()) << text;
  }
}

TEST(IpAddress, HashesAreTheSameOnEveryCompilerAndRun) {
  EXPECT_EQ(hash_value(IpAddress::v4(192, 0, 2, 1)), hash_value(IpAddress::parse("192.0.2.1").value()));
  EXPECT_NE(hash_value(Endpoint{IpAddress::v4(1, 2, 3, 4), 5}), hash_value(Endpoint{IpAddress::v4(1, 2, 3, 4), 6}));
  EXPECT_NE(hash_value(IpAddress::any(Family::v4)), hash_value(IpAddress::any(Family::v6)));
}

}  // namespace
}  // namespace peerbed
