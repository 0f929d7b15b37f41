#include "bench/loopback_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <exception>
#include <optional>
#include <type_traits>

#include "bench/loopback_peers.h"
#include "core/base/check.h"

namespace peerbed::bench {
namespace {

static_assert(std::is_trivially_copyable_v<ProcessReport> && sizeof(ProcessReport) <= PIPE_BUF);
static_assert(std::is_trivially_copyable_v<Greeting> && sizeof(Greeting) <= PIPE_BUF);

constexpr Duration kLongestBoot = 20s, kLongestExit = 10s;

TimePoint monotonic_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return TimePoint(std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec));
}

/// A child of this process with a pipe to talk home by. Its end is awaited, for a time, and then made.
class ChildProcess {
 public:
  /// `work` gets the writing end of the pipe. It runs in the child, before this process has opened anything.
  template <class Work>
  explicit ChildProcess(Work&& work) {
    std::array<int, 2> ends{-1, -1};
    PEERBED_CHECK(pipe(ends.data()) == 0, "the system has no pipe left");
    std::fflush(nullptr);  // or else the child would print it again
    const pid_t parent = getpid();
    pid_ = fork();
    PEERBED_CHECK(pid_ >= 0, "the system has no process left");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a benchmark that was interrupted leaves nobody behind
      if (getppid() != parent) _exit(3);
      close(ends[0]);
      int code = 0;
      try {
        work(ends[1]);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "loopback: %s\n", e.what());
        code = 3;
      }
      std::fflush(nullptr);
      _exit(code);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }

  ~ChildProcess() {
    close(pipe_);
    if (reaped_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Nothing if the child ended or the time went by before it was said, or if `other`, which it needs, died without
  /// a word.
  template <class T>
  std::optional<T> hear(TimePoint deadline, const ChildProcess* other = nullptr) {
    std::array<pollfd, 2> ready{pollfd{pipe_, POLLIN, 0}, pollfd{other == nullptr ? -1 : other->pipe_, POLLIN, 0}};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - monotonic_now()).count();
      if (left <= 0) return std::nullopt;
      const int found = poll(ready.data(), ready.size(), static_cast<int>(std::min<std::int64_t>(left, INT_MAX)));
      if (found < 0 && errno == EINTR) continue;
      if (found <= 0) return std::nullopt;
      if (ready[0].revents != 0) {
        T value;
        if (read(pipe_, &value, sizeof value) == static_cast<ssize_t>(sizeof value)) return value;
        return std::nullopt;
      }
      if ((ready[1].revents & POLLIN) == 0) return std::nullopt;
      ready[1].fd = -1;  // it has said its last word, which waits
    }
  }

  /// Its end of the pipe closes with it.
  bool ended_well(TimePoint deadline) {
    while (hear<char>(deadline)) {}
    if (monotonic_now() >= deadline) return false;
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) return false;
    reaped_ = true;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool reaped_ = false;
};

template <class T>
void say(int pipe, const T& value) {
  const ssize_t written = write(pipe, &value, sizeof value);
  PEERBED_CHECK(written == static_cast<ssize_t>(sizeof value), "the benchmark's own pipe broke");
}

/// What the two processes say must fit together. Empty if it does.
std::string disagreement(const Plan& plan, const RunReport& run) {
  const ProcessReport &server = run.server, &client = run.client;
  if (!client.ok()) return fmt::format("client: {}", client.error.data());
  if (!server.ok()) return fmt::format("server: {}", server.error.data());
  if (server.faults + client.faults > 0) return fmt::format("{} messages were wrong", server.faults + client.faults);
  if (server.total_units != client.total_units) {
    return fmt::format("{} were sent and {} arrived", client.total_units, server.total_units);
  }
  if (server.total_bytes != client.total_bytes) {
    return fmt::format("{} bytes were sent and {} arrived", client.total_bytes, server.total_bytes);
  }
  if (plan.count > 0 && client.units + client.failures != plan.count) {
    return fmt::format("{} of {} were done", client.units + client.failures, plan.count);
  }
  if (plan.mode == Mode::handshakes) {  // the server sees one link more: the one that ends the run
    const std::uint64_t links = client.units + 1;
    if (server.units < links || server.units > links + client.failures) {
      return fmt::format("{} handshakes and {} failures, but the server had {} links", client.units, client.failures,
                         server.units);
    }
  } else if (server.units != client.units) {
    return fmt::format("{} were sent between the marks and {} arrived", client.units, server.units);
  }
  if (client.units == 0) return "nothing was measured";
  return {};
}

}  // namespace

double RunReport::rate() const {
  return client.elapsed_s > 0 ? static_cast<double>(client.units) / client.elapsed_s : 0;
}

double RunReport::bytes() const { return static_cast<double>(client.bytes); }

RunReport run_processes(const Plan& plan) {
  RunReport run;
  ChildProcess server([&plan](int pipe) {
    const ProcessReport report = run_server(plan, [pipe](const Greeting& greeting) { say(pipe, greeting); });
    say(pipe, report);
  });
  const auto greeting = server.hear<Greeting>(monotonic_now() + kLongestBoot);
  if (!greeting || greeting->error[0] != '\0') {
    run.error = fmt::format("the server did not start: {}", greeting ? greeting->error.data() : "no word from it");
    return run;
  }
  ChildProcess client([&plan, port = greeting->port](int pipe) { say(pipe, run_client(plan, port)); });

  const auto client_report = client.hear<ProcessReport>(monotonic_now() + plan.time_limit() + kLongestExit, &server);
  if (client_report) run.client = *client_report;
  else run.client.fail("it or the server died, or it hung");
  if (client_report && !client.ended_well(monotonic_now() + kLongestExit)) run.client.fail("it did not end well");
  // A server whose client is gone learns it from the link's end; after a failure nobody waits for that.
  const auto server_report = server.hear<ProcessReport>(monotonic_now() + (run.client.ok() ? kLongestExit : 1s));
  if (server_report) run.server = *server_report;
  else run.server.fail("it died or hung");
  if (server_report && !server.ended_well(monotonic_now() + kLongestExit)) run.server.fail("it did not end well");
  run.error = disagreement(plan, run);
  return run;
}

}  // namespace peerbed::bench
