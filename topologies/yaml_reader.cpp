#include "topologies/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/check.h"
#include "topologies/suggest.h"

namespace peerbed {

struct YamlContext {
  struct Changed {
    std::string path, origin;
  };
  std::string file_name;
  std::vector<Changed> changes;
  std::optional<Error> first_error;

  void note(std::string message) {
    if (!first_error) first_error = bad_input(std::move(message));
  }
  [[nodiscard]] std::string where(std::string_view path, int line) const {
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
      if (!path.starts_with(change->path)) continue;
      const std::string_view rest = path.substr(change->path.size());
      if (rest.empty() || rest.front() == '.' || rest.front() == '[') return change->origin;
    }
    return line > 0 ? fmt::format("{}:{}", file_name, line) : file_name;
  }
};

namespace {

constexpr std::size_t kMaxFileBytes = 8U << 20;
constexpr std::size_t kMaxNodes = 500'000;
constexpr int kMaxDepth = 40;

std::string join(const std::string& path, const std::string& key) { return path.empty() ? key : path + '.' + key; }

int line_of(const YAML::Node& node, int otherwise) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? otherwise : mark.line + 1;
}

/// Refuses what would surprise or overwhelm a reader, before anything is read.
class Inspection {
 public:
  explicit Inspection(const YamlContext& context) : context_(context) {}

  std::optional<std::string> of(const YAML::Node& node, const std::string& path, int line, int depth) {
    if (++nodes_ > kMaxNodes) {
      return fmt::format("{}: too large: more than {} values, aliases counted as often as they are used",
                         context_.file_name, kMaxNodes);
    }
    if (depth > kMaxDepth) {
      return fmt::format("{}: nested more than {} levels deep", context_.where(path, line), kMaxDepth);
    }
    if (node.IsSequence()) {
      std::size_t index = 0;
      for (const auto& item : node) {
        const int item_line = line_of(item, line);
        if (auto bad = of(item, fmt::format("{}[{}]", path, index++), item_line, depth + 1)) return bad;
      }
    } else if (node.IsMap()) {
      return of_map(node, path, line, depth);
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> of_map(const YAML::Node& node, const std::string& path, int line, int depth) {
    std::map<std::string, int> seen;
    for (const auto& entry : node) {
      const int key_line = line_of(entry.first, line);
      if (!entry.first.IsScalar()) return fmt::format("{}: a key must be a plain word", context_.where(path, key_line));
      const std::string& key = entry.first.Scalar();
      const auto [first, fresh] = seen.emplace(key, key_line);
      if (!fresh) {
        return fmt::format("{}: '{}' is written twice{}; first on line {}", context_.where(path, key_line), key,
                           path.empty() ? "" : " in " + path, first->second);
      }
      if (auto bad = of(entry.second, join(path, key), key_line, depth + 1)) return bad;
    }
    return std::nullopt;
  }

  const YamlContext& context_;
  std::size_t nodes_ = 0;
};

/// yaml-cpp's own words, as a sentence with a line.
std::string parse_failure(const YAML::Exception& exception, const std::string& file_name) {
  const std::string line = exception.mark.is_null() ? "" : fmt::format(":{}", exception.mark.line + 1);
  return fmt::format("{}{}: this is not YAML: {}", file_name, line, exception.msg);
}

struct Parsed {  // YAML::Node converts from anything, so that a Result of it would be ambiguous
  YAML::Node node;
};

/// Counts documents. YAML::Load stops after the first without a word, and YAML::LoadAll never ends on some stray
/// characters.
class DocumentCount : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { line = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  int line = 0;
};

Result<Parsed> parse_text(std::string_view text, const std::string& file_name) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    DocumentCount documents;
    if (parser.HandleNextDocument(documents) && parser.HandleNextDocument(documents)) {
      return bad_input(
          fmt::format("{}:{}: something stands after the end of the first YAML document", file_name, documents.line));
    }
    return Parsed{YAML::Load(std::string(text))};
  } catch (const YAML::Exception& exception) {
    return bad_input(parse_failure(exception, file_name));
  } catch (const std::exception& exception) {
    return bad_input(fmt::format("{}: this is not YAML: {}", file_name, exception.what()));
  }
}

