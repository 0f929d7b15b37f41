// What a world must offer so that the one suite of conformance tests can run in it, and the handlers that tests share.
//
// A world has three hosts, each with one environment and one address per family. Between any two of them the path is
// the same: it loses, reorders and duplicates nothing, carries at least 50 Mbit/s, holds a burst of 1 MiB, and its
// round trip is at most 100 ms. Everything lives on one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/env/environment.h"

namespace peerbed::conformance {

inline constexpr std::size_t kHosts = 3;

template <class W>
concept World = std::constructible_from<W, std::uint64_t> &&  // the seed
                requires(W& w, std::size_t host, Family family, Duration duration, const std::function<bool()>& holds,
                         const Endpoint& endpoint) {
                  /// Time passes only in run_for and run_until, and equal seeds give equal runs.
                  { W::kIsVirtual } -> std::convertible_to<bool>;
                  { w.host(host) } -> std::same_as<Environment&>;
                  { w.address(host, family) } -> std::same_as<IpAddress>;
                  /// The clock that all hosts share, for deadlines outside of callbacks.
                  { w.now() } -> std::same_as<TimePoint>;
                  { w.run_for(duration) };
                  /// Runs until `holds()` (asked after every step) or until the budget is used up; returns holds().
                  { w.run_until(holds, duration) } -> std::same_as<bool>;
                  /// A port that no host uses and that is not given out for port 0; never the same one twice.
                  { w.unused_port() } -> std::same_as<std::uint16_t>;
                  /// An address that no host has, and to which there is no route.
                  { w.unreachable_address(family) } -> std::same_as<IpAddress>;
                  /// The largest payload of a datagram that reaches another host.
                  { w.largest_datagram(family) } -> std::same_as<std::size_t>;
                  /// While the guard lives, a SYN that finds no connection at this endpoint vanishes instead of being
                  /// answered with a RST, as behind a NAT. Where SYNs cross in flight a world may return nothing.
                  { w.swallow_syns(endpoint) } -> std::same_as<std::shared_ptr<void>>;
                };

// ---- rule 1 --------------------------------------------------------------------------------------------------------

/// How many calls into an environment are on the stack. Every recorder expects none when it is called back.
inline int calls_in_progress = 0;

struct InCall {
  InCall() { ++calls_in_progress; }
  ~InCall() { --calls_in_progress; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
};

/// Makes a call into an environment under the eyes of rule 1.
template <class F>
auto call(F&& f) {
  const InCall guard;
  return f();
}

inline void expect_no_call_in_progress() {
  EXPECT_EQ(calls_in_progress, 0) << "rule 1: a call called back before it returned";
}

// ---- rule 2 --------------------------------------------------------------------------------------------------------

/// The times of all callbacks of one environment, in their order.
struct Watch {
  TimePoint last{Duration::min()};
  std::size_t callbacks = 0;

  void called(TimePoint now) {
    expect_no_call_in_progress();
    EXPECT_GE(now, last) << "rule 2: time went backwards between two callbacks";
    last = now;
    ++callbacks;
  }
};

// ---- recorders -----------------------------------------------------------------------------------------------------

struct TimerRecorder final : TimerHandler {
  explicit TimerRecorder(Watch& w) : watch(w) {}
  void on_timer(TimePoint now) override {
    watch.called(now);
    fired.push_back(now);
    if (then) then(now);
  }
  Watch& watch;
  std::vector<TimePoint> fired;
  std::function<void(TimePoint)> then;
  std::unique_ptr<Timer> timer;
};

struct DatagramRecorder final : DatagramHandler {
  struct Received {
    Endpoint from;
    IpAddress to;
    Bytes payload;
    Ecn ecn;
    TimePoint at;
  };
  explicit DatagramRecorder(Watch& w) : watch(w) {}
  void on_datagrams(TimePoint now, std::span<const IncomingDatagram> batch) override {
    watch.called(now);
    EXPECT_FALSE(batch.empty());
    ++batches;
    for (const IncomingDatagram& d : batch) {
      received.push_back({d.from, d.to, Bytes(d.payload.begin(), d.payload.end()), d.ecn, now});
    }
    if (when_received) when_received(now);  // may destroy the socket: the last thing done here
  }
  void on_writable(TimePoint now) override {
    watch.called(now);
    ++writable;
    if (when_writable) when_writable(now);
  }
  void on_unreachable(TimePoint now, const Unreachable& error) override {
    watch.called(now);
    unreachable.push_back(error);
    if (when_unreachable) when_unreachable(now);
  }
  [[nodiscard]] Endpoint local() const { return socket->local_endpoint(); }
  std::size_t send(std::span<const OutgoingDatagram> batch) {
    return call([&] { return socket->send(batch); });
  }
  std::size_t send(const Endpoint& to, BytesView payload, Ecn ecn = Ecn::not_ect) {
    const OutgoingDatagram one{to, payload, ecn, 0};
    return send({&one, 1});
  }

