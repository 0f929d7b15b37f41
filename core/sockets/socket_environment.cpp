#include "core/sockets/socket_environment.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "core/base/check.h"
#include "core/sockets/datagram_socket.h"
#include "core/sockets/event_loop.h"
#include "core/sockets/stream_socket.h"

namespace peerbed {
namespace {

class NoEventLog final : public EventLog {
 public:
  using EventLog::record;
  void record(TimePoint, std::string_view, std::span<const EventField>) override {}
};

void fill_from_kernel(MutableBytes out) {
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t got = getrandom(out.data() + at, out.size() - at, 0);
    PEERBED_CHECK(got > 0 || errno == EINTR, "the kernel has no entropy");
    if (got > 0) at += static_cast<std::size_t>(got);
  }
}

bool is_link_local_v6(const IpAddress& a) {
  return a.family == Family::v6 && a.octets[0] == 0xfe && (a.octets[1] & 0xc0) == 0x80;
}

std::vector<IpAddress> interface_addresses() {
  std::vector<IpAddress> result;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
      const int family = i->ifa_addr->sa_family;
      if (family != AF_INET && family != AF_INET6) continue;
      SocketAddress address{};
      std::copy_n(reinterpret_cast<const std::uint8_t*>(i->ifa_addr),
                  family == AF_INET ? sizeof address.v4 : sizeof address.v6, reinterpret_cast<std::uint8_t*>(&address));
      const IpAddress ip = to_endpoint(address).address;
      // A link-local address is worth nothing without its interface, which an endpoint does not name.
      if (!is_link_local_v6(ip)) result.push_back(ip);
    }
    freeifaddrs(list);
  }
  const bool only_loopback = std::all_of(result.begin(), result.end(), [](const auto& a) { return a.is_loopback(); });
  if (!only_loopback) std::erase_if(result, [](const IpAddress& a) { return a.is_loopback(); });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

struct SocketEnvironment::State {
  Options options;
  std::uint64_t seed = 0;
  NoEventLog no_log;
  SegmentationSupport segmentation;
  std::atomic<bool> stop{false};
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<DatagramBuffers> buffers;  // made with the first datagram socket

  [[nodiscard]] std::optional<IpAddress> source(Family family) const {
    for (const IpAddress& a : options.addresses) {
      if (a.family == family) return a;
    }
    return std::nullopt;
  }
};

Result<std::unique_ptr<SocketEnvironment>> SocketEnvironment::open(Options options) {
  auto state = std::make_unique<State>();
  auto loop = EventLoop::open();
  if (loop.has_error()) return loop.error();
  state->loop = std::move(*loop);
  state->options = std::move(options);
  if (state->options.seed) {
    state->seed = *state->options.seed;
  } else {
    fill_from_kernel({reinterpret_cast<std::uint8_t*>(&state->seed), sizeof state->seed});
  }
  if (state->options.segmentation) state->segmentation = probe_segmentation();
  return std::unique_ptr<SocketEnvironment>(new SocketEnvironment(std::move(state)));
}

SocketEnvironment::SocketEnvironment(std::unique_ptr<State> state) : state_(std::move(state)) {}
SocketEnvironment::~SocketEnvironment() = default;

// ---- the seam ------------------------------------------------------------------------------------------------------

std::unique_ptr<Timer> SocketEnvironment::make_timer(TimerHandler& handler) {
  return std::make_unique<LoopTimer>(*state_->loop, handler);
}

Result<std::unique_ptr<DatagramSocket>> SocketEnvironment::open_datagram_socket(const DatagramOptions& options,
                                                                                DatagramHandler& handler) {
  if (!state_->buffers) state_->buffers = std::make_unique<DatagramBuffers>();
  return KernelDatagramSocket::open(*state_->loop, *state_->buffers,
                                    {state_->segmentation, state_->options.datagram_buffer}, options, handler);
}

Result<std::unique_ptr<StreamSocket>> SocketEnvironment::connect_stream(const ConnectOptions& options,
                                                                        StreamHandler& handler) {
  return KernelStreamSocket::connect(*state_->loop,
                                     {state_->options.stream_buffer, state_->source(options.remote.address.family)},
                                     options, handler);
}

Result<std::unique_ptr<StreamListener>> SocketEnvironment::listen_stream(const Endpoint& local,
                                                                         ListenerHandler& handler) {
  return KernelStreamListener::open(*state_->loop, state_->options.stream_buffer, local, handler);
}

std::vector<IpAddress> SocketEnvironment::local_addresses() const {
  return state_->options.addresses.empty() ? interface_addresses() : state_->options.addresses;
}

RandomStream SocketEnvironment::random_stream(std::string_view purpose) {
  return RandomStream(state_->seed, state_->options.node_id, purpose);
}

void SocketEnvironment::fill_secret(MutableBytes out) { fill_from_kernel(out); }

EventLog& SocketEnvironment::events() {
  return state_->options.log != nullptr ? *state_->options.log : state_->no_log;
}

// ---- the driver's side ---------------------------------------------------------------------------------------------

TimePoint SocketEnvironment::now() const { return state_->loop->clock(); }

void SocketEnvironment::run_once(Duration max_wait) {
  const bool wait = max_wait > Duration::zero();
  const TimePoint now = wait ? state_->loop->clock() : TimePoint{};
  const TimePoint until = !wait ? TimePoint{} : max_wait >= kNever - now ? kNever : now + max_wait;
  state_->loop->turn_once(until);
}

void SocketEnvironment::run_until(TimePoint deadline) {
  while (!state_->stop.exchange(false)) {
    if (state_->loop->clock() >= deadline) return;
    state_->loop->turn_once(deadline);
  }
}

void SocketEnvironment::run_for(Duration duration) {
  const TimePoint now = state_->loop->clock();
  run_until(duration >= kNever - now ? kNever : now + duration);
}

void SocketEnvironment::run() { run_until(kNever); }

void SocketEnvironment::stop() {
  state_->stop.store(true);
  state_->loop->wake();
}

void SocketEnvironment::post(std::function<void(TimePoint)> action) { state_->loop->post(std::move(action)); }
int SocketEnvironment::fd() { return state_->loop->fd(); }
const SocketCounters& SocketEnvironment::counters() const { return state_->loop->counters; }
bool SocketEnvironment::sends_segments() const { return state_->segmentation.send; }
bool SocketEnvironment::receives_coalesced() const { return state_->segmentation.receive; }

}  // namespace peerbed
