// A swarm: every node connects to `degree` others at random; then one floods a message, and every node passes it on once,
// to all its peers but the one it came from. On a graph of N nodes and L links that is 2 L - (N - 1) messages, exactly.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scenarios/workloads/kinds.h"
#include "scenarios/workloads/participant.h"

namespace peerbed {

namespace {

constexpr std::size_t kHeader = 16;  // time of sending, hops
constexpr Duration kSettle = 2s;     // copies still under way arrive

struct FloodState {
  std::size_t nodes = 0, delivered = 0, forwarded = 0;
  std::uint64_t sent = 0, received = 0, repeats = 0, blocked = 0;
  std::optional<TimePoint> last_activity;
  std::vector<double> times, hops;
  bool started = false;
};

struct FloodPlan {
  std::string label;
  Duration at{}, join{};
  std::size_t degree = 0, size = 0;
};

class FloodNode final : public Participant {
 public:
  FloodNode(const FloodPlan& plan, FloodState& state, const Directory& directory, std::vector<std::string> others, Duration join_at, bool origin)
      : Participant(plan.label), plan_(plan), state_(state), directory_(directory), others_(std::move(others)), join_at_(join_at), origin_(origin) {}

  [[nodiscard]] std::size_t links() const { return links_; }

 protected:
  void attached() override {
    channel_ = peers().register_channel("flood/" + plan_.label, *this, {.max_message = DataSize{static_cast<std::int64_t>(plan_.size)}});
  }

  void started(TimePoint now) override {
    at(now + join_at_, [this](TimePoint then) {
      for (const auto& other : others_) dial(then, directory_.address_of(other));
    });
    if (origin_) at(now + plan_.at, [this](TimePoint then) { begin(then); });
  }

  void on_message(TimePoint now, const PeerId& peer, ChannelId, BytesView message) override {
    if (message.size() != plan_.size) return;
    ++state_.received;
    state_.last_activity = now;
    if (++copies_from_[peer] > 1) ++state_.repeats;
    if (seen_) return;
    seen_ = true;
    ByteReader in(message);
    const TimePoint sent{Duration(static_cast<std::int64_t>(in.u64()))};
    const std::uint64_t hops = in.u64();
    ++state_.delivered;
    state_.times.push_back(to_seconds(now - sent));
    state_.hops.push_back(static_cast<double>(hops));
    events().record(now, "flood.delivered", {{"hops", static_cast<std::int64_t>(hops)}, {"from", std::string_view(peer.short_string())}});
    forward(now, sent, hops + 1, peer);
  }

 private:
  void begin(TimePoint now) {
    state_.started = true;
    state_.last_activity = now;
    seen_ = true;
    events().record(now, "flood.started", {{"bytes", static_cast<std::int64_t>(plan_.size)}});
    forward(now, now, 1, std::nullopt);
  }

  void forward(TimePoint now, TimePoint sent, std::uint64_t hops, const std::optional<PeerId>& source) {
    Bytes message(plan_.size);
    ByteWriter out(message);
    out.u64(static_cast<std::uint64_t>(sent.time_since_epoch().count()));
    out.u64(hops);
    const auto peers_now = peers().connected_peers();
    links_ = peers_now.size();
    for (const auto& peer : peers_now) {
      if (source == peer) continue;
      if (peers().send(now, peer, channel_, message) == SendStatus::taken) {
        ++state_.sent;
      } else {
        ++state_.blocked;
      }
    }
    ++state_.forwarded;
  }

  FloodPlan plan_;
  FloodState& state_;
  const Directory& directory_;
  std::vector<std::string> others_;
  Duration join_at_;
  bool origin_, seen_ = false;
  std::size_t links_ = 0;
  std::map<PeerId, int> copies_from_;
  ChannelId channel_;
};

class FloodWorkload final : public Workload {
 public:
  FloodWorkload(FloodPlan plan, std::vector<std::string> members, std::optional<std::string> from)
      : plan_(std::move(plan)), members_(std::move(members)), from_(std::move(from)) {}

  void prepare(const Topology&, std::uint64_t seed) override {
    RandomStream random(seed, 0, "flood/" + plan_.label);
    const std::size_t n = members_.size();
    if (!from_) from_ = members_[static_cast<std::size_t>(random.below(n))];
    chosen_.resize(n);
    joins_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      while (chosen_[i].size() < plan_.degree) {
        const auto other = static_cast<std::size_t>(random.below(n));
        if (other == i || std::find(chosen_[i].begin(), chosen_[i].end(), other) != chosen_[i].end()) continue;
        chosen_[i].push_back(other);
      }
      joins_[i] = Duration(random.between(0, plan_.join.count()));
    }
    state_.nodes = n;
  }

