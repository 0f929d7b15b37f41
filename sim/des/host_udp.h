// The UDP ports of one host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/env/environment.h"
#include "sim/des/engine.h"
#include "sim/des/packet.h"

namespace peerbed::sim {

class Host;
class UdpSocket;

class UdpPorts final : public EventTarget {
 public:
  explicit UdpPorts(Host& host) : host_(host) {}
  ~UdpPorts();

  [[nodiscard]] Result<std::unique_ptr<DatagramSocket>> open(const DatagramOptions& options, DatagramHandler& handler);

  /// Gives the first packet, and those behind it for the same socket, to its handler; returns the rest of the train.
  [[nodiscard]] Packet* on_packets(Packet* train);
  /// False: no socket sent what the error is about.
  [[nodiscard]] bool on_error(const IcmpError& error);
  void on_event(TimePoint now) override;  ///< there is room again
  void prefetch(unsigned stage) const override;

 private:
  friend class UdpSocket;
  /// What receiving needs, beside each other.
  struct Binding {
    Endpoint local;
    UdpSocket* socket;
    DatagramHandler* handler;
  };
  [[nodiscard]] const Binding* find(const Endpoint& local) const;
  [[nodiscard]] bool is_taken(const Endpoint& local) const;
  [[nodiscard]] std::uint16_t choose_port(const IpAddress& local);
  void close(UdpSocket& socket);
  void wait_for_room(UdpSocket& socket);

  Host& host_;
  std::vector<Binding> bindings_;    ///< by port
  std::vector<UdpSocket*> refused_;  ///< waiting for room, first come first served
  EventHandle room_event_{};
};

}  // namespace peerbed::sim