  Watch& watch;
  std::vector<Received> received;
  std::vector<Unreachable> unreachable;
  std::size_t batches = 0;
  std::size_t writable = 0;
  std::function<void(TimePoint)> when_received, when_writable, when_unreachable;
  std::unique_ptr<DatagramSocket> socket;
};

/// Reads what comes unless `reads` is false; writes all of `outgoing`, then ends its direction if `then_shuts` is set.
struct StreamRecorder final : StreamHandler {
  explicit StreamRecorder(Watch& w) : watch(w) {}
  void on_connected(TimePoint now) override {
    note(now, "connected");
    EXPECT_EQ(++connected, 1U) << "on_connected comes once";
    if (when_connected) return when_connected(now);
    pump();
  }
  void on_readable(TimePoint now) override {
    note(now, "readable");
    ++readable;
    if (when_readable) return when_readable(now);
    if (reads) drain();
  }
  void on_writable(TimePoint now) override {
    note(now, "writable");
    EXPECT_TRUE(refused) << "on_writable comes after a refused suffix only";
    refused = false;
    ++writable;
    if (when_writable) return when_writable(now);
    pump();
  }
  void on_closed(TimePoint now, CloseReason reason) override {
    note(now, "closed");
    closed.push_back(reason);
    if (when_closed) when_closed(now);
  }

  std::size_t send(std::span<const BytesView> slices) {
    std::size_t wanted = 0;
    for (const BytesView s : slices) wanted += s.size();
    const std::size_t taken = call([&] { return socket->send(slices); });
    EXPECT_LE(taken, wanted);
    if (taken < wanted) refused = true;
    return taken;
  }
  std::size_t send(BytesView bytes) { return send({&bytes, 1}); }
  void shutdown() {
    call([&] { socket->shutdown_send(); });
    shut = true;
  }
  /// Receives all there is now.
  void drain() {
    Bytes buffer(16 * 1024);
    for (;;) {
      const ReceiveResult r = call([&] { return socket->receive(buffer); });
      EXPECT_FALSE(ended && r.bytes > 0) << "bytes came after the end";
      incoming.insert(incoming.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(r.bytes));
      if (r.end) ended = true;
      if (r.bytes == 0 || r.end) return;
    }
  }
  /// Writes what is taken now, in slices of odd sizes.
  void pump() {
    while (sent < outgoing.size()) {
      const BytesView rest = BytesView(outgoing).subspan(sent);
      const std::size_t a = std::min<std::size_t>(rest.size(), 7001);
      const std::size_t b = std::min<std::size_t>(rest.size() - a, 29989);
      const std::array<BytesView, 2> slices{rest.first(a), rest.subspan(a, b)};
      const std::size_t taken = send(slices);
      sent += taken;
      if (taken < a + b) return;
    }
    if (then_shuts && !shut) shutdown();
  }
  [[nodiscard]] std::string text() const { return std::string(as_text(incoming)); }
  [[nodiscard]] bool is_closed() const { return !closed.empty(); }

  Watch& watch;
  std::unique_ptr<StreamSocket> socket;
  Bytes outgoing, incoming;
  std::size_t sent = 0, connected = 0, readable = 0, writable = 0;
  bool reads = true, then_shuts = false, shut = false, ended = false, refused = false;
  std::vector<CloseReason> closed;
  std::vector<std::string> trace;
  std::function<void(TimePoint)> when_connected, when_readable, when_writable, when_closed;

 private:
  void note(TimePoint now, std::string_view what) {
    watch.called(now);
    EXPECT_TRUE(closed.empty()) << "rule 7: on_" << what << " came after on_closed";
    trace.emplace_back(what);
  }
};

struct ListenerRecorder final : ListenerHandler {
  explicit ListenerRecorder(Watch& w) : watch(w) {}
  void on_accepted(TimePoint now, std::unique_ptr<StreamSocket> socket) override {
    watch.called(now);
    if (instead) return instead(now, std::move(socket));
    auto stream = std::make_unique<StreamRecorder>(watch);
    stream->socket = std::move(socket);
    stream->socket->set_handler(*stream);
    accepted.push_back(std::move(stream));
    if (when_accepted) when_accepted(*accepted.back());
    else accepted.back()->pump();
  }
  [[nodiscard]] Endpoint local() const { return listener->local_endpoint(); }

