// Whatever stands in a scenario file, loading it ends with a scenario or with one sentence.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "scenarios/loader.h"
#include "scenarios/measure/expectation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = "/tmp/peerbed-scenario-fuzz-" + std::to_string(getpid()) + ".yaml";
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto expectation = peerbed::Expectation::parse(text);
  if (expectation) {
    peerbed::Metrics metrics;
    metrics.set_number("a", "s", 1);
    metrics.set_samples("b", "bit/s", {1, 2});
    const auto outcome = expectation->evaluate(metrics);
    if (!outcome.reason.empty() && outcome.ok) std::abort();
  } else if (expectation.error().message.empty()) {
    std::abort();
  }
  std::ofstream(path, std::ios::binary) << text;
  peerbed::ScenarioRequest request;
  request.name_or_path = path;
  const auto scenario = peerbed::load_scenario(request);
  if (!scenario && scenario.error().message.empty()) std::abort();
  if (scenario) {
    // What was resolved must load again.
    std::ofstream(path, std::ios::binary) << scenario->resolved;
    if (!peerbed::load_scenario(request)) std::abort();
  }
  return 0;
}
