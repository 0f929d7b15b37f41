// The one conformance suite. A world runs all of it with one line:
//   PEERBED_CONFORMANCE(Sockets, SocketWorld);
#pragma once

#include "tests/conformance/datagram_cases.h"
#include "tests/conformance/environment_cases.h"
#include "tests/conformance/stream_cases.h"
#include "tests/conformance/stream_end_cases.h"
#include "tests/conformance/timer_cases.h"

#define PEERBED_CONFORMANCE(name, world)                                 \
  namespace peerbed::conformance {                                      \
  INSTANTIATE_TYPED_TEST_SUITE_P(name, TimerConformance, world);        \
  INSTANTIATE_TYPED_TEST_SUITE_P(name, DatagramConformance, world);     \
  INSTANTIATE_TYPED_TEST_SUITE_P(name, StreamConformance, world);       \
  INSTANTIATE_TYPED_TEST_SUITE_P(name, StreamEndConformance, world);    \
  INSTANTIATE_TYPED_TEST_SUITE_P(name, EnvironmentConformance, world);  \
  }                                                                     \
  static_assert(peerbed::conformance::World<world>)
