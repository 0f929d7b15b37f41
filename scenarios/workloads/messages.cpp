// One node sends another many small messages. The receiver returns credit, so that at most `window` messages are under
// way; each carries its number and its time of sending, so that loss, order and latency are checked message by message.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/workloads/kinds.h"
#include "scenarios/workloads/participant.h"

namespace peerbed {

namespace {

constexpr std::size_t kHeader = 16;  // number and time of sending
constexpr std::size_t kCredit = 8;   // how many messages were received in all

struct MessagePlan {
  std::string label;
  Duration at{}, duration{}, interval{};
  std::int64_t count = 0, window = 0, credit_every = 1;
  std::size_t size = 0;
};

struct MessageState {
  std::optional<TimePoint> first_sent, last_received;
  std::int64_t sent = 0, received = 0, acknowledged = 0, out_of_order = 0, damaged = 0;
  bool sender_finished = false, failed = false;
  std::vector<double> latencies;
};

class MessageSender final : public Reacher {
 public:
  MessageSender(const MessagePlan& plan, Plan reach, MessageState& state) : Reacher(plan.label, std::move(reach)), plan_(plan), state_(state) {
    message_.resize(plan.size);
    for (std::size_t i = kHeader; i < message_.size(); ++i) message_[i] = static_cast<std::uint8_t>(i);
  }

 protected:
  void attached() override {
    channel_ = peers().register_channel("messages/" + plan_.label, *this, {.max_message = DataSize{static_cast<std::int64_t>(plan_.size)}});
  }
  void reached(TimePoint now, const PeerId& peer) override {
    peer_ = peer;
    if (plan_.count == 0) {
      ends_at_ = now + plan_.duration;
      at(*ends_at_, [this](TimePoint then) { pump(then); });
    }
    next_due_ = now;
    events().record(now, "messages.started", {{"flow", std::string_view(plan_.label)}});
    pump(now);
  }
  void unreachable(TimePoint) override { state_.failed = true; }
  void on_peer_disconnected(TimePoint, const PeerId& peer, LinkCloseReason) override {
    if (peer == peer_ && !(state_.sender_finished && state_.received == state_.sent)) state_.failed = true;
  }
  void on_channel_writable(TimePoint now, const PeerId& peer, ChannelId) override {
    if (peer == peer_) pump(now);
  }
  void on_message(TimePoint now, const PeerId&, ChannelId, BytesView message) override {
    if (message.size() != kCredit) return;
    state_.acknowledged = static_cast<std::int64_t>(ByteReader(message).u64());
    pump(now);
  }

 private:
  void pump(TimePoint now) {
    if (!peer_ || state_.sender_finished) return;
    while (true) {
      const bool over = plan_.count > 0 ? state_.sent >= plan_.count : now >= *ends_at_;
      if (over) {
        state_.sender_finished = true;
        events().record(now, "messages.sent", {{"flow", std::string_view(plan_.label)}, {"count", state_.sent}});
        return;
      }
      if (plan_.window > 0 && state_.sent - state_.acknowledged >= plan_.window) return;
      if (plan_.interval > Duration{} && now < next_due_) {
        if (!waiting_) {
          waiting_ = true;
          at(next_due_, [this](TimePoint then) {
            waiting_ = false;
            pump(then);
          });
        }
        return;
      }
      ByteWriter out(message_);
      out.u64(static_cast<std::uint64_t>(state_.sent));
      out.u64(static_cast<std::uint64_t>(now.time_since_epoch().count()));
      const auto status = peers().send(now, *peer_, channel_, message_);
      if (status == SendStatus::not_connected) state_.failed = true;
      if (status != SendStatus::taken) return;
      if (!state_.first_sent) state_.first_sent = now;
      ++state_.sent;
      next_due_ += plan_.interval;
    }
  }

  MessagePlan plan_;
  MessageState& state_;
  Bytes message_;
  ChannelId channel_;
  std::optional<PeerId> peer_;
  std::optional<TimePoint> ends_at_;
  TimePoint next_due_{};
  bool waiting_ = false;
};

class MessageReceiver final : public Reacher {
 public:
  MessageReceiver(const MessagePlan& plan, Plan reach, MessageState& state) : Reacher(plan.label, std::move(reach)), plan_(plan), state_(state) {}

 protected:
  void attached() override {
    channel_ = peers().register_channel("messages/" + plan_.label, *this, {.max_message = DataSize{static_cast<std::int64_t>(plan_.size)}});
  }
  void reached(TimePoint, const PeerId&) override {}
  void unreachable(TimePoint) override {}

  void on_message(TimePoint now, const PeerId& peer, ChannelId, BytesView message) override {
    if (message.size() != plan_.size || !intact(message)) {
      ++state_.damaged;
      return;
    }
    ByteReader in(message);
    const auto number = static_cast<std::int64_t>(in.u64());
    const TimePoint sent{Duration(static_cast<std::int64_t>(in.u64()))};
    if (number != state_.received) ++state_.out_of_order;
    ++state_.received;
    state_.last_received = now;
    state_.latencies.push_back(to_seconds(now - sent));
    if (plan_.window > 0 && state_.received - credited_ >= plan_.credit_every) send_credit(now, peer);
  }
  void on_channel_writable(TimePoint now, const PeerId& peer, ChannelId) override {
    if (plan_.window > 0 && state_.received - credited_ >= plan_.credit_every) send_credit(now, peer);
  }

