// An end system: addresses, UDP ports, TCP, timers. What its node calls only changes state; what follows from it (packets that leave,
// events of connections) happens in settle(), after the callback returned or in an event of its own. So no call calls back, and
// callbacks never nest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/env/environment.h"
#include "sim/des/engine.h"
#include "sim/des/routes.h"

namespace peerbed::sim {

class UdpPorts;
class TcpPorts;

class Host final : public Element {
 public:
  Host(Engine& engine, const Routes& routes, const std::string& name, std::vector<IpAddress> addresses);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  void connect(Link& out, RealmId realm, AttachmentId at) { uplinks_.push_back({&out, realm, at}); }

  void accept(Packet* train) override;
  void prefetch(const Packet* packet, unsigned stage) const override;
  /// Before a callback: what receiving (or, with `sends`, sending) needs.
  void prefetch(unsigned stage, bool sends) const;
  /// A host that is down neither sends nor receives; its node goes on, as with the cable pulled.
  void set_up(bool up) { up_ = up; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<IpAddress>& addresses() const { return addresses_; }
  [[nodiscard]] bool owns(const IpAddress& address) const;
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] UdpPorts& udp();
  [[nodiscard]] TcpPorts& tcp();

  // For the ports of this host.
  /// Runs `work`, which may call back, and settles what it leads to.
  template <class F>
  void enter(F&& work) {
    busy_ = true;
    work();
    settle();
    busy_ = false;
  }
  /// State changed: settle soon. From inside a callback that is when it returns, else an event.
  void changed();
  /// The address that packets to `remote` have as their source.
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& remote) const;
  [[nodiscard]] bool has_route(const IpAddress& remote) const;
  /// Puts a packet, complete but for its way, into the outbox.
  void send(Packet* packet);
  /// Tells this host's own ports of an error, later, as ICMP would.
  void send_error_to_self(const IcmpError& error);
  void send_error(const Packet& about, UnreachableReason reason);
  /// How much more the interface takes before it refuses, and when half of that is free again.
  [[nodiscard]] std::uint64_t room();
  [[nodiscard]] TimePoint time_of_room();
  [[nodiscard]] std::uint16_t first_ephemeral_port();

  /// As Linux: net.ipv4.ip_local_port_range and net.core.wmem_default.
  static constexpr std::uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;
  static constexpr std::uint64_t kSendBuffer = 212'992;

 private:
  struct Uplink {
    Link* out;
    RealmId realm;
    AttachmentId at;  ///< this host's own place in the realm
  };
  struct Settle final : EventTarget {
    explicit Settle(Host& h) : host(h) {}
    void on_event(TimePoint) override;
    Host& host;
  };
  void settle();
  [[nodiscard]] Packet* deliver(Packet* packet);
  [[nodiscard]] bool route(Packet* packet) const;
  [[nodiscard]] bool is_own(AttachmentId at) const;
  [[nodiscard]] Packet* make_error(const IcmpError& error, const Endpoint& source, const IpAddress& destination);
  void put_out(Packet* packet);

  Engine& engine_;
  const Routes& routes_;
  const std::string& name_;
  std::vector<IpAddress> addresses_;
  std::vector<Uplink> uplinks_;
  std::unique_ptr<UdpPorts> udp_;
  std::unique_ptr<TcpPorts> tcp_;
  Packet* first_out_ = nullptr;
  Packet* last_out_ = nullptr;
  std::uint64_t outbox_bytes_ = 0;
  Settle settle_{*this};
  EventHandle settle_event_{};
  std::optional<RandomStream> port_random_;
  bool up_ = true, busy_ = false;
};

}  // namespace peerbed::sim
