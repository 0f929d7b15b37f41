// One node sends another a file of known size, or as much as it can for a known time. Both ends hash what they sent and
// received, so that a number is only reported for bytes that arrived whole and in order.
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "scenarios/workloads/kinds.h"
#include "scenarios/workloads/participant.h"

namespace peerbed {

namespace {

using Hash = std::array<std::uint8_t, 32>;

class RunningHash {
 public:
  RunningHash() { crypto_generichash_init(&state_, nullptr, 0, 32); }
  void add(BytesView bytes) { crypto_generichash_update(&state_, bytes.data(), bytes.size()); }
  [[nodiscard]] Hash value() const {
    auto copy = state_;
    Hash out{};
    crypto_generichash_final(&copy, out.data(), out.size());
    return out;
  }

 private:
  crypto_generichash_state state_{};
};

enum class Frame : std::uint8_t { data = 0, end = 1, received = 2 };
constexpr std::size_t kEndFrame = 1 + 8 + 32;

struct BulkPlan {
  std::string label;
  std::int64_t size = 0;              ///< 0: for `duration`
  Duration at{}, duration{}, warmup{}, deadline{};  ///< since the start of the run; deadline zero: none
  std::size_t chunk = 0;
  std::uint64_t seed = 0;
};

/// What the two ends know together; they live in one process.
struct BulkState {
  std::optional<TimePoint> first_byte, ready, last_byte, answered;
  std::int64_t sent = 0, received = 0, in_window = 0;
  bool failed = false, complete = false, hash_ok = false;
};

class BulkSender final : public Reacher {
 public:
  BulkSender(const BulkPlan& plan, Plan reach, BulkState& state)
      : Reacher(plan.label, std::move(reach)), plan_(plan), state_(state), content_(plan.seed, 0, "bulk/" + plan.label) {
    frame_.resize(1 + plan.chunk);
  }

  [[nodiscard]] const Link* link() const { return peer_ ? peers().link(*peer_) : nullptr; }
  LinkStats last_stats;  ///< of the link in use, kept when it goes

 protected:
  void attached() override {
    channel_ = peers().register_channel("bulk/" + plan_.label, *this, {.max_message = DataSize{static_cast<std::int64_t>(plan_.chunk) + 64}});
  }

  void reached(TimePoint now, const PeerId& peer) override {
    peer_ = peer;
    state_.ready = now;
    if (plan_.size == 0) {
      ends_at_ = now + plan_.duration;
      at(*ends_at_, [this](TimePoint then) { pump(then); });
    }
    events().record(now, "bulk.started", {{"flow", std::string_view(plan_.label)}});
    pump(now);
  }
  void unreachable(TimePoint) override { state_.failed = true; }
  void on_channel_writable(TimePoint now, const PeerId& peer, ChannelId) override {
    if (peer == peer_) pump(now);
  }
  void on_peer_disconnected(TimePoint, const PeerId& peer, LinkCloseReason) override {
    if (peer == peer_ && !state_.answered) state_.failed = true;
  }
  void on_message(TimePoint now, const PeerId&, ChannelId, BytesView message) override {
    if (message.empty() || message[0] != static_cast<std::uint8_t>(Frame::received)) return;
    state_.answered = now;
    if (const auto* in_use = link()) last_stats = in_use->stats();
    events().record(now, "bulk.answered", {{"flow", std::string_view(plan_.label)}, {"bytes", state_.sent}});
  }

 private:
  [[nodiscard]] bool more(TimePoint now) const { return plan_.size > 0 ? state_.sent < plan_.size : now < *ends_at_; }

  void pump(TimePoint now) {
    while (!end_sent_) {
      if (pending_ == 0) prepare(now);
      const auto status = peers().send(now, *peer_, channel_, BytesView(frame_).first(pending_));
      if (status == SendStatus::not_connected) state_.failed = true;
      if (status != SendStatus::taken) return;
      if (frame_[0] == static_cast<std::uint8_t>(Frame::end)) {
        end_sent_ = true;
      } else {
        if (!state_.first_byte) state_.first_byte = now;
        state_.sent += static_cast<std::int64_t>(pending_ - 1);
        hash_.add(BytesView(frame_).subspan(1, pending_ - 1));
      }
      pending_ = 0;
    }
  }

