#include "topologies/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <numeric>

#include "core/base/check.h"
#include "topologies/suggest.h"

namespace peerbed {
namespace {

using NodeIndex = boost::unordered_flat_map<std::string_view, std::size_t>;

NodeIndex index_of(const Topology& topology) {
  NodeIndex index;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) index.emplace(topology.nodes[i].name, i);
  return index;
}

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::host: return "host";
    case NodeKind::router: return "router";
    case NodeKind::nat: return "nat";
    case NodeKind::cloud: return "cloud";
  }
  return "node";
}

TopologyFault at_node(std::size_t index, std::string sentence) { return {false, index, std::move(sentence)}; }
TopologyFault at_link(std::size_t index, std::string sentence) { return {true, index, std::move(sentence)}; }

class UnionFind {
 public:
  explicit UnionFind(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(std::size_t x, std::size_t y) {
    const std::size_t a = find(x), b = find(y);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);  // the root is the smallest member
  }

 private:
  std::vector<std::size_t> parent_;
};

struct Ends {
  std::size_t a, b;
};

std::optional<TopologyFault> check_names(const Topology& topology) {
  boost::unordered_flat_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    const NodeSpec& node = topology.nodes[i];
    const auto [first, fresh] = seen.emplace(node.name, i);
    if (fresh) continue;
    return at_node(i, fmt::format("two nodes are called '{}': a {} and a {}", node.name,
                                  kind_name(topology.nodes[first->second].kind), kind_name(node.kind)));
  }
  seen.clear();
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    if (!seen.emplace(topology.links[i].name, i).second) {
      return at_link(i, fmt::format("two links are called '{}'", topology.links[i].name));
    }
  }
  return std::nullopt;
}

/// Where every link ends, or which end is unknown.
std::optional<TopologyFault> find_ends(const Topology& topology, std::vector<Ends>& ends) {
  const NodeIndex index = index_of(topology);
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LinkSpec& link = topology.links[i];
    for (const std::string* end : {&link.a, &link.b}) {
      if (index.contains(*end)) continue;
      std::vector<std::string_view> names;
      for (const NodeSpec& node : topology.nodes) names.push_back(node.name);
      return at_link(i,
                     fmt::format("link '{}' leads to unknown node '{}'{}", link.name, *end, did_you_mean(*end, names)));
    }
    if (link.a == link.b) return at_link(i, fmt::format("link '{}' leads from '{}' to itself", link.name, link.a));
    ends.push_back({index.at(link.a), index.at(link.b)});
  }
  return std::nullopt;
}

std::optional<TopologyFault> find_outside_links(Topology& topology, const std::vector<Ends>& ends) {
  std::vector<std::size_t> inside(topology.nodes.size()), degree(topology.nodes.size());
  for (NodeSpec& node : topology.nodes) node.outside_link.clear();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    NodeSpec& from = topology.nodes[ends[i].a];
    ++degree[ends[i].a];
    ++degree[ends[i].b];
    if (topology.nodes[ends[i].b].kind == NodeKind::nat) ++inside[ends[i].b];
    if (from.kind != NodeKind::nat) continue;
    if (!from.outside_link.empty()) {
      return at_node(ends[i].a,
                     fmt::format("nat '{}' has two links that lead out, '{}' and '{}'; a link from an inside node must "
                                 "say 'to: {}'",
                                 from.name, from.outside_link, topology.links[i].name, from.name));
    }
    from.outside_link = topology.links[i].name;
  }
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    const NodeSpec& node = topology.nodes[i];
    if (node.kind == NodeKind::nat && node.outside_link.empty()) {
      return at_node(i, fmt::format("nat '{0}' has no link that leads out; write one with 'from: {0}'", node.name));
    }
    if (node.kind == NodeKind::nat && inside[i] == 0) {
      return at_node(i, fmt::format("nat '{0}' has nothing inside; write a link with 'to: {0}'", node.name));
    }
    if (node.kind == NodeKind::host && degree[i] == 0)
      return at_node(i, fmt::format("host '{}' has no link", node.name));
  }
  return std::nullopt;
}

