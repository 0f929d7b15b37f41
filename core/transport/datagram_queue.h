// Unreliable datagrams that wait for the window: a byte FIFO, so that a queue in steady use allocates nothing.
#pragma once

#include <cstring>

#include "core/base/bytes.h"

namespace peerbed {

class DatagramQueue {
 public:
  explicit DatagramQueue(std::size_t limit) : limit_(limit) {}

  bool push(BytesView payload) {
    if (count_ >= limit_) return false;
    if (head_ > 0 && head_ >= bytes_.size() / 2) {
      bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    const auto size = static_cast<std::uint16_t>(payload.size());
    bytes_.push_back(static_cast<std::uint8_t>(size >> 8));
    bytes_.push_back(static_cast<std::uint8_t>(size & 0xff));
    bytes_.insert(bytes_.end(), payload.begin(), payload.end());
    ++count_;
    return true;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] BytesView front() const {
    return BytesView(bytes_).subspan(head_ + 2, static_cast<std::size_t>(bytes_[head_] << 8 | bytes_[head_ + 1]));
  }
  void pop() {
    head_ += 2 + front().size();
    if (--count_ > 0) return;
    head_ = 0;
    bytes_.clear();
    if (bytes_.capacity() > kKeep) Bytes().swap(bytes_);
  }

 private:
  static constexpr std::size_t kKeep = 64 * 1024;
  Bytes bytes_;
  std::size_t head_ = 0, count_ = 0, limit_;
};

}  // namespace peerbed
