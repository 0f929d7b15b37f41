#include "sim/des/routes.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace peerbed::sim {

RealmId Routes::add_realm() {
  realms_.emplace_back();
  return static_cast<RealmId>(realms_.size() - 1);
}

RouterId Routes::add_router(RealmId realm) {
  routers_.push_back({realm, realms_[realm].routers++, 0});
  return static_cast<RouterId>(routers_.size() - 1);
}

AttachmentId Routes::add_attachment(const Attachment& attachment) {
  attachments_.push_back(attachment);
  return static_cast<AttachmentId>(attachments_.size() - 1);
}

AttachmentId Routes::find(RealmId realm_id, const IpAddress& address) const {
  const Realm& realm = realms_[realm_id];
  if (realm.many) {
    const auto found = realm.many->find(address);
    return found == realm.many->end() ? kNoAttachment : found->second;
  }
  for (const auto& [known, at] : realm.few) {
    if (known == address) return at;
  }
  return kNoAttachment;
}

bool Routes::add_address(RealmId realm_id, const IpAddress& address, AttachmentId at) {
  if (find(realm_id, address) != kNoAttachment) return false;
  Realm& realm = realms_[realm_id];
  if (!realm.many && realm.few.size() < kFew) {
    realm.few.emplace_back(address, at);
    return true;
  }
  if (!realm.many) {
    realm.many = std::make_unique<boost::unordered_flat_map<IpAddress, AttachmentId, EndpointHash>>(realm.few.begin(), realm.few.end());
    realm.few = {};
  }
  realm.many->emplace(address, at);
  return true;
}

void Routes::remove_address(RealmId realm_id, const IpAddress& address) {
  Realm& realm = realms_[realm_id];
  std::erase_if(realm.few, [&](const auto& entry) { return entry.first == address; });
  if (realm.many) realm.many->erase(address);
}

void Routes::compute(const std::vector<Edge>& edges) {
  std::size_t total = 0;
  for (Router& router : routers_) {
    router.row = total;
    total += realms_[router.realm].routers;
  }
  next_.assign(total, nullptr);
  std::vector<std::vector<Edge>> outgoing(routers_.size());
  for (const Edge& edge : edges) outgoing[edge.from].push_back(edge);
  for (RouterId source = 0; source < routers_.size(); ++source) {
    if (!outgoing[source].empty()) compute_from(source, outgoing);
  }
}

void Routes::compute_from(RouterId source, const std::vector<std::vector<Edge>>& outgoing) {
  // Dijkstra. Each entry carries the first link of its path; of equal paths the one that was offered first stays.
  struct Entry {
    Duration delay{};
    std::uint32_t hops = 0;
    std::uint64_t turn = 0;
    RouterId router = 0;
    Link* first = nullptr;
    bool operator>(const Entry& o) const { return std::tie(delay, hops, turn) > std::tie(o.delay, o.hops, o.turn); }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  std::vector<bool> done(realms_[routers_[source].realm].routers, false);
  std::uint64_t turn = 0;
  open.push({Duration{}, 0, turn, source, nullptr});
  while (!open.empty()) {
    const Entry at = open.top();
    open.pop();
    const std::uint32_t index = routers_[at.router].index;
    if (done[index]) continue;
    done[index] = true;
    next_[routers_[source].row + index] = at.first;
    for (const Edge& edge : outgoing[at.router]) {
      if (done[routers_[edge.to].index]) continue;
      open.push({at.delay + edge.link->delay(), at.hops + 1, ++turn, edge.to, at.first == nullptr ? edge.link : at.first});
    }
  }
}

}  // namespace peerbed::sim
