// Byte strings and the cursor pair that every encoder and decoder uses. Network byte order; varints of RFC 9000 §16.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peerbed {

using Bytes = std::vector<std::uint8_t>;
using BytesView = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

[[nodiscard]] inline BytesView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view as_text(BytesView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] std::string to_hex(BytesView bytes);
[[nodiscard]] std::optional<Bytes> from_hex(std::string_view hex);

inline constexpr std::uint64_t kMaxVarint = (std::uint64_t{1} << 62) - 1;
[[nodiscard]] constexpr std::size_t varint_size(std::uint64_t v) {
  return v < 64 ? 1 : v < 16384 ? 2 : v < (1U << 30) ? 4 : 8;
}

/// Appends to a caller's fixed buffer; a write that does not fit sets `failed()` and writes nothing.
class ByteWriter {
 public:
  explicit ByteWriter(MutableBytes out) : out_(out) {}

  void u8(std::uint8_t v) { integer(v, 1); }
  void u16(std::uint16_t v) { integer(v, 2); }
  void u32(std::uint32_t v) { integer(v, 4); }
  void u64(std::uint64_t v) { integer(v, 8); }
  void integer(std::uint64_t v, std::size_t width) {
    if (!reserve(width)) return;
    for (std::size_t i = 0; i < width; ++i) out_[at_++] = static_cast<std::uint8_t>(v >> (8 * (width - 1 - i)));
  }
  void varint(std::uint64_t v) {
    const std::size_t width = varint_size(v);
    const std::uint64_t prefix = width == 1 ? 0U : width == 2 ? 1U : width == 4 ? 2U : 3U;
    integer(v | (prefix << (8 * width - 2)), width);
  }
  void bytes(BytesView v) {
    if (!reserve(v.size())) return;
    if (!v.empty()) std::memcpy(out_.data() + at_, v.data(), v.size());
    at_ += v.size();
  }
  void zeros(std::size_t n) {
    if (!reserve(n)) return;
    std::memset(out_.data() + at_, 0, n);
    at_ += n;
  }
  /// The next n bytes, for the caller to fill; empty if they do not fit.
  MutableBytes append(std::size_t n) {
    if (!reserve(n)) return {};
    at_ += n;
    return out_.subspan(at_ - n, n);
  }
  [[nodiscard]] std::size_t size() const { return at_; }
  [[nodiscard]] std::size_t room() const { return out_.size() - at_; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] BytesView written() const { return out_.first(at_); }

 private:
  bool reserve(std::size_t n) {
    if (failed_ || n > room()) failed_ = true;
    return !failed_;
  }
  MutableBytes out_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

/// Reads a view; a read past the end sets `failed()` and returns zeros, so that a decoder checks once at its end.
class ByteReader {
 public:
  explicit ByteReader(BytesView in) : in_(in) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  std::uint64_t integer(std::size_t width) {
    if (!take(width)) return 0;
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < width; ++i) v = (v << 8) | in_[at_ - width + i];
    return v;
  }
  std::uint64_t varint() {
    if (failed_ || at_ >= in_.size()) { failed_ = true; return 0; }
    const std::size_t width = std::size_t{1} << (in_[at_] >> 6);
    const std::uint64_t v = integer(width);
    return failed_ ? 0 : v & (width == 8 ? kMaxVarint : (std::uint64_t{1} << (8 * width - 2)) - 1);
  }
  BytesView bytes(std::size_t n) { return take(n) ? in_.subspan(at_ - n, n) : BytesView{}; }
  BytesView rest() { return bytes(remaining()); }
  [[nodiscard]] std::size_t remaining() const { return failed_ ? 0 : in_.size() - at_; }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool done() const { return !failed_ && at_ == in_.size(); }

 private:
  bool take(std::size_t n) {
    if (failed_ || n > in_.size() - at_) { failed_ = true; return false; }
    at_ += n;
    return true;
  }
  BytesView in_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace peerbed
