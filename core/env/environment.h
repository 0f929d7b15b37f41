// THE SEAM. Everything a node knows of the world comes through this door; every backend implements it, and the same
// conformance suite runs on each (tests/conformance). The rules, each with a test of the same number:
//
//  1  No call calls back before it returns.
//  2  `now` is constant during a callback and never decreases from one callback to the next.
//  3  Timers with equal deadlines fire in the order in which they were armed.
//  4  Nothing is called back after its handle (timer, socket, listener) is destroyed; a handle may be destroyed
//     inside its own callback.
//  5  Equal seed and equal calls in equal order give equal callbacks (virtual time).
//  6  A datagram arrives whole or not at all.
//  7  `on_closed` comes exactly once and last; it does not come after the handle was destroyed by its owner.
//  8  Half-close works: after shutdown_send() data still flows the other way.
//  9  A refused suffix of a batch (or of a stream write) means: wait for `on_writable`.
//
// There is no now(): time is learnt from callbacks only. There are no threads: an environment and all that hangs on it
// live on one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/env/event_log.h"
#include "core/env/random_stream.h"

namespace peerbed {

// ---- time ----------------------------------------------------------------------------------------------------------

class TimerHandler {
 public:
  virtual void on_timer(TimePoint now) = 0;

 protected:
  ~TimerHandler() = default;
};

/// One-shot. Destroying it disarms it.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void arm(TimePoint deadline) = 0;  ///< replaces an earlier deadline; one in the past fires as soon as possible
  virtual void disarm() = 0;
};

// ---- datagrams -----------------------------------------------------------------------------------------------------

enum class Ecn : std::uint8_t { not_ect = 0, ect1 = 1, ect0 = 2, ce = 3 };  ///< RFC 3168 code points

struct OutgoingDatagram {
  Endpoint to;
  BytesView payload;  ///< copied or sent before send() returns
  Ecn ecn = Ecn::not_ect;
  std::uint8_t ttl = 0;  ///< 0: the system's default
};

struct IncomingDatagram {
  Endpoint from;
  IpAddress to;  ///< the local address it was sent to
  BytesView payload;  ///< valid during the callback only
  Ecn ecn = Ecn::not_ect;
};

enum class UnreachableReason : std::uint8_t { port, host, network, prohibited, too_big, ttl_exceeded };

/// An ICMP error for a datagram this socket sent. Unauthenticated: a hint, never a verdict.
struct Unreachable {
  Endpoint to;
  UnreachableReason reason = UnreachableReason::port;
  std::uint16_t mtu = 0;  ///< with too_big: the next hop's MTU if it was told, else 0
};

class DatagramHandler {
 public:
  virtual void on_datagrams(TimePoint now, std::span<const IncomingDatagram> batch) = 0;
  virtual void on_writable(TimePoint now) = 0;  ///< after a refused suffix, once there is room
  virtual void on_unreachable(TimePoint now, const Unreachable& error) = 0;

 protected:
  ~DatagramHandler() = default;
};

struct DatagramOptions {
  Endpoint local;  ///< port 0 chooses one; an any-address receives on all addresses of its family
  bool dont_fragment = true;  ///< a datagram above the path MTU is dropped and may come back as `too_big`
};

class DatagramSocket {
 public:
  virtual ~DatagramSocket() = default;
  [[nodiscard]] virtual Endpoint local_endpoint() const = 0;
  /// Returns how many of the batch were taken, from its front. A datagram larger than the interface takes is dropped
  /// and counts as taken.
  virtual std::size_t send(std::span<const OutgoingDatagram> batch) = 0;
};

// ---- streams (TCP) -------------------------------------------------------------------------------------------------

enum class CloseReason : std::uint8_t {
  finished,     ///< both directions ended in order
  refused,      ///< connect met a RST
  reset,        ///< RST on an established connection
  timed_out,    ///< the peer stopped answering
  unreachable,  ///< ICMP or no route
  local_error,  ///< the system refused (address in use, out of ports)
};

class StreamHandler {
 public:
  virtual void on_connected(TimePoint now) = 0;  ///< once, for an active open only
  virtual void on_readable(TimePoint now) = 0;   ///< data, or the end, can be received; comes again only after receive() was drained
  virtual void on_writable(TimePoint now) = 0;   ///< after a refused suffix, once there is room
  virtual void on_closed(TimePoint now, CloseReason reason) = 0;  ///< exactly once, last

 protected:
  ~StreamHandler() = default;
};

struct ReceiveResult {
  std::size_t bytes = 0;
  bool end = false;  ///< the peer ended its direction and all its bytes were received
};

/// Destroying it aborts the connection (RST) unless both directions have ended.
class StreamSocket {
 public:
  virtual ~StreamSocket() = default;
  /// An accepted socket has no handler until its acceptor sets one, inside on_accepted.
  virtual void set_handler(StreamHandler& handler) = 0;
  [[nodiscard]] virtual Endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual Endpoint remote_endpoint() const = 0;
  /// Gathers the slices; returns how many bytes were taken. 0 before on_connected and after shutdown_send.
  virtual std::size_t send(std::span<const BytesView> slices) = 0;
  virtual ReceiveResult receive(MutableBytes into) = 0;  ///< bytes == 0 and !end: nothing now
  virtual void shutdown_send() = 0;                      ///< FIN after what was taken
};

class ListenerHandler {
 public:
  virtual void on_accepted(TimePoint now, std::unique_ptr<StreamSocket> socket) = 0;

 protected:
  ~ListenerHandler() = default;
};

class StreamListener {
 public:
  virtual ~StreamListener() = default;
  [[nodiscard]] virtual Endpoint local_endpoint() const = 0;
};

struct ConnectOptions {
  Endpoint remote;
  /// A chosen local endpoint may be shared with a listener and with other connections of this process
  /// (SO_REUSEADDR and SO_REUSEPORT): that is what TCP hole punching needs.
  std::optional<Endpoint> local;
};

// ---- the environment -----------------------------------------------------------------------------------------------

class Environment {
 public:
  virtual ~Environment() = default;

  [[nodiscard]] virtual std::unique_ptr<Timer> make_timer(TimerHandler& handler) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<DatagramSocket>> open_datagram_socket(const DatagramOptions& options,
                                                                                     DatagramHandler& handler) = 0;
  /// Errors that are known at once come as an error, all later ones as on_closed.
  [[nodiscard]] virtual Result<std::unique_ptr<StreamSocket>> connect_stream(const ConnectOptions& options,
                                                                             StreamHandler& handler) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<StreamListener>> listen_stream(const Endpoint& local,
                                                                              ListenerHandler& handler) = 0;
  /// The host's unicast addresses, in a stable order; loopback only where there is nothing else.
  [[nodiscard]] virtual std::vector<IpAddress> local_addresses() const = 0;
  /// The same (seed, node, purpose) gives the same stream. Not for secrets.
  [[nodiscard]] virtual RandomStream random_stream(std::string_view purpose) = 0;
  /// Key material: the kernel's entropy on real backends, seeded in virtual time.
  virtual void fill_secret(MutableBytes out) = 0;
  [[nodiscard]] virtual EventLog& events() = 0;
};

}  // namespace peerbed
