// What a Network is made of; seen by its two makers only, network.cpp and realise.cpp.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/des/host.h"
#include "sim/des/nat_box.h"
#include "sim/des/network.h"
#include "sim/des/router.h"

namespace peerbed::sim {

/// Names are looked up by drivers, never in the order of a hash table.
using NameIndex = boost::unordered_flat_map<std::string, std::size_t>;

struct Network::Parts {
  struct Station {
    Station(Engine& engine, const Routes& routes, const std::string& name, std::vector<IpAddress> addresses)
        : host(engine, routes, name, std::move(addresses)), environment(host) {}
    Host host;
    SimEnvironment environment;
  };

  Engine engine;
  Routes routes;
  std::vector<LinkSpec> link_specs;
  std::vector<std::string> link_names, host_names;
  NameIndex links_by_name, hosts_by_name, nats_by_name;
  std::deque<Link> links;  ///< two per link: a to b, b to a
  std::deque<Station> hosts;
  std::deque<Router> routers;
  std::deque<Cloud> clouds;
  std::deque<NatBox> nats;
  std::vector<std::function<void()>> driver_calls;
  std::vector<std::size_t> free_calls;
};

}  // namespace peerbed::sim
