// A sender and a path in a few lines: one controller, a constant round trip, losses on demand. Every datagram is
// acknowledged on its own, evenly spread over the round trip.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/congestion/controller.h"

namespace peerbed {

inline constexpr std::int64_t kDatagram = 1200;

struct Flow {
  struct Sent {
    std::uint64_t number;
    TimePoint time;
    bool lost;
  };

  std::unique_ptr<CongestionController> controller;
  Duration rtt;
  TimePoint now{1s};
  std::uint64_t next_number = 1;
  DataSize in_flight{};
  std::deque<Sent> flight;
  std::function<bool(std::uint64_t number)> loses = [](std::uint64_t) { return false; };
  std::int64_t loss_reports = 0;

  explicit Flow(const std::string& name, Duration round_trip = 100ms, std::optional<DataSize> initial = std::nullopt)
      : controller(make_controller(name, {DataSize{kDatagram}, initial}).value()), rtt(round_trip) {}

  void send() {
    in_flight += DataSize{kDatagram};
    flight.push_back({next_number, now, loses(next_number)});
    ++next_number;
    controller->on_sent(now, {kDatagram}, in_flight);
  }
  std::int64_t fill_window() {
    std::int64_t sent = 0;
    for (; in_flight + DataSize{kDatagram} <= controller->window(); ++sent) send();
    return sent;
  }
  AckedPackets acked(const Sent& packet, bool app_limited) const {
    return {now, {kDatagram}, packet.time, rtt, rtt, rtt, in_flight, app_limited};
  }
  /// Settles the oldest datagram: a lost one is reported, another acknowledged.
  void settle_one(bool app_limited = false) {
    const Sent packet = flight.front();
    flight.pop_front();
    in_flight -= DataSize{kDatagram};
    if (packet.lost) {
      ++loss_reports;
      controller->on_lost({now, {kDatagram}, packet.time, in_flight, false});
    } else {
      controller->on_acked(acked(packet, app_limited));
    }
  }
  /// One round trip: fill the window at once, and settle all of it one round trip later.
  std::int64_t round(bool app_limited = false) {
    const std::int64_t sent = fill_window();
    now += rtt;
    while (!flight.empty()) settle_one(app_limited);
    return sent;
  }
  /// Ack-clocked until `end`: the window is filled whenever an acknowledgement makes room, and a datagram is settled one
  /// round trip after it was sent.
  void run_until(TimePoint end, const std::function<void()>& after_each = [] {}) {
    spread();
    while (flight.front().time + rtt <= end) {
      now = std::max(now, flight.front().time + rtt);
      settle_one();
      fill_window();
      if (flight.empty()) send();
      after_each();
    }
    now = end;
  }
  double segments() const {
    return static_cast<double>(controller->window().bytes) / static_cast<double>(kDatagram);
  }

 private:
  /// The first flight is spread over a round trip, so that acknowledgements come evenly.
  void spread() {
    if (!flight.empty()) return;
    const std::int64_t count = controller->window().bytes / kDatagram;
    const Duration gap = rtt / count;
    for (std::int64_t i = 0; i < count; ++i) {
      send();
      now += gap;
    }
  }
};

}  // namespace peerbed
