#include "sim/des/tcp_ring.h"

#include <algorithm>

namespace peerbed::sim {

void ByteRing::reserve(std::size_t bytes) {
  if (bytes <= storage_.size()) return;
  std::vector<std::uint8_t> larger(std::max<std::size_t>(std::bit_ceil(bytes), 2048));
  // The whole old ring, not only size_ bytes: what was put out of order lies behind the end.
  for (std::size_t i = 0; i < storage_.size(); ++i) larger[i] = storage_[(front_ + i) & (storage_.size() - 1)];
  storage_ = std::move(larger);
  front_ = 0;
}

std::size_t ByteRing::append(BytesView data) {
  const std::size_t taken = std::min(data.size(), room());
  put(size_, data.first(taken));
  size_ += taken;
  return taken;
}

void ByteRing::put(std::size_t position, BytesView data) {
  PEERBED_CHECK(position + data.size() <= capacity_, "a byte ring is written within its capacity");
  if (data.empty()) return;
  reserve(position + data.size());
  const std::size_t at = (front_ + position) & (storage_.size() - 1);
  const std::size_t first = std::min(data.size(), storage_.size() - at);
  std::memcpy(storage_.data() + at, data.data(), first);
  if (first < data.size()) std::memcpy(storage_.data(), data.data() + first, data.size() - first);
}

void ByteRing::extend(std::size_t bytes) {
  PEERBED_CHECK(size_ + bytes <= storage_.size(), "only bytes that were put can be taken in");
  size_ += bytes;
}

void ByteRing::drop_front(std::size_t bytes) {
  PEERBED_CHECK(bytes <= size_, "only bytes that are there can be dropped");
  size_ -= bytes;
  if (bytes > 0) front_ = (front_ + bytes) & (storage_.size() - 1);
}

void ByteRing::copy_out(std::size_t position, MutableBytes into) const {
  PEERBED_CHECK(position + into.size() <= size_, "only bytes that are there can be read");
  if (into.empty()) return;
  const std::size_t at = (front_ + position) & (storage_.size() - 1);
  const std::size_t first = std::min(into.size(), storage_.size() - at);
  std::memcpy(into.data(), storage_.data() + at, first);
  if (first < into.size()) std::memcpy(into.data() + first, storage_.data(), into.size() - first);
}

BytesView ByteRing::piece(std::size_t position, std::size_t bytes) const {
  PEERBED_CHECK(position + bytes <= size_, "only bytes that are there can be viewed");
  if (bytes == 0) return {};
  const std::size_t at = (front_ + position) & (storage_.size() - 1);
  if (at + bytes > storage_.size()) return {};
  return BytesView(storage_).subspan(at, bytes);
}

}  // namespace peerbed::sim
