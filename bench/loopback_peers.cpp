#include "bench/loopback_peers.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/node/node.h"

namespace peerbed::bench {
namespace {

// One byte on the data channel marks the start and the end of what is measured, in order with the messages; one byte on
// the control channel answers that the server has come to it.
constexpr std::uint8_t kBegin = 'b', kEnd = 'e';
constexpr Duration kLongestGoodbye = 2s;

// An address each: several guards of peer-to-peer software work per address, and one address for both would meet them.
const IpAddress kServerAddress = IpAddress::v4(127, 0, 0, 1);
const IpAddress kClientAddress = IpAddress::v4(127, 0, 0, 2);

KeyPair fixed_keys(std::uint8_t fill) {
  SecretKey secret;
  secret.fill(fill);
  return make_key_pair(secret);
}
KeyPair server_keys() { return fixed_keys(1); }
KeyPair client_keys() { return fixed_keys(2); }

/// Counts links, which peers do not show: a second link to a peer that is still connected is no new peer.
class LinkCount final : public EventLog {
 public:
  using EventLog::record;
  void record(TimePoint, std::string_view name, std::span<const EventField>) override {
    if (name == "link.up") ++links;
  }
  std::uint64_t links = 0;
};

Result<std::unique_ptr<SocketEnvironment>> open_environment(const IpAddress& address, EventLog* log) {
  SocketEnvironment::Options options;
  options.seed = 1;
  options.addresses = {address};
  options.log = log;
  return SocketEnvironment::open(std::move(options));
}

NodeConfig node_config(const Plan& plan, const KeyPair& keys, const IpAddress& address) {
  NodeConfig config;
  config.identity = keys;
  config.application = "loopback-bench";
  config.port = 0;
  config.bind = address;
  config.udp = plan.transport == LinkKind::udp;
  config.tcp = plan.transport == LinkKind::tcp;
  config.congestion = plan.congestion;
  return config;
}

struct Channels {
  ChannelId data, echo, control;
  void open(Peers& peers, Subsystem& owner) {
    ChannelOptions options;
    options.max_message = DataSize{static_cast<std::int64_t>(kLargestMessage)};
    data = peers.register_channel("bench.data", owner, options);
    echo = peers.register_channel("bench.echo", owner, options);
    control = peers.register_channel("bench.control", owner, options);
  }
};

// ---- server --------------------------------------------------------------------------------------------------------

class Server final : public Subsystem {
 public:
  Server(SocketEnvironment& environment, const Plan& plan, const LinkCount& count, ProcessReport& report)
      : environment_(environment), plan_(plan), count_(count), report_(report), pattern_(make_message(plan.size)) {}

  std::string_view name() const override { return "bench.server"; }
  void on_attach(Peers& peers, Services&) override {
    peers_ = &peers;
    channels_.open(peers, *this);
  }
  void on_start(TimePoint) override {}

  void on_message(TimePoint now, const PeerId& from, ChannelId channel, BytesView message) override {
    if (channel == channels_.echo) return answer(now, from, message);
    if (channel != channels_.data) return report_.fail("a message came on a channel that the client does not use");
    if (message.size() == 1) return on_mark(now, from, message[0]);
    if (!carries(message, report_.total_units, pattern_, plan_.check_all)) {
      if (report_.faults++ == 0) {
        report_.fail(fmt::format("message {} is not what was sent ({} bytes)", report_.total_units, message.size()));
      }
    }
    ++report_.total_units;
    report_.total_bytes += message.size();
  }

  void on_peer_disconnected(TimePoint, const PeerId&, LinkCloseReason reason) override {
    if (ended_) return environment_.stop();
    if (plan_.mode == Mode::handshakes) return;
    report_.fail(fmt::format("the client's link closed before the end: {}", peerbed::to_string(reason)));
    environment_.stop();
  }

 private:
  void answer(TimePoint now, const PeerId& to, BytesView message) {
    ++report_.total_units;
    report_.total_bytes += message.size();
    if (peers_->send(now, to, channels_.echo, message) != SendStatus::taken) report_.fail("an answer was refused");
  }

