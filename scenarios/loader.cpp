#include "scenarios/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/congestion/controller.h"
#include "scenarios/measure/table.h"
#include "scenarios/project.h"
#include "scenarios/scenario_file.h"
#include "topologies/loader.h"
#include "topologies/suggest.h"

namespace peerbed {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxRepeat = 100'000;
constexpr std::size_t kMaxPoints = 1'000'000;

/// What the scenario says of the topology, in the order in which it counts.
class TopologyChanges {
 public:
  void add(std::string key, std::string value, std::string origin) {
    std::erase_if(changes_, [&](const YamlOverride& earlier) { return earlier.key == key; });
    changes_.push_back({std::move(key), std::move(value), std::move(origin)});
  }
  /// "links: {wan: {loss: 1 %}}": a name and a setting, whose value may be a mapping of its own.
  void add_section(std::string_view section, YamlMap& root) {
    for (const auto& [name, settings] : root.entries(section))
      for (const auto& [setting, value] : settings.entries())
        add(fmt::format("{}.{}.{}", section, name, setting), YAML::Dump(value.node()), value.where());
  }
  [[nodiscard]] const std::vector<YamlOverride>& all() const { return changes_; }

 private:
  std::vector<YamlOverride> changes_;
};

class Loader {
 public:
  Loader(ScenarioFile file, std::string path, const ScenarioRequest& request)
      : file_(std::move(file)), path_(std::move(path)), request_(request) {}

  Result<Scenario> load() {
    scenario_.file = path_;
    scenario_.name = fs::path(path_).stem().string();
    YamlMap root = file_.yaml.root("the scenario");
    read_run(root);
    scenario_.title = root.text("title").value_or(scenario_.name);
    scenario_.seed = static_cast<std::uint64_t>(root.integer("seed").value_or(1));
    if (request_.seed) scenario_.seed = *request_.seed;
    scenario_.duration = root.duration("duration").value_or(60s);
    if (scenario_.duration <= Duration{}) root.value("duration").fail("must be longer than zero");
    scenario_.figures = root.texts("figure");
    const YamlValue sweep = root.value("sweep");  // read by plan_sweep
    static_cast<void>(sweep);
    const auto node_values = root.entries("nodes");
    read_topology_changes(root, node_values);
    if (auto problem = read_topology(root)) {
      root.done();  // whatever else is wrong, the topology's sentence comes first
      return *problem;
    }

    for (const auto& [selector, value] : node_values) read_node(selector, value);
    std::vector<std::string> labels;
    for (const auto& entry : root.list("workload")) {
      auto workload = read_workload(entry, scenario_.topology, labels);
      if (workload) scenario_.workloads.push_back(std::move(workload));
    }
    for (const auto& entry : root.list("faults")) read_fault(entry);
    for (const auto& entry : root.value("expect").one_or_more()) read_expectation(entry);
    if (!root.has("workload")) root.self().fail_plainly("the scenario has no 'workload': its nodes would do nothing");
    root.done();
    if (file_.yaml.error()) return *file_.yaml.error();
    scenario_.set.insert(scenario_.set.end(), request_.set.begin(), request_.set.end());
    scenario_.resolved = resolved();
    return std::move(scenario_);
  }

 private:
  /// The header of an inputs.yaml: what the run that wrote it was.
  void read_run(YamlMap& root) {
    YamlMap run = root.value("run").map("run");
    if (auto name = run.text("scenario")) scenario_.name = *name;
    scenario_.backend = run.text("backend");
    static_cast<void>(run.text("version"));
    static_cast<void>(run.text("schema"));
    for (const auto& [key, value] : run.entries("set")) scenario_.set.emplace_back(key, yaml_text(value.node()));
    run.done();
  }

