// A NAT as a pure table: which external endpoint an inside endpoint gets, and which inbound packet may pass. Words and
// rules are those of RFC 4787 (UDP), RFC 5382 and RFC 6146 (TCP) and RFC 5508 (ICMP queries, whose "port" is the query
// id).
//
// Times must not decrease from call to call. A mapping lives in [last refresh, last refresh + timeout): a packet at
// exactly the deadline comes too late. Every outside that was sent to has a session with a timer of its own, so that
// keepalives to one peer do not hold the filter open for another; a mapping lives as long as its last session (as in
// conntrack and pf). ICMP query mappings are endpoint-independent whatever the behaviour says (RFC 5508 REQ-1a); ports
// are never overloaded (RFC 4787 REQ-3), so nothing depends on collisions but the port (REQ-11).
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "core/env/random_stream.h"
#include "sim/nat/protocol.h"
#include "topologies/nat_behavior.h"

namespace peerbed::sim {

enum class NatDrop : std::uint8_t {
  none,
  no_mapping,    ///< nobody inside ever had this external port
  expired,       ///< somebody had it, and the mapping's time is over
  filtered,      ///< there is a mapping, but its filter does not let this outside in
  out_of_ports,  ///< every external port of the host's (paired) external address is taken
  hairpin_off,   ///< an inside host sent to an external address of its own NAT, which does not turn packets round
};
inline constexpr int kNatDrops = 6;
[[nodiscard]] std::string_view to_string(NatDrop drop);

struct NatCounters {
  std::uint64_t outbound = 0, inbound = 0, hairpinned = 0;  ///< packets that passed
  std::uint64_t mappings_made = 0, mappings_expired = 0;
  std::array<std::uint64_t, kNatDrops> drops{};  ///< by NatDrop
};

class NatTable {
 public:
  NatTable(const NatBehavior& behavior, std::vector<IpAddress> external_addresses, RandomStream random);

  /// The external endpoint that the packet leaves with; makes or refreshes the mapping. Nothing: out of ports.
  [[nodiscard]] std::optional<Endpoint> outbound(Protocol protocol, const Endpoint& inside, const Endpoint& outside,
                                                 TimePoint now, TcpFlags flags = {});

  /// The inside endpoint that the packet goes to, if there is a mapping and its filter lets `outside` in; else see
  /// last_drop().
  [[nodiscard]] std::optional<Endpoint> inbound(Protocol protocol, const Endpoint& outside, const Endpoint& external,
                                                TimePoint now, TcpFlags flags = {});

  /// A packet from an inside host to one of our external addresses: it turns round here, and presents its external
  /// source (RFC 4787 REQ-9a). The destination's filter applies. Nothing: see last_drop().
  struct Hairpin {
    Endpoint source, destination;
  };
  [[nodiscard]] std::optional<Hairpin> hairpin(Protocol protocol, const Endpoint& inside, const Endpoint& external,
                                               TimePoint now, TcpFlags flags = {});

  /// Where an ICMP error about a packet from `external` goes: neither filtered by source, nor does it refresh or end
  /// the mapping (RFC 4787 REQ-12). Counts nothing.
  [[nodiscard]] std::optional<Endpoint> inside_of(Protocol protocol, const Endpoint& external, TimePoint now);

  /// Why the last call of outbound, inbound or hairpin gave nothing; `none` after a packet that passed.
  [[nodiscard]] NatDrop last_drop() const { return last_drop_; }

  [[nodiscard]] bool is_external(const IpAddress& address) const;
  [[nodiscard]] const std::vector<IpAddress>& external_addresses() const { return external_addresses_; }

  /// The device restarts or its uplink renumbers: all mappings are gone. With `addresses`, new ones come from those.
  void rebind(TimePoint now, std::optional<std::vector<IpAddress>> addresses = std::nullopt);

  [[nodiscard]] const NatBehavior& behavior() const { return behavior_; }
  [[nodiscard]] const NatCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t mappings(TimePoint now);  ///< alive at `now`
  [[nodiscard]] std::size_t sessions(TimePoint now);  ///< alive at `now`: filter entries and TCP connections
  [[nodiscard]] std::size_t memory_bytes() const;     ///< object and heap, about
  /// A call will come soon: asks for the memory that it reads first. In a network of thousands of NATs it would wait for it.
  void prefetch() const {
    __builtin_prefetch(external_addresses_.data());
    __builtin_prefetch(wakes_.data());
    __builtin_prefetch(mappings_.data(), 1);
    __builtin_prefetch(sessions_.data(), 1);
  }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  /// RFC 6146 §3.5.2 with "V6" read as inside: what is known of one TCP connection.
  enum class TcpState : std::uint8_t {
    none,
    opened_inside,
    opened_outside,
    established,
    fin_inside,
    fin_outside,
    closing,
    transitory,
  };