/// The first `dots + 1` dotted parts of a text.
std::string_view head(std::string_view text, std::size_t dots) {
  std::size_t end = text.find('.');
  for (; dots > 0 && end != std::string_view::npos; --dots) end = text.find('.', end + 1);
  return text.substr(0, end);
}

}  // namespace

// YamlValue -----------------------------------------------------------------------------------------------------------

YamlValue::YamlValue(std::shared_ptr<YamlContext> context, YAML::Node node, std::string path, int line)
    : context_(std::move(context)), node_(std::move(node)), path_(std::move(path)), line_(line) {}

YamlValue& YamlValue::operator=(const YamlValue& other) {
  context_ = other.context_;
  node_.reset(other.node_);
  path_ = other.path_;
  line_ = other.line_;
  return *this;
}

bool YamlValue::is_null() const { return !node_.IsDefined() || node_.IsNull(); }
bool YamlValue::is_scalar() const { return node_.IsDefined() && node_.IsScalar(); }
bool YamlValue::is_map() const { return node_.IsDefined() && node_.IsMap(); }
bool YamlValue::is_list() const { return node_.IsDefined() && node_.IsSequence(); }

std::string YamlValue::where() const { return context_->where(path_, line_); }

void YamlValue::fail(std::string_view sentence) const {
  context_->note(path_.empty() ? fmt::format("{}: {}", where(), sentence)
                               : fmt::format("{}: {}: {}", where(), path_, sentence));
}

void YamlValue::fail_plainly(std::string_view sentence) const {
  context_->note(fmt::format("{}: {}", where(), sentence));
}

YamlValue YamlValue::child(const YAML::Node& key, const YAML::Node& value) const {
  return {context_, value, join(path_, key.Scalar()), line_of(key, line_)};
}

std::optional<std::string> YamlValue::scalar(std::string_view kind) const {
  if (is_scalar()) return node_.Scalar();
  fail(is_null() ? "has no value" : fmt::format("must be {}, not a {}", kind, is_list() ? "list" : "mapping"));
  return std::nullopt;
}

template <class T>
std::optional<T> YamlValue::parsed(Result<T> (*parse)(std::string_view), std::string_view kind) const {
  const auto written = scalar(kind);
  if (!written) return std::nullopt;
  const Result<T> value = parse(*written);
  if (value) return *value;
  fail(value.error().message);
  return std::nullopt;
}

std::optional<std::string> YamlValue::text() const { return scalar("a text"); }
std::optional<Duration> YamlValue::duration() const { return parsed(parse_duration, "a duration such as '10 ms'"); }
std::optional<DataSize> YamlValue::size() const { return parsed(parse_data_size, "a size such as '64 KiB'"); }
std::optional<DataRate> YamlValue::rate() const { return parsed(parse_data_rate, "a rate such as '10 Mbit/s'"); }
std::optional<double> YamlValue::fraction() const { return parsed(parse_fraction, "a fraction such as '1 %'"); }
std::optional<IpAddress> YamlValue::address() const { return parsed(&IpAddress::parse, "an IP address"); }

std::optional<bool> YamlValue::boolean() const {
  const auto written = scalar("yes or no");
  if (!written) return std::nullopt;
  if (*written == "true" || *written == "yes") return true;
  if (*written == "false" || *written == "no") return false;
  fail(fmt::format("'{}' is neither yes nor no", *written));
  return std::nullopt;
}

