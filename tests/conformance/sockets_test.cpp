// The conformance suite over kernel sockets on loopback: three environments in one thread, in real time.
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/sockets/socket_environment.h"
#include "tests/conformance/suite.h"

namespace peerbed::conformance {

class SocketWorld {
 public:
  static constexpr bool kIsVirtual = false;

  explicit SocketWorld(std::uint64_t seed) {
    for (std::size_t h = 0; h < kHosts; ++h) {
      SocketEnvironment::Options options;
      options.seed = seed;
      options.node_id = h;
      options.addresses = {address(h, Family::v4), address(h, Family::v6)};
      auto environment = SocketEnvironment::open(options);
      PEERBED_CHECK(environment.has_value(), "no environment");
      hosts_[h] = std::move(*environment);
    }
  }

  Environment& host(std::size_t h) { return *hosts_[h]; }
  /// All of 127.0.0.0/8 is this machine; IPv6 has one loopback address, so there the hosts differ by their ports only.
  IpAddress address(std::size_t h, Family family) {
    if (family == Family::v6) return IpAddress::loopback(family);
    return IpAddress::v4(127, 0, 0, static_cast<std::uint8_t>(h + 2));
  }
  TimePoint now() { return hosts_[0]->now(); }

  void run_for(Duration duration) {
    run_until([] { return false; }, duration);
  }
  bool run_until(const std::function<bool()>& holds, Duration budget) {
    const TimePoint end = now() + budget;
    for (;;) {
      if (holds()) return true;
      const TimePoint t = now();
      if (t >= end) return false;
      std::array<pollfd, kHosts> fds{};
      for (std::size_t h = 0; h < kHosts; ++h) fds[h] = {hosts_[h]->fd(), POLLIN, 0};
      const auto ns = std::min<Duration>(end - t, 1s).count();
      const timespec wait{0, ns < 1'000'000'000 ? static_cast<long>(ns) : 999'999'999L};
      ppoll(fds.data(), fds.size(), &wait, nullptr);
      for (std::size_t h = 0; h < kHosts; ++h) {
        if (fds[h].revents != 0) hosts_[h]->run_once(0s);
        if (holds()) return true;
      }
    }
  }

  std::uint16_t unused_port() {
    // Below Linux's range for port 0 (32768 to 60999), and spread by process, because test programs run side by side.
    for (;;) {
      const int port = 10'000 + (static_cast<int>(getpid()) * 61 + next_port_++) % 22'000;
      if (is_free(static_cast<std::uint16_t>(port))) return static_cast<std::uint16_t>(port);
    }
  }
  /// TCP does not connect to a group: the kernel says "network is unreachable" and sends nothing.
  IpAddress unreachable_address(Family family) {
    if (family == Family::v4) return IpAddress::v4(224, 0, 0, 1);
    IpAddress group = IpAddress::any(Family::v6);
    group.octets[0] = 0xff;
    group.octets[1] = 0x02;
    group.octets[15] = 1;
    return group;
  }
  /// IPv4's length field says 65535 at most; for IPv6 the loopback MTU of 65536 is the limit. Both with their headers.
  std::size_t largest_datagram(Family family) { return family == Family::v4 ? 65535 - 20 - 8 : 65536 - 40 - 8; }

  /// Loopback delivers a SYN inside connect(), before the other side can have sent its own. A listener whose socket
  /// filter drops everything stands for the NAT that drops an early SYN.
  std::shared_ptr<void> swallow_syns(const Endpoint& endpoint) {
    const int fd = socket(endpoint.address.family == Family::v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    const int on = 1;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
    ok = ok && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
    ok = ok && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    ok = ok && bind_to(fd, endpoint) && listen(fd, 16) == 0;
    PEERBED_CHECK(ok, "no listener that swallows");
    return {nullptr, [fd](void*) { close(fd); }};
  }

 private:
  static bool bind_to(int fd, const Endpoint& endpoint) {
    if (endpoint.address.family == Family::v4) {
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_port = htons(endpoint.port);
      std::copy_n(endpoint.address.octets.begin(), 4, reinterpret_cast<std::uint8_t*>(&a.sin_addr));
      return bind(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
    }
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_port = htons(endpoint.port);
    std::copy_n(endpoint.address.octets.begin(), 16, reinterpret_cast<std::uint8_t*>(&a.sin6_addr));
    return bind(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
  }
  static bool is_free(std::uint16_t port) {
    bool free = true;
    for (const Family family : {Family::v4, Family::v6}) {
      for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        const int fd = socket(family == Family::v4 ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);
        free = free && bind_to(fd, {IpAddress::any(family), port});
        close(fd);
      }
    }
    return free;
  }

  std::array<std::unique_ptr<SocketEnvironment>, kHosts> hosts_;
  int next_port_ = 0;
};

}  // namespace peerbed::conformance

PEERBED_CONFORMANCE(Sockets, peerbed::conformance::SocketWorld);
