// One epoll descriptor, one timer descriptor, one wake descriptor, and what hangs on them.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "core/sockets/file_descriptor.h"
#include "core/sockets/socket_environment.h"
#include "core/sockets/timer_heap.h"

namespace peerbed {

/// Something with a descriptor in the loop. It is called with one `now` per turn.
class Pollable {
 public:
  virtual void on_events(TimePoint now, std::uint32_t events) = 0;  ///< epoll's event bits
  virtual void on_deferred(TimePoint now) = 0;                      ///< once after each defer()

 protected:
  ~Pollable() = default;
};

class EventLoop {
 public:
  /// Names a registration. It is never reused, so a late event for a destroyed socket finds nothing (rule 4).
  using Token = std::uint64_t;
  static constexpr Token kNoToken = ~Token{0};

  static Result<std::unique_ptr<EventLoop>> open();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  [[nodiscard]] TimePoint clock() const;             ///< reads the clock
  [[nodiscard]] TimePoint now() const { return now_; }  ///< when the current turn began
  [[nodiscard]] std::uint64_t turn() const { return turn_; }

  Token add(int fd, Pollable& pollable, std::uint32_t events);
  void change(Token token, int fd, std::uint32_t events);
  void remove(Token token, int fd);
  [[nodiscard]] bool is_alive(Token token) const;
  /// Calls on_deferred in the next turn, or later in this one: what a call learnt, it may not tell itself (rule 1).
  void defer(Token token);

  void arm(TimerHeap::Entry& entry, TimePoint deadline);
  void disarm(TimerHeap::Entry& entry) { timers_.disarm(entry); }

  void turn_once(TimePoint wait_until);  ///< waits until something happens, or until then
  int fd();
  void post(std::function<void(TimePoint)> action);
  void wake();  ///< from any thread or signal handler

  void timer_made() { ++timers_alive_; }
  void timer_destroyed() { --timers_alive_; }

  SocketCounters counters;

 private:
  struct Slot {
    Pollable* pollable = nullptr;
    std::uint32_t generation = 0;
  };

  EventLoop() = default;
  [[nodiscard]] Pollable* find(Token token) const;
  void set_alarm(TimePoint at);
  void run_posted();
  void run_deferred();
  void fire_timers();

  FileDescriptor epoll_, alarm_, wake_;
  TimePoint now_{};
  TimePoint alarm_at_ = kNever;  ///< what the timer descriptor is armed for
  std::uint64_t turn_ = 0;
  bool in_turn_ = false;
  TimerHeap timers_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::size_t timers_alive_ = 0;
  std::vector<Token> deferred_, deferred_now_;
  std::mutex posted_mutex_;
  std::vector<std::function<void(TimePoint)>> posted_;  ///< guarded by posted_mutex_
  std::atomic<bool> anything_posted_{false};
};

/// The seam's timer.
class LoopTimer final : public Timer {
 public:
  LoopTimer(EventLoop& loop, TimerHandler& handler) : loop_(loop) {
    entry_.handler = &handler;
    loop_.timer_made();
  }
  ~LoopTimer() override {
    loop_.disarm(entry_);
    loop_.timer_destroyed();
  }
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;
  void arm(TimePoint deadline) override { loop_.arm(entry_, deadline); }
  void disarm() override { loop_.disarm(entry_); }

 private:
  EventLoop& loop_;
  TimerHeap::Entry entry_;
};

}  // namespace peerbed
