// Small topologies in few words, and nodes that send on command and remember what came.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/des/host.h"
#include "sim/des/realise.h"

namespace peerbed::sim::test {

inline constexpr std::uint16_t kPort = 4000;

inline NodeSpec node(const std::string& name, NodeKind kind, std::vector<IpAddress> addresses = {}) {
  NodeSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.addresses = std::move(addresses);
  return spec;
}

/// A host with a public address of its own: 198.51.100.`last`.
inline IpAddress public_address(std::uint8_t last) { return IpAddress::v4(198, 51, 100, last); }
inline NodeSpec host(const std::string& name, std::uint8_t last) { return node(name, NodeKind::host, {public_address(last)}); }
inline NodeSpec router(const std::string& name) { return node(name, NodeKind::router); }
inline NodeSpec nat(const std::string& name, std::uint8_t last, const std::string& outside_link, NatBehavior behavior = {}) {
  NodeSpec spec = node(name, NodeKind::nat, {public_address(last)});
  spec.outside_link = outside_link;
  spec.nat = behavior;
  return spec;
}

inline LinkDirection way(Duration delay, std::optional<DataRate> rate = std::nullopt) {
  LinkDirection direction;
  direction.delay = delay;
  direction.rate = rate;
  return direction;
}
inline LinkSpec link(const std::string& a, const std::string& b, const LinkDirection& direction) {
  return {a + "-" + b, a, b, direction, direction};
}
inline Topology topology(std::vector<NodeSpec> nodes, std::vector<LinkSpec> links) {
  Topology made;
  made.name = "test";
  made.nodes = std::move(nodes);
  made.links = std::move(links);
  return made;
}

inline std::unique_ptr<Network> make(const Topology& topology, std::uint64_t seed = 1) {
  auto network = realise(topology, seed);
  if (network.has_error()) throw std::runtime_error(network.error().message);  // the test fails, with the sentence
  return std::move(*network);
}

/// A UDP socket on port 4000 of a host's first address (or where it is told).
class Peer final : public DatagramHandler {
 public:
  struct Received {
    TimePoint at;
    Endpoint from;
    Bytes payload;
  };
  Peer(Network& network, std::string_view host, std::uint16_t port = kPort, std::optional<IpAddress> address = std::nullopt,
       bool dont_fragment = true) {
    Environment& environment = network.environment(host);
    const IpAddress local = address.value_or(environment.local_addresses().front());
    auto opened = environment.open_datagram_socket({{local, port}, dont_fragment}, *this);
    EXPECT_TRUE(opened.has_value()) << (opened.has_error() ? opened.error().message : "");
    if (opened.has_value()) socket = std::move(*opened);
  }
  void on_datagrams(TimePoint now, std::span<const IncomingDatagram> batch) override {
    ++batches;
    for (const IncomingDatagram& d : batch) {
      received.push_back({now, d.from, Bytes(d.payload.begin(), d.payload.end())});
      if (echoes) send(d.from, d.payload);
    }
  }
  void on_writable(TimePoint) override { ++writable; }
  void on_unreachable(TimePoint, const Unreachable& error) override { errors.push_back(error); }

  [[nodiscard]] Endpoint local() const { return socket->local_endpoint(); }
  std::size_t send(const Endpoint& to, BytesView payload, std::uint8_t ttl = 0) {
    const OutgoingDatagram datagram{to, payload, Ecn::not_ect, ttl};
    return socket->send({&datagram, 1});
  }
  /// A datagram whose IP packet has `size` bytes (IPv4).
  std::size_t send_sized(const Endpoint& to, std::size_t size) { return send(to, Bytes(size - 28)); }

  std::unique_ptr<DatagramSocket> socket;
  std::vector<Received> received;
  std::vector<Unreachable> errors;
  std::size_t batches = 0, writable = 0;
  bool echoes = false;
};

inline std::uint64_t dropped(const Network& network, DropReason reason) {
  return network.drops()[static_cast<std::size_t>(reason)].packets;
}
inline void expect_conserved(const Network& network) {
  const Conservation found = network.conservation();
  EXPECT_TRUE(found.holds()) << found.to_string();
}

}  // namespace peerbed::sim::test