  void on_mark(TimePoint now, const PeerId& from, std::uint8_t mark) {
    const TimePoint at = environment_.now();
    const Usage usage = read_usage(environment_, peers_->link(from));
    if (mark == kBegin) {
      begin_ = usage;
      begin_at_ = at;
      units_before_ = units();
      bytes_before_ = report_.total_bytes;
    } else {
      ended_ = true;
      report_.usage = usage.since(begin_);
      report_.elapsed_s = to_seconds(at - begin_at_);
      report_.units = units() - units_before_;
      report_.bytes = report_.total_bytes - bytes_before_;
      report_.resident = resident_bytes();
    }
    const std::array<std::uint8_t, 1> reply{mark};
    if (peers_->send(now, from, channels_.control, reply) != SendStatus::taken) report_.fail("an answer was refused");
  }

  [[nodiscard]] std::uint64_t units() const {
    return plan_.mode == Mode::handshakes ? count_.links : report_.total_units;
  }

  SocketEnvironment& environment_;
  const Plan& plan_;
  const LinkCount& count_;
  ProcessReport& report_;
  const Bytes pattern_;
  Peers* peers_ = nullptr;
  Channels channels_;
  bool ended_ = false;
  Usage begin_;
  TimePoint begin_at_{};
  std::uint64_t units_before_ = 0, bytes_before_ = 0;
};

// ---- clients -------------------------------------------------------------------------------------------------------

/// What all clients share: connecting, the two marks, and the end.
class Client : public Subsystem, public TimerHandler {
 public:
  Client(SocketEnvironment& environment, const Plan& plan, const PeerAddress& server, ProcessReport& report)
      : environment_(environment), plan_(plan), server_(server), report_(report) {}

  std::string_view name() const final { return "bench.client"; }
  void on_attach(Peers& peers, Services& services) final {
    peers_ = &peers;
    channels_.open(peers, *this);
    timer_ = services.environment().make_timer(*this);
  }
  void on_start(TimePoint now) override { peers_->connect(now, server_); }

  void on_peer_disconnected(TimePoint, const PeerId&, LinkCloseReason reason) override {
    if (!finished_) abandon(fmt::format("the link closed: {}", peerbed::to_string(reason)));
    environment_.stop();
  }
  void on_dial_failed(TimePoint, const PeerId&, DialFailure failure) override {
    abandon(fmt::format("the server cannot be reached: {}", peerbed::to_string(failure)));
  }
  void on_message(TimePoint now, const PeerId&, ChannelId channel, BytesView message) final {
    if (channel == channels_.control && message.size() == 1) return on_mark_reached(now, message[0]);
    on_answer(now, message);
  }
  void on_timer(TimePoint) override {}

  [[nodiscard]] bool finished() const { return finished_; }

 protected:
  virtual void on_answer(TimePoint, BytesView) { abandon("an answer came that nobody asked for"); }
  virtual void on_begin_reached(TimePoint now) = 0;
  virtual void on_end_reached() {}

  SendStatus send(TimePoint now, ChannelId channel, BytesView message) {
    return peers_->send(now, server_.peer, channel, message);
  }
  bool send_mark(TimePoint now, std::uint8_t mark) {
    const std::array<std::uint8_t, 1> message{mark};
    return send(now, channels_.data, message) == SendStatus::taken;
  }

  void take_begin() {
    begin_ = read_usage(environment_, peers_->link(server_.peer));
    begin_at_ = environment_.now();
  }
  void take_end() {
    report_.usage = read_usage(environment_, peers_->link(server_.peer)).since(begin_);
    report_.elapsed_s = to_seconds(environment_.now() - begin_at_);
    report_.resident = resident_bytes();
  }
  void abandon(std::string_view reason) {
    report_.fail(reason);
    environment_.stop();
  }

  SocketEnvironment& environment_;
  const Plan& plan_;
  const PeerAddress server_;
  ProcessReport& report_;
  Peers* peers_ = nullptr;
  Channels channels_;
  std::unique_ptr<Timer> timer_;
  Usage begin_;
  TimePoint begin_at_{};
  bool finished_ = false;

 private:
  void on_mark_reached(TimePoint now, std::uint8_t mark) {
    if (mark == kBegin) return on_begin_reached(now);
    on_end_reached();
    finished_ = true;
    environment_.stop();
  }
};

/// One way, as fast as the channel takes it: one send per message, more when it says that it is writable.
class FlowClient final : public Client {
 public:
  FlowClient(SocketEnvironment& environment, const Plan& plan, const PeerAddress& server, ProcessReport& report)
      : Client(environment, plan, server, report), message_(make_message(plan.size)) {}

