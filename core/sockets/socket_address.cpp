#include "core/sockets/socket_address.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace peerbed {

socklen_t to_socket_address(const Endpoint& endpoint, SocketAddress& out) {
  if (endpoint.address.family == Family::v4) {
    out.v4 = {};
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(endpoint.port);
    std::memcpy(&out.v4.sin_addr, endpoint.address.octets.data(), 4);
    return sizeof out.v4;
  }
  out.v6 = {};
  out.v6.sin6_family = AF_INET6;
  out.v6.sin6_port = htons(endpoint.port);
  std::memcpy(&out.v6.sin6_addr, endpoint.address.octets.data(), 16);
  return sizeof out.v6;
}

IpAddress to_ip_address(const in_addr& address) {
  IpAddress result = IpAddress::any(Family::v4);
  std::memcpy(result.octets.data(), &address, 4);
  return result;
}

IpAddress to_ip_address(const in6_addr& address) {
  IpAddress result = IpAddress::any(Family::v6);
  std::memcpy(result.octets.data(), &address, 16);
  return result;
}

Endpoint to_endpoint(const SocketAddress& address) {
  if (address.any.sa_family == AF_INET6) return {to_ip_address(address.v6.sin6_addr), ntohs(address.v6.sin6_port)};
  return {to_ip_address(address.v4.sin_addr), ntohs(address.v4.sin_port)};
}

Endpoint local_endpoint_of(int fd) {
  SocketAddress address{};
  socklen_t length = sizeof address;
  getsockname(fd, &address.any, &length);
  return to_endpoint(address);
}

Endpoint remote_endpoint_of(int fd) {
  SocketAddress address{};
  socklen_t length = sizeof address;
  getpeername(fd, &address.any, &length);
  return to_endpoint(address);
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool set_socket_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

Error socket_error(std::string_view what, const Endpoint& endpoint, int error_number) {
  return unavailable(fmt::format("cannot {} {}: {}", what, endpoint.to_string(), std::strerror(error_number)));
}

CloseReason close_reason(int error_number) {
  switch (error_number) {
    case 0: return CloseReason::finished;
    case ECONNREFUSED: return CloseReason::refused;
    case ETIMEDOUT: return CloseReason::timed_out;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ENOPROTOOPT:  // an ICMP "protocol unreachable"
    case EACCES:
    case EPERM: return CloseReason::unreachable;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:  // a RST after the peer's FIN
    case ENOTCONN: return CloseReason::reset;
    default: return CloseReason::local_error;
  }
}

UnreachableReason unreachable_reason(int error_number) {
  switch (error_number) {
    case ECONNREFUSED: return UnreachableReason::port;
    case EHOSTUNREACH:
    case EHOSTDOWN: return UnreachableReason::host;
    case EMSGSIZE: return UnreachableReason::too_big;
    case EACCES:
    case EPERM: return UnreachableReason::prohibited;
    default: return UnreachableReason::network;
  }
}

}  // namespace peerbed
