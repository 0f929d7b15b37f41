// Who is where. A NAT splits the network into realms, each with its own addresses. In a realm, hosts and the outsides of NATs are
// terminals, hung on routers (routers proper, clouds, the insides of NATs). A packet learns its destination's attachment once, when
// it enters the realm; each router then finds the next link by one look into an array.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/endpoint.h"
#include "sim/des/link.h"

namespace peerbed::sim {

using RealmId = std::uint32_t;
using RouterId = std::uint32_t;
inline constexpr RouterId kNoRouter = ~RouterId{0};

/// The place of a terminal: its router, and the link from there. Without a link it is the router itself: the way out of the realm.
struct Attachment {
  RouterId router = kNoRouter;  ///< none: a link directly between two terminals
  Link* last_link = nullptr;
};

class Routes {
 public:
  // Building.
  RealmId add_realm();
  RouterId add_router(RealmId realm);
  AttachmentId add_attachment(const Attachment& attachment);
  /// False: the realm has this address already.
  [[nodiscard]] bool add_address(RealmId realm, const IpAddress& address, AttachmentId at);
  void remove_address(RealmId realm, const IpAddress& address);
  void set_way_out(RealmId realm, AttachmentId at) { realms_[realm].way_out = at; }
  struct Edge {
    RouterId from = 0, to = 0;
    Link* link = nullptr;
  };
  /// Shortest by delay, then by hops, then by the order of the links. Later changes of delay do not move routes.
  void compute(const std::vector<Edge>& edges);

  // Using.
  /// Where packets to `address` go: its place, the way out of the realm, or nowhere.
  [[nodiscard]] AttachmentId resolve(RealmId realm, const IpAddress& address) const {
    const AttachmentId found = find(realm, address);
    return found != kNoAttachment ? found : realms_[realm].way_out;
  }
  [[nodiscard]] AttachmentId find(RealmId realm, const IpAddress& address) const;
  [[nodiscard]] bool is_way_out(RealmId realm, AttachmentId at) const { return realms_[realm].way_out == at; }
  /// The link from `here` towards `at`. Nothing: there is no path, or the way out is here.
  [[nodiscard]] Link* next_link(RouterId here, AttachmentId at) const {
    const Attachment& place = attachments_[at];
    if (place.router == here) return place.last_link;
    const Router& router = routers_[here];
    return next_[router.row + routers_[place.router].index];
  }
  void prefetch(RealmId realm) const { __builtin_prefetch(&realms_[realm]); }
  void prefetch_place(AttachmentId at) const {
    if (at != kNoAttachment) __builtin_prefetch(&attachments_[at]);
  }
  [[nodiscard]] RealmId realm_of(RouterId router) const { return routers_[router].realm; }

 private:
  /// Realms behind home NATs have a handful of addresses: these are looked through; the others are hashed.
  static constexpr std::size_t kFew = 8;
  struct Realm {
    AttachmentId way_out = kNoAttachment;
    std::uint32_t routers = 0;
    std::vector<std::pair<IpAddress, AttachmentId>> few;
    std::unique_ptr<boost::unordered_flat_map<IpAddress, AttachmentId, EndpointHash>> many;
  };
  struct Router {
    RealmId realm = 0;
    std::uint32_t index = 0;  ///< within its realm
    std::size_t row = 0;      ///< of next_
  };
  void compute_from(RouterId source, const std::vector<std::vector<Edge>>& outgoing);

  std::vector<Realm> realms_;
  std::vector<Router> routers_;
  std::vector<Attachment> attachments_;
  std::vector<Link*> next_;
};

}  // namespace peerbed::sim
