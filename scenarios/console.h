// What people see while a run goes on: a bar on a terminal, else a line now and then. All of it on standard error.
#pragma once

#include <cstddef>
#include <string>

#include "scenarios/runner.h"

namespace peerbed {

class ProgressDisplay {
 public:
  ProgressDisplay();
  ~ProgressDisplay();  ///< clears the bar
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const RunProgress& progress);
  void show_campaign(std::size_t done, std::size_t all, double wall_s);
  void clear();

 private:
  void draw(double share, const std::string& text, double wall_s);
  bool terminal_ = false, drawn_ = false;
  double drawn_at_ = 0;
};

/// Ctrl-C and SIGTERM are noted and looked at between slices of a run; a second Ctrl-C ends the program at once.
void watch_for_interrupts();
[[nodiscard]] bool interrupted();

/// Quotes what a shell would take apart.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace peerbed
