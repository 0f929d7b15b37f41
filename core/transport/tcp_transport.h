// TCP links: the same Noise handshake in length-prefixed messages, then sealed records that carry the same frames and
// the same streams as a UDP connection. The transport owns its links; a `Link&` is valid until its on_link_closed has
// returned.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "core/crypto/identity.h"
#include "core/env/environment.h"
#include "core/transport/link.h"
#include "core/transport/transport_config.h"

namespace peerbed {

class TcpTransportHandler {
 public:
  /// As UdpTransportHandler::on_incoming_link.
  virtual void on_incoming_link(TimePoint now, Link& link) = 0;

 protected:
  ~TcpTransportHandler() = default;
};

struct TcpDialOptions {
  std::optional<PeerId> expected;
  std::optional<Endpoint> local;  ///< a chosen local endpoint, as hole punching needs it
  /// In a simultaneous open both sides dial; the one that is told so takes the responder's part of the handshake.
  bool responder = false;
};

class TcpTransport {
 public:
  TcpTransport(Environment& environment, const KeyPair& keys, const TransportConfig& config, TcpTransportHandler& handler);
  ~TcpTransport();

  /// May be called once per family; returns the endpoint that was bound.
  [[nodiscard]] Result<Endpoint> listen(const Endpoint& local);
  [[nodiscard]] std::optional<Endpoint> local_endpoint(Family family) const;  ///< of the listener

  /// All that follows comes by the handler, errors that are known at once included.
  Link& dial(TimePoint now, const Endpoint& remote, const TcpDialOptions& options, LinkHandler& handler);

  [[nodiscard]] std::size_t links() const;

 private:
  class Driver;
  std::unique_ptr<Driver> driver_;
};

}  // namespace peerbed
