#include "core/sockets/event_loop.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/check.h"

namespace peerbed {
namespace {

constexpr EventLoop::Token kAlarmToken = EventLoop::kNoToken - 1;
constexpr EventLoop::Token kWakeToken = EventLoop::kNoToken - 2;
constexpr int kEventsPerTurn = 128;

std::int64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// All environments of a process count from the same moment, so their times compare. One nanosecond before the first
/// reading, so that no time is zero by chance.
std::int64_t process_epoch_ns() {
  static const std::int64_t epoch = monotonic_ns() - 1;
  return epoch;
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::open() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  const auto failed = [](const char* what) {
    return unavailable(fmt::format("cannot open the event loop: {}: {}", what, std::strerror(errno)));
  };
  loop->epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_.is_open()) return failed("epoll_create1");
  loop->alarm_ = FileDescriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!loop->alarm_.is_open()) return failed("timerfd_create");
  loop->wake_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!loop->wake_.is_open()) return failed("eventfd");
  // Edge triggered: an expiry or a wake is told once, and neither descriptor ever needs to be read.
  for (const auto& [fd, token] : {std::pair{loop->alarm_.value(), kAlarmToken}, {loop->wake_.value(), kWakeToken}}) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = token;
    if (epoll_ctl(loop->epoll_.value(), EPOLL_CTL_ADD, fd, &event) != 0) return failed("epoll_ctl");
  }
  process_epoch_ns();
  loop->now_ = loop->clock();
  return loop;
}

EventLoop::~EventLoop() {
  PEERBED_CHECK(slots_.size() == free_slots_.size(), "a socket outlived its environment");
  PEERBED_CHECK(timers_alive_ == 0, "a timer outlived its environment");
}

TimePoint EventLoop::clock() const { return TimePoint(Duration(monotonic_ns() - process_epoch_ns())); }

// ---- registrations -------------------------------------------------------------------------------------------------

EventLoop::Token EventLoop::add(int fd, Pollable& pollable, std::uint32_t events) {
  std::uint32_t index = 0;
  if (free_slots_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[index].pollable = &pollable;
  const Token token = (Token{slots_[index].generation} << 32) | index;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  ++counters.system_calls;
  const int result = epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, fd, &event);
  PEERBED_CHECK(result == 0, "epoll refused a socket that was just opened");
  return token;
}

void EventLoop::change(Token token, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  ++counters.system_calls;
  const int result = epoll_ctl(epoll_.value(), EPOLL_CTL_MOD, fd, &event);
  PEERBED_CHECK(result == 0, "epoll lost a socket");
}

void EventLoop::remove(Token token, int fd) {
  PEERBED_CHECK(find(token) != nullptr, "a socket was removed from the loop twice");
  // Explicitly, although closing would do it: a descriptor that a child process inherited would keep it registered.
  ++counters.system_calls;
  epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, fd, nullptr);
  const auto index = static_cast<std::uint32_t>(token);
  slots_[index].pollable = nullptr;
  ++slots_[index].generation;
  free_slots_.push_back(index);
}

Pollable* EventLoop::find(Token token) const {
  const auto index = static_cast<std::uint32_t>(token);
  if (index >= slots_.size() || slots_[index].generation != static_cast<std::uint32_t>(token >> 32)) return nullptr;
  return slots_[index].pollable;
}

bool EventLoop::is_alive(Token token) const { return find(token) != nullptr; }

void EventLoop::defer(Token token) { deferred_.push_back(token); }

// ---- time ----------------------------------------------------------------------------------------------------------

void EventLoop::arm(TimerHeap::Entry& entry, TimePoint deadline) {
  // A deadline in the past becomes "now", behind all that is due: a timer that arms itself for the past starves nobody.
  timers_.arm(entry, std::max(deadline, now_));
}

void EventLoop::set_alarm(TimePoint at) {
  alarm_at_ = at;
  itimerspec when{};
  // All zero disarms. Deadlines beyond a century are never.
  if (at.time_since_epoch() < Duration::max() / 2) {
    const std::int64_t ns = std::max<std::int64_t>(1, at.time_since_epoch().count() + process_epoch_ns());
    when.it_value.tv_sec = ns / 1'000'000'000;
    when.it_value.tv_nsec = ns % 1'000'000'000;
  }
  ++counters.system_calls;
  timerfd_settime(alarm_.value(), TFD_TIMER_ABSTIME, &when, nullptr);
}

int EventLoop::fd() {
  if (timers_.earliest() != alarm_at_) set_alarm(timers_.earliest());
  if (!deferred_.empty()) wake();
  return epoll_.value();
}

// ---- a turn --------------------------------------------------------------------------------------------------------

void EventLoop::turn_once(TimePoint wait_until) {
  PEERBED_CHECK(!in_turn_, "the loop was run from inside one of its callbacks");
  const TimePoint wake_at = std::min(timers_.earliest(), wait_until);
  const bool must_not_wait = !deferred_.empty() || wake_at <= now_ || anything_posted_.load(std::memory_order_acquire);
  // The alarm may stay armed for an earlier time than needed: a timer that is pushed back with every packet then costs
  // one idle wake-up when the old time comes, instead of one system call per packet.
  if (!must_not_wait && wake_at < alarm_at_) set_alarm(wake_at);

  std::array<epoll_event, kEventsPerTurn> events;
  ++counters.system_calls;
  const int count = epoll_wait(epoll_.value(), events.data(), kEventsPerTurn, must_not_wait ? 0 : -1);
  PEERBED_CHECK(count >= 0 || errno == EINTR, "epoll_wait failed");
  if (count != 0 || !must_not_wait) ++counters.wakeups;
  now_ = std::max(now_, clock());
  ++turn_;
  in_turn_ = true;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kAlarmToken) {
      alarm_at_ = kNever;
    } else if (Pollable* const pollable = find(event.data.u64)) {
      pollable->on_events(now_, event.events);
    }
  }
  run_posted();
  run_deferred();
  // Last, so that an acknowledgement that already arrived is seen before the timer that waits for it.
  fire_timers();
  in_turn_ = false;
}

void EventLoop::run_deferred() {
  deferred_now_.swap(deferred_);
  for (const Token token : deferred_now_) {
    if (Pollable* const pollable = find(token)) pollable->on_deferred(now_);
  }
  deferred_now_.clear();
}

void EventLoop::fire_timers() {
  const std::uint64_t armed_before = timers_.next_sequence();
  for (;;) {
    TimerHeap::Entry* const entry = timers_.first();
    if (entry == nullptr || entry->deadline > now_ || entry->sequence >= armed_before) return;
    timers_.disarm(*entry);
    ++counters.timers_fired;
    entry->handler->on_timer(now_);
  }
}

// ---- other threads -------------------------------------------------------------------------------------------------

void EventLoop::wake() {
  const std::uint64_t one = 1;
  // A full counter (2^64 - 2 wakes) is the only failure, and then a wake is pending anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.value(), &one, sizeof one);
}

void EventLoop::post(std::function<void(TimePoint)> action) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(action));
    anything_posted_.store(true, std::memory_order_release);
  }
  wake();
}

void EventLoop::run_posted() {
  if (!anything_posted_.load(std::memory_order_acquire)) return;
  std::vector<std::function<void(TimePoint)>> actions;
  {
    const std::lock_guard lock(posted_mutex_);
    actions.swap(posted_);
    anything_posted_.store(false, std::memory_order_release);
  }
  for (const auto& action : actions) action(now_);
}

}  // namespace peerbed