/// Hosts do not forward: two hosts are connected by a link of their own or through routers, clouds and NATs.
std::optional<TopologyFault> check_paths(const Topology& topology, const std::vector<Ends>& ends) {
  const auto& nodes = topology.nodes;
  UnionFind networks(nodes.size());
  std::vector<std::vector<std::size_t>> neighbours(nodes.size());  // of hosts
  for (const Ends& link : ends) {
    const bool from_host = nodes[link.a].kind == NodeKind::host, to_host = nodes[link.b].kind == NodeKind::host;
    if (!from_host && !to_host) networks.join(link.a, link.b);
    if (from_host) neighbours[link.a].push_back(link.b);
    if (to_host) neighbours[link.b].push_back(link.a);
  }
  std::vector<std::size_t> hosts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind != NodeKind::host) continue;
    hosts.push_back(i);
    for (std::size_t& neighbour : neighbours[i]) {
      if (nodes[neighbour].kind != NodeKind::host) neighbour = networks.find(neighbour);
    }
  }
  if (hosts.empty()) return std::nullopt;
  const auto touches = [&](std::size_t host, std::size_t what) {
    return std::find(neighbours[host].begin(), neighbours[host].end(), what) != neighbours[host].end();
  };
  // The usual case first: all hosts are on one network.
  const std::size_t common = neighbours[hosts.front()].front();
  if (nodes[common].kind != NodeKind::host &&
      std::all_of(hosts.begin(), hosts.end(), [&](std::size_t host) { return touches(host, common); })) {
    return std::nullopt;
  }
  for (const std::size_t from : hosts) {
    for (const std::size_t to : hosts) {
      if (from == to || touches(from, to)) continue;
      const bool meet = std::any_of(neighbours[from].begin(), neighbours[from].end(), [&](std::size_t network) {
        return nodes[network].kind != NodeKind::host && touches(to, network);
      });
      if (!meet) return at_node(from, fmt::format("no path from {} to {}", nodes[from].name, nodes[to].name));
    }
  }
  return std::nullopt;
}

std::vector<Ends> known_ends(const Topology& topology) {
  std::vector<Ends> ends;
  const auto fault = find_ends(topology, ends);
  PEERBED_CHECK(!fault, "a topology's structure must be complete");
  return ends;
}

/// Links that share an address space: joined by every node but NATs, which join their inside links only.
UnionFind spaces_of(const Topology& topology, const std::vector<Ends>& ends) {
  UnionFind spaces(ends.size());
  std::vector<std::optional<std::size_t>> first(topology.nodes.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (const std::size_t node : {ends[i].a, ends[i].b}) {
      if (topology.nodes[node].kind == NodeKind::nat && node == ends[i].a) continue;
      if (first[node]) spaces.join(*first[node], i);
      if (!first[node]) first[node] = i;
    }
  }
  return spaces;
}

std::optional<TopologyFault> check_realms(const Topology& topology, const std::vector<Ends>& ends) {
  UnionFind spaces = spaces_of(topology, ends);
  std::vector<std::size_t> outside(topology.nodes.size()), inside(topology.nodes.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    outside[ends[i].a] = inside[ends[i].b] = spaces.find(i);  // read for NATs only
  }
  boost::unordered_flat_map<std::size_t, std::size_t> gateways;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    const NodeSpec& node = topology.nodes[i];
    if (node.kind != NodeKind::nat) continue;
    if (outside[i] == inside[i]) {
      return at_node(
          i, fmt::format("there is a way round nat '{}': its inside and its outside are one network", node.name));
    }
    const auto [other, fresh] = gateways.emplace(inside[i], i);
    if (!fresh) {
      return at_node(i, fmt::format("nats '{}' and '{}' share one inside network; hosts there would have two ways out",
                                    topology.nodes[other->second].name, node.name));
    }
  }
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    if (topology.nodes[i].kind != NodeKind::nat) continue;
    std::size_t steps = 0;
    for (std::size_t nat = i; gateways.contains(outside[nat]); nat = gateways.at(outside[nat])) {
      if (++steps > gateways.size()) {
        return at_node(i, fmt::format("nat '{}' leads out into itself by way of other nats", topology.nodes[i].name));
      }
    }
  }
  return std::nullopt;
}