  struct Mapping {
    Endpoint inside, outside;  ///< outside: as far as the mapping depends on it
    TimePoint expires{};
    Index first_session = kNone;
    std::uint16_t address = 0, port = 0;  ///< external
    Protocol protocol = Protocol::udp;
    bool live = false, replied = false;
  };
  struct Session {
    Endpoint outside;  ///< as far as the filter depends on it; whole for TCP
    TimePoint expires{};
    Index mapping = kNone, next = kNone, previous = kNone;
    TcpState state = TcpState::none;
    bool permission = false;
    bool live = false, replied = false;
  };
  struct MappingKey {
    Endpoint inside, outside;
    Protocol protocol;
    bool operator==(const MappingKey&) const = default;
  };
  struct SessionKey {
    Endpoint outside;
    Index mapping;
    bool permission;  ///< ADF for TCP: address-only entries next to whole connections
    bool operator==(const SessionKey&) const = default;
  };
  struct Hash {
    using is_avalanching = void;
    std::size_t operator()(const MappingKey& key) const;
    std::size_t operator()(const SessionKey& key) const;
    std::size_t operator()(std::uint64_t key) const;
  };
  struct PortWord {
    std::uint64_t taken = 0, ever = 0;  ///< 64 neighbouring ports
  };
  struct Wake {  ///< when to look at an entry again; never later than it can expire
    TimePoint at;
    Index index;
    bool session;
  };

  [[nodiscard]] Index mapping_for(Protocol protocol, const Endpoint& inside, const Endpoint& outside, TimePoint now);
  [[nodiscard]] Index find_mapping(Protocol protocol, const Endpoint& external) const;
  [[nodiscard]] Index find_session(Index mapping, const Endpoint& outside, bool permission) const;
  [[nodiscard]] Endpoint external_of(const Mapping& mapping) const;
  [[nodiscard]] NatDrop why_missing(Protocol protocol, const Endpoint& external) const;
  [[nodiscard]] bool passes_filter(Index mapping, const Endpoint& outside) const;
  std::nullopt_t refuse(NatDrop reason);

  void note(Index mapping, const Endpoint& outside, TimePoint now, TcpFlags flags, bool from_inside);
  void note_query(Index mapping, const Endpoint& outside, TimePoint now, bool from_inside);
  void note_tcp(Index mapping, const Endpoint& outside, TimePoint now, TcpFlags flags, bool from_inside);
  void allow_address(Index mapping, const Endpoint& outside, TimePoint expires, TimePoint now);
  void shorten_tcp(Index mapping, Index session, TimePoint expires);
  Index open_session(Index mapping, const Endpoint& outside, bool permission, TimePoint expires, TimePoint now);

  [[nodiscard]] Dependence filtering(Protocol protocol) const;
  [[nodiscard]] Duration query_timeout(Protocol protocol, bool replied) const;
  [[nodiscard]] std::uint16_t paired_address(const IpAddress& inside);

  [[nodiscard]] std::optional<std::uint16_t> take_port(Protocol protocol, std::uint16_t address, std::uint16_t wanted);
  [[nodiscard]] bool is_taken(std::uint64_t space, std::uint32_t port) const;
  [[nodiscard]] std::optional<std::uint32_t> next_free(std::uint64_t space, std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] std::optional<std::uint32_t> random_free(std::uint64_t space, std::uint32_t low, std::uint32_t high);

  void release(Index mapping);
  void close_session(Index session);
  void watch(TimePoint expires, TimePoint now, Index index, bool session);
  void expire(TimePoint now);

  NatBehavior behavior_;
  std::vector<IpAddress> external_addresses_;
  RandomStream random_;
  Duration shortest_timeout_;

  std::vector<Mapping> mappings_;
  std::vector<Session> sessions_;
  std::vector<Index> free_mappings_, free_sessions_;
  std::vector<Wake> wakes_;  ///< a heap, earliest first
  boost::unordered_flat_map<MappingKey, Index, Hash> by_inside_;
  boost::unordered_flat_map<std::uint64_t, Index, Hash> by_external_;
  boost::unordered_flat_map<SessionKey, Index, Hash> by_session_;
  boost::unordered_flat_map<std::uint64_t, PortWord, Hash> ports_;
  boost::unordered_flat_map<IpAddress, std::uint16_t, EndpointHash> pairing_;
  std::vector<std::uint32_t> taken_, last_port_;  ///< per protocol and external address
  std::size_t live_mappings_ = 0, live_sessions_ = 0;
  NatCounters counters_;
  NatDrop last_drop_ = NatDrop::none;
};

}  // namespace peerbed::sim
