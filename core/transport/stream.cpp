#include "core/transport/stream.h"

namespace peerbed {

// ---- sending -------------------------------------------------------------------------------------------------------

std::size_t SendStream::write(std::span<const BytesView> slices, std::size_t buffer_limit) {
  if (finishing_ || reset_code_) return 0;
  std::size_t room = buffer_limit > buffered() ? buffer_limit - buffered() : 0;
  std::size_t taken = 0;
  for (const BytesView slice : slices) {
    const std::size_t n = std::min(slice.size(), room);
    ring_.write(written_, slice.first(n));
    written_ += n;
    taken += n;
    room -= n;
    if (n < slice.size()) break;
  }
  return taken;
}

void SendStream::reset(std::uint64_t code) {
  if (reset_code_ || done()) return;
  reset_code_ = code;
  reset_pending_ = true;
  lost_.clear();
  acked_.clear();
  written_ = next_;
  acked_below_ = next_;
  ring_.clear();
}

std::optional<StreamChunk> SendStream::next_chunk(std::size_t room, std::uint64_t fresh) const {
  if (reset_code_) return std::nullopt;
  StreamChunk chunk;
  if (!lost_.empty()) {
    chunk.offset = lost_.front().begin;
    chunk.length = std::min(room, static_cast<std::size_t>(lost_.front().size()));
    chunk.repeated = true;
    chunk.fin = finishing_ && chunk.offset + chunk.length == written_;
    if (chunk.length == 0) return std::nullopt;
    return chunk;
  }
  chunk.offset = next_;
  const std::uint64_t allowed = std::min({written_ - next_, peer_limit_ > next_ ? peer_limit_ - next_ : 0, fresh});
  chunk.length = std::min(room, static_cast<std::size_t>(allowed));
  chunk.fin = finishing_ && !fin_sent_ && chunk.offset + chunk.length == written_;
  if (chunk.length == 0 && !chunk.fin) return std::nullopt;
  return chunk;
}

void SendStream::on_sent(const StreamChunk& chunk) {
  if (chunk.repeated) {
    lost_.erase(chunk.offset, chunk.offset + chunk.length);
  } else {
    next_ = chunk.offset + chunk.length;
  }
  fin_sent_ = fin_sent_ || chunk.fin;
}

void SendStream::on_acked(std::uint64_t offset, std::uint64_t length, bool fin) {
  fin_acked_ = fin_acked_ || fin;
  if (reset_code_) return;
  const std::uint64_t end = offset + length;
  if (!lost_.empty()) lost_.erase(offset, end);
  if (offset <= acked_below_) {
    acked_below_ = std::max(acked_below_, end);
    while (!acked_.empty() && acked_.front().begin <= acked_below_) {
      acked_below_ = std::max(acked_below_, acked_.front().end);
      acked_.pop_front();
    }
    ring_.release_below(acked_below_);
  } else {
    acked_.insert(offset, end);
  }
}

void SendStream::on_lost(std::uint64_t offset, std::uint64_t length, bool fin) {
  if (reset_code_) return;
  if (fin && !fin_acked_) fin_sent_ = false;
  const std::uint64_t begin = std::max(offset, acked_below_), end = offset + length;
  if (begin >= end) return;
  lost_.insert(begin, end);
  for (std::size_t i = 0; i < acked_.size() && acked_[i].begin < end; ++i) lost_.erase(acked_[i].begin, acked_[i].end);
}

bool SendStream::raise_limit(std::uint64_t limit) {
  if (limit <= peer_limit_) return false;
  peer_limit_ = limit;
  return true;
}

bool SendStream::wants_to_send() const {
  if (reset_code_) return reset_pending_;
  return !lost_.empty() || (next_ < written_ && next_ < peer_limit_) || (finishing_ && !fin_sent_ && next_ == written_);
}

// ---- receiving -----------------------------------------------------------------------------------------------------

bool ReceiveWindow::on_consumed(TimePoint now, std::uint64_t consumed, Duration rtt) {
  if (limit_ - consumed > size_ - size_ / 4) return false;
  if (since_ && now - *since_ < rtt) size_ = std::min(size_ * 2, std::max(size_, maximum_));
  since_ = now;
  limit_ = std::max(limit_, consumed + size_);
  return true;
}

ReceiveStream::Arrival ReceiveStream::on_data(TimePoint now, std::uint64_t offset, BytesView data, bool fin) {
  Arrival arrival;
  const std::uint64_t end = offset + data.size();
  if (end > window_.limit() || (final_size_ && (end > *final_size_ || (fin && end != *final_size_))) ||
      (fin && end < highest_)) {
    arrival.violation = true;
    return arrival;
  }
  window_.start(now);
  if (end > highest_) {
    arrival.growth = end - highest_;
    highest_ = end;
  }
  const bool was_readable = readable();
  if (fin) final_size_ = end;
  if (done()) return arrival;
  const std::uint64_t front_before = received_.empty() || received_.front().begin != read_ ? read_ : received_.front().end;
  if (end > read_ && !data.empty()) {
    const std::uint64_t from = std::max(offset, read_);
    ring_.write(from, data.subspan(static_cast<std::size_t>(from - offset)));
    received_.insert(from, end);
  }
  const std::uint64_t front_after = received_.empty() || received_.front().begin != read_ ? read_ : received_.front().end;
  arrival.readable = front_after > front_before || (readable() && !was_readable);
  return arrival;
}

ReceiveStream::Arrival ReceiveStream::on_reset(std::uint64_t final_size) {
  Arrival arrival;
  if (final_size < highest_ || final_size > window_.limit() || (final_size_ && *final_size_ != final_size)) {
    arrival.violation = true;
    return arrival;
  }
  arrival.growth = final_size - highest_;
  highest_ = final_size;
  final_size_ = final_size;
  if (done()) return arrival;
  was_reset_ = true;
  arrival.readable = true;
  received_.clear();
  ring_.clear();
  return arrival;
}

bool ReceiveStream::readable() const {
  if (was_reset_) return true;
  if (end_read_) return false;
  return (!received_.empty() && received_.front().begin == read_) || (final_size_ && *final_size_ == read_);
}

StreamRead ReceiveStream::read(MutableBytes into) {
  StreamRead result;
  if (was_reset_) {
    result.end = result.reset = true;
    return result;
  }
  if (!received_.empty() && received_.front().begin == read_) {
    const std::uint64_t end = received_.front().end;
    result.bytes = std::min(into.size(), static_cast<std::size_t>(end - read_));
    ring_.read(read_, into.first(result.bytes));
    read_ += result.bytes;
    received_.erase(0, read_);
    ring_.release_below(read_);
  }
  if (final_size_ && *final_size_ == read_) result.end = end_read_ = true;
  return result;
}

}  // namespace peerbed
