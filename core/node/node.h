// A peer-to-peer node: the composition root of the core. Bare, it listens, dials and relays; subsystems are attached
// before start.
#pragma once

#include <memory>
#include <string>

#include "core/crypto/identity.h"
#include "core/nat/relay_limits.h"
#include "core/node/subsystem.h"

namespace peerbed {

struct NodeConfig {
  KeyPair identity;
  std::string application = "peerbed";  ///< nodes of another application cannot complete the handshake
  std::uint16_t port = 4001;            ///< UDP and TCP, all addresses of both families; 0 chooses
  std::optional<IpAddress> bind;        ///< only this address
  bool udp = true, tcp = true;
  std::string congestion = "cubic";
  Duration keepalive = 15s;    ///< below the 30 s of the shortest common NAT mapping; zero: none
  Duration idle_timeout = 45s;
  std::size_t max_peers = 10'000;
  bool relay = true;           ///< carries circuits for others, within `relay_limits`
  RelayLimits relay_limits;
  int punch_attempts = 3;      ///< rounds of probes before the relay is kept; 0: never punch
};

class Node {
 public:
  /// Nothing touches the environment before start().
  Node(Environment& environment, NodeConfig config);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Before start only; returns the attached object.
  template <class S>
  S& attach(std::unique_ptr<S> subsystem) {
    S& reference = *subsystem;
    attach_subsystem(std::move(subsystem));
    return reference;
  }

  /// Opens the sockets. Errors: address in use, unknown congestion controller.
  [[nodiscard]] Result<void> start(TimePoint now);
  /// Closes every link in order (peers are told); destroying the node closes them without a word.
  void stop(TimePoint now);

  [[nodiscard]] Peers& peers();
  [[nodiscard]] Services& services();
  [[nodiscard]] const PeerId& id() const;
  [[nodiscard]] PeerAddress address() const;  ///< own id with listen endpoints: what another node dials

 private:
  void attach_subsystem(std::unique_ptr<Subsystem> subsystem);
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace peerbed
