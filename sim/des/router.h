// What forwards within a realm: routers, and the cloud, which is a router with a delay per pair of regions inside.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <vector>

#include "core/env/random_stream.h"
#include "sim/des/engine.h"
#include "sim/des/routes.h"
#include "topologies/model.h"

namespace peerbed::sim {

/// Sends an ICMP error about `packet` back to its source, from a router in `realm`. Errors about errors are not sent (RFC 1122
/// §3.2.2). `packet` stays the caller's.
class IcmpSender {
 public:
  IcmpSender(Engine& engine, const Routes& routes) : engine_(engine), routes_(routes) {}
  void send_error(const Packet& about, UnreachableReason reason, RouterId from);

 private:
  Engine& engine_;
  const Routes& routes_;
};

class Router : public Element {
 public:
  Router(Engine& engine, const Routes& routes, RouterId id) : engine_(engine), routes_(routes), icmp_(engine, routes), id_(id) {}
  virtual ~Router() = default;
  void accept(Packet* train) override;
  void prefetch(const Packet* packet, unsigned stage) const override;
  /// One hop: takes one from the TTL and finds the next link. Nothing: the packet was dropped, and its sender told.
  [[nodiscard]] Link* next_hop(Packet* packet);

 protected:
  Engine& engine_;
  const Routes& routes_;
  IcmpSender icmp_;
  RouterId id_;
};

/// Every pair of access links has the delay of their regions. Jitter keeps the order of each pair. No rate, no queue; one hop of TTL.
class Cloud final : public Router {
 public:
  Cloud(Engine& engine, const Routes& routes, RouterId id, const CloudSpec& spec);
  void accept(Packet* train) override;

 private:
  [[nodiscard]] TimePoint in_order(std::uint64_t pair, TimePoint due);

  std::vector<Duration> delay_;  ///< regions x regions
  std::vector<std::uint32_t> region_of_;
  std::size_t regions_ = 1;
  Duration jitter_{};
  double loss_ = 0;
  RandomStream loss_random_, jitter_random_;
  boost::unordered_flat_map<std::uint64_t, TimePoint> last_due_;  ///< by pair of links; the past is swept out now and then
  std::size_t sweep_at_ = 1024;
};

}  // namespace peerbed::sim