// Addresses -----------------------------------------------------------------------------------------------------------

constexpr std::uint32_t kPublicBase = (198U << 24) | (18U << 16), kPublicSize = 1U << 17;
constexpr std::uint32_t kMiddleBase = (100U << 24) | (64U << 16), kMiddleSize = 1U << 22;
constexpr std::uint32_t kHomeBase = (192U << 24) | (168U << 16), kHomeSize = 1U << 8, kHomes = 256;
constexpr std::uint32_t kLargeBase = 10U << 24, kLargeSize = 1U << 24;

bool is_host_address(const IpAddress& address) {
  if (address.is_any() || address.is_loopback()) return false;
  return address.family == Family::v6 ? address.octets[0] != 0xff : address.octets[0] != 0 && address.octets[0] < 224;
}

IpAddress public_v6(std::uint64_t number) {
  IpAddress address{Family::v6, {0x20, 0x01, 0x0d, 0xb8}};
  for (std::size_t i = 0; i < 8; ++i) address.octets[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return address;
}

/// Addresses of one realm, handed out upwards from base + 1, round those that a file gave.
class Pool {
 public:
  Pool(std::uint32_t base, std::uint32_t size) : base_(base), size_(size) {}
  void reserve(const IpAddress& address) { given_.insert(address); }
  std::optional<IpAddress> next() {
    while (++last_ < size_ - 1) {
      const IpAddress address = IpAddress::v4(base_ + last_);
      if (!given_.contains(address)) return address;
    }
    return std::nullopt;
  }
  IpAddress next_v6() {
    while (given_.contains(public_v6(++last_v6_))) {
    }
    return public_v6(last_v6_);
  }
  void skip_gateway() { ++last_; }

 private:
  boost::unordered_flat_set<IpAddress, EndpointHash> given_;
  std::uint32_t base_, size_, last_ = 0;
  std::uint64_t last_v6_ = 0;
};

std::optional<TopologyFault> fill_realm(Topology& topology, const Realm& realm, Pool pool,
                                        std::span<const FamilyWish> wishes) {
  boost::unordered_flat_map<IpAddress, std::size_t, EndpointHash> owners;
  const bool is_public = !realm.gateway;
  for (const std::size_t member : realm.members) {
    const NodeSpec& node = topology.nodes[member];
    for (const IpAddress& address : node.addresses) {
      if (!is_host_address(address)) {
        return at_node(member,
                       fmt::format("{} of {} is not an address that a host can have", address.to_string(), node.name));
      }
      if (address.family == Family::v6 && (!is_public || node.kind == NodeKind::nat)) {
        return at_node(member, fmt::format("{} of {} is IPv6; NATs and what is behind them have IPv4 only",
                                           address.to_string(), node.name));
      }
      const auto [owner, fresh] = owners.emplace(address, member);
      if (!fresh) {
        return at_node(member, fmt::format("{} of {} is already an address of {}", address.to_string(), node.name,
                                           topology.nodes[owner->second].name));
      }
      pool.reserve(address);
    }
  }
  for (const std::size_t member : realm.members) {
    NodeSpec& node = topology.nodes[member];
    if (!node.addresses.empty()) continue;
    FamilyWish wish = wishes[member];
    if (!is_public && (wish == FamilyWish::v6 || wish == FamilyWish::dual)) {
      return at_node(member, fmt::format("{} is behind nat '{}', where there is IPv4 only", node.name,
                                         topology.nodes[*realm.gateway].name));
    }
    if (wish == FamilyWish::automatic)
      wish = is_public && node.kind == NodeKind::host ? FamilyWish::dual : FamilyWish::v4;
    if (wish != FamilyWish::v6) {
      const auto address = pool.next();
      if (!address)
        return at_node(member, fmt::format("no address is left for {}; too many hosts in one network", node.name));
      node.addresses.push_back(*address);
    }
    if (wish != FamilyWish::v4) node.addresses.push_back(pool.next_v6());
  }
  return std::nullopt;
}

}  // namespace

