// The embedded network as a world of the conformance suite: three hosts at one router.
#include <memory>

#include "sim/des/host.h"
#include "sim/des/realise.h"
#include "tests/conformance/suite.h"

namespace peerbed::conformance {

class SimWorld {
 public:
  static constexpr bool kIsVirtual = true;

  explicit SimWorld(std::uint64_t seed) {
    Topology topology;
    topology.name = "conformance";
    topology.nodes.push_back({.name = "router", .kind = NodeKind::router, .addresses = {}, .nat = {}, .outside_link = {}, .group = {}});
    for (std::size_t h = 0; h < kHosts; ++h) {
      const std::string name = "host" + std::to_string(h);
      const auto last = static_cast<std::uint8_t>(10 + h);
      IpAddress six;
      six.family = Family::v6;
      six.octets = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
      topology.nodes.push_back({.name = name, .kind = NodeKind::host, .addresses = {IpAddress::v4(198, 51, 100, last), six},
                                .nat = {}, .outside_link = {}, .group = {}});
      // 100 Mbit/s, a round trip of 40 ms between any two, and room for the burst that a world must hold.
      LinkDirection direction;
      direction.rate = DataRate{100'000'000};
      direction.delay = 10ms;
      direction.queue = {.packets = 4000, .bytes = std::nullopt};
      topology.links.push_back({.name = "link" + std::to_string(h), .a = name, .b = "router", .a_to_b = direction, .b_to_a = direction});
    }
    auto made = sim::realise(topology, seed);
    EXPECT_TRUE(made.has_value()) << (made.has_error() ? made.error().message : "");
    network_ = std::move(*made);
  }

  Environment& host(std::size_t h) { return network_->environment(h); }
  IpAddress address(std::size_t h, Family family) {
    for (const IpAddress& a : host(h).local_addresses()) {
      if (a.family == family) return a;
    }
    ADD_FAILURE() << "host " << h << " lacks a family";
    return {};
  }
  TimePoint now() const { return network_->now(); }
  void run_for(Duration duration) { network_->run_until(now() + duration); }
  bool run_until(const std::function<bool()>& holds, Duration budget) {
    const TimePoint end = now() + budget;
    while (!holds()) {
      const auto next = network_->next_event_time();
      if (!next || *next > end) {
        network_->run_until(end);
        return holds();
      }
      network_->run_events(1);
    }
    return true;
  }
  std::uint16_t unused_port() { return next_port_++; }
  IpAddress unreachable_address(Family family) {
    if (family == Family::v4) return IpAddress::v4(192, 0, 2, 1);
    IpAddress six;
    six.family = Family::v6;
    six.octets = {0x20, 0x01, 0x0d, 0xb8, 0xff};
    return six;
  }
  std::size_t largest_datagram(Family family) { return family == Family::v4 ? 1472 : 1452; }
  /// SYNs cross in flight here: with 20 ms one way, two that are sent in one instant always do.
  std::shared_ptr<void> swallow_syns(const Endpoint&) { return nullptr; }

 private:
  std::unique_ptr<sim::Network> network_;
  std::uint16_t next_port_ = 20'000;
};

}  // namespace peerbed::conformance

PEERBED_CONFORMANCE(Sim, peerbed::conformance::SimWorld);