  /// A frame that was refused stays prepared: content comes from the stream in order, whatever the timing.
  void prepare(TimePoint now) {
    if (more(now)) {
      std::size_t length = plan_.chunk;
      if (plan_.size > 0) length = static_cast<std::size_t>(std::min<std::int64_t>(plan_.size - state_.sent, static_cast<std::int64_t>(length)));
      frame_[0] = static_cast<std::uint8_t>(Frame::data);
      content_.fill(MutableBytes(frame_).subspan(1, length));
      pending_ = 1 + length;
      return;
    }
    if (frame_.size() < kEndFrame) frame_.resize(kEndFrame);
    ByteWriter out(frame_);
    out.u8(static_cast<std::uint8_t>(Frame::end));
    out.u64(static_cast<std::uint64_t>(state_.sent));
    out.bytes(hash_.value());
    pending_ = out.size();
  }

  BulkPlan plan_;
  BulkState& state_;
  RandomStream content_;
  RunningHash hash_;
  Bytes frame_;
  std::size_t pending_ = 0;
  ChannelId channel_;
  std::optional<PeerId> peer_;
  std::optional<TimePoint> ends_at_;
  bool end_sent_ = false;
};

class BulkReceiver final : public Reacher {
 public:
  BulkReceiver(const BulkPlan& plan, Plan reach, BulkState& state) : Reacher(plan.label, std::move(reach)), plan_(plan), state_(state) {}

 protected:
  void attached() override {
    channel_ = peers().register_channel("bulk/" + plan_.label, *this, {.max_message = DataSize{static_cast<std::int64_t>(plan_.chunk) + 64}});
  }
  void reached(TimePoint, const PeerId&) override {}
  void unreachable(TimePoint) override {}

  void on_message(TimePoint now, const PeerId& peer, ChannelId, BytesView message) override {
    if (message.empty()) return;
    if (message[0] == static_cast<std::uint8_t>(Frame::data)) {
      const auto content = message.subspan(1);
      hash_.add(content);
      state_.received += static_cast<std::int64_t>(content.size());
      state_.last_byte = now;
      if (plan_.size == 0 && in_window(now)) state_.in_window += static_cast<std::int64_t>(content.size());
      return;
    }
    if (message[0] != static_cast<std::uint8_t>(Frame::end) || message.size() != kEndFrame) return;
    ByteReader in(message.subspan(1));
    const auto total = in.u64();
    const auto hash = in.bytes(32);
    const auto own = hash_.value();
    state_.complete = true;
    state_.hash_ok = total == static_cast<std::uint64_t>(state_.received) && std::equal(own.begin(), own.end(), hash.begin(), hash.end());
    events().record(now, "bulk.received",
                    {{"flow", std::string_view(plan_.label)}, {"bytes", state_.received}, {"whole", std::int64_t{state_.hash_ok}},
                     {"hash", std::string_view(to_hex(own))}});
    const std::array<std::uint8_t, 1> answer{static_cast<std::uint8_t>(Frame::received)};
    static_cast<void>(peers().send(now, peer, channel_, answer));  // nothing else is sent this way, so there is room
  }

 private:
  [[nodiscard]] bool in_window(TimePoint now) const {
    return state_.ready && now >= *state_.ready + plan_.warmup && now < *state_.ready + plan_.duration;
  }

  BulkPlan plan_;
  BulkState& state_;
  RunningHash hash_;
  ChannelId channel_;
};

class BulkWorkload final : public Workload {
 public:
  BulkWorkload(BulkPlan plan, std::string from, std::string to, std::optional<std::string> via)
      : plan_(std::move(plan)), from_(std::move(from)), to_(std::move(to)), via_(std::move(via)) {}

  void prepare(const Topology&, std::uint64_t seed) override { plan_.seed = seed; }

  void attach(const NodeSpec& host, Node& node, const Directory& directory) override {
    if (host.name != from_ && host.name != to_) return;
    Reacher::Plan reach;
    reach.at = plan_.at;
    if (via_) reach.relay = [this, &directory] { return directory.address_of(*via_); };
    if (host.name == from_) {
      reach.target = [this, &directory] { return via_ ? PeerAddress{directory.id_of(to_), {}} : directory.address_of(to_); };
      sender_ = &node.attach(std::make_unique<BulkSender>(plan_, std::move(reach), state_));
    } else {
      node.attach(std::make_unique<BulkReceiver>(plan_, std::move(reach), state_));
    }
  }

  [[nodiscard]] bool done() const override { return state_.failed || overdue_ || state_.answered.has_value(); }

