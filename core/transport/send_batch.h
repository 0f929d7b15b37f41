// Datagrams gathered during one event and handed to the socket together: batching is the speed of UDP.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/env/environment.h"
#include "core/transport/packet.h"

namespace peerbed {

class SendBatch {
 public:
  static constexpr std::size_t kFull = 64;         // what one system call takes
  static constexpr std::size_t kMostWaiting = 256; // beyond that a blocked socket loses what is new

  /// Room for the next datagram; what is written there counts after commit().
  [[nodiscard]] MutableBytes tail() {
    if (buffer_.size() < used_ + kMaxDatagram) buffer_.resize(std::max(2 * buffer_.size(), used_ + kMaxDatagram));
    return MutableBytes(buffer_).subspan(used_, kMaxDatagram);
  }
  void commit(const Endpoint& to, std::size_t size, Ecn ecn, std::uint8_t ttl = 0) {
    entries_.push_back({to, used_, size, ecn, ttl});
    used_ += size;
  }
  [[nodiscard]] bool full() const { return entries_.size() >= kFull; }
  [[nodiscard]] bool overflowing() const { return entries_.size() >= kMostWaiting; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  /// How many datagrams left; fewer than were there means that the socket wants on_writable to be awaited.
  std::size_t send(DatagramSocket& socket) {
    std::size_t first = 0;
    while (first < entries_.size()) {
      std::array<OutgoingDatagram, kFull> datagrams;
      const std::size_t count = std::min(entries_.size() - first, kFull);
      for (std::size_t i = 0; i < count; ++i) {
        const Entry& e = entries_[first + i];
        datagrams[i] = {e.to, BytesView(buffer_).subspan(e.offset, e.size), e.ecn, e.ttl};
      }
      const std::size_t taken = socket.send(std::span(datagrams).first(count));
      first += taken;
      if (taken < count) break;
    }
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first));
    if (entries_.empty()) used_ = 0;
    return first;
  }

 private:
  struct Entry {
    Endpoint to;
    std::size_t offset = 0, size = 0;
    Ecn ecn = Ecn::not_ect;
    std::uint8_t ttl = 0;
  };
  Bytes buffer_;
  std::size_t used_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace peerbed
