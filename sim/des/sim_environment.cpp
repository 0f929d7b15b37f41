#include "sim/des/sim_environment.h"

#include <algorithm>

#include "sim/des/host_tcp.h"
#include "sim/des/host_udp.h"

namespace peerbed::sim {
namespace {

class SimTimer final : public Timer, public EventTarget {
 public:
  SimTimer(Host& host, TimerHandler& handler) : host_(host), handler_(handler) {}
  ~SimTimer() override { disarm(); }
  SimTimer(const SimTimer&) = delete;
  SimTimer& operator=(const SimTimer&) = delete;

  void arm(TimePoint deadline) override {
    disarm();
    if (deadline == kNever) return;
    event_ = host_.engine().schedule(std::max(deadline, host_.engine().now), *this);
  }
  void disarm() override {
    host_.engine().scheduler.cancel(event_);
    event_ = {};
  }
  void prefetch(unsigned stage) const override {
    if (stage == 0) {
      prefetch_lines(&host_, sizeof(Host));
      prefetch_lines(reinterpret_cast<const void*>(&handler_), 128);
    } else {
      host_.prefetch(stage - 1, true);
    }
  }
  void on_event(TimePoint now) override {
    event_ = {};
    host_.enter([&] { handler_.on_timer(now); });  // the handler may destroy this timer
  }

 private:
  Host& host_;
  TimerHandler& handler_;
  EventHandle event_{};
};

class NoLog final : public EventLog {
 public:
  using EventLog::record;
  void record(TimePoint, std::string_view, std::span<const EventField>) override {}
};

}  // namespace

std::unique_ptr<Timer> SimEnvironment::make_timer(TimerHandler& handler) { return std::make_unique<SimTimer>(host_, handler); }

Result<std::unique_ptr<DatagramSocket>> SimEnvironment::open_datagram_socket(const DatagramOptions& options,
                                                                             DatagramHandler& handler) {
  return host_.udp().open(options, handler);
}

Result<std::unique_ptr<StreamSocket>> SimEnvironment::connect_stream(const ConnectOptions& options, StreamHandler& handler) {
  return host_.tcp().connect(options, handler);
}

Result<std::unique_ptr<StreamListener>> SimEnvironment::listen_stream(const Endpoint& local, ListenerHandler& handler) {
  return host_.tcp().listen(local, handler);
}

RandomStream SimEnvironment::random_stream(std::string_view purpose) {
  return RandomStream(host_.engine().seed, stream_owner(host_.name()), purpose);
}

void SimEnvironment::fill_secret(MutableBytes out) {
  if (!secret_) secret_.emplace(random_stream("secret"));
  secret_->fill(out);
}

EventLog& SimEnvironment::events() {
  static NoLog nowhere;
  return log_ != nullptr ? *log_ : nowhere;
}

void SimEnvironment::set_tcp_parameters(const TcpParameters& parameters) { host_.tcp().set_parameters(parameters); }

}  // namespace peerbed::sim
