#include "core/transport/stream_set.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/core/transport/pipe.h"

namespace peerbed {
namespace {

using test::Pipe;
using Kind = LinkEvent::Kind;

TimePoint at(Duration d) { return TimePoint{} + d; }

TEST(OffsetRing, KeepsBytesAcrossWrapsAndGrowth) {
  OffsetRing ring;
  std::uint64_t written = 0, read = 0;
  std::uint64_t state = 3;
  while (read < 2'000'000) {
    state = state * 6364136223846793005ULL + 1;
    const std::size_t n = (state >> 40) % 5000;
    Bytes data(n);
    for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<std::uint8_t>((written + i) * 31);
    ring.write(written, data);
    written += n;
    const std::size_t take = static_cast<std::size_t>((state >> 20) % (written - read + 1));
    Bytes out(take);
    ring.read(read, out);
    for (std::size_t i = 0; i < take; ++i) ASSERT_EQ(out[i], static_cast<std::uint8_t>((read + i) * 31));
    read += take;
    ring.release_below(read);
  }
}

TEST(SendStream, SendsLostRangesFirstAndEachAcknowledgedByteOnce) {
  SendStream stream(1'000'000);
  const Bytes data(1000, 1);
  const BytesView slice(data);
  EXPECT_EQ(stream.write(std::span(&slice, 1), 100'000), 1000U);
  for (int i = 0; i < 4; ++i) {
    const auto chunk = stream.next_chunk(200, ~std::uint64_t{0});
    ASSERT_TRUE(chunk);
    stream.on_sent(*chunk);
  }
  stream.on_acked(200, 200, false);
  stream.on_lost(0, 200, false);
  stream.on_lost(200, 200, false);  // a late verdict about bytes that have arrived
  auto chunk = stream.next_chunk(1000, ~std::uint64_t{0});
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->offset, 0U);
  EXPECT_EQ(chunk->length, 200U);
  EXPECT_TRUE(chunk->repeated);
  stream.on_sent(*chunk);
  chunk = stream.next_chunk(1000, ~std::uint64_t{0});
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->offset, 800U);
  EXPECT_FALSE(chunk->repeated);
}

TEST(SendStream, StopsAtThePeersLimitAndAtTheConnections) {
  SendStream stream(100);
  const Bytes data(1000, 1);
  const BytesView slice(data);
  EXPECT_EQ(stream.write(std::span(&slice, 1), 100'000), 1000U);
  EXPECT_EQ(stream.next_chunk(500, 1000)->length, 100U);
  EXPECT_EQ(stream.next_chunk(500, 30)->length, 30U);
  EXPECT_FALSE(stream.next_chunk(500, 0));
  EXPECT_TRUE(stream.raise_limit(200));
  EXPECT_FALSE(stream.raise_limit(150));
  EXPECT_EQ(stream.next_chunk(500, 1000)->length, 200U);
}

TEST(SendStream, AnEmptyStreamEndsWithAFrameOfItsOwn) {
  SendStream stream(0);
  EXPECT_FALSE(stream.wants_to_send());
  stream.finish();
  const auto chunk = stream.next_chunk(10, 0);
  ASSERT_TRUE(chunk);
  EXPECT_TRUE(chunk->fin);
  EXPECT_EQ(chunk->length, 0U);
  stream.on_sent(*chunk);
  EXPECT_FALSE(stream.wants_to_send());
  stream.on_lost(0, 0, true);
  EXPECT_TRUE(stream.wants_to_send());
  stream.on_sent(*stream.next_chunk(10, 0));
  stream.on_acked(0, 0, true);
  EXPECT_TRUE(stream.done());
}

TEST(ReceiveStream, ReassemblesAnyOrderWithOverlaps) {
  ReceiveStream stream(DataSize{1000}, DataSize{1000});
  const Bytes data = [] {
    Bytes b(300);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint8_t>(i);
    return b;
  }();
  const auto put = [&](std::size_t from, std::size_t to, bool fin = false) {
    return stream.on_data(TimePoint{}, from, BytesView(data).subspan(from, to - from), fin);
  };
  EXPECT_FALSE(put(200, 300, true).readable);
  EXPECT_FALSE(put(50, 120).readable);
  EXPECT_TRUE(put(0, 60).readable);
  Bytes out(1000);
  StreamRead r = stream.read(out);
  EXPECT_EQ(r.bytes, 120U);
  EXPECT_FALSE(r.end);
  EXPECT_TRUE(put(100, 210).readable);
  r = stream.read(MutableBytes(out).subspan(120));
  EXPECT_EQ(r.bytes, 180U);
  EXPECT_TRUE(r.end);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), out.begin()));
}

TEST(ReceiveStream, DataBeyondTheLimitOrTheEndIsAViolation) {
  const Bytes data(100, 0);
  ReceiveStream stream(DataSize{150}, DataSize{150});
  EXPECT_TRUE(stream.on_data(TimePoint{}, 51, data, false).violation);
  EXPECT_FALSE(stream.on_data(TimePoint{}, 50, data, true).violation);
  EXPECT_TRUE(stream.on_data(TimePoint{}, 51, BytesView(data).first(10), true).violation);  // another end
  EXPECT_TRUE(ReceiveStream(DataSize{150}, DataSize{150}).on_reset(151).violation);
}

TEST(ReceiveWindow, GrowsForAFastReaderOnly) {
  ReceiveWindow fast(DataSize{1000}, DataSize{16'000});
  fast.start(at(0ms));
  std::uint64_t consumed = 0;
  for (int ms = 10; fast.size() < 16'000 && ms < 1000; ms += 10) fast.on_consumed(at(std::chrono::milliseconds(ms)), consumed += fast.size() / 2, 100ms);
  EXPECT_EQ(fast.size(), 16'000U);
  ReceiveWindow slow(DataSize{1000}, DataSize{16'000});
  slow.start(at(0ms));
  consumed = 0;
  for (int s = 1; s < 100; ++s) slow.on_consumed(at(std::chrono::seconds(s)), consumed += 300, 100ms);
  EXPECT_EQ(slow.size(), 1000U);
  EXPECT_EQ(slow.limit(), consumed + 1000);
}

// ---- through two connections ---------------------------------------------------------------------------------------

TEST(Streams, ALargeMessageHoldsUpNoSmallOne) {
  // Lessons 5: a 64 MiB message blocked gossip behind it.
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{20'000'000};
  pipe.ab.queue_limit = 60;
  ASSERT_TRUE(pipe.establish());
  pipe.send(pipe.a, 64'000'000);
  pipe.run(at(3s));
  const TimePoint start = pipe.now;
  const StreamId small = pipe.send(pipe.a, 500);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.b.ended[small]; }));
  // One turn behind the large one, a queue of 60 packets (30 ms) and the way there.
  EXPECT_LT(pipe.b.ended_at[small] - start, 20ms + 35ms + 10ms);
}

TEST(Streams, ShareTheRateEqually) {
  Pipe pipe;
  pipe.ab.rate = pipe.ba.rate = DataRate{20'000'000};
  pipe.ab.queue_limit = 100;
  ASSERT_TRUE(pipe.establish());
  std::vector<StreamId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(pipe.send(pipe.a, 64'000'000));
  pipe.run(at(5s));
  std::uint64_t least = ~std::uint64_t{0}, most = 0;
  for (const StreamId id : ids) {
    least = std::min(least, pipe.b.received[id]);
    most = std::max(most, pipe.b.received[id]);
  }
  EXPECT_GT(least, 0U);
  EXPECT_GT(static_cast<double>(least), 0.9 * static_cast<double>(most));
}

TEST(Streams, ASlowReaderStopsOneStreamAndNotTheOthers) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  StreamId stopped = 0;
  pipe.b.read_at_once = false;
  pipe.on_event = [&](test::Side& side, const LinkEvent& event) {
    if (&side == &pipe.b && event.kind == Kind::stream_readable && event.stream != stopped) pipe.read_all(pipe.b, event.stream);
  };
  stopped = pipe.send(pipe.a, 10'000'000);
  pipe.run(at(2s));
  const StreamId other = pipe.send(pipe.a, 100'000);
  ASSERT_TRUE(pipe.run_while(at(10s), [&] { return !pipe.b.ended[other]; }));
  EXPECT_EQ(pipe.b.received[stopped], 0U);
  // What the reader holds for it is the window that it granted, rounded up to a power of two.
  EXPECT_LE(pipe.b.connection->streams().receive_memory(), 2U * 256 * 1024);
  pipe.b.read_at_once = true;
  pipe.read_all(pipe.b, stopped);
  pipe.settle(pipe.b);
  ASSERT_TRUE(pipe.run_while(at(30s), [&] { return !pipe.b.ended[stopped]; }));
  EXPECT_EQ(pipe.b.received[stopped], 10'000'000U);
}

TEST(Streams, AWriterIsToldWhenThereIsRoomAgain) {
  TransportConfig config;
  config.stream_send_buffer = DataSize{10'000};
  Pipe pipe(config);
  ASSERT_TRUE(pipe.establish());
  const StreamId id = pipe.a.connection->open_stream();
  const Bytes data(30'000, 0);
  const BytesView slice(data);
  EXPECT_EQ(pipe.a.connection->write(id, std::span(&slice, 1)), 10'000U);
  EXPECT_EQ(pipe.a.connection->write(id, std::span(&slice, 1)), 0U);
  int writable = 0;
  pipe.b.verify = false;
  pipe.on_event = [&](test::Side& side, const LinkEvent& event) {
    if (&side == &pipe.a && event.kind == Kind::stream_writable) ++writable;
  };
  pipe.settle(pipe.a);
  pipe.run_for(500ms);
  EXPECT_EQ(writable, 1);
  EXPECT_GT(pipe.a.connection->write(id, std::span(&slice, 1)), 0U);
}

TEST(Streams, ManyOpenAndCloseWithoutResidue) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 100; ++i) pipe.send(pipe.a, 100);
    pipe.run_for(1s);
  }
  EXPECT_EQ(pipe.b.count(Kind::stream_opened), 3000U);
  // b must finish its side as well before a stream is gone.
  for (StreamId id = 0; id < 6000; id += 2) pipe.b.connection->finish(id);
  pipe.settle(pipe.b);
  pipe.run_for(2s);
  EXPECT_EQ(pipe.a.connection->streams().size(), 0U);
  EXPECT_EQ(pipe.b.connection->streams().size(), 0U);
}

TEST(Streams, MoreThanThePeerAllowsWaitUntilOthersAreDone) {
  TransportConfig config;
  config.max_peer_streams = 4;
  Pipe pipe(config);
  ASSERT_TRUE(pipe.establish());
  for (int i = 0; i < 10; ++i) pipe.send(pipe.a, 100);
  pipe.run_for(500ms);
  EXPECT_EQ(pipe.b.count(Kind::stream_opened), 4U);
  for (StreamId id = 0; id < 8; id += 2) pipe.b.connection->finish(id);
  pipe.settle(pipe.b);
  pipe.run_for(500ms);
  EXPECT_EQ(pipe.b.count(Kind::stream_opened), 8U);
  EXPECT_FALSE(pipe.b.closed());
}

TEST(Streams, AResetIsToldToTheReader) {
  Pipe pipe;
  ASSERT_TRUE(pipe.establish());
  pipe.b.read_at_once = false;
  const StreamId id = pipe.send(pipe.a, 3'000'000);
  pipe.run_for(300ms);
  pipe.a.connection->reset(id, 42);
  pipe.settle(pipe.a);
  pipe.run_for(300ms);
  std::array<std::uint8_t, 100> out;
  const StreamRead r = pipe.b.connection->read(pipe.now, id, out);
  EXPECT_TRUE(r.end);
  EXPECT_TRUE(r.reset);
  // The connection's window was given back: other streams flow on.
  pipe.b.read_at_once = true;
  const StreamId other = pipe.send(pipe.a, 2'000'000);
  ASSERT_TRUE(pipe.run_while(pipe.now + 10s, [&] { return !pipe.b.ended[other]; }));
}

TEST(Streams, APeerThatBreaksFlowControlIsClosed) {
  TransportConfig generous;
  Pipe pipe(generous);
  pipe.b.config.stream_window = DataSize{1000};
  ASSERT_TRUE(pipe.establish());
  // Let a believe in more than b grants.
  Frame lie;
  lie.type = FrameType::max_stream_data;
  lie.value = 1'000'000;
  const StreamId id = pipe.a.connection->open_stream();
  lie.stream = id;
  ASSERT_TRUE(pipe.a.connection->streams().on_frame(pipe.now, lie));
  const Bytes data(5000, 0);
  const BytesView slice(data);
  pipe.b.read_at_once = false;
  pipe.a.connection->write(id, std::span(&slice, 1));
  pipe.settle(pipe.a);
  pipe.run_for(200ms);
  EXPECT_EQ(pipe.b.closed(), LinkCloseReason::protocol_error);
  EXPECT_EQ(pipe.a.closed(), LinkCloseReason::protocol_error);
}

}  // namespace
}  // namespace peerbed
