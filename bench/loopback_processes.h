// Runs one plan in two fresh processes and brings their reports home.
#pragma once

#include "bench/loopback_report.h"

namespace peerbed::bench {

struct RunReport {
  ProcessReport server, client;
  std::string error;  ///< empty: both processes ended well and their counts agree

  [[nodiscard]] bool ok() const { return error.empty(); }
  [[nodiscard]] double rate() const;   ///< units per second, until the last was received
  [[nodiscard]] double bytes() const;  ///< of messages, in the measured time
  [[nodiscard]] double cpu_s() const { return server.usage.cpu_s() + client.usage.cpu_s(); }
};

/// Both processes have ended when it returns: by themselves, or killed by their own ids.
[[nodiscard]] RunReport run_processes(const Plan& plan);

}  // namespace peerbed::bench
