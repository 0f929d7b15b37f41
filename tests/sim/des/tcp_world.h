// Two TCP machines and a scripted path between them: a delay and a rate per direction, and a function that decides the
// fate of every segment. Time is a variable.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/des/tcp_connection.h"

namespace peerbed::sim {

struct TcpWorld {
  struct Side {
    std::unique_ptr<TcpConnection> connection;
    TcpParameters parameters;
    std::uint32_t initial_sequence = 0;
    bool listening = false;

    // The application.
    Bytes received;
    bool end = false;
    bool reads = true;
    Bytes to_send;  ///< written as fast as it is taken
    std::size_t written = 0;
    bool waits_for_writable = false;
    bool shutdown_when_written = false;
    bool shutdown_on_end = false;
    int connected = 0, readable = 0, writable = 0;
    TimePoint connected_at{}, closed_at{}, end_at{};
    std::vector<CloseReason> closed;

    // The way out of this side.
    Duration delay = 50ms;
    DataRate rate{};           ///< 0: no limit
    std::size_t queue = 1000;  ///< segments behind the serialiser
    TimePoint free_at{};
    std::vector<TcpSegment> sent;  ///< without payload views: sizes are in `sent_bytes`
    std::vector<std::size_t> sent_bytes;
    std::vector<TimePoint> sent_at;
    /// The number of the segment on this way (from 0) and the segment; false: it is lost.
    std::function<bool(std::size_t, const TcpSegment&)> passes = [](std::size_t, const TcpSegment&) { return true; };
    std::function<Duration(std::size_t)> extra_delay = [](std::size_t) { return Duration(0); };
    std::size_t queue_drops = 0;

    TcpConnection& tcp() { return *connection; }
    bool ended(CloseReason reason) const { return closed.size() == 1 && closed.front() == reason; }
  };
  struct OnTheWire {
    Side* to;
    TcpSegment segment;
    Bytes payload;
  };

  TimePoint now{10s};
  Side a, b;
  std::multimap<TimePoint, OnTheWire> wire;  // equal times keep their order of insertion
  std::size_t recorded_limit = 200'000;

  TcpWorld() {
    a.initial_sequence = 4'294'960'000U;  // wraps after 7 kB
    b.initial_sequence = 77;
  }
  Side& peer_of(Side& side) { return &side == &a ? b : a; }

  void open(Side& side) {
    side.connection = std::make_unique<TcpConnection>(side.parameters, side.initial_sequence);
    side.connection->open_active(now);
    pump(side);
  }
  /// a dials, b listens; both established.
  void connect() {
    b.listening = true;
    open(a);
    run_for(4 * (a.delay + b.delay) + 1ms);
    ASSERT_EQ(a.connected, 1);
    ASSERT_EQ(b.connected, 1);
    ASSERT_EQ(a.tcp().state(), TcpState::established);
    ASSERT_EQ(b.tcp().state(), TcpState::established);
  }

  static Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    std::uint32_t x = 12345;
    for (std::uint8_t& byte : bytes) {
      x = x * 1664525U + 1013904223U;
      byte = static_cast<std::uint8_t>(x >> 24);
    }
    return bytes;
  }

  void put_on_wire(Side& from, const TcpSegment& segment) {
    const std::size_t number = from.sent_at.size();
    TcpSegment copy = segment;
    copy.payload = {};
    from.sent.push_back(copy);
    from.sent_bytes.push_back(segment.payload.size());
    from.sent_at.push_back(now);
    if (!from.passes(number, segment)) return;
    TimePoint leaves = now;
    if (from.rate.bits_per_second > 0) {
      const DataSize size{static_cast<std::int64_t>(segment.payload.size()) + 40};
      const Duration one = from.rate.time_for({1500});
      if (from.free_at > now && static_cast<std::size_t>((from.free_at - now) / one) >= from.queue) {
        ++from.queue_drops;
        return;
      }
      leaves = std::max(now, from.free_at) + from.rate.time_for(size);
      from.free_at = leaves;
    }
    wire.emplace(leaves + from.delay + from.extra_delay(number),
                 OnTheWire{&peer_of(from), copy, Bytes(segment.payload.begin(), segment.payload.end())});
  }

