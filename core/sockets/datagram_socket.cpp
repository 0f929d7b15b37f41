#include "core/sockets/datagram_socket.h"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/check.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace peerbed {
namespace {

constexpr std::size_t kMaxSegments = 64;        // UDP_MAX_SEGMENTS of Linux before 6.10; later ones take 128
constexpr std::size_t kMaxSegmentedBytes = 65'000;  // below 65535 with the headers of either family
constexpr Duration kBusyDeviceRetry = 1ms;
constexpr int kPendingErrors = 3;

template <class T>
void add_control(msghdr& header, MutableBytes area, int level, int type, const T& value) {
  PEERBED_CHECK(header.msg_controllen + CMSG_SPACE(sizeof value) <= area.size(), "the control buffer is too small");
  auto* const c = reinterpret_cast<cmsghdr*>(area.data() + header.msg_controllen);
  c->cmsg_level = level;
  c->cmsg_type = type;
  c->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(c), &value, sizeof value);
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

template <class T>
T control_value(const cmsghdr& c) {
  T value{};
  std::memcpy(&value, CMSG_DATA(&c), std::min(sizeof value, c.cmsg_len - CMSG_LEN(0)));
  return value;
}

std::optional<UnreachableReason> reason_of(const sock_extended_err& e) {
  using enum UnreachableReason;
  if (e.ee_origin == SO_EE_ORIGIN_LOCAL) return unreachable_reason(static_cast<int>(e.ee_errno));
  if (e.ee_origin == SO_EE_ORIGIN_ICMP) {
    if (e.ee_type == ICMP_TIME_EXCEEDED) return ttl_exceeded;
    if (e.ee_type != ICMP_DEST_UNREACH) return std::nullopt;  // source quench, parameter problem: nothing to learn
    switch (e.ee_code) {
      case ICMP_PORT_UNREACH:
      case ICMP_PROT_UNREACH: return port;
      case ICMP_FRAG_NEEDED: return too_big;
      case ICMP_HOST_UNREACH:
      case ICMP_HOST_UNKNOWN:
      case ICMP_HOST_ISOLATED: return host;
      case ICMP_NET_ANO:
      case ICMP_HOST_ANO:
      case ICMP_PKT_FILTERED: return prohibited;
      default: return network;
    }
  }
  if (e.ee_origin == SO_EE_ORIGIN_ICMP6) {
    if (e.ee_type == ICMP6_TIME_EXCEEDED) return ttl_exceeded;
    if (e.ee_type == ICMP6_PACKET_TOO_BIG) return too_big;
    if (e.ee_type != ICMP6_DST_UNREACH) return std::nullopt;
    switch (e.ee_code) {
      case ICMP6_DST_UNREACH_NOPORT: return port;
      case ICMP6_DST_UNREACH_ADDR: return host;
      case ICMP6_DST_UNREACH_NOROUTE:
      case ICMP6_DST_UNREACH_BEYONDSCOPE: return network;
      default: return prohibited;
    }
  }
  return std::nullopt;
}

std::uint16_t mtu_of(const sock_extended_err& e) {
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(e.ee_info, 65535));
}

/// What send() may meet that an earlier datagram caused: the kernel hands an ICMP error to whatever call comes next.
bool may_be_pending(int error, std::size_t payload) {
  // Every interface takes this much with IPv6 (RFC 8200 §5), so a smaller datagram does not suffer from its own size.
  // Asking again for a larger one would report it twice.
  if (error == EMSGSIZE) return payload <= 1280 - 48;
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == EPROTO ||
         error == ENOPROTOOPT || error == EHOSTDOWN || error == EACCES;
}

/// What the kernel says when it cannot cut a message into segments, and only then.
bool may_be_segmentation(int error) {
  return error == EINVAL || error == EMSGSIZE || error == EIO || error == EOPNOTSUPP;
}

