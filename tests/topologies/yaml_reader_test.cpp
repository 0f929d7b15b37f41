#include "topologies/yaml_reader.h"

#include <gtest/gtest.h>

#include "topologies/suggest.h"

namespace peerbed {
namespace {

/// Reads `a: {…}` with one known key and gives the file's error.
template <class Read>
std::string error_of(const std::string& text, Read read) {
  auto file = YamlFile::parse(text, "a.yaml");
  if (!file) return file.error().message;
  YamlMap root = file->root("the file");
  read(root);
  root.done();
  return file->error() ? file->error()->message : "";
}

std::string parse_error(const std::string& text) {
  const auto file = YamlFile::parse(text, "a.yaml");
  return file ? "" : file.error().message;
}

TEST(YamlReader, GivesTypedValuesAndNothingForAbsentKeys) {
  auto file = YamlFile::parse(
      "delay: 10 ms\nrate: 5 Mbit/s\nsize: 1.5 KiB\nloss: 1 %\non: yes\nn: -3\nx: 0.5\nip: 192.0.2.1\n"
      "kind: b\nlist: [p, q]\none: p\n",
      "a.yaml");
  ASSERT_TRUE(file);
  YamlMap root = file->root("the file");
  static constexpr std::array<std::string_view, 2> kKinds{"a", "b"};
  EXPECT_EQ(root.duration("delay"), 10ms);
  EXPECT_EQ(root.rate("rate"), DataRate{5'000'000});
  EXPECT_EQ(root.size("size"), DataSize{1536});
  EXPECT_EQ(root.fraction("loss"), 0.01);
  EXPECT_EQ(root.boolean("on"), true);
  EXPECT_EQ(root.integer("n", -10, 10), -3);
  EXPECT_EQ(root.number("x", 0, 1), 0.5);
  EXPECT_EQ(root.address("ip"), IpAddress::v4(192, 0, 2, 1));
  EXPECT_EQ(root.choice("kind", kKinds), 1U);
  EXPECT_EQ(root.texts("list"), (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(root.texts("one"), std::vector<std::string>{"p"});
  EXPECT_EQ(root.duration("nowhere"), std::nullopt);
  root.done();
  EXPECT_FALSE(file->error()) << file->error()->message;
}

TEST(YamlReader, NamesTheNearestKnownKey) {
  const auto read = [](YamlMap& root) {
    for (auto& [name, value] : root.entries("links")) {
      YamlMap link = value.map("link '" + name + "'");
      (void)link.duration("delay");
      (void)link.rate("rate");
      link.done();
    }
  };
  EXPECT_EQ(error_of("links:\n  wan:\n    dely: 10 ms\n", read),
            "a.yaml:3: unknown key 'dely' in link 'wan'; did you mean 'delay'?");
  EXPECT_EQ(error_of("links:\n  wan: {colour: red}\n", read),
            "a.yaml:2: unknown key 'colour' in link 'wan'; known are delay, rate");
  EXPECT_EQ(error_of("lniks: {}\n", read), "a.yaml:1: unknown key 'lniks' in the file; did you mean 'links'?");
}

TEST(YamlReader, SaysWhatIsWrongWithAValueAndWhere) {
  const auto duration = [](YamlMap& root) { (void)root.duration("delay"); };
  EXPECT_EQ(error_of("\ndelay: 10\n", duration), "a.yaml:2: delay: '10' has no unit; write for example '10 ms'");
  EXPECT_EQ(error_of("delay: -10 ms\n", duration), "a.yaml:1: delay: '-10 ms' is negative");
  EXPECT_EQ(error_of("delay: 10 lightyears\n", duration),
            "a.yaml:1: delay: '10 lightyears' has an unknown unit 'lightyears'; known are ns, us, ms, s, min, h");
  EXPECT_EQ(error_of("delay: [1]\n", duration), "a.yaml:1: delay: must be a duration such as '10 ms', not a list");
  EXPECT_EQ(error_of("delay: {}\n", duration), "a.yaml:1: delay: must be a duration such as '10 ms', not a mapping");
  EXPECT_EQ(error_of("delay:\n", duration), "a.yaml:1: delay: has no value");
  const auto integer = [](YamlMap& root) { (void)root.integer("n", 0, 9); };
  EXPECT_EQ(error_of("n: 10\n", integer), "a.yaml:1: n: '10' is above 9");
  EXPECT_EQ(error_of("n: -1\n", integer), "a.yaml:1: n: '-1' is negative");
  EXPECT_EQ(error_of("n: 1.5\n", integer), "a.yaml:1: n: '1.5' is not a whole number");
  EXPECT_EQ(error_of("n: 99999999999999999999\n", integer),
            "a.yaml:1: n: '99999999999999999999' is too large a number");
  const auto boolean = [](YamlMap& root) { (void)root.boolean("on"); };
  EXPECT_EQ(error_of("on: maybe\n", boolean), "a.yaml:1: on: 'maybe' is neither yes nor no");
  const auto map = [](YamlMap& root) { root.value("m").map("m").done(); };
  EXPECT_EQ(error_of("m: 3\n", map), "a.yaml:1: m: must be a mapping, as in 'key: value', not a single value");
  const auto list = [](YamlMap& root) { (void)root.list("l"); };
  EXPECT_EQ(error_of("l: 3\n", list), "a.yaml:1: l: must be a list, as in '[a, b]', not a single value");
  const auto needed = [](YamlMap& root) { (void)root.required_text("from"); };
  EXPECT_EQ(error_of("{}\n", needed), "a.yaml:1: the file has no 'from'");
  const auto choice = [](YamlMap& root) {
    static constexpr std::array<std::string_view, 2> kKinds{"preserve", "random"};
    (void)root.choice("ports", kKinds);
  };
  EXPECT_EQ(error_of("ports: randm\n", choice), "a.yaml:1: ports: 'randm' is unknown; did you mean 'random'?");
}

TEST(YamlReader, TheFirstErrorStays) {
  EXPECT_EQ(error_of("a: 1\nb: 2\n",
                     [](YamlMap& root) {
                       (void)root.duration("a");
                       (void)root.duration("b");
                     }),
            "a.yaml:1: a: '1' has no unit; write for example '10 ms'");
}

TEST(YamlReader, AMistypedKeyIsReportedBeforeTheOneThatItLeavesOut) {
  EXPECT_EQ(error_of("form: x\n", [](YamlMap& root) { (void)root.required_text("from"); }),
            "a.yaml:1: unknown key 'form' in the file; did you mean 'from'?");
}

TEST(YamlReader, ReadsASingleEntryAsNameAndSettings) {
  auto file = YamlFile::parse("w:\n  - punch: {at: 5 s}\n  - idle\n  - {a: 1, b: 2}\n", "a.yaml");
  ASSERT_TRUE(file);
  YamlMap root = file->root("the file");
  const auto items = root.list("w");
  root.done();
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].single("workload")->first, "punch");
  EXPECT_EQ(items[0].single("workload")->second.path(), "w[0].punch");
  EXPECT_EQ(items[1].single("workload")->first, "idle");
  EXPECT_FALSE(file->error());
  EXPECT_FALSE(items[2].single("workload"));
  EXPECT_EQ(file->error()->message, "a.yaml:4: w[2]: a workload is one name with its settings, as in '- name: {…}'");
}

TEST(YamlReaderDeath, ForgettingDoneIsOurBug) {
  auto file = YamlFile::parse("a: 1\n", "a.yaml");
  EXPECT_DEATH({ (void)file->root("the file").has("a"); }, "without done");
}

TEST(YamlFile, RefusesWhatIsNotOneMapping) {
  EXPECT_EQ(parse_error(""), "a.yaml: the file is empty");
  EXPECT_EQ(parse_error("# only a comment\n"), "a.yaml: the file is empty");
  EXPECT_EQ(parse_error("- a\n"), "a.yaml: the file must be a mapping, as in 'key: value'");
  EXPECT_EQ(parse_error("a: 1\n---\nb: 2\n"), "a.yaml:2: something stands after the end of the first YAML document");
  EXPECT_EQ(parse_error(",\na: 1\n"), "a.yaml:1: something stands after the end of the first YAML document")
      << "the parser's own loop over documents never ends here";
  EXPECT_EQ(parse_error("a: 1\nb: [1, 2\n"), "a.yaml:3: this is not YAML: end of sequence flow not found");
  EXPECT_EQ(parse_error("a: 1\n? [x]\n: 2\n"), "a.yaml:2: a key must be a plain word");
  EXPECT_EQ(YamlFile::load("/nowhere/b.yaml").error().message,
            "/nowhere/b.yaml: cannot be read: No such file or directory");
}

TEST(YamlFile, RefusesAKeyThatIsWrittenTwice) {
  EXPECT_EQ(parse_error("links:\n  wan: {}\n  lan: {}\n  wan: {}\n"),
            "a.yaml:4: 'wan' is written twice in links; first on line 2");
}

TEST(YamlFile, RefusesAliasBombsAndEndlessNesting) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_EQ(parse_error(bomb), "a.yaml: too large: more than 500000 values, aliases counted as often as they are used");
  EXPECT_NE(parse_error("a: &a [*a]\n"), "");
  EXPECT_EQ(parse_error("a: " + std::string(100, '[') + std::string(100, ']') + "\n"),
            "a.yaml:1: nested more than 40 levels deep");
  EXPECT_NE(parse_error("a: " + std::string(100'000, '[')), "");
  EXPECT_EQ(parse_error("a: " + std::string(9U << 20, 'x')), "a.yaml: too large: more than 8388608 bytes");
}

std::string applied(const std::string& text, const YamlOverride& change) {
  auto file = YamlFile::parse(text, "a.yaml");
  const auto result = file->apply(change);
  return result ? file->to_text() : result.error().message;
}

TEST(YamlOverrides, FindNamesWithDots) {
  EXPECT_EQ(applied("links:\n  alice:\n    x: 1\n  alice.wan:\n    loss: 0", {"links.alice.wan.loss", "1 %"}),
            "links:\n  alice:\n    x: 1\n  alice.wan:\n    loss: 1 %");
}

TEST(YamlOverrides, AddALastPartAndFillWhatIsEmpty) {
  EXPECT_EQ(applied("hosts:\n  bob:\n", {"hosts.bob.nat", "linux"}), "hosts:\n  bob:\n    nat: linux");
  EXPECT_EQ(applied("a: 1", {"b", "{c: [1, 2]}"}), "a: 1\nb: {c: [1, 2]}");
  EXPECT_EQ(applied("w:\n  - punch:\n      at: 1 s", {"w.0.punch.at", "2 s"}), "w:\n  - punch:\n      at: 2 s");
}

TEST(YamlOverrides, SayWhatIsThereWhenNothingMatches) {
  const std::string text = "links:\n  alice.wan: {loss: 0}\nseed: 1\nw: [1]\n";
  EXPECT_EQ(applied(text, {"link.alice.wan.loss", "1"}),
            "--set link.alice.wan.loss=1: there is no 'link' in a.yaml; did you mean 'links'?");
  EXPECT_EQ(applied(text, {"links.alice.wam.loss", "1"}),
            "--set links.alice.wam.loss=1: there is no 'alice.wam' in links; did you mean 'alice.wan'?");
  EXPECT_EQ(applied(text, {"links.carol.loss", "1", "b.yaml:7"}),
            "b.yaml:7: there is no 'carol' in links; known are alice.wan");
  EXPECT_EQ(applied(text, {"seed.x", "1"}), "--set seed.x=1: seed is a single value and has no 'x'");
  EXPECT_EQ(applied(text, {"w.3", "1"}), "--set w.3=1: w has 1 entries, counted from 0; there is no '3'");
  EXPECT_EQ(applied(text, {"", "1"}), "--set =1: '' is not a key");
  EXPECT_EQ(applied(text, {"links..x", "1"}), "--set links..x=1: 'links..x' is not a key");
}

TEST(YamlOverrides, AreNamedInTheErrorsThatTheyCause) {
  auto file = YamlFile::parse("delay: 1 ms\n", "a.yaml");
  ASSERT_TRUE(file->apply({"delay", "10"}));
  YamlMap root = file->root("the file");
  (void)root.duration("delay");
  root.done();
  EXPECT_EQ(file->error()->message, "--set delay=10: delay: '10' has no unit; write for example '10 ms'");
}

TEST(Suggest, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("delay", "delay"), 0U);
  EXPECT_EQ(edit_distance("dely", "delay"), 1U);
  EXPECT_EQ(edit_distance("dealy", "delay"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Suggest, KeepsQuietAboutWhatIsFarAway) {
  const std::array<std::string_view, 2> known{"rate", "delay"};
  EXPECT_EQ(nearest("Rate", known), "rate");
  EXPECT_EQ(nearest("bandwidth", known), std::nullopt);
}

}  // namespace
}  // namespace peerbed
