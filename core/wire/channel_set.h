// The channels of one link. Each sender of a channel opens one stream for it; the stream starts with the channel's
// name (a varint length and the text), then whole messages follow (a varint length and the bytes). So a channel is
// agreed on by its name, never by a hash of it; order holds per channel; a full channel does not hold up another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/transport/link.h"
#include "core/wire/channel.h"

namespace peerbed {

inline constexpr std::size_t kMaxChannelName = 255;

/// The channels that this node knows, by name. Shared by all its links; complete before the first of them.
class ChannelRegistry {
 public:
  /// The name must be new and 1 to 255 bytes long.
  ChannelId add(std::string_view name, ChannelOptions options);
  [[nodiscard]] std::optional<ChannelId> find(std::string_view name) const;
  [[nodiscard]] const std::string& name(ChannelId id) const { return entries_[id.index].name; }
  [[nodiscard]] const ChannelOptions& options(ChannelId id) const { return entries_[id.index].options; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string name;
    ChannelOptions options;
  };
  std::vector<Entry> entries_;
};

class ChannelSink {
 public:
  virtual void on_channel_message(TimePoint now, Link& link, ChannelId channel, BytesView message) = 0;
  virtual void on_channel_writable(TimePoint now, Link& link, ChannelId channel) = 0;  ///< after `blocked`
  /// The peer broke the framing; the owner closes the link. Nothing more is delivered.
  virtual void on_channel_fault(TimePoint now, Link& link, std::string_view reason) = 0;

 protected:
  ~ChannelSink() = default;
};

class ChannelSet {
 public:
  /// `scratch` is shared by all sets of a node and used within calls only.
  ChannelSet(Link& link, const ChannelRegistry& registry, MutableBytes scratch, ChannelSink& sink);

  /// Keeps at most the rest of one message per channel beyond what the link takes.
  SendStatus send(TimePoint now, ChannelId channel, BytesView message);

  /// Holds back messages of a channel; the stream's window then slows the sender. After resuming, the owner calls
  /// deliver() from an event of its own.
  void pause(ChannelId channel, bool paused);
  void deliver(TimePoint now);

  // From the link.
  void on_stream_opened(StreamId stream);
  void on_stream_readable(TimePoint now, StreamId stream);
  void on_stream_writable(TimePoint now, StreamId stream);

  /// Streams whose channel name this node does not know; what they carry is read and dropped.
  [[nodiscard]] std::uint64_t unknown_channels() const { return unknown_channels_; }

 private:
  struct Outbound {
    ChannelId channel;
    StreamId stream;
    Bytes pending;  ///< the rest of a message that was taken
    std::size_t pending_at = 0;
    bool blocked = false;
  };
  struct Inbound {
    StreamId stream;
    std::optional<ChannelId> channel;
    bool discarding = false;
    Bytes partial;  ///< received and not yet whole
    std::size_t missing = 0;  ///< to its end; zero: not known yet
  };

  Outbound& outbound(TimePoint now, ChannelId channel);
  void drain(TimePoint now, Inbound& in);
  std::size_t parse(TimePoint now, Inbound& in, BytesView data);
  bool parse_name(TimePoint now, Inbound& in, ByteReader& reader);
  [[nodiscard]] bool is_paused(const Inbound& in) const;
  void fault(TimePoint now, std::string_view reason);

  Link& link_;
  const ChannelRegistry& registry_;
  MutableBytes scratch_;
  ChannelSink& sink_;
  std::vector<Outbound> outbound_;
  std::vector<Inbound> inbound_;
  std::vector<ChannelId> paused_;
  std::uint64_t unknown_channels_ = 0;
  bool faulty_ = false;
};

}  // namespace peerbed
