// Ring buffers of the TCP machine. They start empty and grow by doubling up to what was in use at most, so that ten
// thousand idle connections cost nothing and a busy one stops allocating.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/check.h"

namespace peerbed::sim {

/// A queue of bytes of bounded size, with a region behind its end that can be written out of order.
class ByteRing {
 public:
  explicit ByteRing(std::size_t capacity) : capacity_(capacity) {}

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t room() const { return capacity_ - size_; }

  /// Takes as much as there is room for.
  std::size_t append(BytesView data);
  /// Writes at a position counted from the front; the region from size() on belongs to nobody until extend() takes it in.
  void put(std::size_t position, BytesView data);
  void extend(std::size_t bytes);
  void drop_front(std::size_t bytes);
  void copy_out(std::size_t position, MutableBytes into) const;
  /// The bytes in one piece if they do not wrap, else an empty view.
  [[nodiscard]] BytesView piece(std::size_t position, std::size_t bytes) const;

 private:
  void reserve(std::size_t bytes);

  std::size_t capacity_;
  std::size_t size_ = 0;
  std::size_t front_ = 0;
  std::vector<std::uint8_t> storage_;  ///< its size is zero or a power of two
};

/// A queue of values that never gives memory back.
template <class T>
class Ring {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t i) { return storage_[(front_ + i) & (storage_.size() - 1)]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return storage_[(front_ + i) & (storage_.size() - 1)]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }

  void push_back(T value) {
    if (size_ == storage_.size()) grow();
    ++size_;
    (*this)[size_ - 1] = std::move(value);
  }
  void pop_front() {
    PEERBED_CHECK(size_ > 0, "an empty ring has no front");
    front_ = (front_ + 1) & (storage_.size() - 1);
    --size_;
  }
  void clear() { front_ = size_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(storage_.empty() ? 8 : storage_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    storage_ = std::move(larger);
    front_ = 0;
  }

  std::vector<T> storage_;
  std::size_t front_ = 0;
  std::size_t size_ = 0;
};

}  // namespace peerbed::sim
