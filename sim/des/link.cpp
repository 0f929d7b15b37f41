#include "sim/des/link.h"

#include <algorithm>
#include <string>

namespace peerbed::sim {

Link::Link(Engine& engine, std::uint32_t direction, std::string_view name, const LinkDirection& knobs)
    : engine_(engine),
      direction_(direction),
      loss_random_(engine.seed, stream_owner(name), direction % 2 == 0 ? "loss a to b" : "loss b to a"),
      jitter_random_(engine.seed, stream_owner(name), direction % 2 == 0 ? "jitter a to b" : "jitter b to a") {
  apply(knobs);
}

void Link::connect(Element& far_end, bool far_end_is_host, std::uint32_t entry_port, std::uint32_t exit_port) {
  far_end_ = &far_end;
  far_end_is_host_ = far_end_is_host;
  entry_port_ = entry_port;
  exit_port_ = exit_port;
}

void Link::apply(const LinkDirection& knobs) {
  rate_ = knobs.rate ? static_cast<std::uint64_t>(knobs.rate->bits_per_second) : 0;
  delay_ = knobs.delay;
  jitter_ = knobs.jitter;
  loss_ = knobs.loss;
  is_random_ = loss_ > 0 || jitter_.count() > 0;
  limit_packets_ = knobs.queue.packets ? static_cast<std::uint64_t>(*knobs.queue.packets) : kUnlimited;
  limit_bytes_ = knobs.queue.bytes ? static_cast<std::uint64_t>(knobs.queue.bytes->bytes) : kUnlimited;
}

/// Forgets, as waiting, what has begun to leave.
void Link::trim() {
  while (first_waiting_ != nullptr && first_waiting_->start <= engine_.now) {
    Packet* packet = first_waiting_;
    first_waiting_ = packet->next;
    packet->next = nullptr;
    --waiting_.packets;
    waiting_.bytes -= packet->size;
    started_due_ = packet->due;
  }
  if (first_waiting_ == nullptr) last_waiting_ = nullptr;
}

/// Takes the serialiser from `start` on, and says when the packet has left. Exact: what one packet needs of a nanosecond
/// is kept for the next, if that follows without a pause.
TimePoint Link::serialise(TimePoint start, std::uint32_t size) {
  if (rate_ == 0) return start;
  if (start != free_at()) {
    free_floor_ = start;
    free_fraction_ = 0;
  }
  const std::uint64_t work = size * kBitNanos + free_fraction_;  // below 2^64 up to 2 GB a packet
  free_floor_ += Duration(static_cast<std::int64_t>(work / rate_));
  free_fraction_ = work % rate_;
  return free_at();
}

TimePoint Link::arrival(TimePoint leaves) {
  TimePoint due = leaves + delay_;
  if (is_random_ && jitter_.count() > 0) due += Duration(jitter_random_.between(0, jitter_.count()));
  last_due_ = std::max(due, last_due_);
  return last_due_;
}

void Link::accept(Packet* packet) {
  sent_.add(packet->size);
  if (is_random_ && loss_random_.chance(loss_)) {
    counters_.lost.add(packet->size);
    engine_.drop(packet, DropReason::loss);
    return;
  }
  packet->link = this;
  packet->place = Place::link;
  const TimePoint now = engine_.now;
  if (free_at() > now) {
    // The serialiser is busy, if only with what a former rate left behind. An idle one takes a packet however small the queue is.
    trim();
    if (rate_ != 0 && (waiting_.packets >= limit_packets_ || waiting_.bytes + packet->size > limit_bytes_)) {
      counters_.queue_full.add(packet->size);
      engine_.drop(packet, DropReason::queue_full);
      return;
    }
    wait(packet);
    return;
  }
  if (rate_ == 0) {
    launch(packet, arrival(now));
    return;
  }
  started_due_ = arrival(serialise(now, packet->size));
  packet->due = started_due_;
  train_end_ = nullptr;
  engine_.schedule(packet->due, EventKind::link_end, packet);
}

/// Without a serialiser, packets that enter together arrive together: they form a train behind one event.
void Link::launch(Packet* packet, TimePoint due) {
  if (train_end_ != nullptr && train_end_->due == due) {
    packet->due = due;
    train_end_->next = packet;
    train_end_ = packet;
    return;
  }
  packet->due = due;
  // At once, unless a host would be called while another one sends, or something is due now that entered before.
  if (due == engine_.now && !(far_end_is_host_ && engine_.is_sending) && counters().in_transit().packets == 1) {
    on_arrival(packet);
    return;
  }
  train_end_ = packet;
  engine_.schedule(due, EventKind::link_end, packet);
}

void Link::wait(Packet* packet) {
  packet->start = free_at();
  packet->due = arrival(serialise(packet->start, packet->size));
  // Cancellable, because a change of rate moves it.
  packet->event = engine_.scheduler.schedule_cancellable(packet->due, static_cast<std::uint8_t>(EventKind::link_end),
                                                         reinterpret_cast<std::uintptr_t>(packet));
  packet->next = nullptr;
  (last_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = packet;
  last_waiting_ = packet;
  waiting_.add(packet->size);
  train_end_ = nullptr;
  counters_.queue_high_water_packets = std::max(counters_.queue_high_water_packets, waiting_.packets);
  counters_.queue_high_water_bytes = std::max(counters_.queue_high_water_bytes, waiting_.bytes);
}

void Link::on_arrival(Packet* train) {
  if (first_waiting_ != nullptr) trim();
  if (train_end_ != nullptr && train_end_->due <= engine_.now) train_end_ = nullptr;
  for (Packet* packet = train; packet != nullptr; packet = packet->next) {
    delivered_.add(packet->size);
    packet->place = Place::host;
    engine_.note_hop(direction_, *packet);
  }
  far_end_->accept(train);
}

void Link::set(const LinkDirection& knobs) {
  trim();
  apply(knobs);
  train_end_ = nullptr;
  if (first_waiting_ == nullptr) return;
  // The packet on the wire keeps its departure, which is the start of the first that waits; all others follow anew.
  free_floor_ = first_waiting_->start;
  free_fraction_ = 0;
  last_due_ = started_due_;
  for (Packet* packet = first_waiting_; packet != nullptr; packet = packet->next) {
    engine_.scheduler.cancel(packet->event);
    packet->start = free_at();
    packet->due = arrival(serialise(packet->start, packet->size));
    packet->event = engine_.scheduler.schedule_cancellable(packet->due, static_cast<std::uint8_t>(EventKind::link_end),
                                                           reinterpret_cast<std::uintptr_t>(packet));
  }
}

TimePoint Link::time_of_backlog(std::uint64_t bytes) {
  trim();
  std::uint64_t left = waiting_.bytes;
  for (const Packet* packet = first_waiting_; packet != nullptr; packet = packet->next) {
    if (left <= bytes) return packet->start;
    left -= packet->size;
  }
  return last_waiting_ == nullptr ? engine_.now : last_waiting_->start;
}

}  // namespace peerbed::sim
