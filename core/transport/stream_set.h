// All streams of one link, over UDP and over TCP: ids, flow control of the connection, turns at sending, events.
//
// Streams take turns packet by packet, so that a large message on one holds up no other. What a peer makes us keep is
// bounded by the windows that were granted; what a writer makes us keep, by the send buffer.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"
#include "core/transport/frames.h"
#include "core/transport/handshake.h"
#include "core/transport/link_events.h"
#include "core/transport/sent_packets.h"
#include "core/transport/stream.h"
#include "core/transport/transport_config.h"

namespace peerbed {

class StreamSet {
 public:
  StreamSet(bool initiator, const TransportConfig& config, LinkEvents& events);
  ~StreamSet();

  void set_peer_limits(const TransportParameters& peer);
  void set_rtt(Duration smoothed) { rtt_ = smoothed; }
  /// The buffer that keeps so many bytes in flight; between the bounds of the configuration.
  void set_send_buffer_for(std::uint64_t in_flight);

  // the local user
  [[nodiscard]] StreamId open();
  std::size_t write(StreamId id, std::span<const BytesView> slices);
  StreamRead read(TimePoint now, StreamId id, MutableBytes into);
  void finish(StreamId id);
  void reset(StreamId id, std::uint64_t code);

  // the peer: false means that it broke the protocol
  [[nodiscard]] bool on_frame(TimePoint now, const Frame& frame);

  // sending
  [[nodiscard]] bool wants_to_send() const;
  /// Fills `out` with frames and tells `sent` what they were; false: nothing was written.
  bool write_frames(ByteWriter& out, SentPackets& sent);
  /// For a reliable transport: nothing is remembered, all that is written counts as acknowledged.
  bool write_frames_reliably(ByteWriter& out);

  void on_record_acked(const SentRecord& record);
  void on_record_lost(const SentRecord& record);

  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  [[nodiscard]] std::size_t receive_memory() const;  ///< for tests: what reassembly holds
  [[nodiscard]] std::uint64_t connection_window() const { return window_.size(); }
  [[nodiscard]] std::uint64_t stream_window(StreamId id);

 private:
  struct Stream {
    Stream(StreamId stream_id, std::uint64_t peer_limit, const TransportConfig& config, BlockPool* pool)
        : id(stream_id), send(peer_limit, pool), receive(config.stream_window, config.max_stream_window, pool) {}
    StreamId id;
    SendStream send;
    ReceiveStream receive;
    Stream* next_turn = nullptr;
    Stream* next_credit = nullptr;
    bool has_turn = false, owes_credit = false, wants_writable = false;
    std::uint64_t readable_generation = 0;  // of the event queue: one event per stream and delivery is enough
  };
  struct Turns {  // intrusive queue
    Stream* head = nullptr;
    Stream* tail = nullptr;
  };

  template <class OnSent>
  bool write_all(ByteWriter& out, OnSent&& on_sent);
  template <class OnSent>
  bool write_control(ByteWriter& out, OnSent&& on_sent);
  template <class OnSent>
  bool write_stream(ByteWriter& out, Stream& stream, OnSent&& on_sent);

  [[nodiscard]] bool is_local(StreamId id) const { return (id & 1) == (initiator_ ? 0U : 1U); }
  Stream* find(StreamId id);
  Stream& create(StreamId id);
  /// The stream of a peer's frame; `closed` if it existed once; nothing and !closed is a violation.
  Stream* find_for_peer(StreamId id, bool& closed);
  bool on_stream(TimePoint now, const Frame& frame);
  bool on_reset_stream(TimePoint now, const Frame& frame);
  bool account_growth(std::uint64_t growth);
  void on_consumed(TimePoint now, std::uint64_t bytes);
  void give_turn(Stream& stream);
  void drop_turn(Stream& stream);
  void owe_credit(Stream& stream);
  void notify_writable(Stream& stream);
  void queue_readable(Stream& stream);
  void retire_if_done(Stream& stream);

  bool initiator_;
  const TransportConfig& config_;
  LinkEvents& events_;
  BlockPool pool_;
  boost::unordered_flat_map<StreamId, std::unique_ptr<Stream>> streams_;  // never iterated for behaviour
  Turns turns_, credits_;
  std::uint64_t opened_ = 0, peer_opened_ = 0, peer_closed_ = 0;  // counts of streams
  std::uint64_t peer_stream_limit_ = 0;                            // how many we may open
  std::uint64_t granted_streams_;                                  // how many the peer may open
  std::uint64_t peer_max_data_ = 0, sent_data_ = 0, peer_initial_stream_data_ = 0;
  std::uint64_t received_data_ = 0, consumed_data_ = 0;
  ReceiveWindow window_;
  bool owes_max_data_ = false, owes_max_streams_ = false;
  std::size_t send_buffer_;
  Duration rtt_ = 333ms;
  std::vector<SentRecord> settled_;  // scratch of write_frames_reliably
};

}  // namespace peerbed
