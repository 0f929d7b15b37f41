// What the subsystems of all workloads share: a node's three interfaces, an agenda, dials that are timed, and reaching a
// peer straight or through a relay.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/node/subsystem.h"

namespace peerbed {

class Participant : public Subsystem, private TimerHandler {
 public:
  explicit Participant(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const final { return name_; }
  void on_attach(Peers& peers, Services& services) final;
  void on_start(TimePoint now) final;
  void on_peer_connected(TimePoint now, const PeerId& peer) override;
  void on_dial_failed(TimePoint now, const PeerId& peer, DialFailure failure) override;

  [[nodiscard]] const std::vector<double>& connect_times() const { return connect_times_; }
  [[nodiscard]] std::size_t failed_dials() const { return failed_dials_; }

 protected:
  virtual void attached() {}
  virtual void started(TimePoint now) { (void)now; }

  /// Runs from the event loop, in order of time, then of the calls.
  void at(TimePoint when, std::function<void(TimePoint)> action);
  /// Peers::connect, timed until the peer is there.
  void dial(TimePoint now, const PeerAddress& address);

  [[nodiscard]] Peers& peers() const { return *peers_; }
  [[nodiscard]] Services& services() const { return *services_; }
  [[nodiscard]] EventLog& events() const { return services_->environment().events(); }

 private:
  void on_timer(TimePoint now) final;

  std::string name_;
  Peers* peers_ = nullptr;
  Services* services_ = nullptr;
  std::unique_ptr<Timer> timer_;
  std::multimap<TimePoint, std::function<void(TimePoint)>> agenda_;
  std::map<PeerId, TimePoint> dialing_;
  std::vector<double> connect_times_;
  std::size_t failed_dials_ = 0;
};

/// A participant that has one peer to talk to: reached by dialing its address, or through a relay and a hole punch.
/// Both ends are of this class, so that both are connected to the relay.
class Reacher : public Participant {
 public:
  struct Plan {
    std::function<PeerAddress()> relay;   ///< empty: no relay
    std::function<PeerAddress()> target;  ///< empty: this end waits to be reached
    Duration at{};                        ///< when the target is reached for, since the start
  };
  Reacher(std::string name, Plan plan) : Participant(std::move(name)), plan_(std::move(plan)) {}

  void on_peer_connected(TimePoint now, const PeerId& peer) override;
  void on_dial_failed(TimePoint now, const PeerId& peer, DialFailure failure) override;
  void on_punch_finished(TimePoint now, const PunchReport& report) override;

 protected:
  void started(TimePoint now) override;
  virtual void reached(TimePoint now, const PeerId& peer) = 0;  ///< once; by a relayed link only when the punch is over
  virtual void unreachable(TimePoint now) = 0;                  ///< once, instead
  virtual void relayed(TimePoint now) { (void)now; }            ///< the relayed link came up

 private:
  void reach(TimePoint now);
  Plan plan_;
  std::optional<PeerId> target_;
  bool settled_ = false;
};

}  // namespace peerbed
