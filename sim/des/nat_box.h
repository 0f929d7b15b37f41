// A NAT device between two realms: outside it is a terminal with addresses, inside it is the router that everything unknown goes to.
// The table decides (sim/nat); this element carries packets through it, ICMP errors included (RFC 5508 §4).
#pragma once

#include <optional>
#include <vector>

#include "sim/des/engine.h"
#include "sim/des/router.h"
#include "sim/nat/nat_table.h"

namespace peerbed::sim {

class NatBox {
 public:
  NatBox(Engine& engine, Routes& routes, std::string_view name, const NodeSpec& spec, RouterId inside);
  NatBox(const NatBox&) = delete;
  NatBox& operator=(const NatBox&) = delete;
  /// The way out: the link, its realm, and the place that the external addresses have there.
  void connect_outside(Link& link, RealmId realm, AttachmentId at);

  void connect_inside(Link& link) {
    if (inside_link_ == nullptr) inside_link_ = &link;
  }

  [[nodiscard]] Element& inside() { return inside_; }
  [[nodiscard]] Element& outside() { return outside_; }
  [[nodiscard]] NatTable& table() { return table_; }
  [[nodiscard]] RouterId inside_router() const { return router_; }
  /// Forgets all mappings. With `addresses`, the device has these from now on; false: somebody in the realm has one of them.
  [[nodiscard]] bool rebind(std::optional<std::vector<IpAddress>> addresses);

 private:
  class Inside final : public Router {
   public:
    Inside(NatBox& box, Engine& engine, const Routes& routes, RouterId id) : Router(engine, routes, id), box_(box) {}
    void accept(Packet* train) override;
    void prefetch(const Packet*, unsigned stage) const override { box_.prefetch(stage, false); }
    void refuse(Packet* packet, UnreachableReason reason, DropReason drop);
    void forward(Packet* packet);
    void send_out(Packet* packet);

   private:
    void turn_round(Packet* packet);
    void turn_error_round(Packet* packet);
    NatBox& box_;
  };
  class Outside final : public Element {
   public:
    explicit Outside(NatBox& box) : box_(box) {}
    void accept(Packet* train) override;
    void prefetch(const Packet*, unsigned stage) const override { box_.prefetch(stage, true); }

   private:
    void let_in(Packet* packet);
    [[nodiscard]] bool translate_error(Packet* packet);
    NatBox& box_;
  };
  void note_families();
  void prefetch(unsigned stage, bool inbound) const;
  [[nodiscard]] bool translates(Family family) const { return family == Family::v4 ? has_v4_ : has_v6_; }
  [[nodiscard]] DropReason why() const;

  Engine& engine_;
  Routes& routes_;
  NatTable table_;
  RouterId router_;
  RealmId inside_realm_ = 0, outside_realm_ = 0;
  AttachmentId outside_at_ = kNoAttachment;  ///< what the external addresses resolve to outside
  bool has_v4_ = false, has_v6_ = false;
  Link* outside_link_ = nullptr;
  const Link* inside_link_ = nullptr;  ///< the first; in most homes there is no other
  Inside inside_;
  Outside outside_;
};

}  // namespace peerbed::sim
