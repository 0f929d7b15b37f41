// Transports on the embedded network, for tests: a party per host that dials, listens, writes, reads and remembers.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/transport/dialer.h"
#include "core/transport/tcp_transport.h"
#include "core/transport/packet.h"
#include "core/transport/udp_transport.h"
#include "sim/des/network.h"
#include "sim/des/realise.h"
#include "topologies/loader.h"

namespace peerbed::test {

/// Everything a transport can call, on one host. All calls check that none comes from inside a call of ours.
class Party final : public UdpTransportHandler, public TcpTransportHandler, public LinkHandler, public DialHandler {
 public:
  Party(Environment& env, std::uint8_t seed, TransportConfig config = {}) : environment(env), config_(config) {
    SecretKey secret{};
    secret.fill(seed);
    keys = make_key_pair(secret);
  }

  void open_udp(std::initializer_list<Endpoint> locals) {
    auto opened = UdpTransport::open(environment, keys, config_, std::vector<Endpoint>(locals), *this);
    ASSERT_TRUE(opened) << opened.error().message;
    udp = std::move(*opened);
  }
  void open_tcp(std::initializer_list<Endpoint> listeners) {
    tcp = std::make_unique<TcpTransport>(environment, keys, config_, *this);
    for (const Endpoint& e : listeners) {
      const auto bound = tcp->listen(e);
      ASSERT_TRUE(bound) << bound.error().message;
    }
  }
  void open_dialer() { dialer = std::make_unique<Dialer>(environment, udp.get(), tcp.get()); }

  Link& dial_udp(TimePoint now, const Endpoint& to, std::optional<PeerId> expected = std::nullopt) {
    const Guard guard(*this);
    return udp->dial(now, expected, Path{to, 0}, *this);
  }
  Link& dial_tcp(TimePoint now, const Endpoint& to, const TcpDialOptions& options = {}) {
    const Guard guard(*this);
    return tcp->dial(now, to, options, *this);
  }

  /// Writes `size` bytes on a new stream as fast as it is taken, then finishes it.
  StreamId send(TimePoint now, Link& link, std::uint64_t size) {
    const StreamId id = link.open_stream(now);
    outgoing[{&link, id}] = size;
    feed(now, link, id);
    return id;
  }

  void on_incoming_link(TimePoint now, Link& link) override {
    outside();
    link.set_handler(*this);
    incoming.push_back(&link);
    established_at = now;
  }
  void on_other_datagram(TimePoint, const IncomingDatagram& d) override {
    outside();
    others.emplace_back(d.payload.begin(), d.payload.end());
  }
  void on_other_unreachable(TimePoint, const Unreachable&) override { ++unreachable; }
  void on_link_established(TimePoint now, Link& link) override {
    outside();
    established.push_back(&link);
    established_at = now;
  }
  void on_stream_opened(TimePoint, Link&, StreamId) override { ++streams_opened; }
  void on_stream_readable(TimePoint now, Link& link, StreamId id) override {
    outside();
    if (!reading) return;
    std::array<std::uint8_t, 8192> chunk;
    while (true) {
      const StreamRead r = link.read(now, id, chunk);
      if (received[id] == 0 && r.bytes > 0) first_byte_at[id] = now;
      for (std::size_t i = 0; i < r.bytes; ++i) {
        PEERBED_CHECK(chunk[i] == static_cast<std::uint8_t>((received[id] + i) * 37), "a stream delivered a wrong byte");
      }
      received[id] += r.bytes;
      if (r.end) ended_at[id] = now;
      if (r.bytes == 0 || r.end) return;
    }
  }
  void on_stream_writable(TimePoint now, Link& link, StreamId id) override {
    outside();
    feed(now, link, id);
  }
  void on_datagram(TimePoint, Link&, BytesView payload) override {
    outside();
    datagrams.emplace_back(payload.begin(), payload.end());
  }
  void on_observed_address(TimePoint, Link&, const Endpoint& ours) override { observed.push_back(ours); }
  void on_path_validated(TimePoint, Link&, const Path& path, Duration) override { validated.push_back(path); }
  void on_path_changed(TimePoint, Link&, const Path& path) override { changed.push_back(path); }
  void on_link_closed(TimePoint now, Link& link, LinkCloseReason reason) override {
    outside();
    closed.emplace_back(&link, reason);
    closed_at = now;
  }
  void on_dial_succeeded(TimePoint now, DialId, Link& link) override {
    outside();
    link.set_handler(*this);
    dialled = &link;
    dialled_at = now;
  }
  void on_dial_failed(TimePoint now, DialId, LinkCloseReason reason) override {
    outside();
    dial_failure = reason;
    dialled_at = now;
  }