 private:
  static bool intact(BytesView message) {
    for (std::size_t i = kHeader; i < message.size(); ++i)
      if (message[i] != static_cast<std::uint8_t>(i)) return false;
    return true;
  }

  void send_credit(TimePoint now, const PeerId& peer) {
    std::array<std::uint8_t, kCredit> credit{};
    ByteWriter out(credit);
    out.u64(static_cast<std::uint64_t>(state_.received));
    if (peers().send(now, peer, channel_, credit) == SendStatus::taken) credited_ = state_.received;
  }

  MessagePlan plan_;
  MessageState& state_;
  ChannelId channel_;
  std::int64_t credited_ = 0;
};

class MessageWorkload final : public Workload {
 public:
  MessageWorkload(MessagePlan plan, std::string from, std::string to, std::optional<std::string> via)
      : plan_(std::move(plan)), from_(std::move(from)), to_(std::move(to)), via_(std::move(via)) {}

  void attach(const NodeSpec& host, Node& node, const Directory& directory) override {
    if (host.name != from_ && host.name != to_) return;
    Reacher::Plan reach;
    reach.at = plan_.at;
    if (via_) reach.relay = [this, &directory] { return directory.address_of(*via_); };
    if (host.name == from_) {
      reach.target = [this, &directory] { return via_ ? PeerAddress{directory.id_of(to_), {}} : directory.address_of(to_); };
      sender_ = &node.attach(std::make_unique<MessageSender>(plan_, std::move(reach), state_));
    } else {
      node.attach(std::make_unique<MessageReceiver>(plan_, std::move(reach), state_));
    }
  }

  [[nodiscard]] bool done() const override {
    return state_.failed || (state_.sender_finished && state_.received + state_.damaged >= state_.sent);
  }

  void report(Metrics& metrics) const override {
    const auto name = [this](std::string_view what) { return fmt::format("flow.{}.{}", plan_.label, what); };
    metrics.set_number(name("sent"), "", static_cast<double>(state_.sent));
    metrics.set_number(name("delivered"), "", static_cast<double>(state_.received));
    const bool whole = state_.received == state_.sent && state_.damaged == 0 && state_.out_of_order == 0 && state_.sent > 0;
    metrics.set_number(name("in_order"), "", whole ? 1 : 0);
    metrics.set_number(name("complete"), "", state_.sender_finished && whole ? 1 : 0);
    if (state_.first_sent && state_.last_received && *state_.last_received > *state_.first_sent) {
      const double took = to_seconds(*state_.last_received - *state_.first_sent);
      metrics.set_number(name("rate"), "1/s", static_cast<double>(state_.received) / took);
      metrics.set_number(name("goodput"), "bit/s", static_cast<double>(state_.received) * static_cast<double>(plan_.size) * 8 / took);
    }
    metrics.set_samples(name("latency"), "s", state_.latencies);
  }

  [[nodiscard]] std::vector<double> connect_times() const override { return sender_->connect_times(); }
  [[nodiscard]] std::size_t failed_dials() const override { return sender_->failed_dials(); }

 private:
  MessagePlan plan_;
  std::string from_, to_;
  std::optional<std::string> via_;
  MessageState state_;
  MessageSender* sender_ = nullptr;
};

}  // namespace

std::unique_ptr<Workload> make_messages(WorkloadReader& reader) {
  auto& parameters = reader.parameters();
  auto from = reader.host("from");
  auto to = reader.host("to");
  auto via = reader.optional_host("via");
  MessagePlan plan;
  plan.label = reader.label();
  plan.at = reader.at();
  const auto size = parameters.size("size").value_or(DataSize{64}).bytes;
  plan.count = parameters.integer("count", 0, 1'000'000'000).value_or(0);
  plan.duration = parameters.duration("duration").value_or(Duration{});
  plan.interval = parameters.duration("interval").value_or(Duration{});
  plan.window = parameters.integer("window", 0, 1'000'000).value_or(0);
  plan.credit_every = parameters.integer("credit_every", 1, 1'000'000).value_or(std::max<std::int64_t>(1, plan.window / 2));
  if (from == to && !from.empty()) parameters.fail("'from' and 'to' are the same host");
  if (via && (*via == from || *via == to)) parameters.fail("'via' must be a third host");
  if (size < static_cast<std::int64_t>(kHeader) || size > (1 << 20)) parameters.value("size").fail("a message has between 16 B and 1 MiB");
  if ((plan.count > 0) == (plan.duration > Duration{})) parameters.fail("give either 'count' or 'duration', and not zero");
  if (plan.window > 0 && plan.credit_every > plan.window) parameters.fail("'credit_every' above 'window' would stop the flow");
  plan.size = static_cast<std::size_t>(std::clamp<std::int64_t>(size, kHeader, 1 << 20));
  return std::make_unique<MessageWorkload>(std::move(plan), std::move(from), std::move(to), std::move(via));
}

}  // namespace peerbed
