// The program as users and scripts meet it: exit codes, folders, resuming, being killed.
#include "tests/scenarios/program.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <chrono>
#include <thread>

namespace peerbed {
namespace {

namespace fs = std::filesystem;
using test::run_program;
using test::ScratchFolder;

const std::string kGood = R"(title: two hosts talk
topology: two-hosts
duration: 20 s
workload:
  - messages: {from: alice, to: bob, size: 64 B, count: 50, window: 10}
expect:
  - flow.messages.in_order == true
)";

/// Virtual hours of messages: long enough to be killed in the middle.
const std::string kEndless = R"(topology: two-hosts
duration: 100000 s
workload:
  - messages: {from: alice, to: bob, size: 64 B, duration: 99999 s, interval: 10 ms}
)";

std::string failing() {
  std::string text = kGood;
  return text.replace(text.find("== true"), 7, "== false");
}

std::string first_run_folder(const ScratchFolder& folder) { return fs::directory_iterator(folder.path() + "/runs")->path().string(); }

struct ExitCodeCase {
  std::vector<std::string> words;
  int code;
  std::string says;  ///< on standard error
};

TEST(Program, ExitCodesAreAsPromised) {
  const ScratchFolder folder;
  folder.write("good.yaml", kGood);
  folder.write("failing.yaml", failing());
  folder.write("bad.yaml", kGood + "durration: 3 s\n");
  folder.write("endless.yaml", kEndless);
  folder.write("nat.yaml", "topology: two-homes\nworkload:\n  - punch: {from: alice, to: bob, via: rendezvous}\n");
  const std::vector<ExitCodeCase> cases{
      {{"run", "./good.yaml"}, 0, "ok    flow.messages.in_order == true: 1, bound 1"},
      {{"run", "./failing.yaml"}, 1, "FAIL  flow.messages.in_order == false: 1, bound 0"},
      {{"run", "./failing.yaml"}, 1, "again: peerbed replay runs/failing-"},
      {{"run", "./bad.yaml"}, 2, "bad.yaml:8: unknown key 'durration' in the scenario; did you mean 'duration'?"},
      {{"run", "no-such-scenario"}, 2, "there is no scenario 'no-such-scenario' in the catalogue"},
      {{"run", "punch-matrx"}, 2, "did you mean 'punch-matrix'?"},
      {{"run"}, 2, "scenario is required"},
      {{"run", "./good.yaml", "--frobnicate"}, 2, "--frobnicate"},
      {{"run", "./good.yaml", "--set", "duration"}, 2, "--set duration: write KEY=VALUE"},
      {{"run", "./good.yaml", "--backend", "smi"}, 2, "there is no backend 'smi'; did you mean 'sim'?"},
      {{"run", "./good.yaml", "--backend", "ns3"}, 127, "the backend 'ns3' is not in this build"},
      {{"run", "./good.yaml", "--backend", "netem"}, 127, "the backend 'netem' is not in this build"},
      {{"run", "./good.yaml", "--pcap"}, 127, "--pcap is not in this build"},
      {{"run", "./good.yaml", "--qlog"}, 127, "--qlog is not in this build"},
      {{"run", "./good.yaml", "--executor", "slurm"}, 127, "--executor slurm is not in this build"},
      {{"run", "./nat.yaml", "--backend", "sockets"}, 127, "the backend 'sockets' has no NATs"},
      {{"run", "./endless.yaml", "--time-limit", "300 ms"}, 124, "the time limit is over"},
      {{"run", "./endless.yaml", "--repeat", "2", "--time-limit", "300 ms"}, 124, "--resume goes on"},
      {{"validate", "./good.yaml"}, 0, ""},
      {{"validate", "./good.yaml", "./bad.yaml"}, 2, "unknown key 'durration'"},
      {{"list", "workloads"}, 0, ""},
      {{"list", "wrkloads"}, 2, "wrkloads"},
      {{"fidelity", "x"}, 127, "'fidelity' is not in this build"},
      {{"replay", "nowhere"}, 2, "nowhere is no run folder"},
      {{"--help"}, 0, ""},
      {{}, 2, "subcommand"},
  };
  for (const auto& each : cases) {
    const auto result = run_program(folder.path(), each.words);
    std::string words;
    for (const auto& word : each.words) words += word + " ";
    EXPECT_EQ(result.code, each.code) << words << "\n" << result.err;
    EXPECT_NE(result.err.find(each.says), std::string::npos) << words << "\n" << result.err;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".unfinished")) << words;
  }
}

