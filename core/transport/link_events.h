// What a link has to tell its handler, queued: machines never call back, the driver delivers after the call.
#pragma once

#include <vector>

#include "core/base/bytes.h"
#include "core/transport/link.h"

namespace peerbed {

struct LinkEvent {
  enum class Kind : std::uint8_t {
    established, stream_opened, stream_readable, stream_writable, datagram, observed_address, path_validated, path_changed,
    closed
  };
  Kind kind = Kind::established;
  LinkCloseReason reason = LinkCloseReason::local;
  StreamId stream = 0;
  Path path;        ///< observed_address: path.remote
  Duration rtt{};
  std::size_t offset = 0, length = 0;  ///< datagram: its bytes in the queue's arena
};

class LinkEvents {
 public:
  void push(const LinkEvent& event) { queue_.push_back(event); }
  void push(LinkEvent::Kind kind, StreamId stream = 0) {
    LinkEvent event;
    event.kind = kind;
    event.stream = stream;
    queue_.push_back(event);
  }
  void push_path(LinkEvent::Kind kind, const Path& path, Duration rtt = {}) {
    LinkEvent event;
    event.kind = kind;
    event.path = path;
    event.rtt = rtt;
    queue_.push_back(event);
  }
  void push_closed(LinkCloseReason reason) {
    LinkEvent event;
    event.kind = LinkEvent::Kind::closed;
    event.reason = reason;
    queue_.push_back(event);
  }
  void push_datagram(BytesView payload) {
    LinkEvent event;
    event.kind = LinkEvent::Kind::datagram;
    event.offset = arena_.size();
    event.length = payload.size();
    arena_.insert(arena_.end(), payload.begin(), payload.end());
    queue_.push_back(event);
  }

  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  [[nodiscard]] const LinkEvent& operator[](std::size_t i) const { return queue_[i]; }
  [[nodiscard]] BytesView payload(const LinkEvent& event) const {
    return BytesView(arena_).subspan(event.offset, event.length);
  }
  /// Moves all that is queued to `batch`, whose storage it takes in exchange; pushing goes on while the batch is delivered.
  void take(LinkEvents& batch) {
    batch.clear();
    queue_.swap(batch.queue_);
    arena_.swap(batch.arena_);
    ++generation_;
  }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  ///< counts take(); never zero
  void clear() {
    queue_.clear();
    arena_.clear();
    if (arena_.capacity() > kKeep) Bytes().swap(arena_);  // a burst must not pin its memory
  }

 private:
  static constexpr std::size_t kKeep = 64 * 1024;
  std::vector<LinkEvent> queue_;
  Bytes arena_;
  std::uint64_t generation_ = 1;
};

/// Calls the one callback that belongs to the event.
void deliver(TimePoint now, const LinkEvent& event, BytesView payload, Link& link, LinkHandler& handler);

}  // namespace peerbed