  void on_peer_connected(TimePoint now, const PeerId&) override {
    warm_at_ = now + plan_.warmup;
    pump(now);
  }
  void on_channel_writable(TimePoint now, const PeerId&, ChannelId channel) override {
    if (channel == channels_.data) pump(now);
  }
  void on_timer(TimePoint now) override { pump(now); }

 private:
  // The pipe is empty at both marks: what is measured was sent, carried and received wholly between them.
  enum class Phase : std::uint8_t { warming, emptying, measuring, over };

  void on_begin_reached(TimePoint now) override {
    take_begin();
    end_at_ = now + plan_.duration;
    phase_ = Phase::measuring;
    pump(now);
  }
  void on_end_reached() override { take_end(); }

  /// Sends until the channel is full, or until a burst is out: the rest then waits for the next event.
  void pump(TimePoint now) {
    for (std::size_t sent = 0; phase_ == Phase::warming || phase_ == Phase::measuring; ++sent) {
      if (phase_ == Phase::warming && now >= warm_at_) {
        if (send_mark(now, kBegin)) phase_ = Phase::emptying;
        return;
      }
      if (phase_ == Phase::measuring && (plan_.count > 0 ? report_.units >= plan_.count : now >= end_at_)) {
        if (send_mark(now, kEnd)) phase_ = Phase::over;
        return;
      }
      if (plan_.burst > 0 && sent == plan_.burst) return timer_->arm(now);
      stamp(message_, report_.total_units);
      const SendStatus status = send(now, channels_.data, message_);
      if (status == SendStatus::blocked) return;
      if (status == SendStatus::not_connected) return abandon("the link is gone");
      ++report_.total_units;
      report_.total_bytes += message_.size();
      if (phase_ == Phase::measuring) ++report_.units;
    }
  }

  Bytes message_;
  Phase phase_ = Phase::warming;
  TimePoint warm_at_{}, end_at_{};
};

/// One message to and fro at a time.
class EchoClient final : public Client {
 public:
  EchoClient(SocketEnvironment& environment, const Plan& plan, const PeerAddress& server, ProcessReport& report)
      : Client(environment, plan, server, report), message_(make_message(plan.size)), pattern_(message_) {
    samples_.reserve(1 << 20);
  }

  void on_peer_connected(TimePoint now, const PeerId&) override {
    warm_at_ = now + plan_.warmup;
    ask(now);
  }

 private:
  void ask(TimePoint now) {
    stamp(message_, report_.total_units);
    asked_at_ = environment_.now();
    if (send(now, channels_.echo, message_) != SendStatus::taken) abandon("a question was refused");
  }

  void on_answer(TimePoint now, BytesView answer) override {
    const Duration took = environment_.now() - asked_at_;
    if (!carries(answer, report_.total_units, pattern_, plan_.check_all)) {
      ++report_.faults;
      return abandon("an answer is not what was sent");
    }
    ++report_.total_units;
    report_.total_bytes += answer.size();
    if (!measuring_) {
      if (now < warm_at_) return ask(now);
      if (!send_mark(now, kBegin)) abandon("a mark was refused");
      return;
    }
    ++report_.units;
    samples_.push_back(took);
    if (plan_.count > 0 ? report_.units < plan_.count : now < end_at_) return ask(now);
    take_end();
    report_.latency = percentiles(samples_);
    if (!send_mark(now, kEnd)) abandon("a mark was refused");
  }

  void on_begin_reached(TimePoint now) override {
    measuring_ = true;
    end_at_ = now + plan_.duration;
    take_begin();
    ask(now);
  }

  Bytes message_;
  const Bytes pattern_;
  std::vector<Duration> samples_;
  TimePoint warm_at_{}, end_at_{}, asked_at_{};
  bool measuring_ = false;
};

/// Connects, exchanges a byte, disconnects, and again. A connection whose first byte does not come back is a failure.
class HandshakeClient final : public Client {
 public:
  using Client::Client;

  void on_peer_connected(TimePoint now, const PeerId&) override {
    if (!measuring_ || ending_) {
      if (!send_mark(now, ending_ ? kEnd : kBegin)) abandon("a mark was refused");
      return;
    }
    const std::array<std::uint8_t, 1> byte{7};
    if (send(now, channels_.echo, byte) != SendStatus::taken) abandon("a byte was refused");
  }

