// Datagrams from arbitrary bytes, at two connections. The input is a list of steps: raw datagrams, honest ones with a few
// bits flipped, duplicates, and time. Held throughout: nothing that is not authentic is delivered; what is delivered on a
// stream is a prefix of what was written; the connection is closed by nothing but time and its peer.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "core/base/check.h"
#include "core/transport/connection.h"
#include "core/transport/tcp_session.h"

using namespace peerbed;

namespace {

const KeyPair& keys(bool initiator) {
  static const std::array<KeyPair, 2> both = [] {
    SecretKey one{}, two{};
    one.fill(1);
    two.fill(2);
    return std::array{make_key_pair(one), make_key_pair(two)};
  }();
  return both[initiator ? 0 : 1];
}

const TransportConfig& config() {
  static const TransportConfig value;
  return value;
}

class World {
 public:
  World() {
    const Bytes prologue = handshake_prologue("fuzz");
    for (const bool initiator : {true, false}) {
      ConnectionSetup setup;
      setup.initiator = initiator;
      setup.keys = &keys(initiator);
      setup.config = &config();
      setup.prologue = prologue;
      setup.id = initiator ? 0xaaaa : 0xbbbb;
      setup.ephemeral.fill(initiator ? 3 : 4);
      setup.path_secret.bytes.fill(5);
      setup.path = Path{address(!initiator), 0};
      side(initiator) = std::make_unique<Connection>(now, setup);
    }
    pump(true);
  }

  std::unique_ptr<Connection>& side(bool initiator) { return initiator ? a_ : b_; }
  static Endpoint address(bool initiator) { return {IpAddress::v4(192, 0, 2, initiator ? 1 : 2), 4000}; }

  void pump(bool initiator) {
    Connection& c = *side(initiator);
    std::array<std::uint8_t, kMaxDatagram> buffer;
    for (int i = 0; i < 200; ++i) {
      const auto t = c.poll_transmit(now, buffer);
      if (!t) break;
      auto& queue = initiator ? to_b : to_a;
      if (queue.size() < 64) queue.emplace_back(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(t->size));
    }
    LinkEvents batch;
    c.events().take(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const LinkEvent& e = batch[i];
      if (e.kind == LinkEvent::Kind::established) {
        PEERBED_CHECK(c.remote() == keys(!initiator).public_key, "only the true peer completes the handshake");
      }
      if (e.kind == LinkEvent::Kind::closed) {
        PEERBED_CHECK(e.reason != LinkCloseReason::protocol_error, "a forgery closed the connection");
      }
      if (e.kind == LinkEvent::Kind::datagram) {
        const BytesView payload = batch.payload(e);
        for (const std::uint8_t byte : payload) PEERBED_CHECK(byte == 0x77, "a forged datagram was delivered");
      }
      if (e.kind == LinkEvent::Kind::stream_readable) read(c, e.stream);
    }
  }

  void deliver(bool to_initiator, BytesView datagram, const Endpoint& from) {
    side(to_initiator)->on_datagram(now, Path{from, 0}, Ecn::not_ect, datagram);
    pump(to_initiator);
  }

  TimePoint now{};
  std::deque<Bytes> to_a, to_b;

 private:
  void read(Connection& c, StreamId id) {
    std::array<std::uint8_t, 512> chunk;
    while (true) {
      const StreamRead r = c.read(now, id, chunk);
      for (std::size_t i = 0; i < r.bytes; ++i) PEERBED_CHECK(chunk[i] == 0x55, "a stream delivered what nobody wrote");
      if (r.bytes == 0 || r.end) return;
    }
  }
  std::unique_ptr<Connection> a_, b_;
};

void run_datagrams(ByteReader& in) {
  World world;
  for (int steps = 0; steps < 200 && in.remaining() > 0; ++steps) {
    const std::uint8_t op = in.u8();
    const bool to_initiator = (op & 0x80) != 0;
    auto& queue = to_initiator ? world.to_a : world.to_b;
    Connection& sender = *world.side(!to_initiator);
    switch (op & 0x07) {
      case 0:  // the oldest datagram arrives as it is
      case 1:  // and this one twice
        if (queue.empty()) break;
        {
          const Bytes d = queue.front();
          queue.pop_front();
          world.deliver(to_initiator, d, World::address(!to_initiator));
          if ((op & 0x07) == 1) world.deliver(to_initiator, d, World::address(!to_initiator));
        }
        break;
      case 2: {  // with one byte changed
        if (queue.empty()) break;
        Bytes d = queue.front();
        const std::size_t at = in.u16() % d.size();
        const std::uint8_t change = in.u8();
        // Message 1 is in clear: changed, it makes another handshake, which fails at the end.
        const bool clear = (d[0] & 0x40) != 0;
        if (clear || change == 0) break;
        d[at] ^= change;
        world.deliver(to_initiator, d, World::address(!to_initiator));
        break;
      }
      case 3: {  // something else altogether
        const BytesView raw = in.bytes(std::min<std::size_t>(in.u8(), in.remaining()));
        if (!raw.empty() && (raw[0] & 0xc0) == 0xc0) break;  // a forged message 1 takes the responder's place by design
        world.deliver(to_initiator, raw, Endpoint{IpAddress::v4(203, 0, 113, 9), 9});
        break;
      }
      case 4:  // lost
        if (!queue.empty()) queue.pop_front();
        break;
      case 5: {  // time
        world.now += std::chrono::milliseconds(in.u8());
        for (const bool side : {true, false}) {
          world.side(side)->on_timeout(world.now);
          world.pump(side);
        }
        break;
      }
      case 6: {
        if (!sender.established()) break;
        const Bytes data(in.u8() * 8U, 0x55);
        const BytesView slice(data);
        sender.write(sender.open_stream(), std::span(&slice, 1));
        world.pump(!to_initiator);
        break;
      }
      case 7: {
        const Bytes data(in.u8(), 0x77);
        sender.send_datagram(data);
        if ((op & 0x40) != 0) sender.probe_path(world.now, Path{Endpoint{IpAddress::v4(198, 51, 100, 1), 1}, 0});
        world.pump(!to_initiator);
        break;
      }
    }
  }
}

void run_bytes(ByteReader& in) {
  const Bytes prologue = handshake_prologue("fuzz");
  for (const bool initiator : {true, false}) {
    TcpSessionSetup setup;
    setup.initiator = initiator;
    setup.keys = &keys(initiator);
    setup.config = &config();
    setup.prologue = prologue;
    setup.ephemeral.fill(6);
    TcpSession session(TimePoint{}, setup);
    session.on_connected(TimePoint{});
    std::array<std::uint8_t, TcpSession::kMaxRecord> record;
    (void)session.poll_record(TimePoint{}, record);
    ByteReader bytes = in;
    while (bytes.remaining() > 0) session.on_bytes(TimePoint{}, bytes.bytes(std::min<std::size_t>(bytes.u8(), bytes.remaining())));
    PEERBED_CHECK(!session.established(), "nobody without keys establishes a session");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView input(data, size);
  BytesView packets = input;
  while (const auto packet = take_packet(packets)) {
    PEERBED_CHECK(packet->message.size() <= size && packet->body.size() <= size, "a packet is inside its datagram");
  }
  ByteReader in(input.subspan(1));
  if ((data[0] & 1) != 0) {
    run_datagrams(in);
  } else {
    run_bytes(in);
  }
  return 0;
}