std::optional<std::int64_t> YamlValue::integer(std::int64_t low, std::int64_t high) const {
  const auto written = scalar("a whole number");
  if (!written) return std::nullopt;
  std::int64_t value = 0;
  const char* const last = written->data() + written->size();
  const auto [end, error] = std::from_chars(written->data(), last, value);
  if (error == std::errc::result_out_of_range && end == last) {
    fail(fmt::format("'{}' is too large a number", *written));
  } else if (error != std::errc{} || end != last) {
    fail(fmt::format("'{}' is not a whole number", *written));
  } else if (value < 0 && low >= 0) {
    fail(fmt::format("'{}' is negative", *written));
  } else if (value < low) {
    fail(fmt::format("'{}' is below {}", *written, low));
  } else if (value > high) {
    fail(fmt::format("'{}' is above {}", *written, high));
  } else {
    return value;
  }
  return std::nullopt;
}

std::optional<double> YamlValue::number(double low, double high) const {
  const auto written = scalar("a number");
  if (!written) return std::nullopt;
  double value = 0;
  const char* const last = written->data() + written->size();
  const auto [end, error] = std::from_chars(written->data(), last, value);
  if (error != std::errc{} || end != last || value != value) {
    fail(fmt::format("'{}' is not a number", *written));
  } else if (value < low || value > high) {
    fail(fmt::format("'{}' is {} {}", *written, value < low ? "below" : "above", value < low ? low : high));
  } else {
    return value;
  }
  return std::nullopt;
}

std::optional<std::size_t> YamlValue::choice(std::span<const std::string_view> names) const {
  const auto written = scalar("one word");
  if (!written) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *written);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  fail(fmt::format("'{}' is unknown{}", *written, did_you_mean(*written, names)));
  return std::nullopt;
}

YamlMap YamlValue::map(std::string what) const {
  if (!is_null() && !is_map()) {
    fail(fmt::format("must be a mapping, as in 'key: value', not a {}", is_list() ? "list" : "single value"));
  }
  return {*this, std::move(what)};
}

std::vector<std::pair<std::string, YamlValue>> YamlValue::entries() const {
  std::vector<std::pair<std::string, YamlValue>> result;
  if (is_map()) {
    result.reserve(node_.size());
    for (const auto& entry : node_) result.emplace_back(entry.first.Scalar(), child(entry.first, entry.second));
  } else if (!is_null()) {
    fail(fmt::format("must be a mapping of names, as in 'name: {{…}}', not a {}", is_list() ? "list" : "single value"));
  }
  return result;
}

std::vector<YamlValue> YamlValue::list() const {
  std::vector<YamlValue> result;
  if (is_list()) {
    result.reserve(node_.size());
    for (const auto& item : node_) {
      result.emplace_back(context_, item, fmt::format("{}[{}]", path_, result.size()), line_of(item, line_));
    }
  } else if (!is_null()) {
    fail(fmt::format("must be a list, as in '[a, b]', not a {}", is_map() ? "mapping" : "single value"));
  }
  return result;
}

std::vector<YamlValue> YamlValue::one_or_more() const { return is_scalar() || is_map() ? std::vector{*this} : list(); }

std::optional<std::pair<std::string, YamlValue>> YamlValue::single(std::string_view what) const {
  if (is_map() && node_.size() == 1) return entries().front();
  if (is_scalar())
    return std::pair{node_.Scalar(), YamlValue(context_, YAML::Node(), join(path_, node_.Scalar()), line_)};
  fail(fmt::format("a {} is one name with its settings, as in '- name: {{…}}'", what));
  return std::nullopt;
}

// YamlMap -------------------------------------------------------------------------------------------------------------

YamlMap::YamlMap(YamlValue value, std::string what) : value_(std::move(value)), what_(std::move(what)) {}

YamlMap::YamlMap(YamlMap&& other) noexcept
    : value_(other.value_),
      what_(std::move(other.what_)),
      known_(std::move(other.known_)),
      missing_(std::move(other.missing_)),
      done_(std::exchange(other.done_, true)) {}

YamlMap::~YamlMap() {
  PEERBED_CHECK(done_ || value_.context_->first_error,
                "a YAML mapping was read without done(), so unknown keys would pass");
}

