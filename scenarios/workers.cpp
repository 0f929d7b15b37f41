#include "scenarios/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cstring>
#include <vector>

namespace peerbed {

namespace {

constexpr int kPollMs = 100;
constexpr std::size_t kMaxReply = 4096;

/// What crosses the pipes: native byte order, one machine.
struct Reply {
  std::uint64_t job = 0;
  std::uint32_t kind = 0, length = 0;  ///< length of the failure that follows
};

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const auto n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const auto n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

[[noreturn]] void work(int in, int out, const WorkerPlan& plan) {
  std::uint64_t job = 0;
  while (read_all(in, &job, sizeof job)) {
    const auto failure = plan.run(static_cast<std::size_t>(job));
    Reply reply{job, 0, 0};
    std::string text;
    if (failure) {
      text = failure->message.substr(0, kMaxReply);
      reply.kind = 1 + static_cast<std::uint32_t>(failure->kind);
      reply.length = static_cast<std::uint32_t>(text.size());
    }
    if (!write_all(out, &reply, sizeof reply) || !write_all(out, text.data(), text.size())) break;
  }
  std::_Exit(0);  // not exit(): the parent's atexit handlers and buffers are not ours
}

struct Worker {
  pid_t pid = 0;
  int to = -1, from = -1;
  std::optional<std::size_t> job;
};

class Pool {
 public:
  explicit Pool(const WorkerPlan& plan) : plan_(plan) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (auto& worker : workers_) end(worker);
  }

  Result<WorkersEnd> run() {
    const auto count = std::min(plan_.workers, plan_.jobs);
    for (std::size_t i = 0; i < count; ++i)
      if (auto started = start(); !started) return started.error();
    while (finished_ < plan_.jobs) {
      if (!plan_.go_on()) return WorkersEnd::stopped;
      std::vector<pollfd> polled;
      for (const auto& worker : workers_) polled.push_back({worker.from, POLLIN, 0});
      const int ready = poll(polled.data(), static_cast<nfds_t>(polled.size()), kPollMs);
      if (ready < 0 && errno != EINTR) return unavailable(fmt::format("cannot wait for the workers: {}", std::strerror(errno)));
      if (ready <= 0) continue;
      for (std::size_t i = 0; i < polled.size(); ++i) {
        if (polled[i].revents == 0) continue;
        if (!workers_[i].job) {  // it had nothing to do and is gone all the same
          end(workers_[i]);
          workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
        const auto outcome = hear(workers_[i]);
        ++finished_;
        const bool crashed = outcome.crashed;
        if (!plan_.on_outcome(outcome)) return WorkersEnd::stopped;
        if (!crashed) {
          hand_out(workers_[i]);
          continue;
        }
        end(workers_[i]);
        workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
        if (next_ < plan_.jobs) {
          if (auto started = start(); !started) return started.error();
        }
        break;  // the indexes have changed
      }
    }
    return WorkersEnd::finished;
  }

 private:
  Result<void> start() {
    std::array<int, 2> down{}, up{};
    if (pipe(down.data()) != 0 || pipe(up.data()) != 0) return unavailable(fmt::format("no pipe for a worker: {}", std::strerror(errno)));
    std::fflush(nullptr);  // else what is buffered would be written twice
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return unavailable(fmt::format("no process for a worker: {}", std::strerror(errno)));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(0);
      signal(SIGINT, SIG_IGN);  // the terminal sends it to all; the parent decides
      signal(SIGTERM, SIG_DFL);
      for (const auto& other : workers_) {
        close(other.to);
        close(other.from);
      }
      close(down[1]);
      close(up[0]);
      work(down[0], up[1], plan_);
    }
    close(down[0]);
    close(up[1]);
    workers_.push_back({pid, down[1], up[0], std::nullopt});
    hand_out(workers_.back());
    return {};
  }

  void hand_out(Worker& worker) {
    worker.job.reset();
    if (next_ >= plan_.jobs) return;
    const std::uint64_t job = next_;
    if (write_all(worker.to, &job, sizeof job)) worker.job = next_++;
  }

  JobOutcome hear(Worker& worker) {
    JobOutcome outcome;
    Reply reply;
    if (worker.job && read_all(worker.from, &reply, sizeof reply) && reply.length <= kMaxReply) {
      outcome.job = static_cast<std::size_t>(reply.job);
      outcome.failure.resize(reply.length);
      if (read_all(worker.from, outcome.failure.data(), reply.length)) {
        if (reply.kind > 0) outcome.kind = static_cast<ErrorKind>(reply.kind - 1);
        return outcome;
      }
    }
    int status = 0;
    waitpid(worker.pid, &status, 0);
    worker.pid = 0;
    outcome.job = worker.job.value_or(plan_.jobs);
    outcome.crashed = true;
    outcome.failure = WIFSIGNALED(status) ? fmt::format("the worker was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                                          : fmt::format("the worker ended with code {}", WEXITSTATUS(status));
    return outcome;
  }

  static void end(Worker& worker) {
    if (worker.to >= 0) close(worker.to);
    if (worker.from >= 0) close(worker.from);
    worker.to = worker.from = -1;
    if (worker.pid <= 0) return;
    if (worker.job) kill(worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
    worker.pid = 0;
  }

  const WorkerPlan& plan_;
  std::vector<Worker> workers_;
  std::size_t next_ = 0, finished_ = 0;
};

}  // namespace

Result<WorkersEnd> run_workers(const WorkerPlan& plan) {
  signal(SIGPIPE, SIG_IGN);  // a worker that died is noticed when it is read from
  return Pool(plan).run();
}

}  // namespace peerbed