  void read_topology_changes(YamlMap& root, const std::vector<std::pair<std::string, YamlValue>>& node_values) {
    for (const auto& [selector, value] : node_values) {
      for (const auto& [key, setting] : value.entries())
        if (key == "nat") nats_.emplace_back(selector, setting);
    }
    for (const std::string_view section : {"hosts", "links", "nats", "clouds"}) changes_.add_section(section, root);
    for (const auto& [key, value] : root.entries("changes")) {
      if (!is_topology_key(key)) value.fail("a change of the topology begins with hosts, links, nats or clouds");
      changes_.add(key, YAML::Dump(value.node()), value.where());
    }
    for (const auto& change : file_.topology_changes) changes_.add(change.key, change.value, change.origin);
  }

  std::optional<Error> read_topology(YamlMap& root) {
    const YamlValue value = root.required("topology");
    std::string text, name;
    if (value.is_map()) {
      text = YAML::Dump(value.node());
      name = fmt::format("{}: topology", path_);
    } else {
      const auto written = value.is_null() ? std::nullopt : value.text();
      if (!written) root.self().fail_plainly("the scenario has no 'topology'");
      if (file_.yaml.error()) return *file_.yaml.error();
      const auto found = find_in_catalog("topologies/catalog", "topology", *written, fs::path(path_).parent_path().string());
      if (!found) {
        value.fail(found.error().message);
        return *file_.yaml.error();
      }
      const auto read = read_file(*found);
      if (!read) return read.error();
      text = *read;
      name = *found;
    }
    if (file_.yaml.error()) return *file_.yaml.error();
    auto plain = YamlFile::parse(text, name);
    if (!plain) return plain.error();
    topology_tree_ = yaml_copy(plain->value().node());
    // What nodes say of their NATs comes first, so that a key of the topology's own has the last word.
    std::vector<YamlOverride> all;
    for (const auto& [selector, setting] : nats_) expand_nat(selector, setting, all);
    if (file_.yaml.error()) return *file_.yaml.error();
    all.insert(all.end(), changes_.all().begin(), changes_.all().end());
    auto topology = parse_topology(text, name, all);
    if (!topology) return topology.error();
    scenario_.topology = std::move(*topology);
    if (scenario_.topology.name.empty() || value.is_map()) scenario_.topology.name = scenario_.name;
    return std::nullopt;
  }

  /// A topology file names hosts and groups; a selector may be a glob over them.
  void expand_nat(const std::string& selector, const YamlValue& setting, std::vector<YamlOverride>& all) {
    bool any = false;
    const YAML::Node hosts = topology_tree_["hosts"];
    if (hosts.IsDefined() && hosts.IsMap()) {
      for (const auto& host : hosts) {
        NodeSpec as_node;
        as_node.name = host.first.Scalar();
        if (!selects(selector, as_node)) continue;
        any = true;
        all.push_back({fmt::format("hosts.{}.nat", as_node.name), YAML::Dump(setting.node()), setting.where()});
      }
    }
    if (!any) setting.fail_plainly(fmt::format("the topology has no host or group '{}' to put behind a NAT", selector));
  }

  void read_node(const std::string& selector, const YamlValue& value) {
    YamlMap map = value.map(fmt::format("node '{}'", selector));
    NodeSetting setting;
    setting.selector = selector;
    static_cast<void>(map.value("nat"));
    if (const auto index = map.choice("congestion", controller_names())) setting.congestion = std::string(controller_names()[*index]);
    setting.udp = map.boolean("udp");
    setting.tcp = map.boolean("tcp");
    setting.relay = map.boolean("relay");
    setting.keepalive = map.duration("keepalive");
    setting.idle_timeout = map.duration("idle_timeout");
    if (const auto attempts = map.integer("punch_attempts", 0, 100)) setting.punch_attempts = static_cast<int>(*attempts);
    if (const auto peers = map.integer("max_peers", 1, 1'000'000)) setting.max_peers = static_cast<std::size_t>(*peers);
    map.done();
    const auto& nodes = scenario_.topology.nodes;
    const bool any = std::any_of(nodes.begin(), nodes.end(), [&](const NodeSpec& node) { return node.kind == NodeKind::host && selects(selector, node); });
    if (!any) value.fail_plainly(fmt::format("the topology has no host, group or match for '{}'{}", selector, did_you_mean(selector, names_of(NodeKind::host))));
    scenario_.nodes.push_back(std::move(setting));
  }

