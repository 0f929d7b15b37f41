// Two nodes that know each other by name only meet through a relay, and punch a direct path.
//
//   alice ──► rendezvous ◄── bob      both connect at the start
//   alice ══► rendezvous ══► bob      at `at`: a relayed link, then probes from both sides
//   alice ◄────────────────► bob      direct, if the NATs allow it; and a message there and back to prove it
#include <fmt/format.h>

#include "scenarios/workloads/kinds.h"
#include "scenarios/workloads/participant.h"

namespace peerbed {

namespace {

constexpr Duration kEchoTimeout = 5s;
constexpr Duration kOtherVerdictTimeout = 10s;  // the responder's verdict comes with the initiator's, or a little later

struct PunchSide {
  std::optional<PunchReport> report;
  bool unreachable = false;
};

class PunchParticipant final : public Reacher {
 public:
  PunchParticipant(const std::string& name, Plan plan, PunchSide& side) : Reacher(name, std::move(plan)), side_(side), channel_name_(name) {}

  std::optional<Duration> relay_time, echo_time;
  bool finished = false;

 protected:
  void attached() override { channel_ = peers().register_channel("punch/" + channel_name_, *this, {.max_message = DataSize{64}}); }

  void on_punch_finished(TimePoint now, const PunchReport& report) override {
    if (!side_.report) {
      side_.report = report;
      side_.report->reason = {};  // a view that ends with this call
    }
    if (report.initiator) started_at_ = now - report.elapsed;
    Reacher::on_punch_finished(now, report);
    if (!report.initiator) finished = true;
  }

  void relayed(TimePoint now) override { relayed_at_ = now; }

  void reached(TimePoint now, const PeerId& peer) override {
    if (relayed_at_ && started_at_) relay_time = *relayed_at_ - *started_at_;
    echo_sent_ = now;
    const auto status = peers().send(now, peer, channel_, as_bytes("ping"));
    if (status != SendStatus::taken) {
      finished = true;
      return;
    }
    at(now + kEchoTimeout, [this](TimePoint) { finished = true; });
  }

  void unreachable(TimePoint) override {
    side_.unreachable = true;
    finished = true;
  }

  void on_message(TimePoint now, const PeerId& peer, ChannelId, BytesView message) override {
    if (as_text(message) == "ping") {
      // Room for one short message there is always; if not, the echo is missing and is reported as such.
      static_cast<void>(peers().send(now, peer, channel_, as_bytes("pong")));
      return;
    }
    if (as_text(message) != "pong" || !echo_sent_ || echo_time) return;
    echo_time = now - *echo_sent_;
    finished = true;
  }

 private:
  PunchSide& side_;
  std::string channel_name_;
  ChannelId channel_;
  std::optional<TimePoint> started_at_, relayed_at_, echo_sent_;
};

class PunchWorkload final : public Workload {
 public:
  PunchWorkload(std::string label, std::string from, std::string to, std::string via, Duration at)
      : label_(std::move(label)), from_(std::move(from)), to_(std::move(to)), via_(std::move(via)), at_(at) {}

  void attach(const NodeSpec& host, Node& node, const Directory& directory) override {
    if (host.name != from_ && host.name != to_) return;
    const bool initiator = host.name == from_;
    Reacher::Plan plan;
    plan.at = at_;
    plan.relay = [this, &directory] { return directory.address_of(via_); };
    if (initiator) plan.target = [this, &directory] { return PeerAddress{directory.id_of(to_), {}}; };
    auto& side = initiator ? initiator_ : responder_;
    auto& participant = node.attach(std::make_unique<PunchParticipant>(label_, std::move(plan), side));
    (initiator ? from_node_ : to_node_) = &participant;
  }

  [[nodiscard]] bool done() const override {
    if (!from_node_->finished) return false;
    if (initiator_.unreachable || responder_.report) return true;
    return waited_ > kOtherVerdictTimeout;
  }

  void sample(TimePoint now, Series&) override {
    if (!from_node_->finished) finished_since_ = now;
    waited_ = now - finished_since_;
  }

  void report(Metrics& metrics) const override {
    const auto name = [this](std::string_view what) { return fmt::format("{}.{}", label_, what); };
    const auto& own = initiator_.report;
    metrics.set_text(name("outcome"), std::string(own ? to_string(own->outcome) : "none"));
    metrics.set_number(name("direct"), "", own && own->outcome == PunchOutcome::direct ? 1 : 0);
    metrics.set_number(name("agreed"), "", own && responder_.report && own->outcome == responder_.report->outcome ? 1 : 0);
    metrics.set_number(name("echoed"), "", from_node_->echo_time ? 1 : 0);
    if (own) {
      metrics.set_number(name("attempts"), "", own->attempts);
      metrics.set_number(name("time"), "s", to_seconds(own->elapsed));
    }
    if (from_node_->relay_time) metrics.set_number(name("relay_time"), "s", to_seconds(*from_node_->relay_time));
    if (from_node_->echo_time) metrics.set_number(name("rtt"), "s", to_seconds(*from_node_->echo_time));
  }

  [[nodiscard]] std::vector<double> connect_times() const override {
    auto all = from_node_->connect_times();
    all.insert(all.end(), to_node_->connect_times().begin(), to_node_->connect_times().end());
    return all;
  }
  [[nodiscard]] std::size_t failed_dials() const override { return from_node_->failed_dials() + to_node_->failed_dials(); }

 private:
  std::string label_, from_, to_, via_;
  Duration at_;
  PunchSide initiator_, responder_;
  PunchParticipant* from_node_ = nullptr;
  PunchParticipant* to_node_ = nullptr;
  TimePoint finished_since_{};
  Duration waited_{};
};

}  // namespace

std::unique_ptr<Workload> make_punch(WorkloadReader& reader) {
  auto from = reader.host("from");
  auto to = reader.host("to");
  auto via = reader.host("via");
  const auto at = reader.parameters().duration("at").value_or(2s);
  if (from == to && !from.empty()) reader.parameters().fail("'from' and 'to' are the same host");
  if ((via == from || via == to) && !via.empty()) reader.parameters().fail("'via' must be a third host");
  return std::make_unique<PunchWorkload>(reader.label(), std::move(from), std::move(to), std::move(via), at);
}

}  // namespace peerbed
