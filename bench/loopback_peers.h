// The two processes of a run: a server node and a client node, each on a SocketEnvironment of its own.
#pragma once

#include <functional>

#include "bench/loopback_report.h"

namespace peerbed::bench {

/// Runs until the client has left. `greet` is told once, when the node listens or cannot.
[[nodiscard]] ProcessReport run_server(const Plan& plan, const std::function<void(const Greeting&)>& greet);
[[nodiscard]] ProcessReport run_client(const Plan& plan, std::uint16_t server_port);

}  // namespace peerbed::bench
