// Nodes on an embedded network, for tests: a topology by its text, a recorder on every host.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/node/node.h"
#include "sim/des/network.h"
#include "sim/des/realise.h"
#include "topologies/loader.h"

namespace peerbed {

/// Remembers what the node told it, and registers the channel "test".
class Recorder final : public Subsystem {
 public:
  std::string_view name() const override { return "recorder"; }
  void on_attach(Peers& p, Services& s) override {
    peers = &p;
    services = &s;
    channel = p.register_channel("test", *this, {.max_message = DataSize{1 << 24}});
  }
  void on_start(TimePoint now) override { started = now; }
  void on_peer_connected(TimePoint now, const PeerId& peer) override {
    connected.push_back(peer);
    connected_at = now;
  }
  void on_peer_disconnected(TimePoint, const PeerId& peer, LinkCloseReason reason) override {
    disconnected.emplace_back(peer, reason);
  }
  void on_dial_failed(TimePoint, const PeerId& peer, DialFailure failure) override { failures.emplace_back(peer, failure); }
  void on_path_changed(TimePoint, const PeerId&, const Path& path) override { paths.push_back(path); }
  void on_punch_finished(TimePoint, const PunchReport& report) override { punches.push_back(report); }
  void on_message(TimePoint, const PeerId& from, ChannelId, BytesView message) override {
    messages.emplace_back(from, std::string(as_text(message)));
  }
  void on_channel_writable(TimePoint now, const PeerId&, ChannelId) override {
    if (on_writable) on_writable(now);
  }

  Peers* peers = nullptr;
  Services* services = nullptr;
  ChannelId channel;
  TimePoint started, connected_at;
  std::vector<PeerId> connected;
  std::vector<std::pair<PeerId, LinkCloseReason>> disconnected;
  std::vector<std::pair<PeerId, DialFailure>> failures;
  std::vector<Path> paths;
  std::vector<PunchReport> punches;
  std::vector<std::pair<PeerId, std::string>> messages;
  std::function<void(TimePoint)> on_writable;
};

class NodeWorld : public testing::Test {
 protected:
  struct Member {
    std::unique_ptr<Node> node;
    Recorder* recorder = nullptr;
  };

  void topology(std::string_view text) {
    auto parsed = parse_topology(text, "test.yaml", {});
    ASSERT_TRUE(parsed) << parsed.error().message;
    auto realised = sim::realise(*parsed, 1);
    ASSERT_TRUE(realised) << realised.error().message;
    network_ = std::move(*realised);
  }

  Member& start(const std::string& host, NodeConfig config = {}) {
    SecretKey secret{};
    secret[1] = static_cast<std::uint8_t>(members_.size() + 1);  // X25519 clears low bits of the first byte
    config.identity = make_key_pair(secret);
    Member& member = members_[host];
    member.node = std::make_unique<Node>(network_->environment(host), config);
    member.recorder = &member.node->attach(std::make_unique<Recorder>());
    const auto started = member.node->start(network_->now());
    EXPECT_TRUE(started) << started.error().message;
    return member;
  }

  void run(Duration d) { network_->run_until(network_->now() + d); }
  TimePoint now() const { return network_->now(); }
  Member& at(const std::string& host) { return members_.at(host); }
  PeerId id(const std::string& host) { return at(host).node->id(); }
  Recorder& rec(const std::string& host) { return *at(host).recorder; }
  Peers& peers(const std::string& host) { return at(host).node->peers(); }

  void connect(const std::string& from, const std::string& to) { peers(from).connect(now(), at(to).node->address()); }
  SendStatus send(const std::string& from, const std::string& to, std::string_view text) {
    return peers(from).send(now(), id(to), rec(from).channel, as_bytes(text));
  }
  /// Both homes connect to the rendezvous, then alice reaches bob through it.
  void punch() {
    connect("alice", "rendezvous");
    connect("bob", "rendezvous");
    run(5s);
    peers("alice").connect_via(now(), id("bob"), id("rendezvous"));
  }

  std::unique_ptr<sim::Network> network_;
  std::map<std::string, Member> members_;
};

inline constexpr std::string_view kTwoHosts = R"(
title: Two hosts on one link
hosts: {alice: {}, bob: {}}
links:
  wan: {from: alice, to: bob, rate: 100 Mbit/s, delay: 25 ms}
)";

inline std::string two_homes(std::string_view alice, std::string_view bob, std::string_view timeout = "120 s") {
  std::string text = R"(
title: Two homes
hosts:
  alice: {nat: {behavior: A, udp_timeout: T}}
  bob: {nat: {behavior: B, udp_timeout: T}}
  rendezvous: {}
routers: [core]
links:
  alice.wan: {from: alice.nat, to: core, rate: 50 Mbit/s, delay: 10 ms}
  bob.wan: {from: bob.nat, to: core, rate: 50 Mbit/s, delay: 20 ms}
  rendezvous.wan: {from: rendezvous, to: core, rate: 100 Mbit/s, delay: 5 ms}
)";
  const auto replace = [&](std::string_view from, std::string_view to) {
    for (auto p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) text.replace(p, from.size(), to);
  };
  replace(": A,", ": " + std::string(alice) + ",");
  replace(": B,", ": " + std::string(bob) + ",");
  replace(": T}", ": " + std::string(timeout) + "}");
  return text;
}

}  // namespace peerbed
