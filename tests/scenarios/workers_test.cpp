#include "scenarios/workers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <set>

namespace peerbed {
namespace {

WorkerPlan plan_of(std::size_t jobs, std::size_t workers, std::map<std::size_t, JobOutcome>& outcomes) {
  WorkerPlan plan;
  plan.jobs = jobs;
  plan.workers = workers;
  plan.run = [](std::size_t) { return std::optional<Error>(); };
  plan.on_outcome = [&outcomes](const JobOutcome& outcome) {
    EXPECT_TRUE(outcomes.emplace(outcome.job, outcome).second) << "job " << outcome.job << " came twice";
    return true;
  };
  plan.go_on = [] { return true; };
  return plan;
}

TEST(Workers, EveryJobIsDoneOnce) {
  std::map<std::size_t, JobOutcome> outcomes;
  const auto ended = run_workers(plan_of(100, 3, outcomes));
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, WorkersEnd::finished);
  EXPECT_EQ(outcomes.size(), 100U);
}

TEST(Workers, AnErrorComesBackWithItsKind) {
  std::map<std::size_t, JobOutcome> outcomes;
  auto plan = plan_of(3, 2, outcomes);
  plan.run = [](std::size_t job) { return job == 1 ? std::optional(unsupported("not here")) : std::nullopt; };
  ASSERT_TRUE(run_workers(plan));
  EXPECT_EQ(outcomes[1].failure, "not here");
  EXPECT_EQ(outcomes[1].kind, ErrorKind::unsupported);
  EXPECT_FALSE(outcomes[1].crashed);
  EXPECT_TRUE(outcomes[0].failure.empty());
}

TEST(Workers, ACrashCostsOneJob) {
  std::map<std::size_t, JobOutcome> outcomes;
  auto plan = plan_of(20, 2, outcomes);
  plan.run = [](std::size_t job) -> std::optional<Error> {
    if (job == 4) ::kill(::getpid(), SIGKILL);
    if (job == 9) ::_exit(7);
    return std::nullopt;
  };
  ASSERT_TRUE(run_workers(plan));
  ASSERT_EQ(outcomes.size(), 20U);
  EXPECT_EQ(outcomes[4].failure, "the worker was ended by signal 9 (Killed)");
  EXPECT_EQ(outcomes[9].failure, "the worker ended with code 7");
  for (const auto& [job, outcome] : outcomes) EXPECT_EQ(outcome.failure.empty(), job != 4 && job != 9) << job;
}

TEST(Workers, StoppingEndsThoseThatAreAtWork) {
  std::map<std::size_t, JobOutcome> outcomes;
  auto plan = plan_of(4, 2, outcomes);
  plan.run = [](std::size_t) -> std::optional<Error> {
    while (true) ::pause();
  };
  int asked = 0;
  plan.go_on = [&] { return ++asked < 3; };
  const auto ended = run_workers(plan);
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, WorkersEnd::stopped);
  EXPECT_TRUE(outcomes.empty());
}

}  // namespace
}  // namespace peerbed
