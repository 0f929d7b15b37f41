// The seam in virtual time: what one node of the embedded network sees of the world.
#pragma once

#include <optional>
#include <string_view>

#include "core/env/environment.h"
#include "sim/des/host.h"
#include "sim/des/tcp_parameters.h"

namespace peerbed::sim {

class SimEnvironment final : public Environment {
 public:
  explicit SimEnvironment(Host& host) : host_(host) {}

  [[nodiscard]] std::unique_ptr<Timer> make_timer(TimerHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<DatagramSocket>> open_datagram_socket(const DatagramOptions& options,
                                                                             DatagramHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<StreamSocket>> connect_stream(const ConnectOptions& options, StreamHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<StreamListener>> listen_stream(const Endpoint& local, ListenerHandler& handler) override;
  [[nodiscard]] std::vector<IpAddress> local_addresses() const override { return host_.addresses(); }
  [[nodiscard]] RandomStream random_stream(std::string_view purpose) override;
  void fill_secret(MutableBytes out) override;
  [[nodiscard]] EventLog& events() override;

  // For the driver.
  /// Where this node's events go; until this is called they are dropped. The log must outlive the node.
  void set_event_log(EventLog& log) { log_ = &log; }
  /// Of TCP connections that begin from now on.
  void set_tcp_parameters(const TcpParameters& parameters);
  [[nodiscard]] Host& host() { return host_; }

 private:
  Host& host_;
  EventLog* log_ = nullptr;
  std::optional<RandomStream> secret_;
};

}  // namespace peerbed::sim
