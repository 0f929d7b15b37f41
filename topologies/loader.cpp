#include "topologies/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <filesystem>
#include <utility>

#include "topologies/read_options.h"
#include "topologies/suggest.h"
#include "topologies/validate.h"

namespace peerbed {
namespace {

constexpr std::int64_t kMaxHosts = 100'000;

/// A home or office network, where the file says nothing else.
constexpr LinkDirection kLan{.rate = DataRate{1'000'000'000}, .delay = 100us};

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), allowed) && name.front() != '.' &&
         name.back() != '.' && name.find("..") == std::string_view::npos;
}

/// Walks one file and collects nodes and links, each with its place for later errors.
class Reader {
 public:
  explicit Reader(const YamlFile& file, const std::string& file_name) : file_(file), file_name_(file_name) {}

  Result<Topology> read() {
    topology_.name = std::filesystem::path(file_name_).stem().string();
    YamlMap root = file_.root("the topology");
    topology_.title = root.text("title").value_or("");
    for (const auto& [name, value] : root.entries("clouds")) read_cloud(name, value);
    for (const YamlValue& item : root.value("routers").one_or_more()) {
      if (const auto name = item.text()) add_node(*name, NodeKind::router, item);
    }
    for (const auto& [name, value] : root.entries("nats")) read_nat_node(name, value);
    for (const auto& [name, value] : root.entries("hosts")) read_hosts(name, value);
    for (const auto& [name, value] : root.entries("links")) read_link(name, value);
    root.done();
    if (file_.error()) return *file_.error();
    if (std::none_of(topology_.nodes.begin(), topology_.nodes.end(),
                     [](const NodeSpec& n) { return n.kind == NodeKind::host; })) {
      return bad_input(fmt::format("{}: the topology has no hosts", file_name_));
    }
    if (auto fault = complete_structure(topology_)) return located(*fault);
    deal_regions();
    if (file_.error()) return *file_.error();
    if (auto fault = assign_addresses(topology_, wishes_)) return located(*fault);
    return std::move(topology_);
  }

 private:
  Error located(const TopologyFault& fault) const {
    const YamlValue& place = fault.at_link ? link_places_[fault.index] : node_places_[fault.index];
    return bad_input(fmt::format("{}: {}", place.where(), fault.sentence));
  }

  NodeSpec& add_node(const std::string& name, NodeKind kind, const YamlValue& place,
                     FamilyWish wish = FamilyWish::automatic) {
    if (!is_name(name)) {
      place.fail_plainly(fmt::format("'{}' is no name; use up to 64 letters, digits, '-', '_' and '.'", name));
    }
    NodeSpec& node = topology_.nodes.emplace_back();
    node.name = name;
    node.kind = kind;
    node_places_.push_back(place);
    wishes_.push_back(wish);
    return node;
  }

  LinkSpec& add_link(const std::string& name, std::string a, std::string b, const YamlValue& place,
                     std::optional<YamlValue> region = std::nullopt) {
    LinkSpec& link = topology_.links.emplace_back();
    link.name = name;
    link.a = std::move(a);
    link.b = std::move(b);
    link_places_.push_back(place);
    regions_of_links_.push_back(std::move(region));
    return link;
  }

  /// `to:`, `region:` and `access:` of a host or a NAT: the link that leads to the rest of the world.
  struct Attachment {
    std::string to;
    std::optional<YamlValue> region;
    LinkSpec link;  ///< the settings only
  };
  Attachment read_attachment(YamlMap& map) {
    Attachment attachment;
    attachment.to = map.text("to").value_or("");
    if (map.has("region")) attachment.region = map.value("region");
    YamlMap access = map.value("access").map(fmt::format("access of {}", map.what()));
    read_link_options(access, attachment.link);
    access.done();
    for (const char* key : {"region", "access"}) {
      if (attachment.to.empty() && map.has(key)) map.value(key).fail("has no effect without 'to'");
    }
    return attachment;
  }
  void attach(const std::string& owner, const std::string& from, const Attachment& attachment, const YamlValue& place) {
    if (attachment.to.empty()) return;
    LinkSpec& link = add_link(owner + ".access", from, attachment.to, place, attachment.region);
    link.a_to_b = attachment.link.a_to_b;
    link.b_to_a = attachment.link.b_to_a;
    generated_.emplace(link.name, topology_.links.size() - 1);
  }