YamlValue YamlMap::value(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  if (value_.is_map()) {
    for (const auto& entry : value_.node()) {
      if (entry.first.Scalar() == key) return value_.child(entry.first, entry.second);
    }
  }
  return {value_.context_, YAML::Node(YAML::NodeType::Undefined), join(value_.path(), std::string(key)), value_.line_};
}

bool YamlMap::has(std::string_view key) { return !value(key).is_null(); }

YamlValue YamlMap::required(std::string_view key) {
  YamlValue found = value(key);
  if (!found.node().IsDefined() && !missing_) missing_ = std::string(key);
  return found;
}

namespace {
/// An absent key gives nothing; a key that is there must have a value.
template <class Getter>
auto if_present(const YamlValue& value, Getter getter) -> decltype(getter(value)) {
  if (!value.node().IsDefined()) return std::nullopt;
  return getter(value);
}
}  // namespace

std::optional<std::string> YamlMap::text(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.text(); });
}
std::optional<Duration> YamlMap::duration(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.duration(); });
}
std::optional<DataSize> YamlMap::size(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.size(); });
}
std::optional<DataRate> YamlMap::rate(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.rate(); });
}
std::optional<double> YamlMap::fraction(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.fraction(); });
}
std::optional<bool> YamlMap::boolean(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.boolean(); });
}
std::optional<std::int64_t> YamlMap::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  return if_present(value(key), [=](const YamlValue& v) { return v.integer(low, high); });
}
std::optional<double> YamlMap::number(std::string_view key, double low, double high) {
  return if_present(value(key), [=](const YamlValue& v) { return v.number(low, high); });
}
std::optional<IpAddress> YamlMap::address(std::string_view key) {
  return if_present(value(key), [](const YamlValue& v) { return v.address(); });
}
std::optional<std::size_t> YamlMap::choice(std::string_view key, std::span<const std::string_view> names) {
  return if_present(value(key), [=](const YamlValue& v) { return v.choice(names); });
}

std::string YamlMap::required_text(std::string_view key) {
  const YamlValue found = required(key);
  if (!found.node().IsDefined()) return {};
  return found.text().value_or(std::string());
}

std::vector<std::string> YamlMap::texts(std::string_view key) {
  std::vector<std::string> result;
  for (const YamlValue& item : value(key).one_or_more()) {
    if (auto written = item.text()) result.push_back(std::move(*written));
  }
  return result;
}

std::vector<std::pair<std::string, YamlValue>> YamlMap::entries(std::string_view key) { return value(key).entries(); }
std::vector<YamlValue> YamlMap::list(std::string_view key) { return value(key).list(); }

void YamlMap::done() {
  done_ = true;
  if (value_.is_map()) {
    for (const auto& entry : value_.node()) {
      const std::string& key = entry.first.Scalar();
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      value_.child(entry.first, entry.second)
          .fail_plainly(fmt::format("unknown key '{}' in {}{}", key, what_, did_you_mean(key, known_)));
      return;
    }
  }
  if (missing_) value_.fail_plainly(fmt::format("{} has no '{}'", what_, *missing_));
}

// YamlFile ------------------------------------------------------------------------------------------------------------

YamlFile::YamlFile(std::shared_ptr<YamlContext> context, YAML::Node root)
    : context_(std::move(context)), root_(std::move(root)) {}

Result<YamlFile> YamlFile::parse(std::string_view text, std::string file_name) {
  auto context = std::make_shared<YamlContext>();
  context->file_name = std::move(file_name);
  if (text.size() > kMaxFileBytes) {
    return bad_input(fmt::format("{}: too large: more than {} bytes", context->file_name, kMaxFileBytes));
  }
  const auto parsed = parse_text(text, context->file_name);
  if (!parsed) return parsed.error();
  const YAML::Node& root = parsed->node;
  if (root.IsNull()) return bad_input(fmt::format("{}: the file is empty", context->file_name));
  if (!root.IsMap())
    return bad_input(fmt::format("{}: the file must be a mapping, as in 'key: value'", context->file_name));
  if (auto bad = Inspection(*context).of(root, "", 1, 0)) return bad_input(std::move(*bad));
  return YamlFile(std::move(context), root);
}

