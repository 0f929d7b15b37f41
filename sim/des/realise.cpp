#include "sim/des/realise.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "sim/des/network_parts.h"
#include "topologies/validate.h"

namespace peerbed::sim {

/// Builds in this order: links, realms (links that hang together by routers), routers with attachments and addresses, elements, wires.
class Realiser {
 public:
  Realiser(const Topology& topology, std::uint64_t seed) : topology_(topology), network_(new Network(seed)), parts_(*network_->parts_) {}
  [[nodiscard]] Result<std::unique_ptr<Network>> run();

 private:
  enum class Role : std::uint8_t { terminal, router };
  struct End {
    std::size_t node = 0;
    Role role = Role::terminal;
    std::uint32_t cloud_port = 0;
    AttachmentId attachment = kNoAttachment;
  };
  struct Wire {
    End a, b;
    RealmId realm = 0;
  };
  [[nodiscard]] Result<void> check();
  void make_links();
  void find_realms();
  [[nodiscard]] Result<void> make_elements();
  [[nodiscard]] Result<void> attach(std::size_t link);
  void give_ways_out();
  void connect_wires();
  void compute_routes();
  [[nodiscard]] Element& element_at(const End& end);
  [[nodiscard]] Link& link_from(std::size_t link, bool from_a) { return parts_.links[2 * link + (from_a ? 0 : 1)]; }
  [[nodiscard]] const CloudSpec& cloud_of(const NodeSpec& node) const;

  Topology topology_;
  std::unique_ptr<Network> network_;
  Network::Parts& parts_;
  std::vector<Wire> wires_;
  std::vector<std::size_t> index_;          ///< of each node, among those of its kind
  std::vector<RouterId> router_of_;         ///< of each node that routes
  std::vector<std::size_t> cloud_links_;    ///< of each node: how many links it has, for clouds
  std::vector<std::size_t> owner_of_attachment_;
  std::vector<RealmId> realm_of_router_;    ///< of each node that routes
};

Result<std::unique_ptr<Network>> realise(const Topology& topology, std::uint64_t seed) { return Realiser(topology, seed).run(); }

Result<std::unique_ptr<Network>> Realiser::run() {
  if (const auto checked = check(); !checked) return checked.error();
  make_links();
  find_realms();
  if (const auto made = make_elements(); !made) return made.error();
  for (std::size_t link = 0; link < wires_.size(); ++link) {
    if (const auto attached = attach(link); !attached) return attached.error();
  }
  give_ways_out();
  connect_wires();
  compute_routes();
  return std::move(network_);
}

Result<void> Realiser::check() {
  if (const auto fault = complete_structure(topology_)) return bad_input(fault->sentence);
  const std::vector<FamilyWish> wishes(topology_.nodes.size(), FamilyWish::automatic);
  if (const auto fault = assign_addresses(topology_, wishes)) return bad_input(fault->sentence);
  for (const NodeSpec& node : topology_.nodes) {
    if (node.kind != NodeKind::cloud) continue;
    const auto found = std::find_if(topology_.clouds.begin(), topology_.clouds.end(), [&](const CloudSpec& c) { return c.name == node.name; });
    if (found == topology_.clouds.end()) return bad_input(fmt::format("cloud '{}' says nothing of its delays", node.name));
    const auto links = std::count_if(topology_.links.begin(), topology_.links.end(),
                                     [&](const LinkSpec& l) { return l.a == node.name || l.b == node.name; });
    if (found->region_of.size() != static_cast<std::size_t>(links)) {
      return bad_input(fmt::format("cloud '{}' has {} links but regions for {}", node.name, links, found->region_of.size()));
    }
    const std::size_t regions = found->delay.size();
    const bool square = std::all_of(found->delay.begin(), found->delay.end(), [&](const auto& row) { return row.size() == regions; });
    const bool known = std::all_of(found->region_of.begin(), found->region_of.end(), [&](std::size_t r) { return r < regions; });
    if (regions == 0 || !square || !known) {
      return bad_input(fmt::format("the delays of cloud '{}' must be a square that has every region in use", node.name));
    }
  }
  return {};
}

const CloudSpec& Realiser::cloud_of(const NodeSpec& node) const {
  const auto found = std::find_if(topology_.clouds.begin(), topology_.clouds.end(), [&](const CloudSpec& c) { return c.name == node.name; });
  PEERBED_CHECK(found != topology_.clouds.end(), "a cloud passed the check without its spec");
  return *found;
}

void Realiser::make_links() {
  boost::unordered_flat_map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < topology_.nodes.size(); ++i) by_name.emplace(topology_.nodes[i].name, i);
  cloud_links_.assign(topology_.nodes.size(), 0);
  parts_.link_specs = topology_.links;
  for (std::size_t i = 0; i < topology_.links.size(); ++i) {
    const LinkSpec& spec = topology_.links[i];
    parts_.link_names.push_back(spec.name);
    parts_.links_by_name.emplace(spec.name, i);
    parts_.links.emplace_back(parts_.engine, static_cast<std::uint32_t>(2 * i), spec.name, spec.a_to_b);
    parts_.links.emplace_back(parts_.engine, static_cast<std::uint32_t>(2 * i + 1), spec.name, spec.b_to_a);
    const auto end = [&](const std::string& name) {
      End made;
      made.node = by_name.at(name);
      const NodeSpec& node = topology_.nodes[made.node];
      const bool outside = node.kind == NodeKind::nat && node.outside_link == spec.name;
      made.role = node.kind == NodeKind::host || outside ? Role::terminal : Role::router;
      made.cloud_port = static_cast<std::uint32_t>(cloud_links_[made.node]++);
      return made;
    };
    Wire wire;
    wire.a = end(spec.a);
    wire.b = end(spec.b);
    wires_.push_back(wire);
  }
}

