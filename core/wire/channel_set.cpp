#include "core/wire/channel_set.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"

namespace peerbed {
namespace {

constexpr std::size_t kKeptCapacity = 4096;  // an idle channel does not hold on to the room of its largest message

void release(Bytes& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptCapacity) Bytes().swap(buffer);
}

}  // namespace

ChannelId ChannelRegistry::add(std::string_view name, ChannelOptions options) {
  PEERBED_CHECK(!name.empty() && name.size() <= kMaxChannelName, "a channel name has 1 to 255 bytes");
  PEERBED_CHECK(!find(name), "a channel name was registered twice");
  entries_.push_back({std::string(name), options});
  return {static_cast<std::uint32_t>(entries_.size() - 1)};
}

std::optional<ChannelId> ChannelRegistry::find(std::string_view name) const {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].name == name) return ChannelId{i};
  }
  return std::nullopt;
}

ChannelSet::ChannelSet(Link& link, const ChannelRegistry& registry, MutableBytes scratch, ChannelSink& sink)
    : link_(link), registry_(registry), scratch_(scratch), sink_(sink) {}

// ---- sending -------------------------------------------------------------------------------------------------------

ChannelSet::Outbound& ChannelSet::outbound(TimePoint now, ChannelId channel) {
  for (Outbound& out : outbound_) {
    if (out.channel == channel) return out;
  }
  outbound_.push_back({channel, link_.open_stream(now), {}, 0, false});
  Outbound& out = outbound_.back();
  const std::string& name = registry_.name(channel);
  std::array<std::uint8_t, 8 + kMaxChannelName> header;
  ByteWriter writer(header);
  writer.varint(name.size());
  writer.bytes(as_bytes(name));
  const BytesView slices[]{writer.written()};
  const std::size_t taken = link_.write(now, out.stream, slices);
  out.pending.assign(writer.written().begin() + static_cast<std::ptrdiff_t>(taken), writer.written().end());
  return out;
}

SendStatus ChannelSet::send(TimePoint now, ChannelId channel, BytesView message) {
  PEERBED_CHECK(static_cast<std::int64_t>(message.size()) <= registry_.options(channel).max_message.bytes,
                "a message is longer than its channel allows");
  Outbound& out = outbound(now, channel);
  if (!out.pending.empty()) {
    out.blocked = true;
    return SendStatus::blocked;
  }
  std::array<std::uint8_t, 8> header;
  ByteWriter writer(header);
  writer.varint(message.size());
  const BytesView head = writer.written();
  const BytesView slices[]{head, message};
  const std::size_t taken = link_.write(now, out.stream, slices);
  if (taken < head.size()) out.pending.assign(head.begin() + static_cast<std::ptrdiff_t>(taken), head.end());
  if (taken < head.size() + message.size()) {
    const BytesView rest = message.subspan(taken > head.size() ? taken - head.size() : 0);
    out.pending.insert(out.pending.end(), rest.begin(), rest.end());
    out.pending_at = 0;
  }
  return SendStatus::taken;
}

void ChannelSet::on_stream_writable(TimePoint now, StreamId stream) {
  for (std::size_t i = 0; i < outbound_.size(); ++i) {
    Outbound& out = outbound_[i];
    if (out.stream != stream) continue;
    if (!out.pending.empty()) {
      const BytesView slices[]{BytesView(out.pending).subspan(out.pending_at)};
      out.pending_at += link_.write(now, stream, slices);
      if (out.pending_at < out.pending.size()) return;
      release(out.pending);
      out.pending_at = 0;
    }
    if (out.blocked) {
      out.blocked = false;
      sink_.on_channel_writable(now, link_, out.channel);  // may send: `out` is not used after this
    }
    return;
  }
}

// ---- receiving -----------------------------------------------------------------------------------------------------

void ChannelSet::pause(ChannelId channel, bool paused) {
  const auto found = std::find(paused_.begin(), paused_.end(), channel);
  if (paused && found == paused_.end()) paused_.push_back(channel);
  if (!paused && found != paused_.end()) paused_.erase(found);
}