std::optional<TopologyFault> complete_structure(Topology& topology) {
  std::vector<Ends> ends;
  if (auto fault = check_names(topology)) return fault;
  if (auto fault = find_ends(topology, ends)) return fault;
  if (auto fault = find_outside_links(topology, ends)) return fault;
  if (auto fault = check_paths(topology, ends)) return fault;
  return check_realms(topology, ends);
}

std::vector<Realm> realms_of(const Topology& topology) {
  const std::vector<Ends> ends = known_ends(topology);
  UnionFind spaces = spaces_of(topology, ends);
  std::vector<std::size_t> space_of(topology.nodes.size());  // of a host's links, and of a NAT's outside link
  boost::unordered_flat_map<std::size_t, std::size_t> gateways;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    space_of[ends[i].a] = spaces.find(i);
    if (topology.nodes[ends[i].b].kind == NodeKind::nat) {
      gateways.emplace(spaces.find(i), ends[i].b);
    } else {
      space_of[ends[i].b] = spaces.find(i);
    }
  }
  std::vector<Realm> realms;
  boost::unordered_flat_map<std::size_t, std::size_t> index;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    const NodeKind kind = topology.nodes[i].kind;
    if (kind != NodeKind::host && kind != NodeKind::nat) continue;
    const auto [realm, fresh] = index.emplace(space_of[i], realms.size());
    if (fresh) {
      realms.emplace_back();
      if (const auto gateway = gateways.find(space_of[i]); gateway != gateways.end())
        realms.back().gateway = gateway->second;
    }
    realms[realm->second].members.push_back(i);
  }
  return realms;
}

std::optional<TopologyFault> assign_addresses(Topology& topology, std::span<const FamilyWish> wishes) {
  PEERBED_CHECK(wishes.size() == topology.nodes.size(), "there must be a wish per node");
  std::uint32_t homes = 0, large = 0, middle = 0;
  for (const Realm& realm : realms_of(topology)) {
    // Blocks are powers of two with room for the network, the gateway and the broadcast address.
    std::uint32_t block = 8;
    while (block < realm.members.size() + 3 && block < kLargeSize) block *= 2;
    const bool has_nats = std::any_of(realm.members.begin(), realm.members.end(),
                                      [&](std::size_t member) { return topology.nodes[member].kind == NodeKind::nat; });
    const auto take = [block](std::uint32_t base, std::uint32_t size, std::uint32_t& used) -> std::optional<Pool> {
      const std::uint32_t start = (used + block - 1) & ~(block - 1);
      if (start > size || size - start < block) return std::nullopt;
      used = start + block;
      return Pool(base + start, block);
    };
    std::optional<Pool> pool;
    if (!realm.gateway) {
      pool.emplace(kPublicBase, kPublicSize);
    } else if (has_nats) {
      pool = take(kMiddleBase, kMiddleSize, middle);
    } else if (block <= kHomeSize && homes < kHomes) {
      pool.emplace(kHomeBase + kHomeSize * homes++, kHomeSize);
    } else {
      pool = take(kLargeBase, kLargeSize, large);
    }
    if (!pool) {
      return at_node(realm.members.front(), fmt::format("no private network is left for {}; too many hosts behind NATs",
                                                        topology.nodes[realm.members.front()].name));
    }
    if (realm.gateway) pool->skip_gateway();
    if (auto fault = fill_realm(topology, realm, std::move(*pool), wishes)) return fault;
  }
  return std::nullopt;
}

}  // namespace peerbed
