// A topology as a value: what the files say, resolved. Backends realise it; nothing here runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "topologies/nat_behavior.h"

namespace peerbed {

enum class NodeKind : std::uint8_t { host, router, nat, cloud };

struct QueueLimit {
  std::optional<std::int64_t> packets;  ///< behind the serialiser; a packet on the wire does not count
  std::optional<DataSize> bytes;
};

/// One direction of a link. The knobs mean the same on every backend (DESIGN.md §5): delay is one-way, rate counts IP bytes, loss
/// applies per packet at entry.
struct LinkDirection {
  std::optional<DataRate> rate;  ///< nothing: unlimited
  Duration delay{};
  Duration jitter{};  ///< uniform in [0, jitter] on top of delay, in order (FIFO)
  double loss = 0;    ///< Bernoulli
  QueueLimit queue{.packets = 1000, .bytes = std::nullopt};
};

struct LinkSpec {
  std::string name;
  std::string a, b;  ///< node names
  LinkDirection a_to_b, b_to_a;
};

struct NodeSpec {
  std::string name;
  NodeKind kind = NodeKind::host;
  /// Host: its addresses. NAT: its outside addresses. Router, cloud: none. Filled in by the loader where the file is silent.
  std::vector<IpAddress> addresses;
  NatBehavior nat;           ///< kind nat
  std::string outside_link;  ///< kind nat: the link that leads out; all its other links lead inside
  std::string group;         ///< hosts made by `count:` share their group's name; else empty
};

/// A cloud joins many hosts with a delay per pair and no queue of its own. Its links are access links.
struct CloudSpec {
  std::string name;  ///< of the node of kind cloud
  /// One-way delays between regions, row = from; a host's region is `region_of[host index among the cloud's links]`.
  std::vector<std::vector<Duration>> delay;
  std::vector<std::size_t> region_of;  ///< by order of the cloud's links in Topology::links
  Duration jitter{};
  double loss = 0;
};

struct Topology {
  std::string name, title;
  std::vector<NodeSpec> nodes;
  std::vector<LinkSpec> links;
  std::vector<CloudSpec> clouds;

  [[nodiscard]] const NodeSpec* find_node(std::string_view node_name) const;
  [[nodiscard]] const LinkSpec* find_link(std::string_view link_name) const;
};

}  // namespace peerbed
