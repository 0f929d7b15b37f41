// The embedded packet plane as a world.
#include <fmt/format.h>

#include "scenarios/backend.h"
#include "sim/des/realise.h"

namespace peerbed {

namespace {

/// Figures of single links and NATs are for topologies that a person can overlook.
constexpr std::size_t kMostNamed = 64;

class SimWorld final : public World {
 public:
  SimWorld(const Topology& topology, std::unique_ptr<sim::Network> network, Recorder& recorder)
      : topology_(topology), network_(std::move(network)) {
    for (const auto& name : network_->host_names()) network_->environment(name).set_event_log(recorder.log_of(name));
  }

  [[nodiscard]] Environment& environment(const std::string& host) override { return network_->environment(host); }
  [[nodiscard]] bool virtual_time() const override { return true; }
  [[nodiscard]] TimePoint now() const override { return network_->now(); }
  void run_until(TimePoint deadline) override { network_->run_until(deadline); }

  [[nodiscard]] bool supports(Fault::Kind) const override { return true; }
  Result<void> rebind(const std::string& nat) override { return network_->rebind_nat(nat); }
  Result<void> change_link(const std::string& name, const LinkChange& change) override {
    const LinkSpec& link = network_->link(name);
    LinkDirection a_to_b = link.a_to_b, b_to_a = link.b_to_a;
    if (change.direction != LinkChange::Direction::b_to_a) apply(change, a_to_b);
    if (change.direction != LinkChange::Direction::a_to_b) apply(change, b_to_a);
    network_->set_link(name, a_to_b, b_to_a);
    return {};
  }

  [[nodiscard]] WorldCounters counters() const override { return {network_->counters().events, network_->packets_made().packets}; }
  [[nodiscard]] std::uint64_t trace_hash() const override { return network_->trace_hash(); }

  void report(Metrics& metrics) const override {
    const auto number = [&](std::string name, std::string_view unit, std::uint64_t value) {
      metrics.set_number(std::move(name), unit, static_cast<double>(value));
    };
    number("network.packets", "", network_->packets_made().packets);
    number("network.bytes", "B", network_->packets_made().bytes);
    number("network.delivered", "", network_->packets_delivered().packets);
    const auto& drops = network_->drops();
    for (std::size_t i = 0; i < drops.size(); ++i) {
      const auto reason = static_cast<sim::DropReason>(i);
      number(fmt::format("network.drops.{}", to_string(reason)), "", drops[i].packets);
    }
    if (network_->link_names().size() <= kMostNamed) report_links(metrics);
    report_nats(metrics);
  }

 private:
  static void apply(const LinkChange& change, LinkDirection& direction) {
    if (change.rate) direction.rate = change.rate;
    if (change.delay) direction.delay = *change.delay;
    if (change.jitter) direction.jitter = *change.jitter;
    if (change.loss) direction.loss = *change.loss;
  }

  void report_links(Metrics& metrics) const {
    for (const auto& name : network_->link_names()) {
      sim::Tally sent, delivered, lost, full;
      for (const bool a_to_b : {true, false}) {
        const auto& counted = network_->link_counters(name, a_to_b);
        sent += counted.sent;
        delivered += counted.delivered;
        lost += counted.lost;
        full += counted.queue_full;
      }
      const auto number = [&](std::string_view what, std::string_view unit, std::uint64_t value) {
        metrics.set_number(fmt::format("link.{}.{}", name, what), unit, static_cast<double>(value));
      };
      number("packets", "", sent.packets);
      number("bytes", "B", delivered.bytes);
      number("drops.loss", "", lost.packets);
      number("drops.queue_full", "", full.packets);
    }
  }

  void report_nats(Metrics& metrics) const {
    std::size_t nats = 0;
    for (const auto& node : topology_.nodes)
      if (node.kind == NodeKind::nat) ++nats;
    if (nats > kMostNamed) return;
    for (const auto& node : topology_.nodes) {
      if (node.kind != NodeKind::nat) continue;
      const auto& counted = network_->nat(node.name).counters();
      std::uint64_t dropped = 0;
      for (const auto drops : counted.drops) dropped += drops;
      metrics.set_number(fmt::format("nat.{}.mappings", node.name), "", static_cast<double>(counted.mappings_made));
      metrics.set_number(fmt::format("nat.{}.drops", node.name), "", static_cast<double>(dropped));
    }
  }

  const Topology& topology_;
  std::unique_ptr<sim::Network> network_;
};

}  // namespace

Result<std::unique_ptr<World>> realise_sim(const Topology& topology, std::uint64_t seed, Recorder& recorder) {
  auto network = sim::realise(topology, seed);
  if (!network) return network.error();
  return std::unique_ptr<World>(std::make_unique<SimWorld>(topology, std::move(*network), recorder));
}

}  // namespace peerbed
