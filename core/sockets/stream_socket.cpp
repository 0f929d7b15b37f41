#include "core/sockets/stream_socket.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/check.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

namespace peerbed {
namespace {

// Edge triggered: a socket whose owner does not read must not keep the loop awake.
constexpr std::uint32_t kStreamEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
constexpr std::size_t kSlicesPerCall = 64;
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kOutOfDescriptorsRetry = 100ms;

void set_stream_options(int fd, const std::optional<DataSize>& buffer) {
  set_socket_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // what is small is coalesced above, knowingly
  if (buffer) {
    const auto bytes = static_cast<int>(std::min<std::int64_t>(buffer->bytes, 1 << 30));
    set_socket_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    set_socket_option(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  }
}

int tcp_state(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? int{info.tcpi_state} : int{TCP_CLOSE};
}

}  // namespace

// ---- opening -------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<StreamSocket>> KernelStreamSocket::connect(EventLoop& loop, const Setup& setup,
                                                                  const ConnectOptions& options,
                                                                  StreamHandler& handler) {
  const Family family = options.remote.address.family;
  if (options.local && options.local->address.family != family) {
    return bad_input("cannot connect from " + options.local->to_string() + " to " + options.remote.to_string() +
                     ": the families differ");
  }
  FileDescriptor fd(socket(to_domain(family), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return socket_error("open a TCP socket to", options.remote, errno);
  set_stream_options(fd.value(), setup.buffer);
  std::optional<Endpoint> from = options.local;
  if (!from && setup.source) from = Endpoint{*setup.source, 0};
  SocketAddress address;
  if (from) {
    if (from->port == 0) {
      // The port is chosen at connect, when the remote is known: the same one can serve many remotes.
      set_socket_option(fd.value(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    } else {
      set_socket_option(fd.value(), SOL_SOCKET, SO_REUSEADDR, 1);
      set_socket_option(fd.value(), SOL_SOCKET, SO_REUSEPORT, 1);
    }
    const socklen_t length = to_socket_address(*from, address);
    if (bind(fd.value(), &address.any, length) != 0) return socket_error("connect from", *from, errno);
  }
  const socklen_t length = to_socket_address(options.remote, address);
  loop.counters.system_calls += 3;
  if (::connect(fd.value(), &address.any, length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return socket_error("connect to", options.remote, errno);
  }
  // One that stands already (loopback) is told by the first event as well.
  const Endpoint local = local_endpoint_of(fd.value());
  auto stream = std::make_unique<KernelStreamSocket>(loop, std::move(fd), local, options.remote);
  stream->state_ = State::connecting;
  stream->handler_ = &handler;
  return std::unique_ptr<StreamSocket>(std::move(stream));
}

KernelStreamSocket::KernelStreamSocket(EventLoop& loop, FileDescriptor fd, const Endpoint& local,
                                       const Endpoint& remote)
    : loop_(loop), fd_(std::move(fd)), local_(local), remote_(remote) {
  token_ = loop_.add(fd_.value(), *this, kStreamEvents);
}

KernelStreamSocket::~KernelStreamSocket() {
  if (state_ == State::closed) return;
  if (!(shutdown_ && end_received_)) {
    const linger abort{.l_onoff = 1, .l_linger = 0};  // closing sends a RST
    setsockopt(fd_.value(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  }
  loop_.remove(token_, fd_.value());
}

// ---- events --------------------------------------------------------------------------------------------------------

void KernelStreamSocket::on_events(TimePoint now, std::uint32_t events) {
  if (state_ == State::closed) return;
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  if ((events & EPOLLRDHUP) != 0) peer_ended_ = true;
  if (state_ == State::connecting && !finish_connecting(now, events)) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 && close_if_over(now)) return;
  // What was drained in this turn was drained after this event was raised, except that an end may still be there.
  const bool news = drained_in_turn_ != loop_.turn() || (events & EPOLLRDHUP) != 0;
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 && news && !readable_told_ && !end_received_) {
    readable_told_ = true;
    handler_->on_readable(now);
    if (!loop.is_alive(token)) return;
  }
  if ((events & EPOLLOUT) != 0 && wants_writable_ && !shutdown_) {
    wants_writable_ = false;
    handler_->on_writable(now);
  }
}

bool KernelStreamSocket::finish_connecting(TimePoint now, std::uint32_t events) {
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return false;
  const int error = take_socket_error(fd_.value());
  if (error != 0) {
    close(now, close_reason(error));
    return false;
  }
  if ((events & EPOLLOUT) == 0) return false;
  state_ = State::open;
  local_ = local_endpoint_of(fd_.value());
  loop_.counters.system_calls += 2;
  if (shutdown_) ::shutdown(fd_.value(), SHUT_WR);
  handler_->on_connected(now);
  return loop.is_alive(token);
}

void KernelStreamSocket::on_deferred(TimePoint now) {
  deferred_ = false;
  if (state_ == State::open) close_if_over(now);
}

bool KernelStreamSocket::close_if_over(TimePoint now) {
  if (error_ == 0) error_ = take_socket_error(fd_.value());
  ++loop_.counters.system_calls;
  if (error_ != 0) {
    close(now, close_reason(error_));
    return true;
  }
  // Both directions ended, and the peer has acknowledged our FIN: the kernel shows TIME-WAIT as closed, too. Before
  // that a RST may still come, and bytes that we believed delivered are lost.
  if (!shutdown_ || !end_received_ || tcp_state(fd_.value()) != TCP_CLOSE) return false;
  close(now, CloseReason::finished);
  return true;
}

void KernelStreamSocket::close(TimePoint now, CloseReason reason) {
  state_ = State::closed;
  loop_.remove(token_, fd_.value());
  fd_.close();
  handler_->on_closed(now, reason);
}

void KernelStreamSocket::failed(int error) {
  if (error_ == 0) error_ = error;
  if (!deferred_) loop_.defer(token_);
  deferred_ = true;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

std::size_t KernelStreamSocket::send(std::span<const BytesView> slices) {
  if (state_ != State::open || shutdown_ || error_ != 0) return 0;
  std::size_t taken = 0;
  std::array<iovec, kSlicesPerCall> vectors;
  while (!slices.empty()) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t used = 0;
    for (; used < slices.size() && count < kSlicesPerCall; ++used) {
      const BytesView slice = slices[used];
      if (slice.empty()) continue;
      vectors[count++] = {const_cast<std::uint8_t*>(slice.data()), slice.size()};
      bytes += slice.size();
    }
    slices = slices.subspan(used);
    if (bytes == 0) continue;
    msghdr header{};
    header.msg_iov = vectors.data();
    header.msg_iovlen = count;
    ssize_t sent = -1;
    do {
      ++loop_.counters.system_calls;
      sent = sendmsg(fd_.value(), &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) {
      failed(errno);
      return taken;
    }
    taken += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    if (sent < static_cast<ssize_t>(bytes)) {
      wants_writable_ = true;
      return taken;
    }
  }
  return taken;
}

ReceiveResult KernelStreamSocket::receive(MutableBytes into) {
  if (end_received_) return {0, true};
  if (state_ != State::open || into.empty() || error_ != 0) return {};
  ReceiveResult result;
  while (result.bytes < into.size()) {
    ++loop_.counters.system_calls;
    const ssize_t got = recv(fd_.value(), into.data() + result.bytes, into.size() - result.bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      if (errno != EAGAIN) failed(errno);
      drained();
      return result;
    }
    if (got == 0) {
      result.end = end_received_ = true;
      drained();
      if (shutdown_) failed(0);  // not an error: to look, outside of this call, whether both directions are over
      return result;
    }
    result.bytes += static_cast<std::size_t>(got);
    // A short read has drained the socket (epoll(7)). Only an end that is known to wait behind the data makes it worth
    // to ask again: its event has come already.
    if (result.bytes < into.size() && !peer_ended_) {
      drained();
      return result;
    }
  }
  return result;
}

void KernelStreamSocket::drained() {
  readable_told_ = false;
  drained_in_turn_ = loop_.turn();
}

void KernelStreamSocket::shutdown_send() {
  if (shutdown_ || state_ == State::closed) return;
  shutdown_ = true;
  wants_writable_ = false;
  if (state_ == State::connecting) return;  // the kernel would give up the connection: done once it stands
  ++loop_.counters.system_calls;
  ::shutdown(fd_.value(), SHUT_WR);
  if (end_received_) failed(0);
}

// ---- listening -----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<StreamListener>> KernelStreamListener::open(EventLoop& loop, std::optional<DataSize> buffer,
                                                                   const Endpoint& local, ListenerHandler& handler) {
  FileDescriptor fd(socket(to_domain(local.address.family), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return socket_error("open a TCP socket on", local, errno);
  set_stream_options(fd.value(), buffer);  // accepted sockets inherit them
  set_socket_option(fd.value(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (local.address.family == Family::v6) set_socket_option(fd.value(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SocketAddress address;
  const socklen_t length = to_socket_address(local, address);
  if (bind(fd.value(), &address.any, length) != 0) return socket_error("listen on", local, errno);
  if (::listen(fd.value(), SOMAXCONN) != 0) return socket_error("listen on", local, errno);
  // Only now: with it at bind, a second listener on the same port would be accepted in silence. Connections that start
  // from this port need it on both sockets.
  set_socket_option(fd.value(), SOL_SOCKET, SO_REUSEPORT, 1);
  return std::unique_ptr<StreamListener>(new KernelStreamListener(loop, std::move(fd), handler));
}

KernelStreamListener::KernelStreamListener(EventLoop& loop, FileDescriptor fd, ListenerHandler& handler)
    : loop_(loop),
      fd_(std::move(fd)),
      local_(local_endpoint_of(fd_.value())),
      handler_(handler),
      token_(loop.add(fd_.value(), *this, EPOLLIN)),
      retry_(loop, *this) {}

KernelStreamListener::~KernelStreamListener() { loop_.remove(token_, fd_.value()); }

void KernelStreamListener::on_events(TimePoint now, std::uint32_t) {
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    SocketAddress from{};
    socklen_t length = sizeof from;
    ++loop_.counters.system_calls;
    FileDescriptor fd(accept4(fd_.value(), &from.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.is_open()) {
      if (errno == EAGAIN) return;
      ++loop_.counters.accept_failures;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // The connection stays in the queue and would wake the loop at once, again and again.
        loop_.change(token_, fd_.value(), 0);
        retry_.arm(now + kOutOfDescriptorsRetry);
        return;
      }
      continue;  // that one connection failed before it was accepted
    }
    const Endpoint local = local_endpoint_of(fd.value());
    auto stream = std::make_unique<KernelStreamSocket>(loop_, std::move(fd), local, to_endpoint(from));
    KernelStreamSocket* const accepted = stream.get();
    const EventLoop::Token accepted_token = accepted->token();
    handler_.on_accepted(now, std::move(stream));
    PEERBED_CHECK(!loop.is_alive(accepted_token) || accepted->has_handler(),
                  "on_accepted kept a socket without a handler");
    if (!loop.is_alive(token)) return;
  }
}

void KernelStreamListener::on_deferred(TimePoint) {}

void KernelStreamListener::on_timer(TimePoint) { loop_.change(token_, fd_.value(), EPOLLIN); }

}  // namespace peerbed