  [[nodiscard]] std::vector<std::string> names_of(NodeKind kind) const {
    std::vector<std::string> names;
    for (const auto& node : scenario_.topology.nodes)
      if (node.kind == kind) names.push_back(node.name);
    return names;
  }

  void check_name(YamlMap& map, std::string_view key, const std::string& name, std::span<const std::string> known) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      map.value(key).fail(fmt::format("the topology has no {} '{}'{}", key, name, did_you_mean(name, known)));
  }

  void read_fault(const YamlValue& entry) {
    static constexpr std::array<std::string_view, 3> kKinds{"rebind", "link", "stop"};
    static constexpr std::array<std::string_view, 3> kTargets{"nat", "link", "node"};
    static constexpr std::array<std::string_view, 3> kDirections{"both", "a_to_b", "b_to_a"};
    const auto single = entry.single("fault");
    if (!single) return;
    const auto found = std::find(kKinds.begin(), kKinds.end(), single->first);
    if (found == kKinds.end()) {
      entry.fail_plainly(fmt::format("unknown fault '{}'{}", single->first, did_you_mean(single->first, kKinds)));
      return;
    }
    const auto index = static_cast<std::size_t>(found - kKinds.begin());
    YamlMap map = single->second.map(fmt::format("fault '{}'", single->first));
    Fault fault;
    fault.kind = static_cast<Fault::Kind>(index);
    fault.target = map.required_text(kTargets[index]);
    static_cast<void>(map.required("at"));
    fault.at = map.duration("at").value_or(Duration{});
    if (fault.kind == Fault::Kind::link) {
      std::vector<std::string> links;
      for (const auto& link : scenario_.topology.links) links.push_back(link.name);
      if (!fault.target.empty()) check_name(map, "link", fault.target, links);
      fault.change.rate = map.rate("rate");
      fault.change.delay = map.duration("delay");
      fault.change.jitter = map.duration("jitter");
      fault.change.loss = map.fraction("loss");
      fault.change.direction = static_cast<LinkChange::Direction>(map.choice("direction", kDirections).value_or(0));
    } else if (!fault.target.empty()) {
      const bool rebind = fault.kind == Fault::Kind::rebind;
      check_name(map, kTargets[index], fault.target, names_of(rebind ? NodeKind::nat : NodeKind::host));
    }
    map.done();
    scenario_.faults.push_back(std::move(fault));
  }

  void read_expectation(const YamlValue& entry) {
    ScenarioExpectation expectation{parse_or_note(entry), {}, {}, ""};
    bool applies = true;
    YAML::Node kept(YAML::NodeType::Map);
    kept["that"] = expectation.that.text();
    if (entry.is_map()) {
      YamlMap map = entry.map("the expectation");
      static_cast<void>(map.required("that"));
      read_backends(map, expectation);
      for (const auto& [key, wanted] : map.entries("when")) {
        const auto value = value_of(key);
        if (!value) wanted.fail_plainly(fmt::format("neither the scenario nor --set gives '{}' a value", key));
        applies = applies && value == wanted.text();
      }
      for (const auto& [name, value] : map.entries("given")) expectation.given.emplace_back(name, yaml_text(value.node()));
      const auto table = map.text("table");
      const auto row = map.entries("row");
      if (table && row.empty()) map.value("table").fail("a table needs a 'row', as in 'row: {column: scenario.key}'");
      if (!table && !row.empty()) map.value("row").fail("a row needs a 'table'");
      if (table && !row.empty() && !file_.yaml.error()) read_row(map, *table, row, expectation);
      map.done();
    }
    if (!applies) return;
    for (const auto& backend : expectation.on) kept["on"].push_back(backend);
    for (const auto& [name, value] : expectation.given) kept["given"][name] = value;
    resolved_expectations_.push_back(kept);
    scenario_.expectations.push_back(std::move(expectation));
  }