  void on_peer_disconnected(TimePoint now, const PeerId& peer, LinkCloseReason reason) override {
    if (finished_ || reason != LinkCloseReason::local) return Client::on_peer_disconnected(now, peer, reason);
    dial(now);
  }

  void on_dial_failed(TimePoint now, const PeerId& peer, DialFailure failure) override {
    if (!measuring_ || ending_) return Client::on_dial_failed(now, peer, failure);
    ++report_.failures;
    dial(now);
  }

 private:
  void on_begin_reached(TimePoint now) override {
    measuring_ = true;
    take_begin();
    end_at_ = now + plan_.duration;
    peers_->disconnect(now, server_.peer);
  }

  void dial(TimePoint now) {
    const std::uint64_t tried = report_.units + report_.failures;
    if (plan_.count > 0 ? tried >= plan_.count : now >= end_at_) {
      ending_ = true;
      take_end();
      report_.latency = percentiles(samples_);
    }
    dialed_at_ = environment_.now();
    peers_->connect(now, server_);
  }

  void on_answer(TimePoint now, BytesView answer) override {
    if (answer.size() != 1) ++report_.faults;
    samples_.push_back(environment_.now() - dialed_at_);
    ++report_.units;
    ++report_.total_units;
    report_.total_bytes += answer.size();
    peers_->disconnect(now, server_.peer);
  }

  std::vector<Duration> samples_;
  TimePoint end_at_{}, dialed_at_{};
  bool measuring_ = false, ending_ = false;
};

std::unique_ptr<Client> make_client(SocketEnvironment& environment, const Plan& plan, const PeerAddress& server,
                                    ProcessReport& report) {
  switch (plan.mode) {
    case Mode::messages:
    case Mode::bulk: return std::make_unique<FlowClient>(environment, plan, server, report);
    case Mode::roundtrips: return std::make_unique<EchoClient>(environment, plan, server, report);
    case Mode::handshakes: return std::make_unique<HandshakeClient>(environment, plan, server, report);
  }
  PEERBED_CHECK(false, "a mode has no client");
}

}  // namespace

ProcessReport run_server(const Plan& plan, const std::function<void(const Greeting&)>& greet) {
  ProcessReport report;
  LinkCount count;
  Greeting greeting;
  const auto refuse = [&](const Error& error) {
    report.fail(error.message);
    greeting.error = report.error;
    greet(greeting);
    return report;
  };
  auto environment = open_environment(kServerAddress, &count);
  if (!environment) return refuse(environment.error());
  SocketEnvironment& env = **environment;
  {
    Node node(env, node_config(plan, server_keys(), kServerAddress));
    node.attach(std::make_unique<Server>(env, plan, count, report));
    if (const auto started = node.start(env.now()); !started) return refuse(started.error());
    const PeerAddress address = node.address();
    PEERBED_CHECK(!address.endpoints.empty(), "a node that has started listens");
    greeting.port = address.endpoints.front().port;
    greet(greeting);
    env.run_for(plan.time_limit());
    if (report.elapsed_s == 0) report.fail("the client never came to its end");
  }
  report.peak_resident = peak_resident_bytes();
  return report;
}

ProcessReport run_client(const Plan& plan, std::uint16_t server_port) {
  ProcessReport report;
  auto environment = open_environment(kClientAddress, nullptr);
  if (!environment) {
    report.fail(environment.error().message);
    return report;
  }
  SocketEnvironment& env = **environment;
  {
    Node node(env, node_config(plan, client_keys(), kClientAddress));
    const PeerAddress server{server_keys().public_key, {{kServerAddress, server_port}}};
    const Client& client = node.attach(make_client(env, plan, server, report));
    if (const auto started = node.start(env.now()); !started) {
      report.fail(started.error().message);
      return report;
    }
    env.run_for(plan.time_limit());
    if (!client.finished()) report.fail("it did not come to its end in time");
    node.stop(env.now());
    env.run_for(kLongestGoodbye);  // until the link has closed in order
  }
  report.bytes = report.units * plan.size;
  report.peak_resident = peak_resident_bytes();
  return report;
}

}  // namespace peerbed::bench
