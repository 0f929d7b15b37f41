// What a datagram costs in the embedded network, between hosts that do nothing but send and receive. "items_per_second" is
// datagrams delivered per CPU second.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/env/random_stream.h"
#include "sim/des/realise.h"

namespace peerbed::sim {
namespace {

constexpr std::uint16_t kPort = 4000;

NodeSpec node(const std::string& name, NodeKind kind, std::vector<IpAddress> addresses = {}) {
  NodeSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.addresses = std::move(addresses);
  return spec;
}

LinkSpec link(const std::string& a, const std::string& b, const LinkDirection& direction) {
  return {a + "-" + b, a, b, direction, direction};
}

/// Answers every datagram with one of the same size.
class Echo final : public DatagramHandler {
 public:
  Echo(Environment& environment, const Endpoint& local) { socket = *environment.open_datagram_socket({local, true}, *this); }
  void on_datagrams(TimePoint, std::span<const IncomingDatagram> batch) override {
    for (const IncomingDatagram& datagram : batch) {
      const OutgoingDatagram answer{datagram.from, datagram.payload, Ecn::not_ect, 0};
      socket->send({&answer, 1});
    }
    received += batch.size();
  }
  void on_writable(TimePoint) override {}
  void on_unreachable(TimePoint, const Unreachable&) override {}

