// Between our endpoints and the kernel's sockaddr, and from errno to our words.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "core/env/environment.h"

namespace peerbed {

/// Big enough for both families, and not for more: 128 bytes of sockaddr_storage per message are cache for nothing.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

/// Fills `out` and returns its length.
socklen_t to_socket_address(const Endpoint& endpoint, SocketAddress& out);
[[nodiscard]] Endpoint to_endpoint(const SocketAddress& address);
[[nodiscard]] IpAddress to_ip_address(const in_addr& address);
[[nodiscard]] IpAddress to_ip_address(const in6_addr& address);
[[nodiscard]] constexpr int to_domain(Family family) { return family == Family::v4 ? AF_INET : AF_INET6; }

[[nodiscard]] Endpoint local_endpoint_of(int fd);
[[nodiscard]] Endpoint remote_endpoint_of(int fd);
/// SO_ERROR, which reading clears.
[[nodiscard]] int take_socket_error(int fd);
bool set_socket_option(int fd, int level, int name, int value);

/// One sentence for the operator: what could not be done to which endpoint, and why.
[[nodiscard]] Error socket_error(std::string_view what, const Endpoint& endpoint, int error_number);
[[nodiscard]] CloseReason close_reason(int error_number);
[[nodiscard]] UnreachableReason unreachable_reason(int error_number);

}  // namespace peerbed
