// Two environments on loopback in one thread, and handlers that count.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <functional>

#include "core/sockets/socket_environment.h"

namespace peerbed {

struct CountingTimer final : TimerHandler {
  void on_timer(TimePoint now) override {
    fired.push_back(now);
    if (then) then(now);
  }
  std::vector<TimePoint> fired;
  std::function<void(TimePoint)> then;
};

struct CountingDatagrams final : DatagramHandler {
  void on_datagrams(TimePoint, std::span<const IncomingDatagram> batch) override {
    ++batches;
    for (const IncomingDatagram& d : batch) {
      payloads.emplace_back(d.payload.begin(), d.payload.end());
      marks.push_back(d.ecn);
    }
  }
  void on_writable(TimePoint) override { ++writable; }
  void on_unreachable(TimePoint, const Unreachable& error) override { errors.push_back(error); }

  std::size_t batches = 0, writable = 0;
  std::vector<Bytes> payloads;
  std::vector<Ecn> marks;
  std::vector<Unreachable> errors;
};

struct CountingStream final : StreamHandler {
  void on_connected(TimePoint) override { ++connected; }
  void on_readable(TimePoint) override {
    if (then_read) then_read();
  }
  void on_writable(TimePoint) override {
    if (then_write) then_write();
  }
  void on_closed(TimePoint, CloseReason reason) override { closed.push_back(reason); }

  std::unique_ptr<StreamSocket> socket;
  int connected = 0;
  std::vector<CloseReason> closed;
  std::function<void()> then_read, then_write;
};

struct KeepingListener final : ListenerHandler {
  void on_accepted(TimePoint, std::unique_ptr<StreamSocket> socket) override {
    accepted.push_back(std::make_unique<CountingStream>());
    accepted.back()->socket = std::move(socket);
    accepted.back()->socket->set_handler(*accepted.back());
  }
  std::vector<std::unique_ptr<CountingStream>> accepted;
};

class SocketsTest : public ::testing::Test {
 protected:
  static std::unique_ptr<SocketEnvironment> open(SocketEnvironment::Options options = {}) {
    auto environment = SocketEnvironment::open(std::move(options));
    EXPECT_TRUE(environment.has_value());
    return std::move(*environment);
  }
  static std::unique_ptr<DatagramSocket> open_datagrams(SocketEnvironment& environment, DatagramHandler& handler,
                                                        Family family = Family::v4, bool dont_fragment = true) {
    auto socket = environment.open_datagram_socket({{IpAddress::loopback(family), 0}, dont_fragment}, handler);
    EXPECT_TRUE(socket.has_value());
    return std::move(*socket);
  }
  static std::unique_ptr<StreamListener> listen(SocketEnvironment& environment, ListenerHandler& handler) {
    auto listener = environment.listen_stream({IpAddress::loopback(Family::v4), 0}, handler);
    EXPECT_TRUE(listener.has_value());
    return std::move(*listener);
  }
  static void connect(SocketEnvironment& environment, const Endpoint& remote, CountingStream& stream) {
    auto socket = environment.connect_stream({remote, std::nullopt}, stream);
    EXPECT_TRUE(socket.has_value());
    stream.socket = std::move(*socket);
  }

  /// Runs both environments until `holds`, at most five seconds.
  template <class F>
  bool until(F holds) {
    const TimePoint end = a->now() + 5s;
    while (!holds()) {
      if (a->now() >= end) return false;
      std::array<pollfd, 2> fds{pollfd{a->fd(), POLLIN, 0}, pollfd{b->fd(), POLLIN, 0}};
      poll(fds.data(), fds.size(), 20);
      a->run_once(0s);
      b->run_once(0s);
    }
    return true;
  }

  std::unique_ptr<SocketEnvironment> a = open();
  std::unique_ptr<SocketEnvironment> b = open();
};

}  // namespace peerbed