  std::unique_ptr<DatagramSocket> socket;
  std::uint64_t received = 0;
};

void two_hops_and_a_nat(benchmark::State& state) {
  const auto payload_size = static_cast<std::size_t>(state.range(0));
  Topology topology;
  topology.name = "two hops";
  const IpAddress inside = IpAddress::v4(192, 168, 1, 2), outside = IpAddress::v4(203, 0, 113, 1), remote = IpAddress::v4(198, 51, 100, 1);
  topology.nodes = {node("a", NodeKind::host, {inside}), node("nat", NodeKind::nat, {outside}), node("b", NodeKind::host, {remote})};
  LinkDirection direction;
  direction.rate = DataRate{10'000'000'000};
  direction.delay = 1ms;
  topology.links = {link("a", "nat", direction), link("nat", "b", direction)};
  topology.nodes[1].outside_link = "nat-b";
  auto network = *realise(topology, 1);
  Echo a(network->environment("a"), {inside, kPort}), b(network->environment("b"), {remote, kPort});
  const Bytes payload(payload_size);
  for (int i = 0; i < 64; ++i) {  // 64 that bounce for ever
    const OutgoingDatagram datagram{{remote, kPort}, payload, Ecn::not_ect, 0};
    a.socket->send({&datagram, 1});
  }
  network->run_until(network->now() + 1s);
  const std::uint64_t before = network->packets_delivered().packets, events = network->counters().events;
  for (auto _ : state) network->run_events(10'000);
  const std::uint64_t delivered = network->packets_delivered().packets - before;
  state.SetItemsProcessed(static_cast<std::int64_t>(delivered));
  state.counters["events_per_datagram"] = static_cast<double>(network->counters().events - events) / static_cast<double>(delivered);
}
BENCHMARK(two_hops_and_a_nat)->Arg(100)->Arg(1200);

/// Sends a datagram to one of its peers ten times a second.
class Chatter final : public TimerHandler, public DatagramHandler {
 public:
  Chatter(Environment& environment, const Endpoint& local, Duration phase) : timer_(environment.make_timer(*this)) {
    socket_ = *environment.open_datagram_socket({local, true}, *this);
    timer_->arm(TimePoint{} + phase);
  }
  void add_peer(const Endpoint& peer) { peers_.push_back(peer); }
  void on_timer(TimePoint now) override {
    static const Bytes payload(100);
    const OutgoingDatagram datagram{peers_[turn_++ % peers_.size()], payload, Ecn::not_ect, 0};
    socket_->send({&datagram, 1});
    timer_->arm(now + 100ms);
  }
  void on_datagrams(TimePoint, std::span<const IncomingDatagram>) override {}
  void on_writable(TimePoint) override {}
  void on_unreachable(TimePoint, const Unreachable&) override {}

 private:
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<DatagramSocket> socket_;
  std::vector<Endpoint> peers_;
  std::size_t turn_ = 0;
};

/// Hosts on a cloud of eight regions, 70 % of them behind a NAT of their own.
Topology crowd(std::size_t hosts) {
  Topology topology;
  topology.name = "crowd";
  topology.nodes.push_back(node("cloud", NodeKind::cloud));
  CloudSpec cloud;
  cloud.name = "cloud";
  cloud.delay.assign(8, std::vector<Duration>(8));
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) cloud.delay[i][j] = 5ms + 15ms * static_cast<int>(i > j ? i - j : j - i);
  }
  cloud.jitter = 2ms;
  cloud.loss = 0.01;
  LinkDirection access, lan;
  access.rate = DataRate{50'000'000};
  access.delay = 5ms;
  for (std::size_t i = 0; i < hosts; ++i) {
    const std::string name = "h" + std::to_string(i);
    const IpAddress address = IpAddress::v4(static_cast<std::uint32_t>((11U << 24) + i));
    const bool natted = i % 10 < 7;
    if (natted) {
      const std::string nat = "n" + std::to_string(i);
      topology.nodes.push_back(node(name, NodeKind::host, {IpAddress::v4(192, 168, 1, 2)}));
      topology.nodes.push_back(node(nat, NodeKind::nat, {address}));
      topology.nodes.back().outside_link = nat + "-cloud";
      topology.links.push_back(link(name, nat, lan));
      topology.links.push_back(link(nat, "cloud", access));
    } else {
      topology.nodes.push_back(node(name, NodeKind::host, {address}));
      topology.links.push_back(link(name, "cloud", access));
    }
    cloud.region_of.push_back(i * 7 % 8);
  }
  topology.clouds.push_back(std::move(cloud));
  return topology;
}

void cloud(benchmark::State& state) {
  const auto hosts = static_cast<std::size_t>(state.range(0));
  const Topology topology = crowd(hosts);
  const std::size_t heap_before = mallinfo2().uordblks;
  auto network = *realise(topology, 1);
  const std::size_t heap = mallinfo2().uordblks - heap_before;
  RandomStream random(1, 0, "who talks to whom");
  std::vector<std::unique_ptr<Chatter>> nodes;
  for (std::size_t i = 0; i < hosts; ++i) {
    Environment& environment = network->environment(i);
    const auto phase = Duration(random.between(0, 100'000'000));
    nodes.push_back(std::make_unique<Chatter>(environment, Endpoint{environment.local_addresses().front(), kPort}, phase));
  }
  // Peers know each other's outside endpoint, and both send: that opens the NATs. A fresh NAT keeps the port.
  const auto outside = [](std::size_t i) { return Endpoint{IpAddress::v4(static_cast<std::uint32_t>((11U << 24) + i)), kPort}; };
  for (std::size_t i = 0; i < hosts; ++i) {
    for (int k = 0; k < 2; ++k) {
      const auto j = static_cast<std::size_t>(random.below(hosts));
      nodes[i]->add_peer(outside(j));
      nodes[j]->add_peer(outside(i));
    }
  }
  network->run_until(network->now() + 2s);
  const std::uint64_t before = network->packets_delivered().packets, events = network->counters().events;
  for (auto _ : state) network->run_events(10'000);
  const std::uint64_t delivered = network->packets_delivered().packets - before;
  state.SetItemsProcessed(static_cast<std::int64_t>(delivered));
  state.counters["events_per_datagram"] = static_cast<double>(network->counters().events - events) / static_cast<double>(delivered);
  state.counters["bytes_per_host"] = static_cast<double>(heap) / static_cast<double>(hosts);
  state.counters["pending"] = static_cast<double>(network->pending_events());
}
BENCHMARK(cloud)->Arg(1'000)->Arg(10'000)->Arg(50'000);

/// What a host costs that does nothing: realised, not linked to a NAT, no socket.
void bytes_per_bare_host(benchmark::State& state) {
  const auto hosts = static_cast<std::size_t>(state.range(0));
  Topology topology = crowd(10);
  topology.nodes.resize(1);
  topology.links.clear();
  topology.clouds[0].region_of.clear();
  for (std::size_t i = 0; i < hosts; ++i) {
    const std::string name = "h" + std::to_string(i);
    topology.nodes.push_back(node(name, NodeKind::host, {IpAddress::v4(static_cast<std::uint32_t>((11U << 24) + i))}));
    topology.links.push_back(link(name, "cloud", {}));
    topology.clouds[0].region_of.push_back(i % 8);
  }
  double bytes = 0;
  for (auto _ : state) {
    const std::size_t before = mallinfo2().uordblks;
    auto network = *realise(topology, 1);
    bytes = static_cast<double>(mallinfo2().uordblks - before);
  }
  state.counters["bytes_per_host"] = bytes / static_cast<double>(hosts);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(hosts));
}
BENCHMARK(bytes_per_bare_host)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace peerbed::sim
