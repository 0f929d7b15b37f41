// The environment over kernel sockets: epoll, timerfd, recvmmsg and sendmmsg, UDP segmentation offload (Linux).
//
// A driver opens one, builds a node on it, and runs it. Time counts from the start of the process. Handles (timers,
// sockets, listeners) must be destroyed before their environment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/env/environment.h"

namespace peerbed {

class EventLoop;
class DatagramBuffers;

/// What an environment did since it was opened.
struct SocketCounters {
  std::uint64_t wakeups = 0;       ///< waits that ended, and polls that found something
  std::uint64_t system_calls = 0;  ///< all that the environment made, except clock readings
  std::uint64_t timers_fired = 0;

  std::uint64_t datagrams_sent = 0;
  std::uint64_t send_calls = 0;          ///< sendmmsg
  std::uint64_t segmented_messages = 0;  ///< messages that carried more than one datagram (UDP GSO)
  std::uint64_t segmented_datagrams = 0; ///< datagrams that left in them
  std::uint64_t datagrams_refused = 0;   ///< offered, not taken: rule 9
  std::uint64_t oversize_dropped = 0;    ///< larger than the interface takes
  std::uint64_t unroutable_dropped = 0;  ///< the system had no way to send them

  std::uint64_t datagrams_received = 0;
  std::uint64_t receive_calls = 0;       ///< recvmmsg
  std::uint64_t coalesced_messages = 0;  ///< messages that carried more than one datagram (UDP GRO)
  std::uint64_t errors_received = 0;     ///< from the sockets' error queues

  std::uint64_t accept_failures = 0;  ///< out of descriptors or memory
};

class SocketEnvironment final : public Environment {
 public:
  struct Options {
    std::optional<std::uint64_t> seed;  ///< of random_stream; without one, from the kernel's entropy
    std::uint64_t node_id = 0;
    EventLog* log = nullptr;  ///< without one, events are dropped
    /// If not empty, the host has these addresses only, and connections start from the first of their family: several
    /// hosts on one machine, such as 127.0.0.2 and 127.0.0.3.
    std::vector<IpAddress> addresses;
    bool segmentation = true;               ///< UDP GSO and GRO, where the kernel has them
    DataSize datagram_buffer{4 << 20};      ///< asked for each direction of a datagram socket; the system may give less
    std::optional<DataSize> stream_buffer;  ///< for each direction of a stream; without one the kernel tunes it
  };

  static Result<std::unique_ptr<SocketEnvironment>> open(Options options);
  ~SocketEnvironment() override;
  SocketEnvironment(const SocketEnvironment&) = delete;
  SocketEnvironment& operator=(const SocketEnvironment&) = delete;

  // ---- the seam ----
  [[nodiscard]] std::unique_ptr<Timer> make_timer(TimerHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<DatagramSocket>> open_datagram_socket(const DatagramOptions& options,
                                                                             DatagramHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<StreamSocket>> connect_stream(const ConnectOptions& options,
                                                                     StreamHandler& handler) override;
  [[nodiscard]] Result<std::unique_ptr<StreamListener>> listen_stream(const Endpoint& local,
                                                                      ListenerHandler& handler) override;
  [[nodiscard]] std::vector<IpAddress> local_addresses() const override;
  [[nodiscard]] RandomStream random_stream(std::string_view purpose) override;
  void fill_secret(MutableBytes out) override;
  [[nodiscard]] EventLog& events() override;

  // ---- the driver's side; not from inside a callback, except stop() and post() ----
  [[nodiscard]] TimePoint now() const;  ///< reads the clock
  /// Waits until something happens, at most `max_wait`, and handles it.
  void run_once(Duration max_wait);
  void run_until(TimePoint deadline);  ///< or until stop()
  void run_for(Duration duration);     ///< or until stop()
  void run();                          ///< until stop()
  /// Ends the run in progress, or else the next one. From any thread or signal handler.
  void stop();
  /// Runs `action` on the environment's thread. From any thread.
  void post(std::function<void(TimePoint)> action);
  /// Readable when run_once(0) has something to do: lets one thread wait for several environments. Ask anew before each
  /// wait, because asking arms the timer.
  [[nodiscard]] int fd();
  [[nodiscard]] const SocketCounters& counters() const;
  [[nodiscard]] bool sends_segments() const;      ///< UDP GSO is in use
  [[nodiscard]] bool receives_coalesced() const;  ///< UDP GRO is in use

 private:
  struct State;
  explicit SocketEnvironment(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peerbed
