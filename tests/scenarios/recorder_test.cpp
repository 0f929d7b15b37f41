#include "scenarios/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace peerbed {
namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("peerbed-" + name + "-" + std::to_string(::getpid()))).string();
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

void two_events(Recorder& recorder) {
  auto& alice = recorder.log_of("alice");
  alice.record(TimePoint(5ns), "punch.finished", {{"outcome", std::string_view("direct")}, {"attempts", std::int64_t{1}}});
  recorder.log_of("bob").record(TimePoint(7ns), "note", {{"text", std::string_view("a \"b\"\n\\")}});
}

TEST(Recorder, WritesCanonicalLinesInOrder) {
  const auto path = temporary("events");
  Recorder recorder(EventDetail::all, path);
  two_events(recorder);
  ASSERT_TRUE(recorder.finish(0));
  EXPECT_EQ(contents(path),
            "{\"t\":5,\"node\":\"alice\",\"event\":\"punch.finished\",\"outcome\":\"direct\",\"attempts\":1}\n"
            "{\"t\":7,\"node\":\"bob\",\"event\":\"note\",\"text\":\"a \\\"b\\\"\\u000a\\\\\"}\n");
}

TEST(Recorder, TheDigestIsTheSameHoweverMuchIsWritten) {
  const auto path = temporary("digest");
  std::vector<std::string> digests;
  for (const auto detail : {EventDetail::none, EventDetail::summary, EventDetail::all}) {
    Recorder recorder(detail, path);
    two_events(recorder);
    digests.push_back(*recorder.finish(42));
  }
  std::filesystem::remove(path);
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
  EXPECT_EQ(digests[0].size(), 64U);
}

TEST(Recorder, TheDigestHangsOnTheTraceHashAndOnEveryField) {
  const auto digest = [](std::int64_t attempts, std::uint64_t trace) {
    Recorder recorder(EventDetail::none, "");
    recorder.log_of("a").record(TimePoint(1ns), "x", {{"n", attempts}});
    return *recorder.finish(trace);
  };
  EXPECT_EQ(digest(1, 1), digest(1, 1));
  EXPECT_NE(digest(1, 1), digest(2, 1));
  EXPECT_NE(digest(1, 1), digest(1, 2));
}

TEST(Recorder, TheSummaryCountsByName) {
  const auto path = temporary("summary");
  Recorder recorder(EventDetail::summary, path);
  auto& log = recorder.log_of("a");
  for (int i = 1; i <= 3; ++i) log.record(TimePoint(Duration(i)), "tick", {});
  log.record(TimePoint(9ns), "end", {});
  ASSERT_TRUE(recorder.finish(0));
  EXPECT_EQ(contents(path), "{\"event\":\"end\",\"count\":1,\"first_t\":9,\"last_t\":9}\n{\"event\":\"tick\",\"count\":3,\"first_t\":1,\"last_t\":3}\n");
}

TEST(Recorder, AFolderThatIsNotThereIsAnError) {
  Recorder recorder(EventDetail::all, "/nowhere/at/all/events.jsonl");
  recorder.log_of("a").record(TimePoint(1ns), "x", {});
  const auto digest = recorder.finish(0);
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().message, "events.jsonl cannot be written; is the disk full?");
}

}  // namespace
}  // namespace peerbed
