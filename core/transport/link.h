// What the layers above see of a connection to one peer: the same over UDP, over TCP and through a relay.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"
#include "core/base/units.h"
#include "core/crypto/peer_id.h"

namespace peerbed {

using StreamId = std::uint64_t;  ///< even: opened by the initiator of the link; odd: by the responder

enum class LinkKind : std::uint8_t { udp, tcp };

enum class LinkCloseReason : std::uint8_t {
  local,            ///< close() here
  remote,           ///< close() there
  handshake_failed, ///< wrong identity, other application, or broken peer
  timed_out,        ///< no answer to the handshake, or silence
  refused,          ///< TCP RST on connect, or the peer is full
  reset,            ///< the transport under it broke
  duplicate,        ///< a second link to the same peer lost the tie-break
  protocol_error,   ///< the peer broke the protocol
};
[[nodiscard]] std::string_view to_string(LinkCloseReason reason);

/// The way packets take: straight to an endpoint, or through a relay circuit (then the circuit number names it and
/// `remote` is empty). TCP links have one direct path for life.
struct Path {
  Endpoint remote;
  std::uint32_t circuit = 0;
  [[nodiscard]] bool relayed() const { return circuit != 0; }
  constexpr auto operator<=>(const Path&) const = default;
};

class Link;

/// Callbacks of one link. None comes from inside a call to the link (rule 1 of the seam holds here, too).
class LinkHandler {
 public:
  virtual void on_link_established(TimePoint now, Link& link) = 0;  ///< remote() is authenticated; once
  virtual void on_stream_opened(TimePoint now, Link& link, StreamId stream) = 0;  ///< by the peer
  virtual void on_stream_readable(TimePoint now, Link& link, StreamId stream) = 0;
  virtual void on_stream_writable(TimePoint now, Link& link, StreamId stream) = 0;  ///< after a short write
  virtual void on_datagram(TimePoint now, Link& link, BytesView payload) = 0;
  virtual void on_observed_address(TimePoint now, Link& link, const Endpoint& ours) = 0;  ///< what the peer sees of us
  virtual void on_path_validated(TimePoint now, Link& link, const Path& path, Duration rtt) = 0;  ///< answer to probe_path
  virtual void on_path_changed(TimePoint now, Link& link, const Path& path) = 0;  ///< packets go there from now on
  virtual void on_link_closed(TimePoint now, Link& link, LinkCloseReason reason) = 0;  ///< once, last; the link is gone after it

 protected:
  ~LinkHandler() = default;
};

struct LinkStats {
  std::uint64_t packets_sent = 0, packets_received = 0, packets_lost = 0, packets_spuriously_lost = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload of the network layer
  std::uint64_t packets_rejected = 0;                ///< failed authentication or decoding
  std::uint64_t probe_timeouts = 0;
  DataSize congestion_window, in_flight;
  std::optional<DataSize> slow_start_threshold;
  Duration smoothed_rtt{}, latest_rtt{}, min_rtt{};
  std::optional<DataRate> pacing_rate;
};

struct StreamRead {
  std::size_t bytes = 0;
  bool end = false;  ///< the peer finished the stream and all of it was read
  bool reset = false;  ///< with `end`: the peer gave the stream up, the rest will not come
};

class Link {
 public:
  virtual ~Link() = default;
  virtual void set_handler(LinkHandler& handler) = 0;
  [[nodiscard]] virtual LinkKind kind() const = 0;
  [[nodiscard]] virtual bool initiator() const = 0;
  [[nodiscard]] virtual bool established() const = 0;
  [[nodiscard]] virtual const PeerId& remote() const = 0;  ///< valid once established
  [[nodiscard]] virtual Path path() const = 0;
  /// Equal on both ends and unlike any other link's: the first 8 bytes of the Noise handshake hash. Valid once established.
  [[nodiscard]] virtual std::uint64_t session() const = 0;

  [[nodiscard]] virtual StreamId open_stream(TimePoint now) = 0;  ///< allowed as soon as the link is established
  /// Takes what fits the send buffer, from the front; less than all of it means: wait for on_stream_writable.
  virtual std::size_t write(TimePoint now, StreamId stream, std::span<const BytesView> slices) = 0;
  virtual StreamRead read(TimePoint now, StreamId stream, MutableBytes into) = 0;  ///< opens the flow-control window again
  virtual void finish(TimePoint now, StreamId stream) = 0;

  /// Unreliable, unordered, whole or not at all. False: too large or no room now (the caller drops or retries).
  virtual bool send_datagram(TimePoint now, BytesView payload) = 0;
  [[nodiscard]] virtual std::size_t max_datagram_payload() const = 0;

  /// Sends an authenticated PATH_CHALLENGE towards a candidate; each call is one packet. UDP only.
  virtual void probe_path(TimePoint now, const Path& path) = 0;
  /// Moves to a validated path; congestion state starts anew (RFC 9000 §9.4). False: not validated.
  virtual bool use_path(TimePoint now, const Path& path) = 0;

  /// Orderly: tells the peer. on_link_closed(local) follows from the event loop.
  virtual void close(TimePoint now) = 0;
  [[nodiscard]] virtual LinkStats stats() const = 0;
};

}  // namespace peerbed
