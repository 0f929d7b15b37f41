#include "core/congestion/newreno.h"

namespace peerbed {

DataSize NewReno::grown(const AckedPackets&, DataSize bytes) {
  // One datagram per window of acknowledged bytes (RFC 3465 §2.1, which RFC 9002 §7.3.3 allows).
  DataSize next = window();
  acknowledged_ += bytes;
  while (acknowledged_ >= next) {
    acknowledged_ -= next;
    next += max_datagram_size();
  }
  return next;
}

}  // namespace peerbed