  void sample(TimePoint now, Series& series) override {
    if (!started_at_) started_at_ = now;
    if (plan_.deadline > Duration{} && now >= *started_at_ + plan_.deadline && !state_.answered) overdue_ = true;
    const auto* link = sender_->link();
    if (link == nullptr || !state_.ready || state_.answered) return;
    const LinkStats stats = link->stats();
    sender_->last_stats = stats;
    const auto add = [&](std::string_view what, double value) { series.add(now, fmt::format("flow.{}.{}", plan_.label, what), value); };
    add("cwnd", static_cast<double>(stats.congestion_window.bytes));
    add("in_flight", static_cast<double>(stats.in_flight.bytes));
    if (stats.slow_start_threshold) add("ssthresh", static_cast<double>(stats.slow_start_threshold->bytes));
    add("smoothed_rtt", to_seconds(stats.smoothed_rtt));
    add("lost", static_cast<double>(stats.packets_lost));
    const double since = to_seconds(now - sampled_at_);
    if (since > 0) add("goodput", static_cast<double>(state_.received - sampled_bytes_) * 8 / since);
    sampled_at_ = now;
    sampled_bytes_ = state_.received;
  }

  void report(Metrics& metrics) const override {
    const auto name = [this](std::string_view what) { return fmt::format("flow.{}.{}", plan_.label, what); };
    metrics.set_number(name("bytes"), "B", static_cast<double>(state_.received));
    metrics.set_number(name("hash_ok"), "", state_.hash_ok ? 1 : 0);
    metrics.set_number(name("complete"), "", state_.complete && state_.answered ? 1 : 0);
    if (plan_.size == 0 && state_.ready) {
      metrics.set_number(name("goodput"), "bit/s", static_cast<double>(state_.in_window) * 8 / to_seconds(plan_.duration - plan_.warmup));
    } else if (state_.complete && state_.ready && state_.last_byte) {
      const double took = to_seconds(*state_.last_byte - *state_.ready);
      metrics.set_number(name("time"), "s", took);
      if (took > 0) metrics.set_number(name("goodput"), "bit/s", static_cast<double>(state_.received) * 8 / took);
    }
    const LinkStats& stats = sender_->last_stats;
    if (stats.packets_sent == 0) return;
    metrics.set_number(name("packets_sent"), "", static_cast<double>(stats.packets_sent));
    metrics.set_number(name("packets_lost"), "", static_cast<double>(stats.packets_lost));
    metrics.set_number(name("packets_spuriously_lost"), "", static_cast<double>(stats.packets_spuriously_lost));
    metrics.set_number(name("probe_timeouts"), "", static_cast<double>(stats.probe_timeouts));
    metrics.set_number(name("min_rtt"), "s", to_seconds(stats.min_rtt));
  }

  [[nodiscard]] std::vector<double> connect_times() const override { return sender_->connect_times(); }
  [[nodiscard]] std::size_t failed_dials() const override { return sender_->failed_dials(); }

 private:
  BulkPlan plan_;
  std::string from_, to_;
  std::optional<std::string> via_;
  BulkState state_;
  BulkSender* sender_ = nullptr;
  bool overdue_ = false;
  std::optional<TimePoint> started_at_;
  TimePoint sampled_at_{};
  std::int64_t sampled_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_bulk(WorkloadReader& reader) {
  auto& parameters = reader.parameters();
  auto from = reader.host("from");
  auto to = reader.host("to");
  auto via = reader.optional_host("via");
  BulkPlan plan;
  plan.label = reader.label();
  plan.at = reader.at();
  plan.size = parameters.size("size").value_or(DataSize{}).bytes;
  plan.duration = parameters.duration("duration").value_or(Duration{});
  plan.warmup = parameters.duration("warmup").value_or(Duration{});
  plan.deadline = parameters.duration("deadline").value_or(Duration{});
  const auto chunk = parameters.size("chunk").value_or(DataSize{16 * 1024}).bytes;
  if (from == to && !from.empty()) parameters.fail("'from' and 'to' are the same host");
  if (via && (*via == from || *via == to)) parameters.fail("'via' must be a third host");
  if ((plan.size > 0) == (plan.duration > Duration{})) parameters.fail("give either 'size' or 'duration', and not zero");
  if (plan.warmup > Duration{} && plan.warmup >= plan.duration) parameters.fail("'warmup' must be shorter than 'duration'");
  if (chunk < 1 || chunk > (1 << 20)) parameters.value("chunk").fail("a chunk has between 1 B and 1 MiB");
  plan.chunk = static_cast<std::size_t>(std::clamp<std::int64_t>(chunk, 1, 1 << 20));
  return std::make_unique<BulkWorkload>(std::move(plan), std::move(from), std::move(to), std::move(via));
}

}  // namespace peerbed
