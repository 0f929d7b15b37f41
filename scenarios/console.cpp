#include "scenarios/console.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace peerbed {

namespace {

constexpr double kBarEvery = 0.2;    // seconds between two drawings on a terminal
constexpr double kLineEvery = 10.0;  // and between two lines in a log
constexpr std::size_t kBarWidth = 24;

volatile sig_atomic_t interrupt_count = 0;

void on_interrupt(int) {
  interrupt_count = interrupt_count + 1;
  if (interrupt_count > 1) _exit(130);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(std::clamp(seconds, 0.0, 1e9));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressDisplay::ProgressDisplay() : terminal_(isatty(STDERR_FILENO) == 1), drawn_at_(steady_seconds()) {}
ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

void ProgressDisplay::draw(double share, const std::string& text, double wall_s) {
  const double now = steady_seconds();
  if (now - drawn_at_ < (terminal_ ? kBarEvery : kLineEvery)) return;
  drawn_at_ = now;
  share = std::clamp(share, 0.0, 1.0);
  const std::string left = share > 0.01 ? clock_text(wall_s / share - wall_s) : "?";
  if (!terminal_) {
    fmt::print(stderr, "{:3.0f} %  {}, {} left\n", share * 100, text, left);
    return;
  }
  const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  fmt::print(stderr, "\r\033[K[{}{}] {}, {} left", std::string(full, '#'), std::string(kBarWidth - full, '.'), text, left);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressDisplay::show(const RunProgress& progress) {
  const double share = to_seconds(progress.elapsed) / to_seconds(progress.duration);
  const double rate = progress.wall_s > 0 ? static_cast<double>(progress.events) / progress.wall_s : 0;
  draw(share, fmt::format("{:.1f} of {:.0f} s, {:.3g} M events/s", to_seconds(progress.elapsed), to_seconds(progress.duration), rate * 1e-6),
       progress.wall_s);
}

void ProgressDisplay::show_campaign(std::size_t done, std::size_t all, double wall_s) {
  draw(static_cast<double>(done) / static_cast<double>(all), fmt::format("{} of {} runs, {:.1f} runs/s", done, all, wall_s > 0 ? static_cast<double>(done) / wall_s : 0),
       wall_s);
}

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_count > 0; }

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("-_./=:,+@").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace peerbed