  Environment& environment;
  KeyPair keys;
  std::unique_ptr<UdpTransport> udp;
  std::unique_ptr<TcpTransport> tcp;
  std::unique_ptr<Dialer> dialer;
  std::vector<Link*> incoming, established;
  std::vector<std::pair<Link*, LinkCloseReason>> closed;
  std::vector<Bytes> datagrams, others;
  std::vector<Endpoint> observed;
  std::vector<Path> validated, changed;
  std::map<StreamId, std::uint64_t> received;
  std::map<StreamId, TimePoint> first_byte_at, ended_at;
  std::map<std::pair<Link*, StreamId>, std::uint64_t> outgoing, written;
  Link* dialled = nullptr;
  std::optional<LinkCloseReason> dial_failure;
  TimePoint established_at{}, closed_at{}, dialled_at{};
  bool reading = true;
  int streams_opened = 0, unreachable = 0;

 private:
  struct Guard {
    explicit Guard(Party& p) : party(p) { party.inside_ = true; }
    ~Guard() { party.inside_ = false; }
    Party& party;
  };
  void outside() const { EXPECT_FALSE(inside_) << "a call called back before it returned"; }

  void feed(TimePoint now, Link& link, StreamId id) {
    const auto it = outgoing.find({&link, id});
    if (it == outgoing.end()) return;
    std::uint64_t& done = written[it->first];
    std::array<std::uint8_t, 8192> chunk;
    while (done < it->second) {
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), it->second - done));
      for (std::size_t i = 0; i < n; ++i) chunk[i] = static_cast<std::uint8_t>((done + i) * 37);
      const BytesView slice = BytesView(chunk).first(n);
      const std::size_t taken = link.write(now, id, std::span(&slice, 1));
      done += taken;
      if (taken < n) return;
    }
    link.finish(now, id);
    outgoing.erase(it);
  }

  TransportConfig config_;
  bool inside_ = false;
};

/// Hosts a, b and c on one network.
class TransportWorld : public ::testing::Test {
 protected:
  static constexpr std::string_view kThreeHosts = R"(
title: Three hosts around a router
hosts: {a: {}, b: {}, c: {}}
routers: [r]
links:
  la: {from: a, to: r, rate: 100 Mbit/s, delay: 10 ms}
  lb: {from: b, to: r, rate: 100 Mbit/s, delay: 10 ms}
  lc: {from: c, to: r, rate: 100 Mbit/s, delay: 10 ms}
)";

  void SetUp() override {
    auto parsed = parse_topology(kThreeHosts, "three.yaml", {});
    ASSERT_TRUE(parsed) << parsed.error().message;
    auto realised = sim::realise(*parsed, 1);
    ASSERT_TRUE(realised) << realised.error().message;
    network = std::move(*realised);
  }

  Party& party(const std::string& host, TransportConfig config = {}) {
    auto& slot = parties[host];
    if (!slot) slot = std::make_unique<Party>(network->environment(host), static_cast<std::uint8_t>(host[0]), config);
    return *slot;
  }
  Endpoint any(std::uint16_t port, Family f = Family::v4) { return {IpAddress::any(f), port}; }
  IpAddress address(const std::string& host, Family f = Family::v4) {
    for (const IpAddress& a : network->environment(host).local_addresses()) {
      if (a.family == f) return a;
    }
    ADD_FAILURE() << host << " has no address of that family";
    return {};
  }
  Endpoint endpoint(const std::string& host, std::uint16_t port = 4001) { return {address(host), port}; }
  void run(Duration d) { network->run_until(network->now() + d); }
  TimePoint now() const { return network->now(); }

  std::unique_ptr<sim::Network> network;
  std::map<std::string, std::unique_ptr<Party>> parties;
};

}  // namespace peerbed::test
