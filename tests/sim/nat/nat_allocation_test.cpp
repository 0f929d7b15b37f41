#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "sim/nat/nat_table.h"

namespace {
std::size_t allocations = 0;
}  // namespace

// Counted for the whole test program.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace peerbed::sim {
namespace {

TEST(NatMemory, APacketOfAKnownFlowAllocatesNothing) {
  using enum Dependence;
  for (const Dependence filtering : {endpoint_independent, address_dependent, address_and_port_dependent}) {
    NatBehavior behavior;
    behavior.filtering = filtering;
    NatTable nat(behavior, {IpAddress::v4(192, 0, 2, 1)}, RandomStream(1, 1, "nat"));
    TimePoint now{};
    std::uint64_t passed = 0;
    const auto everyone_talks = [&] {
      for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
        for (std::uint16_t flow = 0; flow < 50; ++flow) {
          const Endpoint inside{IpAddress::v4(10, 0, 0, 2), static_cast<std::uint16_t>(4000 + flow)};
          const Endpoint outside{IpAddress::v4(198, 51, 100, 1), static_cast<std::uint16_t>(7000 + flow)};
          const auto external = nat.outbound(protocol, inside, outside, now);
          passed += nat.inbound(protocol, outside, *external, now).has_value();
        }
      }
    };
    everyone_talks();
    const std::size_t before = allocations;
    // An hour in steps of a minute: every timer is looked at again many times.
    for (int minute = 1; minute <= 60; ++minute) {
      now += 60s;
      everyone_talks();
    }
    EXPECT_EQ(allocations, before);
    EXPECT_EQ(passed, 61U * 100U);
  }
}

}  // namespace
}  // namespace peerbed::sim