  Watch& watch;
  std::unique_ptr<StreamListener> listener;
  std::vector<std::unique_ptr<StreamRecorder>> accepted;
  std::function<void(StreamRecorder&)> when_accepted;
  std::function<void(TimePoint, std::unique_ptr<StreamSocket>)> instead;
};

// ---- the fixture ---------------------------------------------------------------------------------------------------

/// Long enough for a slow machine in real time; a test that passes does not use it up.
inline constexpr Duration kBudget = 5s;
/// Long enough for what must not happen to happen: more than a round trip of any world.
inline constexpr Duration kQuiet = 150ms;

/// `size` bytes that no other (size, salt) shares.
inline Bytes pattern(std::size_t size, std::uint64_t salt = 0) {
  RandomStream random(salt, size, "pattern");
  Bytes bytes(size);
  random.fill(bytes);
  return bytes;
}

template <World W>
class Conformance : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeed = 7;
  static constexpr std::array<Family, 2> kFamilies{Family::v4, Family::v6};

  Conformance() { calls_in_progress = 0; }

  bool until(const std::function<bool()>& holds, Duration budget = kBudget) { return world.run_until(holds, budget); }

  std::unique_ptr<TimerRecorder> make_timer(std::size_t host = 0) {
    auto recorder = std::make_unique<TimerRecorder>(watches[host]);
    recorder->timer = call([&] { return world.host(host).make_timer(*recorder); });
    return recorder;
  }
  static void arm(TimerRecorder& t, TimePoint deadline) {
    call([&] { t.timer->arm(deadline); });
  }

  /// A socket on the host's own address, on a port that the system chooses.
  std::unique_ptr<DatagramRecorder> open(std::size_t host, Family family = Family::v4) {
    return open(host, Endpoint{world.address(host, family), 0});
  }
  std::unique_ptr<DatagramRecorder> open(std::size_t host, const Endpoint& local) {
    auto recorder = std::make_unique<DatagramRecorder>(watches[host]);
    auto socket = call([&] { return world.host(host).open_datagram_socket({local, true}, *recorder); });
    EXPECT_TRUE(socket.has_value()) << (socket.has_error() ? socket.error().message : "");
    if (socket.has_value()) recorder->socket = std::move(*socket);
    return recorder;
  }

  std::unique_ptr<ListenerRecorder> listen(std::size_t host, Family family = Family::v4) {
    return listen(host, Endpoint{world.address(host, family), 0});
  }
  std::unique_ptr<ListenerRecorder> listen(std::size_t host, const Endpoint& local) {
    auto recorder = std::make_unique<ListenerRecorder>(watches[host]);
    auto listener = call([&] { return world.host(host).listen_stream(local, *recorder); });
    EXPECT_TRUE(listener.has_value()) << (listener.has_error() ? listener.error().message : "");
    if (listener.has_value()) recorder->listener = std::move(*listener);
    return recorder;
  }
  /// A recorder without a socket is one whose connect failed at once.
  std::unique_ptr<StreamRecorder> connect(std::size_t host, const Endpoint& remote,
                                          std::optional<Endpoint> local = std::nullopt) {
    auto recorder = std::make_unique<StreamRecorder>(watches[host]);
    start(*recorder, host, remote, local);
    return recorder;
  }
  void start(StreamRecorder& recorder, std::size_t host, const Endpoint& remote,
             std::optional<Endpoint> local = std::nullopt) {
    auto socket = call([&] { return world.host(host).connect_stream({remote, local}, recorder); });
    if (socket.has_value()) recorder.socket = std::move(*socket);
  }
  /// A connection from host 0 to host 1 that is established at both ends.
  struct Pair {
    std::unique_ptr<ListenerRecorder> listener;
    std::unique_ptr<StreamRecorder> client;
    StreamRecorder* server = nullptr;
  };
  Pair make_pair(Family family = Family::v4) {
    Pair pair;
    pair.listener = listen(1, family);
    pair.client = connect(0, pair.listener->local());
    EXPECT_TRUE(until([&] { return pair.client->connected == 1 && pair.listener->accepted.size() == 1; }));
    if (!pair.listener->accepted.empty()) pair.server = pair.listener->accepted.front().get();
    return pair;
  }

  W world{kSeed};
  std::array<Watch, kHosts> watches;
};

}  // namespace peerbed::conformance