/// Two links are in one realm if they meet at something that routes.
void Realiser::find_realms() {
  std::vector<std::size_t> parent(wires_.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto find = [&](std::size_t x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
  };
  const std::size_t none = wires_.size();
  std::vector<std::size_t> first_link(topology_.nodes.size(), none);
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    for (const End* end : {&wires_[i].a, &wires_[i].b}) {
      if (end->role != Role::router) continue;
      std::size_t& first = first_link[end->node];
      if (first == none) first = i;
      const std::size_t x = find(i), y = find(first);
      parent[std::max(x, y)] = std::min(x, y);
    }
  }
  std::vector<RealmId> realm(wires_.size());
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    realm[i] = find(i) == i ? parts_.routes.add_realm() : realm[find(i)];
    wires_[i].realm = realm[i];
  }
  realm_of_router_.assign(topology_.nodes.size(), 0);
  for (std::size_t n = 0; n < topology_.nodes.size(); ++n) {
    if (first_link[n] != none) {
      realm_of_router_[n] = wires_[first_link[n]].realm;
    } else if (topology_.nodes[n].kind != NodeKind::host) {
      realm_of_router_[n] = parts_.routes.add_realm();  // nothing is linked to it
    }
  }
}

Result<void> Realiser::make_elements() {
  Routes& routes = parts_.routes;
  index_.assign(topology_.nodes.size(), 0);
  router_of_.assign(topology_.nodes.size(), kNoRouter);
  const auto hosts = std::count_if(topology_.nodes.begin(), topology_.nodes.end(), [](const NodeSpec& n) { return n.kind == NodeKind::host; });
  parts_.host_names.reserve(static_cast<std::size_t>(hosts));  // hosts keep references to their names
  for (std::size_t n = 0; n < topology_.nodes.size(); ++n) {
    const NodeSpec& node = topology_.nodes[n];
    if (node.kind != NodeKind::host) router_of_[n] = routes.add_router(realm_of_router_[n]);
    switch (node.kind) {
      case NodeKind::host:
        index_[n] = parts_.hosts.size();
        parts_.host_names.push_back(node.name);
        parts_.hosts_by_name.emplace(node.name, index_[n]);
        parts_.hosts.emplace_back(parts_.engine, routes, parts_.host_names.back(), node.addresses);
        break;
      case NodeKind::router:
        index_[n] = parts_.routers.size();
        parts_.routers.emplace_back(parts_.engine, routes, router_of_[n]);
        break;
      case NodeKind::cloud:
        index_[n] = parts_.clouds.size();
        parts_.clouds.emplace_back(parts_.engine, routes, router_of_[n], cloud_of(node));
        break;
      case NodeKind::nat:
        if (node.addresses.empty()) return bad_input(fmt::format("NAT '{}' has no outside address", node.name));
        index_[n] = parts_.nats.size();
        parts_.nats_by_name.emplace(node.name, index_[n]);
        parts_.nats.emplace_back(parts_.engine, routes, node.name, node, router_of_[n]);
        break;
    }
  }
  return {};
}