  void attach(const NodeSpec& host, Node& node, const Directory& directory) override {
    const auto found = std::find(members_.begin(), members_.end(), host.name);
    if (found == members_.end()) return;
    const auto index = static_cast<std::size_t>(found - members_.begin());
    std::vector<std::string> others;
    for (const auto other : chosen_[index]) others.push_back(members_[other]);
    nodes_.push_back(&node.attach(std::make_unique<FloodNode>(plan_, state_, directory, std::move(others), joins_[index], host.name == *from_)));
  }

  [[nodiscard]] bool done() const override { return settled_; }

  void sample(TimePoint now, Series& series) override {
    if (!state_.started) return;
    series.add(now, plan_.label + ".delivered", static_cast<double>(state_.delivered));
    if (state_.last_activity && now - *state_.last_activity > kSettle) settled_ = true;
  }

  void report(Metrics& metrics) const override {
    const auto name = [this](std::string_view what) { return fmt::format("{}.{}", plan_.label, what); };
    std::size_t ends = 0;
    for (const auto* node : nodes_) ends += node->links();
    metrics.set_number(name("nodes"), "", static_cast<double>(state_.nodes));
    metrics.set_number(name("links"), "", static_cast<double>(ends) / 2);
    metrics.set_number(name("delivered"), "", static_cast<double>(state_.delivered));
    metrics.set_number(name("sent"), "", static_cast<double>(state_.sent));
    metrics.set_number(name("duplicates"), "", static_cast<double>(state_.received - state_.delivered));
    metrics.set_number(name("repeats"), "", static_cast<double>(state_.repeats));
    metrics.set_number(name("blocked"), "", static_cast<double>(state_.blocked));
    // Every copy that was sent arrived, none twice, and every node was reached.
    const bool exactly_once = state_.delivered + 1 == state_.nodes && state_.repeats == 0 && state_.received == state_.sent;
    metrics.set_number(name("exactly_once"), "", exactly_once ? 1 : 0);
    metrics.set_samples(name("time"), "s", state_.times);
    metrics.set_samples(name("hops"), "", state_.hops);
  }

  [[nodiscard]] std::vector<double> connect_times() const override {
    std::vector<double> all;
    for (const auto* node : nodes_) all.insert(all.end(), node->connect_times().begin(), node->connect_times().end());
    return all;
  }
  [[nodiscard]] std::size_t failed_dials() const override {
    std::size_t all = 0;
    for (const auto* node : nodes_) all += node->failed_dials();
    return all;
  }

 private:
  FloodPlan plan_;
  std::vector<std::string> members_;
  std::optional<std::string> from_;
  std::vector<std::vector<std::size_t>> chosen_;
  std::vector<Duration> joins_;
  std::vector<FloodNode*> nodes_;
  FloodState state_;
  bool settled_ = false;
};

}  // namespace

std::unique_ptr<Workload> make_flood(WorkloadReader& reader) {
  auto& parameters = reader.parameters();
  auto members = reader.group("group");
  auto from = reader.optional_host("from");
  FloodPlan plan;
  plan.label = reader.label();
  plan.at = parameters.duration("at").value_or(5s);
  plan.join = parameters.duration("join").value_or(1s);
  plan.degree = static_cast<std::size_t>(parameters.integer("degree", 1, 1000).value_or(8));
  const auto size = parameters.size("size").value_or(DataSize{1024}).bytes;
  if (size < static_cast<std::int64_t>(kHeader) || size > (1 << 20)) parameters.value("size").fail("a message has between 16 B and 1 MiB");
  plan.size = static_cast<std::size_t>(std::clamp<std::int64_t>(size, kHeader, 1 << 20));
  if (!members.empty() && plan.degree >= members.size())
    parameters.value("degree").fail(fmt::format("{} nodes cannot have {} others each", members.size(), plan.degree));
  if (from && !members.empty() && std::find(members.begin(), members.end(), *from) == members.end())
    parameters.value("from").fail(fmt::format("'{}' is not in the group", *from));
  return std::make_unique<FloodWorkload>(std::move(plan), std::move(members), std::move(from));
}

}  // namespace peerbed