  void read_backends(YamlMap& map, ScenarioExpectation& expectation) {
    static constexpr std::array<std::string_view, 4> kBackends{"sim", "ns3", "netem", "sockets"};
    for (const auto& value : map.value("on").one_or_more())
      if (const auto index = value.choice(kBackends)) expectation.on.emplace_back(kBackends[*index]);
  }

  Expectation parse_or_note(const YamlValue& entry) {
    YamlValue place = entry;
    if (entry.is_map())
      for (const auto& [key, value] : entry.entries())
        if (key == "that") place = value;
    auto parsed = Expectation::parse(place.is_map() ? std::string("0 == 0") : place.text().value_or("0 == 0"));
    if (parsed) return std::move(*parsed);
    place.fail_plainly(parsed.error().message);
    return *Expectation::parse("0 == 0");
  }

  /// The row whose columns equal the scenario's values gives the rest of its columns as names.
  void read_row(YamlMap& map, const std::string& table_path, const std::vector<std::pair<std::string, YamlValue>>& row,
                ScenarioExpectation& expectation) {
    const std::string path = (fs::path(path_).parent_path() / table_path).lexically_normal().string();
    const auto table = Table::load(path);
    if (!table) return map.value("table").fail(table.error().message);
    std::vector<std::pair<std::string, std::string>> wanted;
    for (const auto& [columns, key] : row) {
      const auto written = key.text();
      if (!written) return;
      const auto value = value_of(*written);
      if (!value) return key.fail(fmt::format("neither the scenario nor --set gives '{}' a value", *written));
      wanted.emplace_back(columns, *value);
    }
    const auto found = table->find(wanted);
    if (!found) return map.value("row").fail(found.error().message);
    expectation.origin = fmt::format("{}:{}", fs::path(path).filename().string(), found->line);
    for (const auto& [column, value] : found->values) expectation.given.emplace_back(column, value);
  }

  [[nodiscard]] std::optional<std::string> value_of(const std::string& key) const {
    for (auto change = request_.set.rbegin(); change != request_.set.rend(); ++change)
      if (change->first == key) return change->second;
    if (auto text = text_at(file_.yaml.value().node(), key)) return text;
    return text_at(topology_tree_, key);
  }

  /// The scenario as one file that needs no other.
  [[nodiscard]] std::string resolved() const {
    YAML::Node out = yaml_copy(file_.yaml.value().node());
    for (const char* key : {"sweep", "run", "hosts", "links", "nats", "clouds", "changes", "expect", "topology"}) out.remove(key);
    out["seed"] = std::to_string(scenario_.seed);
    for (const auto& change : changes_.all()) out["changes"][change.key] = YAML::Load(change.value);
    for (const auto& expectation : resolved_expectations_) out["expect"].push_back(expectation);
    out["topology"] = topology_tree_;
    return YAML::Dump(out) + "\n";
  }

  ScenarioFile file_;
  std::string path_;
  const ScenarioRequest& request_;
  YAML::Node topology_tree_;
  std::vector<std::pair<std::string, YamlValue>> nats_;
  TopologyChanges changes_;
  std::vector<YAML::Node> resolved_expectations_;
  Scenario scenario_;
};

bool is_list(const std::string& value) { return value.find_first_not_of(' ') != std::string::npos && value[value.find_first_not_of(' ')] == '['; }

Result<std::vector<std::string>> list_values(const std::string& text, const std::string& origin) {
  std::vector<std::string> values;
  try {
    const YAML::Node list = YAML::Load(text);
    if (!list.IsSequence() || list.size() == 0) return bad_input(fmt::format("{}: give at least one value to sweep", origin));
    for (const auto& item : list) values.push_back(yaml_text(item));
  } catch (const YAML::Exception&) {
    return bad_input(fmt::format("{}: this is not a list", origin));
  }
  return values;
}

}  // namespace

Result<std::string> find_scenario(const std::string& name_or_path) {
  return find_in_catalog("scenarios/catalog", "scenario", name_or_path, "");
}