/// Hangs the terminals of one link into its realm, with their addresses.
Result<void> Realiser::attach(std::size_t link) {
  Wire& wire = wires_[link];
  for (const bool at_a : {true, false}) {
    End& end = at_a ? wire.a : wire.b;
    const End& other = at_a ? wire.b : wire.a;
    if (end.role != Role::terminal) continue;
    const NodeSpec& node = topology_.nodes[end.node];
    const RouterId router = other.role == Role::router ? router_of_[other.node] : kNoRouter;
    end.attachment = parts_.routes.add_attachment({router, &link_from(link, !at_a)});
    owner_of_attachment_.push_back(end.node);
    if (node.kind == NodeKind::host) {
      parts_.hosts[index_[end.node]].host.connect(link_from(link, at_a), wire.realm, end.attachment);
    } else {
      parts_.nats[index_[end.node]].connect_outside(link_from(link, at_a), wire.realm, end.attachment);
    }
    for (const IpAddress& address : node.addresses) {
      if (parts_.routes.add_address(wire.realm, address, end.attachment)) continue;
      // A host with two links into one realm is reached by the first; anybody else is a double.
      const std::size_t holder = owner_of_attachment_[parts_.routes.find(wire.realm, address)];
      if (holder == end.node) continue;
      return bad_input(fmt::format("'{}' and '{}' have the same address {} in one realm", topology_.nodes[holder].name, node.name,
                                   address.to_string()));
    }
  }
  return {};
}

void Realiser::give_ways_out() {
  for (std::size_t n = 0; n < topology_.nodes.size(); ++n) {
    if (topology_.nodes[n].kind != NodeKind::nat) continue;
    const AttachmentId way_out = parts_.routes.add_attachment({router_of_[n], nullptr});
    parts_.routes.set_way_out(realm_of_router_[n], way_out);
  }
}

Element& Realiser::element_at(const End& end) {
  const std::size_t index = index_[end.node];
  switch (topology_.nodes[end.node].kind) {
    case NodeKind::host: return parts_.hosts[index].host;
    case NodeKind::router: return parts_.routers[index];
    case NodeKind::cloud: return parts_.clouds[index];
    case NodeKind::nat: break;
  }
  return end.role == Role::terminal ? parts_.nats[index].outside() : parts_.nats[index].inside();
}

void Realiser::connect_wires() {
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    const Wire& wire = wires_[i];
    for (const bool at_a : {true, false}) {
      const End& end = at_a ? wire.a : wire.b;
      const bool inside = topology_.nodes[end.node].kind == NodeKind::nat && end.role == Role::router;
      if (inside) parts_.nats[index_[end.node]].connect_inside(link_from(i, at_a));
    }
    const auto is_host = [&](const End& end) { return topology_.nodes[end.node].kind == NodeKind::host; };
    link_from(i, true).connect(element_at(wire.b), is_host(wire.b), wire.a.cloud_port, wire.b.cloud_port);
    link_from(i, false).connect(element_at(wire.a), is_host(wire.a), wire.b.cloud_port, wire.a.cloud_port);
  }
}

void Realiser::compute_routes() {
  std::vector<Routes::Edge> edges;
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    const Wire& wire = wires_[i];
    if (wire.a.role != Role::router || wire.b.role != Role::router) continue;
    edges.push_back({router_of_[wire.a.node], router_of_[wire.b.node], &link_from(i, true)});
    edges.push_back({router_of_[wire.b.node], router_of_[wire.a.node], &link_from(i, false)});
  }
  parts_.routes.compute(edges);
}

}  // namespace peerbed::sim
