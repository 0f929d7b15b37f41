#include "core/transport/stream_set.h"

#include <algorithm>

#include "core/base/check.h"

namespace peerbed {
namespace {

SentRecord make_record(SentRecord::Kind kind, StreamId stream = 0, std::uint64_t offset = 0) {
  SentRecord record;
  record.kind = kind;
  record.stream = stream;
  record.offset = offset;
  return record;
}

constexpr std::size_t kControlRoom = 1 + 3 * 8;  // the largest of the control frames

}  // namespace

StreamSet::StreamSet(bool initiator, const TransportConfig& config, LinkEvents& events)
    : initiator_(initiator),
      config_(config),
      events_(events),
      granted_streams_(config.max_peer_streams),
      window_(config.connection_window, config.max_connection_window),
      send_buffer_(static_cast<std::size_t>(config.stream_send_buffer.bytes)) {}

StreamSet::~StreamSet() = default;

void StreamSet::set_peer_limits(const TransportParameters& peer) {
  peer_max_data_ = std::max(peer_max_data_, peer.max_data);
  peer_initial_stream_data_ = peer.max_stream_data;
  peer_stream_limit_ = std::max(peer_stream_limit_, peer.max_streams);
}

void StreamSet::set_send_buffer_for(std::uint64_t in_flight) {
  const auto smallest = static_cast<std::uint64_t>(config_.stream_send_buffer.bytes);
  const auto largest = static_cast<std::uint64_t>(config_.max_stream_send_buffer.bytes);
  // Three times that: one in flight, one behind a hole while the hole is repaired, one to be sent. It does not shrink with the
  // window, or a loss would stop the writer just when the hole needs the room.
  const auto wanted = static_cast<std::size_t>(std::clamp(3 * in_flight, smallest, std::max(smallest, largest)));
  send_buffer_ = std::max(send_buffer_, wanted);
}

// ---- the local user ------------------------------------------------------------------------------------------------

StreamId StreamSet::open() {
  const StreamId id = 2 * opened_ + (initiator_ ? 0 : 1);
  ++opened_;
  create(id);
  return id;
}

std::size_t StreamSet::write(StreamId id, std::span<const BytesView> slices) {
  Stream* stream = find(id);
  if (stream == nullptr || stream->send.finishing()) return 0;
  std::size_t offered = 0;
  for (const BytesView slice : slices) offered += slice.size();
  const std::size_t taken = stream->send.write(slices, send_buffer_);
  stream->wants_writable = taken < offered;
  give_turn(*stream);
  return taken;
}

StreamRead StreamSet::read(TimePoint now, StreamId id, MutableBytes into) {
  Stream* stream = find(id);
  if (stream == nullptr) return {0, true, false};
  const StreamRead result = stream->receive.read(into);
  if (result.bytes > 0) {
    if (stream->receive.window().on_consumed(now, stream->receive.consumed(), rtt_)) {
      if (!stream->receive.all_known()) owe_credit(*stream);
      window_.raise_to(stream->receive.window().size() * 3 / 2);
    }
    on_consumed(now, result.bytes);
  }
  if (result.end) retire_if_done(*stream);
  return result;
}

void StreamSet::finish(StreamId id) {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  stream->send.finish();
  stream->wants_writable = false;
  give_turn(*stream);
}

void StreamSet::reset(StreamId id, std::uint64_t code) {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  stream->send.reset(code);
  stream->wants_writable = false;
  give_turn(*stream);
}

// ---- the peer ------------------------------------------------------------------------------------------------------

bool StreamSet::on_frame(TimePoint now, const Frame& frame) {
  switch (frame.type) {
    case FrameType::stream: return on_stream(now, frame);
    case FrameType::reset_stream: return on_reset_stream(now, frame);
    case FrameType::max_data:
      peer_max_data_ = std::max(peer_max_data_, frame.value);
      return true;
    case FrameType::max_streams: {
      const std::uint64_t before = peer_stream_limit_;
      peer_stream_limit_ = std::max(peer_stream_limit_, frame.value);
      for (std::uint64_t n = before; n < std::min(peer_stream_limit_, opened_); ++n) {  // those that had to wait
        if (Stream* stream = find(2 * n + (initiator_ ? 0 : 1))) give_turn(*stream);
      }
      return true;
    }
    case FrameType::max_stream_data: {
      bool closed = false;
      Stream* stream = find_for_peer(frame.stream, closed);
      if (stream == nullptr) return closed;
      if (stream->send.raise_limit(frame.value)) give_turn(*stream);
      return true;
    }
    case FrameType::stream_data_blocked: {
      bool closed = false;
      Stream* stream = find_for_peer(frame.stream, closed);
      if (stream != nullptr) owe_credit(*stream);  // the peer missed it: say it again
      return stream != nullptr || closed;
    }
    default: return true;
  }
}

bool StreamSet::on_stream(TimePoint now, const Frame& frame) {
  bool closed = false;
  Stream* stream = find_for_peer(frame.stream, closed);
  if (stream == nullptr) return closed;
  const ReceiveStream::Arrival arrival = stream->receive.on_data(now, frame.value, frame.data, frame.fin);
  if (arrival.violation || !account_growth(arrival.growth)) return false;
  window_.start(now);
  if (arrival.readable) queue_readable(*stream);
  return true;
}

bool StreamSet::on_reset_stream(TimePoint now, const Frame& frame) {
  bool closed = false;
  Stream* stream = find_for_peer(frame.stream, closed);
  if (stream == nullptr) return closed;
  const bool was_done = stream->receive.done();
  const ReceiveStream::Arrival arrival = stream->receive.on_reset(frame.value);
  if (arrival.violation || !account_growth(arrival.growth)) return false;
  if (!was_done) on_consumed(now, frame.value - stream->receive.consumed());
  if (arrival.readable) queue_readable(*stream);
  return true;
}

bool StreamSet::account_growth(std::uint64_t growth) {
  received_data_ += growth;
  return received_data_ <= window_.limit();
}

void StreamSet::on_consumed(TimePoint now, std::uint64_t bytes) {
  consumed_data_ += bytes;
  if (window_.on_consumed(now, consumed_data_, rtt_)) owes_max_data_ = true;
}

StreamSet::Stream* StreamSet::find(StreamId id) {
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second.get();
}

StreamSet::Stream& StreamSet::create(StreamId id) {
  return *streams_.emplace(id, std::make_unique<Stream>(id, peer_initial_stream_data_, config_, &pool_)).first->second;
}

StreamSet::Stream* StreamSet::find_for_peer(StreamId id, bool& closed) {
  const std::uint64_t index = id / 2;
  if (is_local(id)) {
    Stream* stream = find(id);
    closed = stream == nullptr && index < opened_;
    return stream;
  }
  if (index >= granted_streams_) return nullptr;
  while (peer_opened_ <= index) {  // RFC 9000 §3.2: opening one opens all of lower number
    const StreamId opened = 2 * peer_opened_ + (initiator_ ? 1 : 0);
    ++peer_opened_;
    create(opened);
    events_.push(LinkEvent::Kind::stream_opened, opened);
  }
  Stream* stream = find(id);
  closed = stream == nullptr;
  return stream;
}

// ---- events and turns ----------------------------------------------------------------------------------------------

void StreamSet::queue_readable(Stream& stream) {
  if (stream.readable_generation == events_.generation()) return;
  stream.readable_generation = events_.generation();
  events_.push(LinkEvent::Kind::stream_readable, stream.id);
}

void StreamSet::notify_writable(Stream& stream) {
  // A quarter of the buffer must be free: waking a writer for a few bytes costs more than it moves.
  if (!stream.wants_writable || stream.send.buffered() > send_buffer_ - send_buffer_ / 4) return;
  stream.wants_writable = false;
  events_.push(LinkEvent::Kind::stream_writable, stream.id);
}

void StreamSet::give_turn(Stream& stream) {
  if (stream.has_turn || !stream.send.wants_to_send()) return;
  if (is_local(stream.id) && stream.id / 2 >= peer_stream_limit_) return;
  stream.has_turn = true;
  stream.next_turn = nullptr;
  (turns_.head == nullptr ? turns_.head : turns_.tail->next_turn) = &stream;
  turns_.tail = &stream;
}

void StreamSet::drop_turn(Stream& stream) {  // it is at the head
  turns_.head = stream.next_turn;
  if (turns_.head == nullptr) turns_.tail = nullptr;
  stream.has_turn = false;
}

void StreamSet::owe_credit(Stream& stream) {
  if (stream.owes_credit) return;
  stream.owes_credit = true;
  stream.next_credit = nullptr;
  (credits_.head == nullptr ? credits_.head : credits_.tail->next_credit) = &stream;
  credits_.tail = &stream;
}

void StreamSet::retire_if_done(Stream& stream) {
  if (!stream.send.done() || !stream.receive.done() || stream.has_turn || stream.owes_credit) return;
  if (!is_local(stream.id)) {
    ++peer_closed_;
    const std::uint64_t limit = peer_closed_ + config_.max_peer_streams;
    if (limit - granted_streams_ >= std::max<std::uint64_t>(1, config_.max_peer_streams / 4)) {
      granted_streams_ = limit;
      owes_max_streams_ = true;
    }
  }
  streams_.erase(stream.id);
}

// ---- sending -------------------------------------------------------------------------------------------------------

bool StreamSet::wants_to_send() const {
  if (owes_max_data_ || owes_max_streams_ || credits_.head != nullptr) return true;
  if (turns_.head == nullptr) return false;
  if (sent_data_ < peer_max_data_) return true;
  for (const Stream* s = turns_.head; s != nullptr; s = s->next_turn) {  // the connection's window is shut: repeats only
    if (s->send.reset_pending() || s->send.next_chunk(1, 0)) return true;
  }
  return false;
}

template <class OnSent>
bool StreamSet::write_control(ByteWriter& out, OnSent&& on_sent) {
  bool wrote = false;
  if (owes_max_data_ && out.room() >= kControlRoom) {
    encode_max_data(out, window_.limit());
    owes_max_data_ = false;
    on_sent(make_record(SentRecord::Kind::max_data));
    wrote = true;
  }
  if (owes_max_streams_ && out.room() >= kControlRoom) {
    encode_max_streams(out, granted_streams_);
    owes_max_streams_ = false;
    on_sent(make_record(SentRecord::Kind::max_streams));
    wrote = true;
  }
  while (credits_.head != nullptr && out.room() >= kControlRoom) {
    Stream& stream = *credits_.head;
    credits_.head = stream.next_credit;
    if (credits_.head == nullptr) credits_.tail = nullptr;
    stream.owes_credit = false;
    if (!stream.receive.all_known()) {
      encode_max_stream_data(out, stream.id, stream.receive.window().limit());
      on_sent(make_record(SentRecord::Kind::max_stream_data, stream.id));
      wrote = true;
    }
    retire_if_done(stream);
  }
  return wrote;
}

template <class OnSent>
bool StreamSet::write_stream(ByteWriter& out, Stream& stream, OnSent&& on_sent) {
  if (stream.send.reset_pending()) {
    if (out.room() < kControlRoom) return false;
    encode_reset_stream(out, stream.id, stream.send.reset_code(), stream.send.sent_size());
    stream.send.on_reset_sent();
    on_sent(make_record(SentRecord::Kind::reset_stream, stream.id));
    return true;
  }
  const std::size_t overhead = stream_frame_overhead(stream.id, kMaxVarint, out.room());
  if (out.room() <= overhead) return false;
  const auto chunk = stream.send.next_chunk(out.room() - overhead, peer_max_data_ - sent_data_);
  if (!chunk) return false;
  encode_stream_head(out, stream.id, chunk->offset, chunk->length, chunk->fin);
  stream.send.copy(*chunk, out.append(chunk->length));
  stream.send.on_sent(*chunk);
  if (!chunk->repeated) sent_data_ += chunk->length;
  SentRecord record = make_record(SentRecord::Kind::stream, stream.id, chunk->offset);
  record.length = static_cast<std::uint32_t>(chunk->length);
  record.fin = chunk->fin;
  on_sent(record);
  return true;
}

template <class OnSent>
bool StreamSet::write_all(ByteWriter& out, OnSent&& on_sent) {
  bool wrote = write_control(out, on_sent);
  // One turn each at most: whoever is asked again in this packet has filled it or is blocked.
  Stream* const last = turns_.tail;
  while (turns_.head != nullptr) {
    Stream& stream = *turns_.head;
    const bool was_last = &stream == last;
    const bool sent = write_stream(out, stream, on_sent);
    if (!sent && stream.send.wants_to_send() && out.room() < kControlRoom) break;  // no room: it keeps its turn
    wrote = wrote || sent;
    drop_turn(stream);
    give_turn(stream);
    if (!sent) retire_if_done(stream);
    if (was_last) break;
  }
  return wrote;
}

bool StreamSet::write_frames(ByteWriter& out, SentPackets& sent) {
  return write_all(out, [&sent](const SentRecord& record) { sent.add_record(record); });
}

bool StreamSet::write_frames_reliably(ByteWriter& out) {
  // Settling may retire the stream that is being written, so it is done afterwards.
  settled_.clear();
  const bool wrote = write_all(out, [this](const SentRecord& record) { settled_.push_back(record); });
  for (const SentRecord& record : settled_) on_record_acked(record);
  return wrote;
}

void StreamSet::on_record_acked(const SentRecord& record) {
  if (record.kind != SentRecord::Kind::stream && record.kind != SentRecord::Kind::reset_stream) return;
  Stream* stream = find(record.stream);
  if (stream == nullptr) return;
  if (record.kind == SentRecord::Kind::reset_stream) {
    stream->send.on_reset_acked();
  } else {
    stream->send.on_acked(record.offset, record.length, record.fin);
    notify_writable(*stream);
  }
  retire_if_done(*stream);
}

void StreamSet::on_record_lost(const SentRecord& record) {
  switch (record.kind) {
    case SentRecord::Kind::max_data: owes_max_data_ = true; return;
    case SentRecord::Kind::max_streams: owes_max_streams_ = true; return;
    case SentRecord::Kind::max_stream_data:
      if (Stream* stream = find(record.stream); stream != nullptr && !stream->receive.all_known()) owe_credit(*stream);
      return;
    case SentRecord::Kind::reset_stream:
      if (Stream* stream = find(record.stream)) {
        stream->send.on_reset_lost();
        give_turn(*stream);
      }
      return;
    case SentRecord::Kind::stream:
      if (Stream* stream = find(record.stream)) {
        stream->send.on_lost(record.offset, record.length, record.fin);
        give_turn(*stream);
      }
      return;
    case SentRecord::Kind::observed_address:
    case SentRecord::Kind::ack: return;
  }
}

std::size_t StreamSet::receive_memory() const {
  std::size_t sum = 0;
  // order: does not matter because a sum has none
  for (const auto& [id, stream] : streams_) sum += stream->receive.memory();
  return sum;
}

std::uint64_t StreamSet::stream_window(StreamId id) {
  Stream* stream = find(id);
  return stream == nullptr ? 0 : stream->receive.window().size();
}

}  // namespace peerbed
