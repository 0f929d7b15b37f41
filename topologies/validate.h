// What every topology must hold, from whichever file or generator it came, and the addresses where it is silent.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topologies/model.h"

namespace peerbed {

/// Something wrong at a node or a link; the loader knows which line that is.
struct TopologyFault {
  bool at_link = false;
  std::size_t index = 0;  ///< in Topology::nodes or Topology::links
  std::string sentence;
};

/// Names unique, ends known, hosts linked and connected (hosts do not forward), every NAT with exactly one outside link
/// and at least one inside link, no way round a NAT. Fills in NodeSpec::outside_link: the one link whose `a` is the
/// NAT.
[[nodiscard]] std::optional<TopologyFault> complete_structure(Topology& topology);

/// A realm is an address space: what is reachable without crossing a NAT.
struct Realm {
  std::optional<std::size_t>
      gateway;                       ///< node index of the NAT that this realm is inside of; nothing: the public realm
  std::vector<std::size_t> members;  ///< node indices of hosts, and of NATs whose outside is here; ascending
};
/// In order of their first node. The structure must be complete.
[[nodiscard]] std::vector<Realm> realms_of(const Topology& topology);

enum class FamilyWish : std::uint8_t { automatic, v4, v6, dual };

/// Gives addresses to hosts and NATs that have none: public 198.18.0.0/15 (RFC 2544) and 2001:db8::/32 (RFC 3849),
/// behind NATs 192.168.N.0/24 and then blocks of 10.0.0.0/8, between two layers of NAT 100.64.0.0/10 (RFC 6598). Behind
/// a NAT there is IPv4 only. `wishes` is by node; automatic means both families in the public realm. Explicit addresses
/// are kept and checked.
[[nodiscard]] std::optional<TopologyFault> assign_addresses(Topology& topology, std::span<const FamilyWish> wishes);

}  // namespace peerbed
