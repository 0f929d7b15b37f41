// Frames from arbitrary bytes: the reader ends, never reads past the payload, and what it took apart survives being put
// together again. Then the same bytes go to a stream set as a peer's payload: whatever it does, memory stays within what
// was granted.
#include <cstdint>

#include "core/base/check.h"
#include "core/transport/stream_set.h"

using namespace peerbed;

namespace {

void check_inside(BytesView payload, BytesView view) {
  if (view.empty()) return;
  PEERBED_CHECK(view.data() >= payload.data() && view.data() + view.size() <= payload.data() + payload.size(),
                "a frame's view reaches outside of the payload");
}

void check_ack(const AckFrame& ack) {
  PEERBED_CHECK(ack.count > 0 && ack.count <= kMaxAckRanges, "an ACK frame has a range");
  IntervalSet ranges;
  for (std::size_t i = 0; i < ack.count; ++i) {
    PEERBED_CHECK(ack.ranges[i].begin < ack.ranges[i].end, "a range is not empty");
    PEERBED_CHECK(i == 0 || ack.ranges[i].end < ack.ranges[i - 1].begin, "ranges fall and do not touch");
    ranges.insert(ack.ranges[i].begin, ack.ranges[i].end);
  }
  std::array<std::uint8_t, 2048> buffer;
  ByteWriter out(buffer);
  PEERBED_CHECK(encode_ack(out, ranges, ack.delay, ack.has_ecn ? &ack.ecn : nullptr), "two kilobytes hold 64 ranges");
  FrameReader again(out.written());
  Frame frame;
  PEERBED_CHECK(again.next(frame) && frame.type == FrameType::ack, "what was written can be read");
  PEERBED_CHECK(again.ack().count == ack.count && again.ack().ranges[ack.count - 1] == ack.ranges[ack.count - 1] &&
                    again.ack().ranges[0] == ack.ranges[0] && again.ack().ecn == ack.ecn,
                "an ACK frame survives a round trip");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BytesView payload(data, size);
  FrameReader reader(payload);
  Frame frame;
  std::size_t frames = 0;
  while (reader.next(frame)) {
    PEERBED_CHECK(++frames <= size, "every frame takes a byte at least");
    check_inside(payload, frame.data);
    if (frame.type == FrameType::ack) check_ack(reader.ack());
  }

  TransportConfig config;
  config.stream_window = DataSize{4096};
  config.connection_window = DataSize{16'384};
  config.max_stream_window = config.stream_window;
  config.max_connection_window = config.connection_window;
  config.max_peer_streams = 64;
  LinkEvents events;
  StreamSet streams(true, config, events);
  streams.set_peer_limits(make_parameters(config, 0));
  const StreamId own = streams.open();
  const BytesView slice(payload.first(std::min<std::size_t>(size, 512)));
  streams.write(own, std::span(&slice, 1));
  FrameReader peer(payload);
  while (peer.next(frame)) {
    if (frame.type != FrameType::ack && !streams.on_frame(TimePoint{}, frame)) break;
  }
  // 64 streams of at most 4 KiB each, but never more than the connection's window, rounded up to powers of two.
  PEERBED_CHECK(streams.receive_memory() <= 64 * 4096 + 64 * 1024, "reassembly keeps no more than was granted");
  std::array<std::uint8_t, 1200> buffer;
  SentPackets sent;
  for (int i = 0; i < 100 && streams.wants_to_send(); ++i) {
    ByteWriter out(buffer);
    if (!streams.write_frames(out, sent)) break;
    PEERBED_CHECK(!out.failed(), "frames were written that did not fit");
    sent.add(TimePoint{}, static_cast<std::uint32_t>(out.size()), true);
  }
  std::array<std::uint8_t, 256> chunk;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind == LinkEvent::Kind::stream_readable) (void)streams.read(TimePoint{}, events[i].stream, chunk);
  }
  return 0;
}
