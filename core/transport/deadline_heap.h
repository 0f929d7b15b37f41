// The next deadlines of many machines behind one timer: a binary heap whose items know their place, so that moving a
// deadline costs O(log n) and nothing is swept. Equal deadlines come in order of the items' serial numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.h"

namespace peerbed {

struct DeadlineNode {
  static constexpr std::size_t kAbsent = ~std::size_t{0};
  TimePoint deadline = kNever;
  std::uint64_t serial = 0;
  std::size_t place = kAbsent;
};

class DeadlineHeap {
 public:
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] DeadlineNode& front() const { return *items_.front(); }
  [[nodiscard]] TimePoint next() const { return items_.empty() ? kNever : items_.front()->deadline; }

  /// kNever removes it.
  void set(DeadlineNode& node, TimePoint deadline) {
    if (deadline == kNever) return remove(node);
    if (node.place == DeadlineNode::kAbsent) {
      node.place = items_.size();
      items_.push_back(&node);
    }
    node.deadline = deadline;
    sift_down(sift_up(node.place));
  }
  void remove(DeadlineNode& node) {
    node.deadline = kNever;
    if (node.place == DeadlineNode::kAbsent) return;
    const std::size_t hole = node.place;
    node.place = DeadlineNode::kAbsent;
    DeadlineNode* last = items_.back();
    items_.pop_back();
    if (last == &node) return;
    put(hole, last);
    sift_down(sift_up(hole));
  }

 private:
  [[nodiscard]] static bool before(const DeadlineNode& a, const DeadlineNode& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : a.serial < b.serial;
  }
  void put(std::size_t place, DeadlineNode* node) {
    items_[place] = node;
    node->place = place;
  }
  std::size_t sift_up(std::size_t i) {
    DeadlineNode* node = items_[i];
    for (; i > 0 && before(*node, *items_[(i - 1) / 2]); i = (i - 1) / 2) put(i, items_[(i - 1) / 2]);
    put(i, node);
    return i;
  }
  void sift_down(std::size_t i) {
    DeadlineNode* node = items_[i];
    for (std::size_t child = 2 * i + 1; child < items_.size(); child = 2 * i + 1) {
      if (child + 1 < items_.size() && before(*items_[child + 1], *items_[child])) ++child;
      if (!before(*items_[child], *node)) break;
      put(i, items_[child]);
      i = child;
    }
    put(i, node);
  }
  std::vector<DeadlineNode*> items_;
};

}  // namespace peerbed
