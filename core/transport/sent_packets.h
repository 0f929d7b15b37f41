// What was sent and is not settled yet: a ring by packet number, and beside it a ring of what each packet carried. Both
// only grow, so that a running connection allocates nothing per packet.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/transport/link.h"

namespace peerbed {

/// One thing that a packet carried and that someone wants to know the fate of.
struct SentRecord {
  enum class Kind : std::uint8_t { stream, reset_stream, max_data, max_stream_data, max_streams, observed_address, ack };
  Kind kind = Kind::stream;
  bool fin = false;
  std::uint32_t length = 0;
  StreamId stream = 0;
  std::uint64_t offset = 0;  ///< stream: of the first byte; ack: the largest number acknowledged
};

struct SentPacket {
  enum class State : std::uint8_t { outstanding, lost, settled };
  TimePoint sent{}, lost{};
  std::uint64_t first_record = 0;
  std::uint64_t previous = 0, next = 0;  ///< neighbours in the list of outstanding or of lost packets
  std::uint32_t size = 0;                ///< counted in flight; zero: not counted
  std::uint32_t loss_event = 0;
  std::uint16_t record_count = 0;
  State state = State::settled;
  bool ack_eliciting = false;
  bool exempt = false;  ///< its loss says nothing about the path (it carried the handshake, or the path has changed)
};

class SentPackets {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// A doubly linked list through the ring, in order of packet numbers.
  struct List {
    std::uint64_t head = kNone, tail = kNone;
  };

  SentPackets() : slots_(8), records_(16) {}  // an idle connection stays small

  [[nodiscard]] std::uint64_t next_number() const { return next_; }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] SentPacket& operator[](std::uint64_t number) { return slots_[number & (slots_.size() - 1)]; }
  [[nodiscard]] const SentPacket& operator[](std::uint64_t number) const { return slots_[number & (slots_.size() - 1)]; }
  [[nodiscard]] bool holds(std::uint64_t number) const { return number >= base_ && number < next_; }

  /// Records of the packet that add() will finish.
  void add_record(const SentRecord& record) {
    if (record_next_ - record_base_ == records_.size()) grow_records();
    records_[record_next_++ & (records_.size() - 1)] = record;
    ++open_records_;
  }
  /// The packet turned out not to be tracked.
  void drop_open_records() {
    record_next_ -= open_records_;
    open_records_ = 0;
  }
  [[nodiscard]] const SentRecord& record(std::uint64_t index) const { return records_[index & (records_.size() - 1)]; }

  /// Takes the next number. An untracked packet (nothing in it wants an answer) is settled from the start.
  SentPacket& add(TimePoint now, std::uint32_t size, bool tracked) {
    if (next_ - base_ == slots_.size()) grow();
    SentPacket& packet = (*this)[next_];
    packet = SentPacket{};
    packet.sent = now;
    packet.size = size;
    packet.first_record = record_next_ - open_records_;
    packet.record_count = open_records_;
    open_records_ = 0;
    ++next_;
    if (tracked) {
      packet.state = SentPacket::State::outstanding;
      append(outstanding_, next_ - 1);
    } else if (base_ + 1 == next_) {
      trim();
    }
    return (*this)[next_ - 1];
  }

  void mark_lost(std::uint64_t number, TimePoint now) {
    SentPacket& packet = (*this)[number];
    unlink(outstanding_, number);
    packet.state = SentPacket::State::lost;
    packet.lost = now;
    insert_in_order(lost_, number);
  }
  void settle(std::uint64_t number) {
    SentPacket& packet = (*this)[number];
    unlink(packet.state == SentPacket::State::lost ? lost_ : outstanding_, number);
    packet.state = SentPacket::State::settled;
  }
  /// Frees settled packets at the old end.
  void trim() {
    while (base_ < next_ && (*this)[base_].state == SentPacket::State::settled) ++base_;
    record_base_ = base_ < next_ ? (*this)[base_].first_record : record_next_ - open_records_;
  }

  [[nodiscard]] const List& outstanding() const { return outstanding_; }
  [[nodiscard]] const List& lost() const { return lost_; }

 private:
  void append(List& list, std::uint64_t number) {
    SentPacket& packet = (*this)[number];
    packet.previous = list.tail;
    packet.next = kNone;
    if (list.tail == kNone) list.head = number; else (*this)[list.tail].next = number;
    list.tail = number;
  }
  void insert_in_order(List& list, std::uint64_t number) {  // nearly always at the end
    std::uint64_t before = list.tail;
    while (before != kNone && before > number) before = (*this)[before].previous;
    SentPacket& packet = (*this)[number];
    packet.previous = before;
    packet.next = before == kNone ? list.head : (*this)[before].next;
    if (packet.next == kNone) list.tail = number; else (*this)[packet.next].previous = number;
    if (before == kNone) list.head = number; else (*this)[before].next = number;
  }
  void unlink(List& list, std::uint64_t number) {
    const SentPacket& packet = (*this)[number];
    if (packet.previous == kNone) list.head = packet.next; else (*this)[packet.previous].next = packet.next;
    if (packet.next == kNone) list.tail = packet.previous; else (*this)[packet.next].previous = packet.previous;
  }
  void grow() {
    std::vector<SentPacket> larger(slots_.size() * 2);
    for (std::uint64_t n = base_; n < next_; ++n) larger[n & (larger.size() - 1)] = (*this)[n];
    slots_.swap(larger);
  }
  void grow_records() {
    std::vector<SentRecord> larger(records_.size() * 2);
    for (std::uint64_t n = record_base_; n < record_next_; ++n) larger[n & (larger.size() - 1)] = record(n);
    records_.swap(larger);
  }

  std::vector<SentPacket> slots_;  // sizes are powers of two
  std::vector<SentRecord> records_;
  std::uint64_t base_ = 0, next_ = 0;
  std::uint64_t record_base_ = 0, record_next_ = 0;
  std::uint16_t open_records_ = 0;
  List outstanding_, lost_;
};

}  // namespace peerbed
