#include "core/base/endpoint.h"

#include <arpa/inet.h>  // inet_pton and inet_ntop are text functions; no socket is touched
#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace peerbed {
namespace {

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t word(const IpAddress& a, std::size_t from) {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < 8; ++i) v = (v << 8) | a.octets[from + i];
  return v;
}

}  // namespace

Result<IpAddress> IpAddress::parse(std::string_view text) {
  IpAddress a;
  const std::string copy(text);
  a.family = copy.find(':') == std::string::npos ? Family::v4 : Family::v6;
  if (inet_pton(a.family == Family::v4 ? AF_INET : AF_INET6, copy.c_str(), a.octets.data()) != 1) {
    return bad_input(fmt::format("'{}' is not an IP address", text));
  }
  return a;
}

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(family == Family::v4 ? AF_INET : AF_INET6, octets.data(), text, sizeof text);
  return text;
}

bool IpAddress::is_loopback() const {
  return family == Family::v4 ? octets[0] == 127 : *this == loopback(Family::v6);
}

bool IpAddress::is_private() const {
  if (is_loopback()) return true;
  if (family == Family::v6) return (octets[0] & 0xfe) == 0xfc || (octets[0] == 0xfe && (octets[1] & 0xc0) == 0x80);
  return octets[0] == 10 || (octets[0] == 172 && (octets[1] & 0xf0) == 16) || (octets[0] == 192 && octets[1] == 168) ||
         (octets[0] == 100 && (octets[1] & 0xc0) == 64) || (octets[0] == 169 && octets[1] == 254);
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const auto wrong = [&] {
    return bad_input(fmt::format("'{}' is not an endpoint; write '192.0.2.1:4000' or '[2001:db8::1]:4000'", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  if (!address || (address->family == Family::v6) != bracketed) return wrong();
  Endpoint e{*address, 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), e.port);
  if (port.empty() || error != std::errc{} || end != port.data() + port.size()) return wrong();
  return e;
}

std::string Endpoint::to_string() const {
  return address.family == Family::v4 ? fmt::format("{}:{}", address.to_string(), port)
                                      : fmt::format("[{}]:{}", address.to_string(), port);
}

std::uint64_t hash_value(const IpAddress& a) {
  return mix(word(a, 0) + mix(word(a, 8) + static_cast<std::uint64_t>(a.family)));
}

std::uint64_t hash_value(const Endpoint& e) { return mix(hash_value(e.address) + e.port); }

}  // namespace peerbed