bool ChannelSet::is_paused(const Inbound& in) const {
  return in.channel && std::find(paused_.begin(), paused_.end(), *in.channel) != paused_.end();
}

void ChannelSet::deliver(TimePoint now) {
  for (std::size_t i = 0; i < inbound_.size(); ++i) drain(now, inbound_[i]);
}

void ChannelSet::on_stream_opened(StreamId stream) { inbound_.push_back({stream, std::nullopt, false, {}}); }

void ChannelSet::on_stream_readable(TimePoint now, StreamId stream) {
  for (std::size_t i = 0; i < inbound_.size(); ++i) {
    if (inbound_[i].stream == stream) return drain(now, inbound_[i]);
  }
}

void ChannelSet::drain(TimePoint now, Inbound& in) {
  if (!in.partial.empty() && !faulty_ && !is_paused(in)) {  // left over from before a pause
    const std::size_t used = parse(now, in, in.partial);
    in.partial.erase(in.partial.begin(), in.partial.begin() + static_cast<std::ptrdiff_t>(used));
  }
  while (!faulty_ && !is_paused(in)) {
    // The rest of a message comes alone: what follows it would have to be moved up once it is delivered.
    const bool rest = !in.partial.empty() && in.missing > 0;
    const StreamRead read = link_.read(now, in.stream, rest ? scratch_.first(std::min(in.missing, scratch_.size())) : scratch_);
    if (read.bytes == 0) {
      if (read.end && !in.partial.empty()) fault(now, "a channel ended inside a message");
      break;
    }
    const BytesView fresh = scratch_.first(read.bytes);
    if (in.partial.empty()) {  // the common case: whole messages straight from the scratch buffer
      const std::size_t used = parse(now, in, fresh);
      in.partial.assign(fresh.begin() + static_cast<std::ptrdiff_t>(used), fresh.end());
    } else {
      in.partial.insert(in.partial.end(), fresh.begin(), fresh.end());
      const std::size_t used = parse(now, in, in.partial);
      if (used > 0) in.partial.erase(in.partial.begin(), in.partial.begin() + static_cast<std::ptrdiff_t>(used));
    }
  }
  if (in.partial.empty()) release(in.partial);
}

/// Delivers the whole messages at the front of `data`; returns how many bytes were used up.
std::size_t ChannelSet::parse(TimePoint now, Inbound& in, BytesView data) {
  std::size_t used = 0;
  in.missing = 0;
  while (!faulty_ && !is_paused(in)) {
    if (in.discarding) return data.size();
    ByteReader reader(data.subspan(used));
    if (!in.channel) {
      if (!parse_name(now, in, reader)) break;
      used += reader.position();
      continue;
    }
    const std::uint64_t length = reader.varint();
    if (reader.failed()) break;
    if (length > static_cast<std::uint64_t>(registry_.options(*in.channel).max_message.bytes)) {
      fault(now, "a message is longer than its channel allows");
      break;
    }
    const BytesView message = reader.bytes(static_cast<std::size_t>(length));
    if (reader.failed()) {
      in.missing = reader.position() + static_cast<std::size_t>(length) - (data.size() - used);
      if (in.partial.data() != data.data()) in.partial.reserve(static_cast<std::size_t>(length) + 8);
      break;
    }
    used += reader.position();
    sink_.on_channel_message(now, link_, *in.channel, message);
  }
  return used;
}

bool ChannelSet::parse_name(TimePoint now, Inbound& in, ByteReader& reader) {
  const std::uint64_t length = reader.varint();
  if (!reader.failed() && (length == 0 || length > kMaxChannelName)) {
    fault(now, "a channel name has an impossible length");
    return false;
  }
  const BytesView name = reader.bytes(static_cast<std::size_t>(length));
  if (reader.failed()) return false;
  in.channel = registry_.find(as_text(name));
  if (!in.channel) {
    in.discarding = true;
    ++unknown_channels_;
  }
  return true;
}

void ChannelSet::fault(TimePoint now, std::string_view reason) {
  if (faulty_) return;
  faulty_ = true;
  sink_.on_channel_fault(now, link_, reason);
}

}  // namespace peerbed
