#include "sim/des/tcp_receiver.h"

#include <algorithm>

namespace peerbed::sim {

bool TcpReceiver::acceptable(std::int64_t start, std::int64_t length) const {
  if (length == 0) return start >= next_ && start <= announced_edge_;
  // A window probe with a byte into a closed window is answered, not taken.
  return start < announced_edge_ && start + length > next_;
}

bool TcpReceiver::on_text(TimePoint now, std::int64_t start, BytesView payload, bool fin) {
  const auto payload_size = static_cast<std::int64_t>(payload.size());
  if (fin && !fin_) fin_ = start + payload_size;
  // Cut to the window, and behind a FIN there is nothing.
  std::int64_t end = std::min(start + payload_size, announced_edge_);
  if (fin_) end = std::min(end, *fin_);
  const std::int64_t from = std::max(start, next_);
  const std::int64_t before = next_;
  const std::size_t held_before = held_.size();
  std::int64_t held_bytes_before = 0, held_bytes_after = 0;
  for (const Range& range : held_) held_bytes_before += range.end - range.start;
  if (from < end) {
    store(from, payload.subspan(static_cast<std::size_t>(from - start), static_cast<std::size_t>(end - from)));
  }
  for (const Range& range : held_) held_bytes_after += range.end - range.start;
  if (fin_ && next_ == *fin_) ++next_;

  const bool advanced = next_ > before;
  const bool news = advanced || held_bytes_after != held_bytes_before;
  // RFC 5681 §4.2: at once for what is out of order, fills a gap, is a duplicate, or ends the stream.
  if (!advanced || held_before > 0 || !held_.empty() || finished()) {
    ack_now_ = true;
  } else if (++unacknowledged_segments_ >= 2) {
    ack_now_ = true;
  } else if (!ack_deadline_) {
    ack_deadline_ = now + delayed_ack_;
  }
  return news;
}

void TcpReceiver::store(std::int64_t start, BytesView payload) {
  const std::int64_t front = next_ - static_cast<std::int64_t>(buffer_.size());
  buffer_.put(static_cast<std::size_t>(start - front), payload);
  Range merged{start, start + static_cast<std::int64_t>(payload.size())};

  // Everything in `held_` that overlaps or touches becomes one with it.
  const auto first = std::lower_bound(held_.begin(), held_.end(), merged.start,
                                      [](const Range& range, std::int64_t at) { return range.end < at; });
  auto last = first;
  for (; last != held_.end() && last->start <= merged.end; ++last) {
    merged.start = std::min(merged.start, last->start);
    merged.end = std::max(merged.end, last->end);
  }
  if (merged.start <= next_) {
    buffer_.extend(static_cast<std::size_t>(merged.end - next_));
    next_ = merged.end;
    held_.erase(first, last);
    return;
  }
  if (first == last) {
    held_.insert(first, merged);
  } else {
    *first = merged;
    held_.erase(first + 1, last);
  }
  // Newest first, without repeating a range.
  auto slot = std::find_if(recent_.begin(), recent_.end() - 1,
                           [&](std::int64_t at) { return at >= merged.start && at < merged.end; });
  std::move_backward(recent_.begin(), slot, slot + 1);
  recent_.front() = start;
}

ReceiveResult TcpReceiver::read(MutableBytes into) {
  const std::size_t bytes = std::min(into.size(), buffer_.size());
  buffer_.copy_out(0, into.first(bytes));
  buffer_.drop_front(bytes);
  if (bytes > 0 && !finished()) {
    // A window update of its own: when the window was shut, as soon as it is worth it; else when half of it is used
    // up and a quarter came free. Anything else travels with the next acknowledgement.
    const std::int64_t open = announced_edge_ - next_;
    const std::int64_t gain = fresh_edge() - announced_edge_;
    const auto capacity = static_cast<std::int64_t>(buffer_.capacity());
    if (gain >= worth_announcing() && (open < worth_announcing() || (open <= capacity / 2 && gain >= capacity / 4))) {
      ack_now_ = true;
    }
  }
  return {bytes, finished() && buffer_.size() == 0};
}

std::int64_t TcpReceiver::fresh_edge() const {
  const std::int64_t data_end = finished() ? next_ - 1 : next_;
  return data_end + static_cast<std::int64_t>(buffer_.room());
}

std::int64_t TcpReceiver::worth_announcing() const {
  // Silly window avoidance, RFC 9293 §3.8.6.2.2.
  return std::min<std::int64_t>(static_cast<std::int64_t>(buffer_.capacity() / 2), segment_size_);
}

std::uint32_t TcpReceiver::acknowledge() {
  ack_now_ = false;
  ack_deadline_.reset();
  unacknowledged_segments_ = 0;
  if (fresh_edge() - announced_edge_ >= worth_announcing()) announced_edge_ = fresh_edge();
  return static_cast<std::uint32_t>(std::max<std::int64_t>(announced_edge_ - next_, 0));
}

std::size_t TcpReceiver::sack_ranges(std::array<Range, 3>& out) const {
  std::size_t count = 0;
  if (held_.empty()) return 0;
  for (const std::int64_t at : recent_) {
    for (const Range& range : held_) {
      if (at < range.start || at >= range.end) continue;
      bool repeated = false;
      for (std::size_t i = 0; i < count; ++i) repeated = repeated || out[i].start == range.start;
      if (!repeated) out[count++] = range;
      break;
    }
  }
  return count;
}

}  // namespace peerbed::sim