Result<FileDescriptor> open_bound(const DatagramSocketSetup& setup, const DatagramOptions& options) {
  const bool v4 = options.local.address.family == Family::v4;
  FileDescriptor fd(socket(to_domain(options.local.address.family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return socket_error("open a UDP socket on", options.local, errno);
  const int s = fd.value();
  // PROBE rather than DO: both set the don't-fragment bit, but PROBE does not let a forged ICMP message lower the size
  // that we may send. Path MTU discovery is the transport's business (RFC 8899 §4.6).
  if (v4) {
    set_socket_option(s, IPPROTO_IP, IP_MTU_DISCOVER, options.dont_fragment ? IP_PMTUDISC_PROBE : IP_PMTUDISC_DONT);
    set_socket_option(s, IPPROTO_IP, IP_RECVERR, 1);
    set_socket_option(s, IPPROTO_IP, IP_RECVTOS, 1);
    if (options.local.address.is_any()) set_socket_option(s, IPPROTO_IP, IP_PKTINFO, 1);
  } else {
    set_socket_option(s, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set_socket_option(s, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
                      options.dont_fragment ? IPV6_PMTUDISC_PROBE : IPV6_PMTUDISC_DONT);
    set_socket_option(s, IPPROTO_IPV6, IPV6_DONTFRAG, options.dont_fragment ? 1 : 0);
    set_socket_option(s, IPPROTO_IPV6, IPV6_RECVERR, 1);
    set_socket_option(s, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    if (options.local.address.is_any()) set_socket_option(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  }
  if (setup.segmentation.receive) set_socket_option(s, SOL_UDP, UDP_GRO, 1);
  const auto buffer = static_cast<int>(std::min<std::int64_t>(setup.buffer.bytes, 1 << 30));
  set_socket_option(s, SOL_SOCKET, SO_RCVBUF, buffer);
  set_socket_option(s, SOL_SOCKET, SO_SNDBUF, buffer);
  SocketAddress address;
  const socklen_t length = to_socket_address(options.local, address);
  if (bind(s, &address.any, length) != 0) return socket_error("bind a UDP socket to", options.local, errno);
  return fd;
}

}  // namespace

SegmentationSupport probe_segmentation() {
  const FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return {};
  return {.send = set_socket_option(fd.value(), SOL_UDP, UDP_SEGMENT, 0),
          .receive = set_socket_option(fd.value(), SOL_UDP, UDP_GRO, 1)};
}

DatagramBuffers::DatagramBuffers()
    : receive_area(std::make_unique_for_overwrite<std::uint8_t[]>(kMessages * kSlot)) {
  batch.reserve(kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    receive_slices[i] = {receive_area.get() + i * kSlot, 65536};
    msghdr& header = receive_headers[i].msg_hdr;
    header.msg_name = &receive_messages[i].address;
    header.msg_iov = &receive_slices[i];
    header.msg_iovlen = 1;
    header.msg_control = receive_messages[i].control.data();
  }
  ready_to_receive(kMessages);
}

void DatagramBuffers::ready_to_receive(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    msghdr& header = receive_headers[i].msg_hdr;
    header.msg_namelen = sizeof receive_messages[i].address;
    header.msg_controllen = receive_messages[i].control.size();
    header.msg_flags = 0;
  }
}

// ---- life ----------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<DatagramSocket>> KernelDatagramSocket::open(EventLoop& loop, DatagramBuffers& buffers,
                                                                   const DatagramSocketSetup& setup,
                                                                   const DatagramOptions& options,
                                                                   DatagramHandler& handler) {
  auto fd = open_bound(setup, options);
  if (fd.has_error()) return fd.error();
  const Endpoint local = local_endpoint_of(fd->value());
  return std::unique_ptr<DatagramSocket>(
      new KernelDatagramSocket(loop, buffers, std::move(*fd), local, setup.segmentation.send, handler));
}

KernelDatagramSocket::KernelDatagramSocket(EventLoop& loop, DatagramBuffers& buffers, FileDescriptor fd,
                                           const Endpoint& local, bool segments, DatagramHandler& handler)
    : loop_(loop),
      buffers_(buffers),
      fd_(std::move(fd)),
      local_(local),
      handler_(handler),
      token_(loop.add(fd_.value(), *this, EPOLLIN)),
      retry_(loop, *this),
      segments_(segments) {}

KernelDatagramSocket::~KernelDatagramSocket() { loop_.remove(token_, fd_.value()); }

void KernelDatagramSocket::on_events(TimePoint now, std::uint32_t events) {
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  if ((events & EPOLLERR) != 0 && !read_errors(now)) return;
  if ((events & EPOLLIN) != 0) {
    receive(now);
    if (!loop.is_alive(token)) return;
  }
  if ((events & EPOLLOUT) != 0 && want_writable_) {
    want_writable_ = false;
    loop_.change(token_, fd_.value(), EPOLLIN);
    handler_.on_writable(now);
  }
}

void KernelDatagramSocket::on_deferred(TimePoint now) {
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  const std::vector<Unreachable> errors = std::exchange(told_later_, {});
  for (const Unreachable& error : errors) {
    handler_.on_unreachable(now, error);
    if (!loop.is_alive(token)) return;
  }
}

void KernelDatagramSocket::on_timer(TimePoint now) { handler_.on_writable(now); }

// ---- sending -------------------------------------------------------------------------------------------------------

std::size_t KernelDatagramSocket::send(std::span<const OutgoingDatagram> batch) {
  std::size_t taken = 0;
  std::size_t alone = 0;  // datagrams at the front that may not be merged, because the kernel refused to cut them
  int errors_in_a_row = 0;
  while (taken < batch.size()) {
    const std::size_t messages = fill_messages(batch.subspan(taken), alone);
    ++loop_.counters.system_calls;
    ++loop_.counters.send_calls;
    const int sent = sendmmsg(fd_.value(), buffers_.headers.data(), static_cast<unsigned>(messages), MSG_NOSIGNAL);
    if (sent > 0) {
      errors_in_a_row = 0;
      std::size_t datagrams = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(sent); ++i) {
        const std::size_t in_it = buffers_.datagrams_in[i];
        datagrams += in_it;
        if (in_it > 1) {
          ++loop_.counters.segmented_messages;
          loop_.counters.segmented_datagrams += in_it;
        }
      }
      loop_.counters.datagrams_sent += datagrams;
      taken += datagrams;
      alone -= std::min(alone, datagrams);
      continue;  // a shorter count than asked for means that the next message has an error to tell, or no room
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
      refuse(batch.size() - taken, error == EAGAIN);
      return taken;
    }
    if (may_be_pending(error, batch[taken].payload.size()) && ++errors_in_a_row < kPendingErrors) continue;
    errors_in_a_row = 0;
    if (buffers_.datagrams_in[0] > 1 && may_be_segmentation(error)) {
      if (error == EIO || error == EOPNOTSUPP) segments_ = false;  // this path has no checksum offload
      alone = buffers_.datagrams_in[0];
      continue;
    }
    const std::size_t lost = buffers_.datagrams_in[0];
    for (std::size_t i = 0; i < lost; ++i) drop(batch[taken + i], error);
    taken += lost;
    alone -= std::min(alone, lost);
  }
  return taken;
}

/// How many datagrams at the front can leave as one message: same destination and marks, equal sizes, the last of them
/// may be shorter (Linux udp(7), UDP_SEGMENT).
std::size_t KernelDatagramSocket::run_length(std::span<const OutgoingDatagram> batch) const {
  const OutgoingDatagram& first = batch.front();
  const std::size_t size = first.payload.size();
  if (!segments_ || size == 0) return 1;
  const std::size_t most = std::min({batch.size(), kMaxSegments, kMaxSegmentedBytes / size});
  std::size_t count = 1;
  while (count < most) {
    const OutgoingDatagram& next = batch[count];
    if (next.payload.size() > size || next.payload.empty() || next.to != first.to || next.ecn != first.ecn ||
        next.ttl != first.ttl) {
      break;
    }
    ++count;
    if (next.payload.size() < size) break;
  }
  return count;
}

std::size_t KernelDatagramSocket::fill_messages(std::span<const OutgoingDatagram> batch, std::size_t alone) {
  std::size_t messages = 0;
  std::size_t slices = 0;
  std::size_t at = 0;
  while (at < batch.size() && messages < DatagramBuffers::kMessages) {
    const std::size_t count = at < alone ? 1 : run_length(batch.subspan(at));
    if (slices + count > DatagramBuffers::kSlices) break;
    DatagramBuffers::Message& message = buffers_.messages[messages];
    msghdr& header = buffers_.headers[messages].msg_hdr;
    header = {};
    header.msg_name = &message.address;
    header.msg_namelen = to_socket_address(batch[at].to, message.address);
    header.msg_iov = &buffers_.slices[slices];
    header.msg_iovlen = count;
    for (std::size_t i = 0; i < count; ++i) {
      const BytesView payload = batch[at + i].payload;
      buffers_.slices[slices++] = {const_cast<std::uint8_t*>(payload.data()), payload.size()};
    }
    write_control(header, message, batch[at], count);
    buffers_.datagrams_in[messages++] = count;
    at += count;
  }
  return messages;
}

void KernelDatagramSocket::write_control(msghdr& header, DatagramBuffers::Message& message,
                                         const OutgoingDatagram& first, std::size_t datagrams) const {
  const bool v4 = local_.address.family == Family::v4;
  if (first.ecn != Ecn::not_ect) {
    const int mark = static_cast<int>(first.ecn);
    add_control(header, message.control, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, mark);
  }
  if (first.ttl != 0) {
    const int ttl = first.ttl;
    add_control(header, message.control, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, ttl);
  }
  if (datagrams > 1) {
    add_control(header, message.control, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(first.payload.size()));
  }
  if (header.msg_controllen > 0) header.msg_control = message.control.data();
}

void KernelDatagramSocket::drop(const OutgoingDatagram& datagram, int error) {
  if (error == EMSGSIZE) {  // the kernel puts a "too big" with the MTU into the error queue by itself
    ++loop_.counters.oversize_dropped;
    return;
  }
  ++loop_.counters.unroutable_dropped;
  if (told_later_.empty()) loop_.defer(token_);
  told_later_.push_back({datagram.to, unreachable_reason(error), 0});
}

void KernelDatagramSocket::refuse(std::size_t datagrams, bool kernel_tells) {
  loop_.counters.datagrams_refused += datagrams;
  if (!kernel_tells) {
    // A full device queue (ENOBUFS) raises no event when it drains.
    if (!want_writable_) retry_.arm(loop_.clock() + kBusyDeviceRetry);
  } else if (!want_writable_) {
    retry_.disarm();
    want_writable_ = true;
    loop_.change(token_, fd_.value(), EPOLLIN | EPOLLOUT);
  }
}

// ---- receiving -----------------------------------------------------------------------------------------------------

void KernelDatagramSocket::receive(TimePoint now) {
  int received = -1;
  for (int attempt = 0; received < 0 && attempt < kPendingErrors; ++attempt) {
    ++loop_.counters.system_calls;
    ++loop_.counters.receive_calls;
    received = recvmmsg(fd_.value(), buffers_.receive_headers.data(), DatagramBuffers::kMessages, MSG_DONTWAIT,
                        nullptr);
    if (received < 0 && errno == EAGAIN) return;
    // Else it told an error that is in the error queue as well.
  }
  if (received <= 0) return;
  buffers_.batch.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(received); ++i) {
    const mmsghdr& header = buffers_.receive_headers[i];
    split(header, buffers_.receive_messages[i],
          {buffers_.receive_area.get() + i * DatagramBuffers::kSlot, header.msg_len});
  }
  buffers_.ready_to_receive(static_cast<std::size_t>(received));
  loop_.counters.datagrams_received += buffers_.batch.size();
  handler_.on_datagrams(now, buffers_.batch);
}

/// Undoes what GRO merged: segments of the announced size, the last one may be shorter.
void KernelDatagramSocket::split(const mmsghdr& received, const DatagramBuffers::Message& message, BytesView bytes) {
  IncomingDatagram datagram{to_endpoint(message.address), local_.address, bytes, Ecn::not_ect};
  std::size_t segment = 0;
  auto& header = const_cast<msghdr&>(received.msg_hdr);
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      datagram.ecn = static_cast<Ecn>(control_value<std::uint8_t>(*c) & 3U);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      datagram.ecn = static_cast<Ecn>(static_cast<unsigned>(control_value<int>(*c)) & 3U);
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      datagram.to = to_ip_address(control_value<in_pktinfo>(*c).ipi_addr);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      datagram.to = to_ip_address(control_value<in6_pktinfo>(*c).ipi6_addr);
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      segment = static_cast<std::size_t>(std::max(0, control_value<int>(*c)));
    }
  }
  if (segment == 0 || segment >= bytes.size()) {
    buffers_.batch.push_back(datagram);
    return;
  }
  ++loop_.counters.coalesced_messages;
  for (std::size_t at = 0; at < bytes.size(); at += segment) {
    datagram.payload = bytes.subspan(at, std::min(segment, bytes.size() - at));
    buffers_.batch.push_back(datagram);
  }
}

bool KernelDatagramSocket::read_errors(TimePoint now) {
  EventLoop& loop = loop_;
  const EventLoop::Token token = token_;
  for (;;) {
    SocketAddress to{};
    alignas(cmsghdr) std::array<std::uint8_t, 512> control;
    std::uint8_t payload = 0;  // the datagram comes back with its error, and is of no use
    iovec slice{&payload, sizeof payload};
    msghdr header{};
    header.msg_name = &to;
    header.msg_namelen = sizeof to;
    header.msg_iov = &slice;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ++loop_.counters.system_calls;
    if (recvmsg(fd_.value(), &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      // The queue is empty. An error without an entry would keep epoll awake: reading it clears it.
      ++loop_.counters.system_calls;
      (void)take_socket_error(fd_.value());
      return true;
    }
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
          !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
        continue;
      }
      const auto error = control_value<sock_extended_err>(*c);
      const auto reason = reason_of(error);
      if (!reason) continue;
      ++loop_.counters.errors_received;
      handler_.on_unreachable(
          now, {to_endpoint(to), *reason, *reason == UnreachableReason::too_big ? mtu_of(error) : std::uint16_t{0}});
      if (!loop.is_alive(token)) return false;
    }
  }
}

}  // namespace peerbed