TEST(Program, ARunFolderHoldsEverythingAndJsonIsOnStandardOutput) {
  const ScratchFolder folder;
  folder.write("good.yaml", kGood);
  const auto result = run_program(folder.path(), {"run", "./good.yaml", "--out", "here", "--json", "--seed", "9"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* file : {"inputs.yaml", "results.json", "events.jsonl", "series.csv", "junit.xml"}) EXPECT_TRUE(fs::exists(folder.path() + "/here/" + file)) << file;
  const auto printed = boost::json::parse(result.out);
  EXPECT_EQ(printed, boost::json::parse(test::slurp(folder.path() + "/here/results.json")));
  EXPECT_EQ(printed.at("seed").to_number<int>(), 9);
  EXPECT_EQ(printed.at("verdict").as_string(), "pass");
  EXPECT_GE(printed.at("engine").at("events").to_number<int>(), 10) << "50 messages in windows of 10 are five round trips at least";
}

TEST(Program, ReplayGivesTheSameDigestAndNoticesAnother) {
  const ScratchFolder folder;
  folder.write("good.yaml", kGood);
  ASSERT_EQ(run_program(folder.path(), {"run", "./good.yaml", "--out", "here", "--set", "links.wan.loss=2 %"}).code, 0);
  // Only the folder is needed: not the scenario, not the catalogue's topology.
  fs::remove(folder.path() + "/good.yaml");
  const auto equal = run_program(folder.path(), {"replay", "here"});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_NE(equal.err.find("equal: digest"), std::string::npos) << equal.err;
  auto text = test::slurp(folder.path() + "/here/inputs.yaml");
  const auto seed = text.find("seed: 1");
  ASSERT_NE(seed, std::string::npos) << text;
  std::ofstream(folder.path() + "/here/inputs.yaml") << text.replace(seed, 7, "seed: 2");
  const auto other = run_program(folder.path(), {"replay", "here"});
  EXPECT_EQ(other.code, 1) << other.err;
  EXPECT_NE(other.err.find("NOT equal"), std::string::npos) << other.err;
}

TEST(Program, KilledInTheMiddleItLeavesNoHalfWrittenRun) {
  const ScratchFolder folder;
  folder.write("endless.yaml", kEndless);
  const pid_t pid = test::start_program(folder.path(), {"run", "./endless.yaml", "--out", "here"});
  const auto unfinished = [&] {
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (entry.path().filename().string().starts_with(".unfinished")) return true;
    return false;
  };
  for (int i = 0; i < 1000 && !unfinished(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(unfinished());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(fs::exists(folder.path() + "/here"));
  folder.write("good.yaml", kGood);
  EXPECT_EQ(run_program(folder.path(), {"run", "./good.yaml", "--out", "here"}).code, 0);
  EXPECT_FALSE(unfinished()) << "the next run clears up";
}

TEST(Program, InterruptedItEndsItsWorkersAndKeepsWhatIsFinished) {
  const ScratchFolder folder;
  folder.write("endless.yaml", kEndless);
  const pid_t pid = test::start_program(folder.path(), {"run", "./endless.yaml", "--out", "here", "--repeat", "4", "--jobs", "2"});
  for (int i = 0; i < 1000 && !fs::exists(folder.path() + "/here/points/0"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(pid, SIGINT);
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_FALSE(fs::exists(folder.path() + "/here/results.json"));
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) EXPECT_FALSE(entry.path().filename().string().starts_with(".unfinished")) << entry.path();
}

TEST(Program, ACampaignIsResumedWithTheMissingRunsOnly) {
  const ScratchFolder folder;
  folder.write("good.yaml", kGood + "sweep:\n  repeat: 2\n  links.wan.loss: [0 %, 5 %]\n");
  ASSERT_EQ(run_program(folder.path(), {"run", "./good.yaml", "--out", "c", "--jobs", "2"}).code, 0);
  const auto whole = boost::json::parse(test::slurp(folder.path() + "/c/results.json"));
  EXPECT_EQ(whole.at("schema").as_string(), "peerbed.campaign/1");
  ASSERT_EQ(whole.at("points").as_array().size(), 2U);
  const auto& point = whole.at("points").as_array()[1].as_object();
  EXPECT_EQ(point.at("set").at("links.wan.loss").as_string(), "5 %");
  EXPECT_EQ(point.at("runs").as_array().size(), 2U);
  EXPECT_EQ(point.at("metrics").at("flow.messages.delivered").at("mean").to_number<double>(), 50);
  EXPECT_EQ(point.at("metrics").at("flow.messages.delivered").at("n").to_number<int>(), 2);

  const auto kept_at = fs::last_write_time(folder.path() + "/c/points/0/1/results.json");
  fs::remove_all(folder.path() + "/c/points/1/2");
  fs::remove(folder.path() + "/c/results.json");
  const auto resumed = run_program(folder.path(), {"run", "./good.yaml", "--out", "c", "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("4 runs (3 kept from before)"), std::string::npos) << resumed.err;
  EXPECT_EQ(fs::last_write_time(folder.path() + "/c/points/0/1/results.json"), kept_at);
  const auto again = boost::json::parse(test::slurp(folder.path() + "/c/results.json"));
  EXPECT_EQ(again.at("points").as_array()[1].at("metrics").at("flow.messages.latency.p50"), point.at("metrics").at("flow.messages.latency.p50"))
      << "a run in virtual time is the same, whenever it is done";

  const auto other = run_program(folder.path(), {"run", "./good.yaml", "--out", "c", "--resume", "--set", "links.wan.loss=[0 %]"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--resume cannot go on there"), std::string::npos) << other.err;
}

TEST(Program, RealSocketsRunTheSameScenarioAndSayWhatIsMissing) {
  const ScratchFolder folder;
  folder.write("good.yaml", kGood);
  const auto result = run_program(folder.path(), {"run", "./good.yaml", "--backend", "sockets", "--json", "--time-limit", "20 s"});
  // 3: on a machine that is busy with other things the run itself says that its numbers do not count.
  ASSERT_TRUE(result.code == 0 || result.code == 3) << result.code << result.err;
  EXPECT_NE(result.err.find("ATTENTION: link rates, delays, jitter, loss and queues are not emulated"), std::string::npos) << result.err;
  const auto printed = boost::json::parse(result.out);
  EXPECT_EQ(printed.at("not_emulated").as_array().size(), 1U);
  EXPECT_EQ(printed.at("metrics").at("flow.messages.delivered").at("value").to_number<int>(), 50);
  EXPECT_LT(printed.at("engine").at("sim_s").to_number<double>(), 15) << "it ends when all is done";
  EXPECT_EQ(run_program(folder.path(), {"replay", first_run_folder(folder)}).code, 127)
      << "real time is never the same twice";
}

TEST(Program, ValidateNamesPointsAndCatalogue) {
  const ScratchFolder folder;
  folder.write("swept.yaml", kGood + "sweep:\n  repeat: 2\n  links.wan.loss: [0 %, 5 %]\n");
  const auto result = run_program(folder.path(), {"validate", "swept.yaml", "two-homes", "punch-matrix"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("swept.yaml: a scenario of 2 points, 2 runs each"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("two-homes: a topology of"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("punch-matrix: a scenario of 81 points"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace peerbed