  void read_cloud(const std::string& name, const YamlValue& value) {
    YamlMap map = value.map(fmt::format("cloud '{}'", name));
    CloudSpec cloud;
    cloud.name = name;
    Regions regions = read_regions(map, file_name_);
    cloud.delay = regions.delay;
    cloud.jitter = map.duration("jitter").value_or(0s);
    if (cloud.jitter > 1h) map.value("jitter").fail(fmt::format("'{}' is above 1 h", to_string(cloud.jitter)));
    cloud.loss = map.fraction("loss").value_or(0);
    map.done();
    add_node(name, NodeKind::cloud, value);
    topology_.clouds.push_back(std::move(cloud));
    cloud_regions_.push_back(std::move(regions));
  }

  void read_nat_node(const std::string& name, const YamlValue& value) {
    NatOptions options;
    Attachment attachment;
    if (value.is_scalar()) {
      options = read_nat(value, "");
    } else {
      YamlMap map = value.map(fmt::format("nat '{}'", name));
      read_nat_options(map, options);
      attachment = read_attachment(map);
      map.done();
    }
    NodeSpec& node = add_node(name, NodeKind::nat, value, FamilyWish::v4);
    node.nat = options.behavior;
    node.addresses = std::move(options.addresses);
    attach(name, name, attachment, value);
  }

  void read_hosts(const std::string& name, const YamlValue& value) {
    static constexpr std::array<std::string_view, 3> kFamilies{"v4", "v6", "dual"};
    YamlMap map = value.map(fmt::format("host '{}'", name));
    const auto count = map.integer("count", 1, kMaxHosts);
    const auto family = map.choice("family", kFamilies);
    const FamilyWish wish = family ? static_cast<FamilyWish>(*family + 1) : FamilyWish::automatic;
    const std::vector<IpAddress> addresses = read_addresses(map);
    if (family && !addresses.empty()) map.value("family").fail("stands beside 'address', which says that already");
    if (count && !addresses.empty()) map.value("address").fail("one address cannot be that of every host of a group");

    const YamlValue nat_value = map.value("nat");
    const bool is_none = nat_value.is_scalar() && nat_value.node().Scalar() == "none";
    const bool has_nat = !nat_value.is_null() && !is_none;
    NatOptions nat;
    if (has_nat) nat = read_nat(nat_value, fmt::format("nat of host '{}'", name));
    if (count && !nat.addresses.empty()) nat_value.fail("one address cannot be that of every NAT of a group");
    LinkSpec lan;
    lan.a_to_b = lan.b_to_a = kLan;
    YamlMap lan_map = map.value("lan").map(fmt::format("lan of host '{}'", name));
    read_link_options(lan_map, lan);
    lan_map.done();
    if (nat_value.is_null() && map.has("lan")) map.value("lan").fail("has no effect without 'nat'");
    const Attachment attachment = read_attachment(map);
    map.done();
    if (file_.error()) return;

    hosts_ += count.value_or(1);
    if (hosts_ > kMaxHosts) {
      value.fail(fmt::format("more than {} hosts in one topology", kMaxHosts));
      return;
    }
    for (std::int64_t i = 0; i < count.value_or(1); ++i) {
      const std::string host_name = count ? fmt::format("{}-{}", name, i) : name;
      NodeSpec& host = add_node(host_name, NodeKind::host, value, wish);
      host.addresses = addresses;
      if (count) host.group = name;
      std::string outermost = host_name;
      if (has_nat) {
        outermost += ".nat";
        NodeSpec& box = add_node(outermost, NodeKind::nat, nat_value, FamilyWish::v4);
        box.nat = nat.behavior;
        box.addresses = nat.addresses;
        LinkSpec& link = add_link(host_name + ".lan", host_name, outermost, value);
        link.a_to_b = lan.a_to_b;
        link.b_to_a = lan.b_to_a;
        generated_.emplace(link.name, topology_.links.size() - 1);
      }
      if (is_none) stand_ins_.emplace(host_name + ".nat", host_name);
      attach(host_name, outermost, attachment, value);
    }
  }

