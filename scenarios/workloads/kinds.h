// The makers that the registry in workload.cpp lists.
#pragma once

#include "scenarios/workloads/workload.h"

namespace peerbed {

[[nodiscard]] std::unique_ptr<Workload> make_punch(WorkloadReader& reader);
[[nodiscard]] std::unique_ptr<Workload> make_bulk(WorkloadReader& reader);
[[nodiscard]] std::unique_ptr<Workload> make_messages(WorkloadReader& reader);
[[nodiscard]] std::unique_ptr<Workload> make_flood(WorkloadReader& reader);

}  // namespace peerbed
