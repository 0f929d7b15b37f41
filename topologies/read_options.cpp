#include "topologies/read_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "topologies/suggest.h"

namespace peerbed {
namespace {

constexpr Duration kLongestDelay = 1h, kLongestTimeout = 24h * 365;
constexpr std::int64_t kLargestQueue = 100'000'000;

struct DirectionOptions {
  std::optional<std::optional<DataRate>> rate;
  std::optional<Duration> delay, jitter;
  std::optional<double> loss;
  std::optional<QueueLimit> queue;

  void apply(LinkDirection& direction) const {
    if (rate) direction.rate = *rate;
    if (delay) direction.delay = *delay;
    if (jitter) direction.jitter = *jitter;
    if (loss) direction.loss = *loss;
    if (queue) direction.queue = *queue;
  }
};

std::optional<Duration> bounded(YamlMap& map, std::string_view key, Duration low, Duration high) {
  const auto value = map.duration(key);
  if (!value) return std::nullopt;
  if (*value < low) map.value(key).fail("must be above zero");
  if (*value > high) map.value(key).fail(fmt::format("'{}' is above {}", to_string(*value), to_string(high)));
  return value;
}

bool is_unlimited(const YamlValue& value) { return value.is_scalar() && value.node().Scalar() == "unlimited"; }

/// "100 packets", "64 KiB", "unlimited", or a mapping with one or both.
std::optional<QueueLimit> read_queue(const YamlValue& value) {
  if (!value.node().IsDefined()) return std::nullopt;
  QueueLimit limit{std::nullopt, std::nullopt};
  if (is_unlimited(value)) return limit;
  if (value.is_map()) {
    YamlMap map = value.map(value.path());
    limit.packets = map.integer("packets", 0, kLargestQueue);
    limit.bytes = map.size("bytes");
    map.done();
    return limit;
  }
  const auto text = value.text();
  if (!text) return std::nullopt;
  std::int64_t packets = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, packets);
  std::string_view unit(end, static_cast<std::size_t>(last - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (error == std::errc{} && (unit == "packets" || unit == "packet")) {
    if (packets < 0) value.fail(fmt::format("'{}' is negative", *text));
    if (packets > kLargestQueue) value.fail(fmt::format("'{}' is above {} packets", *text, kLargestQueue));
    limit.packets = packets;
    return limit;
  }
  if (end != text->data() && unit.empty()) {
    value.fail(fmt::format("'{}' has no unit; write for example '100 packets' or '64 KiB'", *text));
    return std::nullopt;
  }
  const auto bytes = parse_data_size(*text);
  if (!bytes) {
    value.fail(fmt::format("'{}' is no queue limit; write for example '100 packets', '64 KiB' or 'unlimited'", *text));
    return std::nullopt;
  }
  limit.bytes = *bytes;
  return limit;
}

DirectionOptions read_direction(YamlMap& map) {
  DirectionOptions options;
  if (const YamlValue rate = map.value("rate"); is_unlimited(rate)) {
    options.rate.emplace(std::nullopt);
  } else if (const auto value = map.rate("rate")) {
    options.rate.emplace(*value);
  }
  options.delay = bounded(map, "delay", 0s, kLongestDelay);
  options.jitter = bounded(map, "jitter", 0s, kLongestDelay);
  options.loss = map.fraction("loss");
  options.queue = read_queue(map.value("queue"));
  return options;
}

// Regions -------------------------------------------------------------------------------------------------------------

constexpr std::size_t kMaxRegions = 4096;
constexpr Duration kNotGiven{-1};

struct CsvRow {
  std::vector<std::string> fields;
  std::string where;
};

/// Comma-separated, no quotes, with a header line.
Result<std::vector<CsvRow>> read_csv(const std::string& path, std::string_view header) {
  std::ifstream file(path);
  if (!file) return bad_input(fmt::format("{} cannot be read", path));
  std::vector<CsvRow> rows;
  std::string line;
  const auto columns = static_cast<std::size_t>(std::count(header.begin(), header.end(), ',')) + 1;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line != header) return bad_input(fmt::format("{}:1: the first line must be '{}'", path, header));
    if (number == 1 || line.empty()) continue;
    CsvRow row{{}, fmt::format("{}:{}", path, number)};
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t comma = std::min(line.find(',', from), line.size());
      row.fields.push_back(line.substr(from, comma - from));
      from = comma + 1;
    }
    if (row.fields.size() != columns) return bad_input(fmt::format("{}: must have {} fields", row.where, columns));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<Regions> load_regions(const std::string& folder) {
  const auto shares = read_csv(folder + "/regions.csv", "region,weight");
  if (!shares) return shares.error();
  const auto latencies = read_csv(folder + "/latency_ms.csv", "from,to,ms");
  if (!latencies) return latencies.error();
  Regions regions;
  for (const CsvRow& row : *shares) {
    std::int64_t weight = 0;
    const std::string& text = row.fields[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    if (error != std::errc{} || end != text.data() + text.size() || weight < 1 || weight > 1'000'000'000) {
      return bad_input(fmt::format("{}: '{}' is no weight", row.where, text));
    }
    if (regions.find(row.fields[0]))
      return bad_input(fmt::format("{}: region '{}' stands twice", row.where, row.fields[0]));
    regions.names.push_back(row.fields[0]);
    regions.weights.push_back(weight);
  }
  const std::size_t n = regions.names.size();
  if (n == 0 || n > kMaxRegions)
    return bad_input(fmt::format("{}/regions.csv: must have 1 to {} regions", folder, kMaxRegions));
  regions.delay.assign(n, std::vector<Duration>(n, kNotGiven));
  for (const CsvRow& row : *latencies) {
    const auto from = regions.find(row.fields[0]), to = regions.find(row.fields[1]);
    if (!from || !to) return bad_input(fmt::format("{}: '{}' is no region", row.where, row.fields[from ? 1 : 0]));
    const auto delay = parse_duration(row.fields[2] + " ms");
    if (!delay || *delay > kLongestDelay)
      return bad_input(fmt::format("{}: '{}' is no delay", row.where, row.fields[2]));
    regions.delay[*from][*to] = *delay;
  }
  return regions;
}

void read_region_names(YamlMap& map, Regions& regions) {
  const YamlValue value = map.value("regions");
  if (value.is_map()) {
    for (const auto& [name, weight] : value.entries()) {
      regions.names.push_back(name);
      regions.weights.push_back(weight.integer(1, 1'000'000'000).value_or(1));
    }
    return;
  }
  for (const YamlValue& item : value.list()) {
    const auto name = item.text();
    if (!name) return;
    if (regions.find(*name)) item.fail(fmt::format("region '{}' is named twice", *name));
    regions.names.push_back(*name);
    regions.weights.push_back(1);
  }
}

void read_region_delays(const YamlValue& value, Regions& regions) {
  const std::size_t n = regions.names.size();
  if (!value.is_map()) {
    const Duration delay = value.node().IsDefined() ? value.duration().value_or(0s) : Duration{};
    if (delay > kLongestDelay) value.fail(fmt::format("'{}' is above {}", to_string(delay), to_string(kLongestDelay)));
    regions.delay.assign(n, std::vector<Duration>(n, delay));
    return;
  }
  regions.delay.assign(n, std::vector<Duration>(n, kNotGiven));
  const auto known = [&](const std::string& name, const YamlValue& place) {
    const auto found = regions.find(name);
    if (!found) place.fail(fmt::format("'{}' is no region{}", name, did_you_mean(name, regions.names)));
    return found;
  };
  for (const auto& [from_name, row] : value.entries()) {
    const auto from = known(from_name, row);
    if (!from) return;
    for (const auto& [to_name, cell] : row.entries()) {
      const auto to = known(to_name, cell);
      const auto delay = cell.duration();
      if (!to || !delay) return;
      if (*delay > kLongestDelay)
        cell.fail(fmt::format("'{}' is above {}", to_string(*delay), to_string(kLongestDelay)));
      regions.delay[*from][*to] = *delay;
    }
  }
}

/// A pair that is given one way only is the same the other way.
void mirror_delays(const YamlMap& map, Regions& regions) {
  const std::size_t n = regions.names.size();
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      if (regions.delay[from][to] == kNotGiven) regions.delay[from][to] = regions.delay[to][from];
      if (regions.delay[from][to] != kNotGiven) continue;
      map.fail(fmt::format("there is no delay from '{}' to '{}'", regions.names[from], regions.names[to]));
      return;
    }
  }
}

}  // namespace

void read_link_options(YamlMap& map, LinkSpec& link) {
  const DirectionOptions both = read_direction(map);
  both.apply(link.a_to_b);
  both.apply(link.b_to_a);
  for (const auto& [key, direction] : {std::pair{"up", &link.a_to_b}, {"down", &link.b_to_a}}) {
    YamlMap one_way = map.value(key).map(fmt::format("{} of {}", key, map.what()));
    read_direction(one_way).apply(*direction);
    one_way.done();
  }
}

std::vector<IpAddress> read_addresses(YamlMap& map) {
  std::vector<IpAddress> addresses;
  for (const YamlValue& item : map.value("address").one_or_more()) {
    if (const auto address = item.address()) addresses.push_back(*address);
  }
  return addresses;
}

void read_nat_options(YamlMap& map, NatOptions& options) {
  static constexpr std::array<std::string_view, 3> kAllocations{"preserve", "sequential", "random"};
  NatBehavior& nat = options.behavior;
  if (const auto text = map.text("behavior")) {
    const auto parsed = parse_nat_behavior(*text);
    if (parsed) nat = *parsed;
    if (!parsed) map.value("behavior").fail(parsed.error().message);
  }
  if (const auto index = map.choice("ports", kAllocations)) nat.allocation = static_cast<PortAllocation>(*index);
  if (const auto range = map.text("port_range")) {
    const char* const last = range->data() + range->size();
    std::uint16_t low = 0, high = 0;
    const auto first = std::from_chars(range->data(), last, low);
    const bool dash = first.ec == std::errc{} && first.ptr != last && *first.ptr == '-';
    const auto second = dash ? std::from_chars(first.ptr + 1, last, high) : first;
    if (!dash || second.ec != std::errc{} || second.ptr != last || low == 0 || low > high) {
      map.value("port_range").fail(fmt::format("'{}' is no range of ports; write for example '1024-65535'", *range));
    } else {
      nat.first_port = low;
      nat.last_port = high;
    }
  }
  const auto timeout = [&](std::string_view key) { return bounded(map, key, Duration(1), kLongestTimeout); };
  if (const auto t = timeout("udp_timeout")) {
    nat.udp_timeout = *t;
    nat.udp_unreplied_timeout.reset();  // one number for a named type with two means both
  }
  if (const auto t = timeout("udp_unreplied_timeout")) nat.udp_unreplied_timeout = *t;
  if (nat.udp_unreplied_timeout.value_or(nat.udp_timeout) > nat.udp_timeout) {
    map.value("udp_unreplied_timeout").fail("must not be above udp_timeout");
  }
  nat.tcp_established_timeout = timeout("tcp_established_timeout").value_or(nat.tcp_established_timeout);
  nat.tcp_transitory_timeout = timeout("tcp_transitory_timeout").value_or(nat.tcp_transitory_timeout);
  nat.icmp_timeout = timeout("icmp_timeout").value_or(nat.icmp_timeout);
  nat.outbound_refresh = map.boolean("outbound_refresh").value_or(nat.outbound_refresh);
  nat.inbound_refresh = map.boolean("inbound_refresh").value_or(nat.inbound_refresh);
  nat.hairpin = map.boolean("hairpin").value_or(nat.hairpin);
  options.addresses = read_addresses(map);
}

NatOptions read_nat(const YamlValue& value, const std::string& what) {
  NatOptions options;
  if (value.is_scalar()) {
    const auto parsed = parse_nat_behavior(value.node().Scalar());
    if (parsed) options.behavior = *parsed;
    if (!parsed) value.fail(parsed.error().message);
    return options;
  }
  YamlMap map = value.map(what);
  read_nat_options(map, options);
  map.done();
  return options;
}

std::optional<std::size_t> Regions::find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

Regions read_regions(YamlMap& map, const std::string& file_name) {
  Regions regions;
  const auto data = map.text("data");
  if (data) {
    for (const char* key : {"regions", "delay"}) {
      if (map.has(key)) map.value(key).fail("stands beside 'data', which says that already");
    }
    const bool is_path = data->find('/') != std::string::npos;
    const auto folder = is_path ? std::filesystem::path(file_name).parent_path() / *data
                                : std::filesystem::path(topology_folder()) / "data" / *data;
    if (auto loaded = load_regions(folder.string())) {
      regions = std::move(*loaded);
    } else {
      map.value("data").fail(loaded.error().message);
    }
  } else {
    read_region_names(map, regions);
  }
  if (regions.names.size() > kMaxRegions) map.fail(fmt::format("has more than {} regions", kMaxRegions));
  if (regions.names.empty() || regions.names.size() > kMaxRegions) {
    regions.names = {"everywhere"};
    regions.weights = {1};
  }
  if (!data) read_region_delays(map.value("delay"), regions);
  if (regions.delay.size() != regions.names.size()) regions.delay.assign(1, std::vector<Duration>(1));
  mirror_delays(map, regions);
  return regions;
}

RegionDealer::RegionDealer(std::vector<std::int64_t> weights)
    : weights_(std::move(weights)),
      dealt_(weights_.size()),
      total_(std::accumulate(weights_.begin(), weights_.end(), std::int64_t{0})) {}

std::size_t RegionDealer::next() {
  ++count_;
  std::size_t best = 0;
  const auto lag = [&](std::size_t i) { return weights_[i] * count_ - dealt_[i] * total_; };
  for (std::size_t i = 1; i < weights_.size(); ++i) {
    if (lag(i) > lag(best)) best = i;
  }
  ++dealt_[best];
  return best;
}

std::string topology_folder() {
  const std::string built_from = PEERBED_TOPOLOGY_FOLDER;
  std::error_code ignored;
  return std::filesystem::is_directory(built_from, ignored) ? built_from : "topologies";
}

}  // namespace peerbed