  /// With "nat: none" a host itself takes the place of its NAT, so that one word in a sweep takes the NAT away.
  std::string stand_in(std::string end) const {
    const auto found = stand_ins_.find(end);
    return found == stand_ins_.end() ? end : found->second;
  }

  void read_link(const std::string& name, const YamlValue& value) {
    if (!is_name(name))
      value.fail_plainly(fmt::format("'{}' is no name; use up to 64 letters, digits, '-', '_' and '.'", name));
    YamlMap map = value.map(fmt::format("link '{}'", name));
    if (const auto made = generated_.find(name); made != generated_.end()) {
      for (const char* end : {"from", "to"}) {
        if (map.has(end)) map.value(end).fail("this link comes with its host or nat; its ends cannot be changed");
      }
      read_link_options(map, topology_.links[made->second]);
      map.done();
      return;
    }
    std::string from = map.required_text("from"), to = map.required_text("to");
    std::optional<YamlValue> region;
    if (map.has("region")) region = map.value("region");
    LinkSpec& link = add_link(name, stand_in(std::move(from)), stand_in(std::move(to)), value, std::move(region));
    read_link_options(map, link);
    map.done();
  }

  void deal_regions() {
    boost::unordered_flat_map<std::string_view, std::size_t> index;
    std::vector<RegionDealer> dealers;
    for (std::size_t i = 0; i < topology_.clouds.size(); ++i) {
      index.emplace(topology_.clouds[i].name, i);
      dealers.emplace_back(cloud_regions_[i].weights);
    }
    for (std::size_t i = 0; i < topology_.links.size(); ++i) {
      const LinkSpec& link = topology_.links[i];
      const auto& wanted = regions_of_links_[i];
      bool used = false;
      for (const std::string* end : {&link.a, &link.b}) {
        const auto found = index.find(*end);
        if (found == index.end()) continue;
        const Regions& regions = cloud_regions_[found->second];
        std::size_t region = 0;
        if (wanted) {
          const auto name = wanted->text();
          const auto known = regions.find(name.value_or(""));
          if (!known)
            wanted->fail(fmt::format("'{}' is no region of {}{}", name.value_or(""), *end,
                                     did_you_mean(name.value_or(""), regions.names)));
          region = known.value_or(0);
          used = true;
        } else {
          region = dealers[found->second].next();
        }
        topology_.clouds[found->second].region_of.push_back(region);
      }
      if (wanted && !used)
        wanted->fail(fmt::format("link '{}' does not lead to a cloud, so it has no region", link.name));
    }
  }

