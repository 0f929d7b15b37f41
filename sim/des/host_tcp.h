// TCP of one host: which connection or listener a segment belongs to, and the seam's stream sockets over the machine of
// sim/des/tcp_connection.h.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/env/environment.h"
#include "core/env/random_stream.h"
#include "sim/des/packet.h"
#include "sim/des/tcp_parameters.h"

namespace peerbed::sim {

class Host;
class TcpEnd;
class TcpListener;

class TcpPorts {
 public:
  explicit TcpPorts(Host& host);
  ~TcpPorts();
  TcpPorts(const TcpPorts&) = delete;
  TcpPorts& operator=(const TcpPorts&) = delete;

  [[nodiscard]] Result<std::unique_ptr<StreamSocket>> connect(const ConnectOptions& options, StreamHandler& handler);
  [[nodiscard]] Result<std::unique_ptr<StreamListener>> listen(const Endpoint& local, ListenerHandler& handler);
  /// Of connections that begin from now on; sizes that depend on the family are set here.
  void set_parameters(const TcpParameters& parameters) { parameters_ = parameters; }

  void on_packet(Packet* packet);
  [[nodiscard]] bool on_error(const IcmpError& error);
  /// Sends what connections have to send and tells their events, until nothing more follows.
  void settle();

  /// Of all connections of this host, ended ones included.
  [[nodiscard]] TcpCounters counters() const;
  [[nodiscard]] std::size_t connections() const { return ends_.size() + detached_.size(); }

 private:
  friend class TcpEnd;
  friend class TcpListener;
  friend class TcpStream;
  struct Pair {
    Endpoint local, remote;
    bool operator==(const Pair&) const = default;
  };
  struct PairHash {
    using is_avalanching = void;
    std::size_t operator()(const Pair& pair) const;
  };
  [[nodiscard]] TcpEnd* find(const Pair& pair) const;
  [[nodiscard]] TcpListener* find_listener(const Endpoint& local) const;
  [[nodiscard]] TcpEnd* open(const Pair& pair);
  [[nodiscard]] std::optional<std::uint16_t> choose_port(const Endpoint& remote, const IpAddress& local) const;
  void transmit(const Pair& pair, const TcpSegment& segment);
  void touch(TcpEnd& end);
  void serve(TcpEnd& end);
  void detach(TcpEnd& end);
  void remove(TcpEnd& end);
  void close(TcpListener& listener);

  Host& host_;
  TcpParameters parameters_;
  RandomStream sequence_random_;
  boost::unordered_flat_map<Pair, std::unique_ptr<TcpEnd>, PairHash> ends_;
  std::vector<std::unique_ptr<TcpEnd>> detached_;  ///< over, but the application holds its handle: the endpoints are free again
  std::vector<TcpListener*> listeners_;
  std::vector<TcpEnd*> touched_;  ///< to be served, in the order in which they were touched
  TcpCounters ended_;
};

}  // namespace peerbed::sim
