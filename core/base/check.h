// A broken invariant of ours stops the program with a sentence. What a peer or a path does wrong never comes here.
#pragma once

#include <cstdio>
#include <cstdlib>

#define PEERBED_CHECK(condition, sentence)                                                              \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]] {                                                                    \
      std::fprintf(stderr, "peerbed: internal error: %s (%s, %s:%d)\n", (sentence), #condition, __FILE__, \
                   __LINE__);                                                                           \
      std::abort();                                                                                     \
    }                                                                                                   \
  } while (false)
