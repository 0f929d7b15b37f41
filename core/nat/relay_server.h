// The relay's side: which peers are joined by which circuit, and within which limits. A pure machine; it never
// remembers more than max_circuits.
#pragma once

#include <cstdint>
#include <map>

#include "core/nat/relay_limits.h"
#include "core/nat/relay_message.h"

namespace peerbed {

/// What the relay needs of its node.
class RelayServerPort {
 public:
  [[nodiscard]] virtual bool can_relay_to(const PeerId& peer) const = 0;  ///< connected, and not by a relay itself
  virtual void send_relay_message(TimePoint now, const PeerId& to, const RelayMessage& message) = 0;
  virtual bool send_relay_datagram(TimePoint now, const PeerId& to, BytesView datagram) = 0;

 protected:
  ~RelayServerPort() = default;
};

struct RelayServerStats {
  std::uint64_t opened = 0, refused = 0, closed_by_limit = 0, datagrams = 0, bytes = 0, dropped = 0;
};

class RelayServer {
 public:
  RelayServer(const RelayLimits& limits, RelayServerPort& port) : limits_(limits), port_(port) {}

  void on_open(TimePoint now, const PeerId& from, const RelayMessage& message);
  void on_closed(TimePoint now, const PeerId& from, std::uint32_t circuit);
  /// `datagram` starts with its header, which is rewritten in `scratch` for the other side.
  void on_datagram(TimePoint now, const PeerId& from, std::uint32_t circuit, BytesView datagram, MutableBytes scratch);
  void on_peer_disconnected(TimePoint now, const PeerId& peer);

  [[nodiscard]] std::size_t circuits() const { return circuits_.size(); }
  [[nodiscard]] const RelayServerStats& stats() const { return stats_; }

 private:
  struct Circuit {
    PeerId a, b;  ///< a asked for it
    TimePoint opened;
    DataSize from_a, from_b;
  };
  using Circuits = std::map<std::uint32_t, Circuit>;

  [[nodiscard]] std::size_t circuits_of(const PeerId& peer) const;
  [[nodiscard]] bool expired(const Circuit& circuit, TimePoint now) const;
  Circuits::iterator close(TimePoint now, Circuits::iterator circuit, const PeerId* except);
  void close_expired(TimePoint now);

  RelayLimits limits_;
  RelayServerPort& port_;
  Circuits circuits_;
  std::uint32_t next_circuit_ = 1;
  RelayServerStats stats_;
};

}  // namespace peerbed