  /// The owner's loop of tcp_connection.h.
  void pump(Side& side) {
    if (!side.connection) return;
    for (bool busy = true; busy;) {
      busy = false;
      while (const auto event = side.tcp().poll_event()) on_event(side, *event), busy = true;
      busy = write_more(side) || busy;
      while (const auto segment = side.tcp().poll_transmit(now)) put_on_wire(side, *segment), busy = true;
    }
  }
  void on_event(Side& side, const TcpEvent& event) {
    ASSERT_TRUE(side.closed.empty()) << "closed is the last event";
    switch (event.kind) {
      case TcpEvent::Kind::connected: ++side.connected; side.connected_at = now; break;
      case TcpEvent::Kind::readable:
        ++side.readable;
        if (side.reads) read_all(side);
        break;
      case TcpEvent::Kind::writable: ++side.writable; side.waits_for_writable = false; break;
      case TcpEvent::Kind::closed: side.closed.push_back(event.reason); side.closed_at = now; break;
    }
  }
  void read_all(Side& side) {
    std::array<std::uint8_t, 3000> block;
    for (;;) {
      const ReceiveResult result = side.tcp().read(block);
      side.received.insert(side.received.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(result.bytes));
      if (result.end && !side.end) {
        side.end = true;
        side.end_at = now;
        if (side.shutdown_on_end) side.tcp().shutdown_send();
      }
      if (result.bytes == 0) return;
    }
  }
  bool write_more(Side& side) {
    if (side.connected == 0 || side.waits_for_writable || side.written == side.to_send.size()) return false;
    const std::size_t taken = side.tcp().write(BytesView(side.to_send).subspan(side.written));
    side.written += taken;
    side.waits_for_writable = side.written < side.to_send.size();  // rule 9 of the seam
    if (side.written == side.to_send.size() && side.shutdown_when_written) side.tcp().shutdown_send();
    return taken > 0;
  }
  /// Before pump(): an application call was made.
  void poke(Side& side) { pump(side); }

  void deliver(OnTheWire& arrival) {
    arrival.segment.payload = arrival.payload;
    Side& side = *arrival.to;
    if (!side.connection) {
      if (side.listening && arrival.segment.syn && !arrival.segment.ack && !arrival.segment.rst) {
        side.connection = std::make_unique<TcpConnection>(side.parameters, side.initial_sequence);
        side.connection->open_passive(now, arrival.segment);
      } else if (const auto reset = answer_of_closed_port(arrival.segment)) {
        put_on_wire(side, *reset);
      }
    } else {
      side.tcp().on_segment(now, arrival.segment);
    }
    pump(side);
  }

  /// The next thing that happens, if it is due by `end`.
  bool step(TimePoint end) {
    TimePoint next = wire.empty() ? kNever : wire.begin()->first;
    Side* timer = nullptr;
    for (Side* side : {&a, &b}) {
      if (!side->connection) continue;
      const auto deadline = side->tcp().next_timeout();
      if (deadline && *deadline < next) next = *deadline, timer = side;
    }
    if (next > end) return false;
    if (next == now && ++same_time_ > 100'000) {
      ADD_FAILURE() << "spins at " << to_string(now.time_since_epoch());
      return false;
    }
    if (next > now) same_time_ = 0;
    now = std::max(now, next);
    if (timer != nullptr) {
      timer->tcp().on_timeout(now);
      pump(*timer);
    } else {
      auto node = wire.extract(wire.begin());
      deliver(node.mapped());
    }
    return true;
  }
  void run_for(Duration duration) { run_until(now + duration); }
  void run_until(TimePoint end) {
    while (step(end)) {}
    now = std::max(now, end);
  }
  /// False: the time was up first.
  bool run_until(const std::function<bool()>& condition, Duration limit) {
    const TimePoint end = now + limit;
    while (!condition()) {
      if (!step(end)) return condition();
    }
    return true;
  }
  bool transfer(Side& from, std::size_t bytes, Duration limit) {
    from.to_send = pattern(bytes);
    from.written = 0;
    Side& to = peer_of(from);
    to.received.clear();
    pump(from);
    const bool all = run_until([&] { return to.received.size() >= bytes; }, limit);
    return all && to.received == from.to_send;
  }

 private:
  int same_time_ = 0;
};

}  // namespace peerbed::sim
