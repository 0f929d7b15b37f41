#include "core/node/node.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/node/core.h"

namespace peerbed {

std::string_view to_string(PunchOutcome outcome) {
  switch (outcome) {
    case PunchOutcome::direct: return "direct";
    case PunchOutcome::relayed: return "relayed";
    case PunchOutcome::failed: return "failed";
  }
  return "unknown";
}

std::string_view to_string(DialFailure failure) {
  switch (failure) {
    case DialFailure::no_address: return "no address";
    case DialFailure::refused: return "refused";
    case DialFailure::timed_out: return "timed out";
    case DialFailure::unreachable: return "unreachable";
    case DialFailure::wrong_identity: return "wrong identity";
  }
  return "unknown";
}

Node::Core::Core(Environment& environment, NodeConfig config)
    : environment_(environment), config_(std::move(config)), relay_server_(config_.relay_limits, *this), scratch_(65536) {
  relay_channel_ = registry_.add(kRelayChannel, {.max_message = DataSize{256}});
  punch_channel_ = registry_.add(kPunchChannel, {.max_message = DataSize{1024}});
  channel_owners_.assign(registry_.size(), nullptr);
}

Node::Core::~Core() = default;

void Node::Core::attach(std::unique_ptr<Subsystem> subsystem) {
  PEERBED_CHECK(!started_, "subsystems are attached before start");
  subsystems_.push_back(std::move(subsystem));
  subsystems_.back()->on_attach(*this, *this);
}

ChannelId Node::Core::register_channel(std::string_view name, Subsystem& owner, ChannelOptions options) {
  PEERBED_CHECK(!started_, "channels are registered before start");
  const ChannelId id = registry_.add(name, options);
  channel_owners_.push_back(&owner);
  return id;
}

Result<void> Node::Core::start(TimePoint now) {
  PEERBED_CHECK(!started_, "a node was started twice");
  TransportConfig transport;
  transport.application = config_.application;
  transport.congestion = config_.congestion;
  transport.keepalive = config_.keepalive;
  transport.idle_timeout = config_.idle_timeout;
  transport.max_incoming = config_.max_peers;

  std::vector<Endpoint> locals;
  if (config_.bind) {
    locals.push_back({*config_.bind, config_.port});
  } else {
    bool v4 = false, v6 = false;
    for (const IpAddress& address : environment_.local_addresses()) {
      (address.family == Family::v4 ? v4 : v6) = true;
    }
    if (v4) locals.push_back({IpAddress::any(Family::v4), config_.port});
    if (v6) locals.push_back({IpAddress::any(Family::v6), config_.port});
  }

  // Without UDP the transport still serves relayed links: their packets travel in circuits.
  auto udp = UdpTransport::open(environment_, config_.identity, transport,
                                config_.udp ? std::span<const Endpoint>(locals) : std::span<const Endpoint>(), *this);
  if (!udp) return udp.error();
  udp_ = std::move(*udp);
  udp_->set_circuit_sender(this);
  if (config_.tcp) {
    tcp_ = std::make_unique<TcpTransport>(environment_, config_.identity, transport, *this);
    for (Endpoint local : locals) {
      if (local.port == 0) {  // one number for both, where UDP has just chosen one
        if (const auto bound = udp_->local_endpoint(local.address.family)) local.port = bound->port;
      }
      const auto bound = tcp_->listen(local);
      if (!bound) return bound.error();
    }
  }
  dialer_ = std::make_unique<Dialer>(environment_, config_.udp ? udp_.get() : nullptr, tcp_.get());
  timer_ = environment_.make_timer(*this);
  started_ = true;
  if (!agenda_.empty()) timer_->arm(agenda_.begin()->first.first);
  each_subsystem([&](Subsystem& subsystem) { subsystem.on_start(now); });
  return {};
}

void Node::Core::stop(TimePoint now) {
  if (!started_ || stopped_) return;
  stopped_ = true;
  for (const auto& link : links_) {
    if (link->bound()) link->link().close(now);
  }
}

PeerAddress Node::Core::address() const { return {self(), listen_endpoints()}; }

std::vector<Endpoint> Node::Core::listen_endpoints() const {
  std::vector<Endpoint> endpoints;
  for (const IpAddress& address : environment_.local_addresses()) {
    if (config_.bind && address != *config_.bind) continue;
    std::optional<Endpoint> bound = udp_ ? udp_->local_endpoint(address.family) : std::nullopt;
    if (!bound && tcp_) bound = tcp_->local_endpoint(address.family);
    if (bound) endpoints.push_back({address, bound->port});
  }
  return endpoints;
}

std::vector<Endpoint> Node::Core::observed_endpoints() const {
  std::vector<Endpoint> endpoints;
  for (const Observation& observation : observations_) {
    bool known = false;
    for (const Endpoint& endpoint : endpoints) known = known || endpoint == observation.endpoint;
    if (!known) endpoints.push_back(observation.endpoint);
  }
  return endpoints;
}

void Node::Core::later(TimePoint at, Task task) {
  const auto [it, inserted] = agenda_.emplace(std::pair{at, next_serial_++}, std::move(task));
  if (timer_ && it == agenda_.begin()) timer_->arm(at);
}

void Node::Core::on_timer(TimePoint now) {
  while (!agenda_.empty() && agenda_.begin()->first.first <= now) {
    const Task task = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    task(now);
  }
  buried_.clear();
  if (!agenda_.empty()) timer_->arm(agenda_.begin()->first.first);
}

void Node::Core::each_subsystem(const std::function<void(Subsystem&)>& tell) {
  for (const auto& subsystem : subsystems_) tell(*subsystem);
}

void Node::Core::log(TimePoint now, std::string_view name, const PeerId& peer, std::initializer_list<EventField> more) {
  const std::string text = peer.short_string();
  std::array<EventField, 6> fields;
  PEERBED_CHECK(more.size() < fields.size(), "an event of a node has too many fields");
  fields[0] = {"peer", std::string_view(text)};
  std::copy(more.begin(), more.end(), fields.begin() + 1);
  environment_.events().record(now, name, std::span(fields).first(more.size() + 1));
}

// ---- the facade ----------------------------------------------------------------------------------------------------

Node::Node(Environment& environment, NodeConfig config) : core_(std::make_unique<Core>(environment, std::move(config))) {}
Node::~Node() = default;
Result<void> Node::start(TimePoint now) { return core_->start(now); }
void Node::stop(TimePoint now) { core_->stop(now); }
Peers& Node::peers() { return *core_; }
Services& Node::services() { return *core_; }
const PeerId& Node::id() const { return core_->self(); }
PeerAddress Node::address() const { return core_->address(); }
void Node::attach_subsystem(std::unique_ptr<Subsystem> subsystem) { core_->attach(std::move(subsystem)); }

}  // namespace peerbed
