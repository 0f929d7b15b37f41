// The table against a model that is too slow to be wrong: a list that is searched and swept on every packet.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/nat/nat_table.h"

namespace peerbed::sim {
namespace {

using enum Dependence;

const IpAddress kExternal = IpAddress::v4(192, 0, 2, 1);

Endpoint reduced(const Endpoint& e, Dependence dependence) {
  if (dependence == endpoint_independent) return {};
  return dependence == address_dependent ? Endpoint{e.address, 0} : e;
}

class SlowNat {
 public:
  explicit SlowNat(const NatBehavior& behavior) : behavior_(behavior) {}

  std::optional<Endpoint> outbound(const Endpoint& inside, const Endpoint& outside, TimePoint now) {
    sweep(now);
    const Endpoint key = reduced(outside, behavior_.mapping);
    auto found = std::find_if(mappings_.begin(), mappings_.end(),
                              [&](const Mapping& m) { return m.inside == inside && m.key == key; });
    if (found == mappings_.end()) {
      const auto port = free_port(inside.port);
      if (!port) return std::nullopt;
      mappings_.push_back({inside, key, *port, {}});
      found = mappings_.end() - 1;
    }
    touch(*found, outside, now, true);
    return Endpoint{kExternal, found->port};
  }

  std::optional<Endpoint> inbound(const Endpoint& outside, const Endpoint& external, TimePoint now) {
    sweep(now);
    for (Mapping& m : mappings_) {
      if (m.port != external.port) continue;
      if (behavior_.filtering != endpoint_independent && !m.sessions.contains(reduced(outside, behavior_.filtering))) {
        return std::nullopt;
      }
      touch(m, outside, now, false);
      return m.inside;
    }
    return std::nullopt;
  }

  std::size_t mappings() const { return mappings_.size(); }

 private:
  struct Session {
    TimePoint expires;
    bool replied;
  };
  struct Mapping {
    Endpoint inside, key;
    std::uint16_t port;
    std::map<Endpoint, Session> sessions;  // one, of nobody, where filtering is endpoint-independent
  };

  void sweep(TimePoint now) {
    for (Mapping& m : mappings_) std::erase_if(m.sessions, [&](const auto& s) { return s.second.expires <= now; });
    std::erase_if(mappings_, [](const Mapping& m) { return m.sessions.empty(); });
  }

  void touch(Mapping& m, const Endpoint& outside, TimePoint now, bool outwards) {
    const Duration unreplied = behavior_.udp_unreplied_timeout.value_or(behavior_.udp_timeout);
    const auto [session, fresh] =
        m.sessions.try_emplace(reduced(outside, behavior_.filtering), Session{now + unreplied, false});
    if (!outwards) session->second.replied = true;
    if (fresh || !(outwards ? behavior_.outbound_refresh : behavior_.inbound_refresh)) return;
    const TimePoint expires = now + (session->second.replied ? behavior_.udp_timeout : unreplied);
    session->second.expires = std::max(session->second.expires, expires);
  }

  std::optional<std::uint16_t> free_port(std::uint16_t wanted) {
    const int range = behavior_.last_port - behavior_.first_port + 1;
    int from = behavior_.allocation == PortAllocation::preserve ? wanted : last_ + 1;
    if (from < behavior_.first_port || from > behavior_.last_port) from = behavior_.first_port;
    for (int i = 0; i < range; ++i) {
      const int port = behavior_.first_port + (from - behavior_.first_port + i) % range;
      if (std::any_of(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.port == port; })) continue;
      last_ = port;
      return static_cast<std::uint16_t>(port);
    }
    return std::nullopt;
  }

  NatBehavior behavior_;
  std::vector<Mapping> mappings_;
  int last_ = 0;
};

TEST(NatTableAgainstTheSlowModel, AgreesPacketForPacket) {
  RandomStream random(7, 0, "model test");
  std::uint64_t passed = 0, refused = 0;
  for (int run = 0; run < 400; ++run) {
    NatBehavior behavior;
    behavior.mapping = static_cast<Dependence>(random.below(3));
    behavior.filtering = static_cast<Dependence>(random.below(3));
    behavior.allocation = random.chance(0.5) ? PortAllocation::preserve : PortAllocation::sequential;
    behavior.first_port = 4090;  // crosses a word of the port map
    behavior.last_port = static_cast<std::uint16_t>(4090 + random.below(12));
    behavior.udp_timeout = Duration(1 + static_cast<std::int64_t>(random.below(50)));
    if (random.chance(0.5)) behavior.udp_unreplied_timeout = Duration(random.between(1, behavior.udp_timeout.count()));
    behavior.outbound_refresh = random.chance(0.8);
    behavior.inbound_refresh = random.chance(0.5);
    NatTable table(behavior, {kExternal}, RandomStream(1, 1, "nat"));
    SlowNat model(behavior);
    TimePoint now{};
    for (int packet = 0; packet < 500; ++packet) {
      now += Duration(static_cast<std::int64_t>(random.below(6)));
      const auto host = static_cast<std::uint8_t>(random.below(3)), server = static_cast<std::uint8_t>(random.below(3));
      const auto inside_port = static_cast<std::uint16_t>(4088 + random.below(6)),
                 outside_port = static_cast<std::uint16_t>(1 + random.below(2));
      const auto external_port = static_cast<std::uint16_t>(4088 + random.below(16));
      const Endpoint inside{IpAddress::v4(10, 0, 0, host), inside_port},
          outside{IpAddress::v4(198, 51, 100, server), outside_port};
      const Endpoint external{kExternal, external_port};
      if (random.chance(0.5)) {
        const auto got = table.outbound(Protocol::udp, inside, outside, now);
        ASSERT_EQ(got, model.outbound(inside, outside, now)) << "run " << run << " packet " << packet;
        ++(got ? passed : refused);
      } else {
        const auto got = table.inbound(Protocol::udp, outside, external, now);
        ASSERT_EQ(got, model.inbound(outside, external, now)) << "run " << run << " packet " << packet;
        ++(got ? passed : refused);
      }
      ASSERT_EQ(table.mappings(now), model.mappings()) << "run " << run << " packet " << packet;
    }
  }
  // Both answers must be common, or the comparison says little.
  EXPECT_GT(passed, 20'000U);
  EXPECT_GT(refused, 20'000U);
}

}  // namespace
}  // namespace peerbed::sim
