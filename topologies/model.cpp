#include "topologies/model.h"

#include <algorithm>

namespace peerbed {

const NodeSpec* Topology::find_node(std::string_view node_name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeSpec& n) { return n.name == node_name; });
  return found == nodes.end() ? nullptr : &*found;
}

const LinkSpec* Topology::find_link(std::string_view link_name) const {
  const auto found = std::find_if(links.begin(), links.end(), [&](const LinkSpec& l) { return l.name == link_name; });
  return found == links.end() ? nullptr : &*found;
}

}  // namespace peerbed
