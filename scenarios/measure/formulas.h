// What theory says a loss-based flow gets: the bounds that scenarios are checked against.
#pragma once

namespace peerbed {

struct LossPath {
  double mss_bytes = 0, rtt_s = 0, loss = 0;
  double acked_per_ack = 2;  ///< b: packets that one acknowledgement covers (2 with delayed acks)
  double rto_s = 1;          ///< T0: RFC 6298's floor
};

/// Mathis, Semke, Mahdavi, Ott 1997: MSS/RTT * sqrt(3 / (2 b p)), in bit/s.
[[nodiscard]] double mathis(const LossPath& path);
/// Padhye, Firoiu, Towsley, Kurose 1998, equation 30 (the approximate model, with retransmission timeouts), in bit/s.
[[nodiscard]] double pftk(const LossPath& path);

}  // namespace peerbed
