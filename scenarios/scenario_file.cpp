#include "scenarios/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "topologies/suggest.h"

namespace peerbed {

namespace {

constexpr std::array<std::string_view, 4> kTopologySections{"hosts", "links", "nats", "clouds"};

std::string_view first_part(std::string_view key) { return key.substr(0, key.find('.')); }

/// The section must be there before a key can be set in it.
Result<void> make_section(YamlFile& yaml, const std::string& section, const std::string& origin) {
  const YAML::Node root = yaml.value().node();
  const YAML::Node found = root[section];
  if (found.IsDefined() && !found.IsNull()) return {};
  return yaml.apply({section, "{}", origin});
}

/// "workload.bulk.size" names an entry by its kind or its name: "workload.0.bulk.size" in the file's terms.
Result<std::string> spelled_out(const YAML::Node& root, const std::string& key) {
  const std::string section(first_part(key));
  const YAML::Node entries = root[section];
  if (!entries.IsDefined() || !entries.IsSequence() || key.size() <= section.size()) return key;
  const std::string rest = key.substr(section.size() + 1);
  const std::string part(first_part(rest));
  const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) return key;
  std::vector<std::string> known, found;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].IsMap() || entries[i].size() != 1) continue;
    const auto entry = entries[i].begin();
    const std::string kind = entry->first.Scalar();
    const YAML::Node name = entry->second.IsMap() ? YAML::Node(entry->second["name"]) : YAML::Node();
    const std::string label = name.IsDefined() && name.IsScalar() ? name.Scalar() : kind;
    known.push_back(label);
    if (label == part) found.push_back(fmt::format("{}.{}.{}{}", section, i, kind, rest.substr(part.size())));
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) return bad_input(fmt::format("'{}' could be any of {} entries of {}; write {}.0 for the first", part, found.size(), section, section));
  return bad_input(fmt::format("there is no '{}' in {}{}", part, section, did_you_mean(part, known)));
}

std::optional<std::string> text_below(const YAML::Node& node, std::string_view key) {
  if (key.empty()) return node.IsDefined() && !node.IsNull() ? std::optional(yaml_text(node)) : std::nullopt;
  if (!node.IsDefined() || !node.IsMap()) return std::nullopt;
  for (const auto& entry : node) {
    const std::string& name = entry.first.Scalar();
    if (!key.starts_with(name)) continue;
    if (key.size() == name.size()) return text_below(entry.second, "");
    if (key[name.size()] != '.') continue;
    if (auto text = text_below(entry.second, key.substr(name.size() + 1))) return text;
  }
  return std::nullopt;
}

}  // namespace

bool is_topology_key(std::string_view dotted_key) {
  const auto section = first_part(dotted_key);
  return section.size() < dotted_key.size() &&
         std::find(kTopologySections.begin(), kTopologySections.end(), section) != kTopologySections.end();
}

Result<ScenarioFile> ScenarioFile::load(const std::string& path) {
  auto yaml = YamlFile::load(path);
  if (!yaml) return yaml.error();
  return ScenarioFile{std::move(*yaml), {}};
}

Result<void> ScenarioFile::apply(const std::string& key, const std::string& value) {
  const std::string origin = fmt::format("--set {}={}", key, value);
  if (is_topology_key(key)) {
    topology_changes.push_back({key, value, origin});
    return {};
  }
  const std::string section(first_part(key));
  if (section == "sweep" || section == "run" || section == "expect")
    return bad_input(fmt::format("{}: '{}' cannot be set from outside", origin, section));
  if (section == "nodes") {
    const auto last = key.rfind('.');
    if (last <= section.size()) return bad_input(fmt::format("{}: a key of nodes is nodes.NAME.SETTING", origin));
    if (auto made = make_section(yaml, section, origin); !made) return made.error();
    // The file may say nothing of that node yet.
    const std::string selector = key.substr(section.size() + 1, last - section.size() - 1);
    YAML::Node nodes = yaml.value().node()[section];
    if (nodes.IsMap() && (!nodes[selector].IsDefined() || nodes[selector].IsNull())) nodes[selector] = YAML::Node(YAML::NodeType::Map);
    return yaml.apply({key, value, origin});
  }
  const auto spelled = spelled_out(yaml.value().node(), key);
  if (!spelled) return bad_input(fmt::format("{}: {}", origin, spelled.error().message));
  return yaml.apply({*spelled, value, origin});
}

std::optional<std::string> text_at(const YAML::Node& root, std::string_view key) { return text_below(root, key); }

std::string yaml_text(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  out.SetMapFormat(YAML::Flow);
  out << node;
  return out.c_str();
}

YAML::Node yaml_copy(const YAML::Node& node) { return YAML::Load(YAML::Dump(node)); }

}  // namespace peerbed
