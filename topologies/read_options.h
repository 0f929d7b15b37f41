// The parts of a topology file that occur in several places: the settings of a link, of a NAT, and of a cloud's
// regions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/model.h"
#include "topologies/yaml_reader.h"

namespace peerbed {

/// Applies rate, delay, jitter, loss and queue to both directions, then `up:` to a→b and `down:` to b→a.
void read_link_options(YamlMap& map, LinkSpec& link);

struct NatOptions {
  NatBehavior behavior;
  std::vector<IpAddress> addresses;
};
/// "eim/apdf", a registered name, or a mapping of `behavior` and switches. The caller's map may have keys of its own.
[[nodiscard]] NatOptions read_nat(const YamlValue& value, const std::string& what);
void read_nat_options(YamlMap& map, NatOptions& options);

[[nodiscard]] std::vector<IpAddress> read_addresses(YamlMap& map);

/// Where the hosts of a cloud can be, how many of them, and how far apart. Always at least one region.
struct Regions {
  std::vector<std::string> names;
  std::vector<std::int64_t> weights;
  std::vector<std::vector<Duration>> delay;  ///< one way, row = from

  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
};
/// From `data:` (a folder of regions.csv and latency_ms.csv: a name in topologies/data, or a path beside the file), or
/// from `regions:` and `delay:`.
[[nodiscard]] Regions read_regions(YamlMap& map, const std::string& file_name);

/// Deals out regions in proportion to their weights, without chance: after n hosts every region is within one host of
/// its share.
class RegionDealer {
 public:
  explicit RegionDealer(std::vector<std::int64_t> weights);
  [[nodiscard]] std::size_t next();

 private:
  std::vector<std::int64_t> weights_, dealt_;
  std::int64_t total_ = 0, count_ = 0;
};

[[nodiscard]] std::string topology_folder();  ///< of catalog/ and data/

}  // namespace peerbed
