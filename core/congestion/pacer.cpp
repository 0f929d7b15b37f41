#include "core/congestion/pacer.h"

#include <algorithm>
#include <limits>

namespace peerbed {
namespace {

// One byte in the bucket's unit: rate [bit/s] times time [ns].
constexpr Int128 kByte = static_cast<Int128>(8) * 1'000'000'000;

}  // namespace

DataRate pacing_rate(DataSize window, Duration smoothed_rtt, bool in_slow_start) {
  const Int128 quarters = in_slow_start ? 8 : 5;
  const Int128 rtt = std::max<std::int64_t>(smoothed_rtt.count(), 1);
  const Int128 rate = window.bytes * kByte * quarters / (rtt * 4);
  constexpr Int128 most = std::numeric_limits<std::int64_t>::max();
  return {static_cast<std::int64_t>(std::clamp<Int128>(rate, 1, most))};
}

Int128 Pacer::credit_at(TimePoint now) const {
  const Int128 full = burst_.bytes * kByte;
  if (!started_) return full;
  const Int128 elapsed = now > last_ ? (now - last_).count() : 0;
  // Time is whole nanoseconds, so a bucket that was waited for is up to one nanosecond overfull. That part is kept: cut
  // off, it would be lost with every packet of a sender whose burst is one packet.
  const Int128 brim = full + std::max<std::int64_t>(rate_.bits_per_second - 1, 0);
  return std::min(brim, credit_bits_ns_ + elapsed * rate_.bits_per_second);
}

TimePoint Pacer::next_send(TimePoint now, DataSize size) const {
  if (rate_.bits_per_second <= 0) return now;
  const Int128 missing = std::min(size, burst_).bytes * kByte - credit_at(now);
  if (missing <= 0) return now;
  // Rounded up: a nanosecond late is on time, a nanosecond early would wake the sender for nothing.
  const Int128 wait = (missing + rate_.bits_per_second - 1) / rate_.bits_per_second;
  const Int128 room = (kNever - now).count();
  return wait >= room ? kNever : now + Duration(static_cast<std::int64_t>(wait));
}

void Pacer::on_sent(TimePoint now, DataSize size) {
  if (rate_.bits_per_second <= 0) {
    started_ = false;  // a full bucket, should pacing be switched on
    return;
  }
  credit_bits_ns_ = credit_at(now) - size.bytes * kByte;
  last_ = std::max(now, last_);
  started_ = true;
}

}  // namespace peerbed
