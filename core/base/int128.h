// 128-bit integers: g++ and clang both have them, ISO C++ does not name them, so the extension is marked once.
#pragma once

namespace peerbed {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

}  // namespace peerbed