Result<YamlFile> YamlFile::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) return bad_input(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse(text, path);
}

Result<void> YamlFile::apply(const YamlOverride& change, std::span<const std::string_view> may_add) {
  const std::string origin =
      change.origin.empty() ? fmt::format("--set {}={}", change.key, change.value) : change.origin;
  const auto value = parse_text(change.value, origin);
  if (!value) return value.error();
  YamlContext as_written;
  as_written.file_name = origin;
  if (auto bad = Inspection(as_written).of(value->node, "", 0, 0)) return bad_input(std::move(*bad));

  YAML::Node node = root_;
  std::string path;
  std::string_view rest = change.key;
  const auto wrong = [&](const std::string& sentence) { return bad_input(fmt::format("{}: {}", origin, sentence)); };
  const auto place = [&] { return path.empty() ? context_->file_name : path; };
  while (true) {
    if (rest.empty() || rest.front() == '.') return wrong(fmt::format("'{}' is not a key", change.key));
    if (node.IsNull()) node = YAML::Node(YAML::NodeType::Map);  // "bob:" with nothing after it
    if (node.IsSequence()) {
      const std::string_view part = head(rest, 0);
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc{} || end != part.data() + part.size() || index >= node.size()) {
        return wrong(fmt::format("{} has {} entries, counted from 0; there is no '{}'", place(), node.size(), part));
      }
      path += fmt::format("[{}]", index);
      if (part.size() == rest.size()) {
        node[index] = value->node;
        break;
      }
      node.reset(YAML::Node(node[index]));
      rest.remove_prefix(part.size() + 1);
      continue;
    }
    if (!node.IsMap()) return wrong(fmt::format("{} is a single value and has no '{}'", place(), rest));

    // Names may hold dots ("alice.wan"): the longest key that fits is meant.
    std::optional<std::string> longest;
    std::vector<std::string> keys;
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      keys.push_back(key);
      const bool fits = rest.starts_with(key) && (rest.size() == key.size() || rest[key.size()] == '.');
      if (fits && (!longest || key.size() > longest->size())) longest = key;
    }
    if (!longest && rest.find('.') == std::string_view::npos) longest = std::string(rest);  // a new last part
    if (const std::string_view part = head(rest, 0);
        !longest && std::find(may_add.begin(), may_add.end(), part) != may_add.end()) {
      longest = std::string(part);
      node[*longest] = YAML::Node(YAML::NodeType::Map);
    }
    if (!longest) {
      for (const std::string& key : keys) {
        const auto dots = static_cast<std::size_t>(std::count(key.begin(), key.end(), '.'));
        const std::string_view meant = head(rest, dots);
        if (!nearest(meant, std::span(&key, 1))) continue;
        return wrong(fmt::format("there is no '{}' in {}; did you mean '{}'?", meant, place(), key));
      }
      const std::string_view part = head(rest, 0);
      return wrong(fmt::format("there is no '{}' in {}{}", part, place(), did_you_mean(part, keys)));
    }
    path = join(path, *longest);
    if (longest->size() == rest.size()) {
      node[*longest] = value->node;
      break;
    }
    node.reset(YAML::Node(node[*longest]));
    rest.remove_prefix(longest->size() + 1);
  }
  context_->changes.push_back({path, origin});
  return {};
}

YamlMap YamlFile::root(std::string what) const { return {value(), std::move(what)}; }
YamlValue YamlFile::value() const { return {context_, root_, "", 1}; }
const std::optional<Error>& YamlFile::error() const { return context_->first_error; }
std::string YamlFile::to_text() const { return YAML::Dump(root_); }

}  // namespace peerbed
