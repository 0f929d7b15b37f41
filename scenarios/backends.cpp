#include <fmt/format.h>

#include <vector>

#include "scenarios/backend.h"
#include "topologies/suggest.h"

namespace peerbed {

std::span<const Backend> backends() {
  static constexpr Backend kBackends[] = {
      {"sim", "our packet plane, virtual time, deterministic", true, &realise_sim},
      {"ns3", "ns-3 in virtual time (not in this build)", true, nullptr},
      {"netem", "Linux namespaces and the kernel's TCP (not in this build)", false, nullptr},
      {"sockets", "kernel sockets on loopback, real time; links and NATs are not emulated", false, &realise_sockets},
  };
  return kBackends;
}

Result<const Backend*> find_backend(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& backend : backends()) {
    known.push_back(backend.name);
    if (backend.name != name) continue;
    if (backend.realise == nullptr) return unsupported(fmt::format("the backend '{}' is not in this build; use sim or sockets", name));
    return &backend;
  }
  return bad_input(fmt::format("there is no backend '{}'{}", name, did_you_mean(name, known)));
}

}  // namespace peerbed