Result<Scenario> load_scenario(const ScenarioRequest& request) {
  const auto path = find_scenario(request.name_or_path);
  if (!path) return path.error();
  auto file = ScenarioFile::load(*path);
  if (!file) return file.error();
  for (const auto& [key, value] : request.set)
    if (auto applied = file->apply(key, value); !applied) return applied.error();
  return Loader(std::move(*file), *path, request).load();
}

Result<SweepPlan> plan_sweep(const ScenarioRequest& request) {
  const auto path = find_scenario(request.name_or_path);
  if (!path) return path.error();
  auto file = YamlFile::load(*path);
  if (!file) return file.error();

  SweepPlan plan;
  plan.name = fs::path(*path).stem().string();
  plan.title = text_at(file->value().node(), "title").value_or(plan.name);
  plan.base = request;
  plan.base.set.clear();
  for (const auto& [key, value] : file->value().entries()) {
    if (key != "sweep") continue;
    plan.campaign = true;
    for (const auto& [swept, values] : value.entries()) {
      if (swept == "repeat") {
        plan.repeat = static_cast<int>(values.integer(1, kMaxRepeat).value_or(1));
        continue;
      }
      SweepAxis axis{swept, {}};
      for (const auto& item : values.one_or_more()) axis.values.push_back(yaml_text(item.node()));
      if (axis.values.empty()) values.fail("give at least one value to sweep");
      plan.axes.push_back(std::move(axis));
    }
  }
  if (file->error()) return *file->error();
  for (const auto& [key, value] : request.set) {
    const auto same = [&, &swept = key](const SweepAxis& axis) { return axis.key == swept; };
    if (!is_list(value)) {
      std::erase_if(plan.axes, same);  // a fixed value takes the key out of the sweep
      plan.base.set.emplace_back(key, value);
      continue;
    }
    auto values = list_values(value, fmt::format("--set {}={}", key, value));
    if (!values) return values.error();
    plan.campaign = true;
    const auto axis = std::find_if(plan.axes.begin(), plan.axes.end(), same);
    if (axis != plan.axes.end()) {
      axis->values = std::move(*values);
    } else {
      plan.axes.push_back({key, std::move(*values)});
    }
  }
  if (request.repeat) {
    plan.repeat = *request.repeat;
    plan.campaign = true;
  }
  std::size_t points = 1;
  for (const auto& axis : plan.axes) {
    points *= axis.values.size();
    if (points > kMaxPoints) return bad_input(fmt::format("{}: the sweep has more than {} points", *path, kMaxPoints));
  }
  // One load tells the seed; one for every other value finds errors before any process is started.
  auto first_request = plan.request(0, 0);
  first_request.seed = request.seed;
  const auto first = load_scenario(first_request);
  if (!first) return first.error();
  plan.seed = first->seed;
  for (const auto& axis : plan.axes) {
    for (std::size_t i = 1; i < axis.values.size(); ++i) {
      auto other = first_request;
      std::find_if(other.set.rbegin(), other.set.rend(), [&](const auto& change) { return change.first == axis.key; })->second = axis.values[i];
      if (const auto loaded = load_scenario(other); !loaded) return loaded.error();
    }
  }
  return plan;
}

std::size_t SweepPlan::points() const {
  std::size_t product = 1;
  for (const auto& axis : axes) product *= axis.values.size();
  return product;
}

std::vector<std::pair<std::string, std::string>> SweepPlan::values_of(std::size_t point) const {
  std::vector<std::pair<std::string, std::string>> out(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    out[i] = {axes[i].key, axes[i].values[point % axes[i].values.size()]};
    point /= axes[i].values.size();
  }
  return out;
}

ScenarioRequest SweepPlan::request(std::size_t point, std::uint64_t run_seed) const {
  ScenarioRequest out = base;
  for (auto& [key, value] : values_of(point)) out.set.emplace_back(key, value);
  out.seed = run_seed;
  out.repeat.reset();
  return out;
}

}  // namespace peerbed
