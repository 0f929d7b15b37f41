// Strict reading of YAML files that people write: every key must be known, every quantity has a unit, every error is
// one sentence with file and line and, where a name was mistyped, the nearest known one.
//
// A YamlFile is parsed text; overrides may change it; then it is walked. The walk never fails half-way: the first error
// is noted, later getters give nothing, and whoever walks asks `file.error()` at the end.
//
//   auto file = YamlFile::parse(text, "a.yaml");          if (!file) return file.error();
//   YamlMap root = file->root("topology");
//   auto title = root.text("title").value_or("");
//   for (auto& [name, value] : root.entries("links")) {
//     YamlMap link = value.map("link '" + name + "'");
//     auto delay = link.duration("delay").value_or(0ms);
//     auto from = link.required_text("from");
//     link.done();                                        // unknown keys are found here
//   }
//   root.done();
//   if (file->error()) return *file->error();
#pragma once

#include <yaml-cpp/yaml.h>

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/endpoint.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace peerbed {

/// A change to a file's tree before it is read: "links.wan.loss" = "1 %". The value is YAML, so maps and lists work
/// too.
struct YamlOverride {
  std::string key, value;
  std::string origin = {};  ///< for errors: "b.yaml:7"; empty: "--set key=value"
};

class YamlMap;
struct YamlContext;  ///< the file's name, the overrides, the first error; shared by all that walk one file

/// A value at a place in the file. Cheap to copy.
class YamlValue {
 public:
  YamlValue(std::shared_ptr<YamlContext> context, YAML::Node node, std::string path, int line);
  YamlValue(const YamlValue&) = default;
  YamlValue& operator=(
      const YamlValue& other);  ///< refers to the other place; assigning YAML nodes would change the tree

  [[nodiscard]] bool is_null() const;  ///< absent, or written as nothing
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;

  // Each notes an error and gives nothing if the value is not of that kind.
  [[nodiscard]] std::optional<std::string> text() const;
  [[nodiscard]] std::optional<Duration> duration() const;
  [[nodiscard]] std::optional<DataSize> size() const;
  [[nodiscard]] std::optional<DataRate> rate() const;
  [[nodiscard]] std::optional<double> fraction() const;
  [[nodiscard]] std::optional<bool> boolean() const;  ///< true, false, yes, no
  [[nodiscard]] std::optional<std::int64_t> integer(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] std::optional<double> number(double low, double high) const;  ///< without a unit
  [[nodiscard]] std::optional<IpAddress> address() const;
  [[nodiscard]] std::optional<std::size_t> choice(
      std::span<const std::string_view> names) const;  ///< index of the name

  /// A mapping with known keys; `what` names it in errors: "link 'wan'". Null reads as an empty mapping.
  [[nodiscard]] YamlMap map(std::string what) const;
  /// Of a mapping whose keys are names: in file order. Null reads as empty.
  [[nodiscard]] std::vector<std::pair<std::string, YamlValue>> entries() const;
  /// Null reads as empty.
  [[nodiscard]] std::vector<YamlValue> list() const;
  /// A list, or a single value that stands for a list of one.
  [[nodiscard]] std::vector<YamlValue> one_or_more() const;
  /// "- punch: {…}": a mapping of exactly one key. `what` names it in errors: "workload".
  [[nodiscard]] std::optional<std::pair<std::string, YamlValue>> single(std::string_view what) const;

  /// Notes "FILE:LINE: path: sentence" (the first error of the file stays).
  void fail(std::string_view sentence) const;
  /// Notes "FILE:LINE: sentence", for sentences that name the place in words.
  void fail_plainly(std::string_view sentence) const;
  [[nodiscard]] std::string where() const;  ///< "FILE:LINE", or the override's origin
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const YAML::Node& node() const { return node_; }

 private:
  friend class YamlMap;
  template <class T>
  std::optional<T> parsed(Result<T> (*parse)(std::string_view), std::string_view kind) const;
  [[nodiscard]] std::optional<std::string> scalar(std::string_view kind) const;
  [[nodiscard]] YamlValue child(const YAML::Node& key, const YAML::Node& value) const;

  std::shared_ptr<YamlContext> context_;
  YAML::Node node_;
  std::string path_;
  int line_ = 0;  ///< from 1; of the key, where there is one
};

/// A mapping whose keys are known to the reader. A getter makes its key known, even where the key is absent; done()
/// then refuses the rest. Forgetting done() is our bug and is checked.
class YamlMap {
 public:
  YamlMap(YamlValue value, std::string what);
  YamlMap(YamlMap&& other) noexcept;
  YamlMap& operator=(YamlMap&&) = delete;
  ~YamlMap();

  [[nodiscard]] bool has(std::string_view key);  ///< present and not null; makes the key known
  [[nodiscard]] YamlValue value(std::string_view key);
  [[nodiscard]] YamlValue required(std::string_view key);  ///< done() reports it if it is absent

  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  [[nodiscard]] std::optional<Duration> duration(std::string_view key);
  [[nodiscard]] std::optional<DataSize> size(std::string_view key);
  [[nodiscard]] std::optional<DataRate> rate(std::string_view key);
  [[nodiscard]] std::optional<double> fraction(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, std::int64_t low = 0,
                                                    std::int64_t high = std::numeric_limits<std::int64_t>::max());
  [[nodiscard]] std::optional<double> number(std::string_view key, double low, double high);
  [[nodiscard]] std::optional<IpAddress> address(std::string_view key);
  [[nodiscard]] std::optional<std::size_t> choice(std::string_view key, std::span<const std::string_view> names);
  [[nodiscard]] std::string required_text(std::string_view key);       ///< empty where an error was noted
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);  ///< a list of texts, or one text
  [[nodiscard]] std::vector<std::pair<std::string, YamlValue>> entries(std::string_view key);
  [[nodiscard]] std::vector<YamlValue> list(std::string_view key);

  /// Notes an error for every key that no getter asked for (the first), and for a required one that is absent.
  void done();

  void fail(std::string_view sentence) const { value_.fail(sentence); }
  [[nodiscard]] const YamlValue& self() const { return value_; }
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  YamlValue value_;
  std::string what_;
  std::vector<std::string> known_;
  std::optional<std::string> missing_;
  bool done_ = false;
};

/// Parsed text. Bounded: large files, deep nesting, and aliases that multiply are refused with a sentence; so are keys
/// that are written twice.
class YamlFile {
 public:
  [[nodiscard]] static Result<YamlFile> parse(std::string_view text, std::string file_name);
  [[nodiscard]] static Result<YamlFile> load(const std::string& path);

  /// Sets the value at a dotted key. Names with dots are found ("links.alice.wan.loss"); all but the last part must be
  /// there, else the error names the nearest. A last part that is new is added, and judged when the file is read; so
  /// are mappings called one of `may_add` ("up" in "links.wan.up.loss").
  [[nodiscard]] Result<void> apply(const YamlOverride& change, std::span<const std::string_view> may_add = {});

  [[nodiscard]] YamlMap root(std::string what) const;
  [[nodiscard]] YamlValue value() const;
  [[nodiscard]] const std::optional<Error>& error() const;  ///< the first that was noted
  [[nodiscard]] std::string to_text() const;                ///< the tree as YAML, overrides included, comments lost

 private:
  YamlFile(std::shared_ptr<YamlContext> context, YAML::Node root);
  std::shared_ptr<YamlContext> context_;
  YAML::Node root_;
};

}  // namespace peerbed