  const YamlFile& file_;
  const std::string& file_name_;
  Topology topology_;
  std::vector<YamlValue> node_places_, link_places_;
  std::vector<FamilyWish> wishes_;
  std::vector<std::optional<YamlValue>> regions_of_links_;
  std::vector<Regions> cloud_regions_;
  boost::unordered_flat_map<std::string, std::size_t> generated_;  ///< links that hosts and NATs bring along
  boost::unordered_flat_map<std::string, std::string> stand_ins_;  ///< "alice.nat" is "alice"
  std::int64_t hosts_ = 0;
};

// Overrides -----------------------------------------------------------------------------------------------------------

/// "nat: eim/apdf" becomes "nat: {behavior: eim/apdf}", so that an override can set one switch of it.
void spell_out_nats(YAML::Node root) {
  const auto spell_out = [](YAML::Node owner, const std::string& key) {
    if (!owner[key].IsScalar() || owner[key].Scalar() == "none") return;
    YAML::Node map(YAML::NodeType::Map);
    map["behavior"] = owner[key].Scalar();
    owner[key] = map;
  };
  if (YAML::Node hosts = root["hosts"]; hosts.IsMap()) {
    for (auto entry : hosts) {
      if (entry.second.IsMap() && entry.second["nat"]) spell_out(entry.second, "nat");
    }
  }
  if (YAML::Node nats = root["nats"]; nats.IsMap()) {
    std::vector<std::string> names;
    for (auto entry : nats) names.push_back(entry.first.Scalar());
    for (const std::string& name : names) spell_out(nats, name);
  }
}

/// A link that comes with a host has no entry in the file; an override makes one. Gives the link's name.
std::optional<std::string> generated_link(const YAML::Node& root, std::string_view rest) {
  const auto match = [&](const std::string& owner, bool has_lan, bool has_access) -> std::optional<std::string> {
    if (!rest.starts_with(owner)) return std::nullopt;
    for (const auto& [suffix, exists] : {std::pair<std::string_view, bool>{".lan", has_lan}, {".access", has_access}}) {
      const std::string_view tail = rest.substr(owner.size());
      if (exists && tail.starts_with(suffix) && (tail.size() == suffix.size() || tail[suffix.size()] == '.')) {
        return owner + std::string(suffix);
      }
    }
    return std::nullopt;
  };
  for (const char* section : {"hosts", "nats"}) {
    const YAML::Node entries = root[section];
    if (!entries.IsDefined() || !entries.IsMap()) continue;
    for (const auto& entry : entries) {
      if (!entry.second.IsMap()) continue;
      const std::string& name = entry.first.Scalar();
      const bool is_host = section[0] == 'h', has_lan = is_host && entry.second["nat"].IsDefined();
      const bool has_access = entry.second["to"].IsDefined(), is_group = is_host && entry.second["count"].IsDefined();
      std::string owner = name;
      if (is_group) {
        const std::string prefix = name + '-';
        if (!rest.starts_with(prefix)) continue;
        const std::string_view digits = rest.substr(prefix.size(), rest.find('.') - prefix.size());
        std::int64_t number = -1, count = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
        const std::string count_text = entry.second["count"].IsScalar() ? entry.second["count"].Scalar() : "0";
        std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
        if (number < 0 || number >= count || std::to_string(number) != digits) continue;
        owner = prefix + std::string(digits);
      }
      if (auto link = match(owner, has_lan, has_access)) return link;
    }
  }
  return std::nullopt;
}

Result<void> apply_override(YamlFile& file, const YamlOverride& change) {
  YAML::Node root = file.value().node();
  const std::string_view key = change.key;
  if (key.starts_with("nats.") || key.find(".nat.") != std::string_view::npos) spell_out_nats(root);
  if (key.starts_with("links.")) {
    const auto link = generated_link(root, key.substr(6));
    YAML::Node links = root["links"];
    if (link && (!links || links.IsMap()) && !(links && links[*link])) {
      root["links"][*link] = YAML::Node(YAML::NodeType::Map);
    }
  }
  static constexpr std::array<std::string_view, 5> kMayAdd{"up", "down", "access", "lan", "nat"};
  return file.apply(change, kMayAdd);
}

}  // namespace

Result<Topology> parse_topology(std::string_view text, const std::string& file_name,
                                std::span<const YamlOverride> overrides) {
  auto file = YamlFile::parse(text, file_name);
  if (!file) return file.error();
  for (const YamlOverride& change : overrides) {
    if (const auto applied = apply_override(*file, change); !applied) return applied.error();
  }
  return Reader(*file, file_name).read();
}

Result<Topology> load_topology(const std::string& path_or_name, std::span<const YamlOverride> overrides) {
  std::string path = path_or_name;
  if (path.find('/') == std::string::npos && !path.ends_with(".yaml") && !path.ends_with(".yml")) {
    const auto found = find_catalog_topology(path);
    if (!found) return found.error();
    path = *found;
  }
  auto file = YamlFile::load(path);
  if (!file) return file.error();
  for (const YamlOverride& change : overrides) {
    if (const auto applied = apply_override(*file, change); !applied) return applied.error();
  }
  return Reader(*file, path).read();
}

std::vector<CatalogEntry> catalog_topologies() {
  std::vector<CatalogEntry> entries;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(topology_folder() + "/catalog", ignored)) {
    if (file.path().extension() != ".yaml") continue;
    CatalogEntry entry{file.path().stem().string(), "", file.path().string()};
    if (const auto parsed = YamlFile::load(entry.path)) {
      for (const auto& [key, value] : parsed->value().entries()) {
        if (key == "title" && value.is_scalar()) entry.title = value.node().Scalar();
      }
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const CatalogEntry& a, const CatalogEntry& b) { return a.name < b.name; });
  return entries;
}

Result<std::string> find_catalog_topology(std::string_view name) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog_topologies()) {
    if (entry.name == name) return entry.path;
    names.push_back(entry.name);
  }
  return bad_input(fmt::format("there is no topology '{}' in the catalog{}", name, did_you_mean(name, names)));
}

}  // namespace peerbed
