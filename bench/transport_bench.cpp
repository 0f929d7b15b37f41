// The transport without a network: two connections in memory. Seal, frame, loss detection, congestion control, stream
// reassembly: all that a packet costs between the socket and the stream. Allocations are counted.
#include <benchmark/benchmark.h>

#include <malloc.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "core/transport/connection.h"

namespace {
std::uint64_t allocations = 0;
std::int64_t live_bytes = 0;
}

// The whole program's allocations are counted. Not inlined: the compiler would see malloc where it expects operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) {
    live_bytes += static_cast<std::int64_t>(malloc_usable_size(p));
    return p;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  if (p != nullptr) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(p));
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

namespace {

using namespace peerbed;

class Pair {
 public:
  Pair() {
    const Bytes prologue = handshake_prologue("bench");
    for (const bool initiator : {true, false}) {
      SecretKey secret{};
      secret.fill(initiator ? 1 : 2);
      keys_[initiator] = make_key_pair(secret);
    }
    for (const bool initiator : {true, false}) {
      ConnectionSetup setup;
      setup.initiator = initiator;
      setup.keys = &keys_[initiator];
      setup.config = &config_;
      setup.prologue = prologue;
      setup.id = initiator ? 1 : 2;
      setup.ephemeral.fill(initiator ? 3 : 4);
      setup.path = Path{Endpoint{IpAddress::v4(192, 0, 2, 1), 1}, 0};
      (initiator ? a : b) = std::make_unique<Connection>(now, setup);
    }
  }

  /// Moves what both have to send; 20 us pass per datagram, about 500 Mbit/s of payload.
  void exchange() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto* side : {a.get(), b.get()}) {
        Connection& other = side == a.get() ? *b : *a;
        for (int i = 0; i < 64; ++i) {
          const auto t = side->poll_transmit(now, buffer_);
          if (!t) break;
          now += 20us;
          ++packets;
          other.on_datagram(now, t->path, Ecn::ect0, BytesView(buffer_).first(t->size));
          moved = true;
        }
        drain(other);
      }
    }
    TimePoint next = kNever;
    for (auto* side : {a.get(), b.get()}) next = std::min(next, side->next_timeout().value_or(kNever));
    if (next < now + 5ms) {
      now = std::max(now, next);
      for (auto* side : {a.get(), b.get()}) {
        if (side->next_timeout().value_or(kNever) <= now) side->on_timeout(now);
      }
    }
  }

  void drain(Connection& side) {
    side.events().take(batch_);
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (batch_[i].kind != LinkEvent::Kind::stream_readable) continue;
      while (const std::size_t n = side.read(now, batch_[i].stream, chunk_).bytes) received += n;
    }
  }

  std::unique_ptr<Connection> a, b;
  TimePoint now{};
  std::uint64_t packets = 0, received = 0;

 private:
  std::array<KeyPair, 2> keys_;
  TransportConfig config_;
  LinkEvents batch_;
  std::array<std::uint8_t, kMaxDatagram> buffer_{};
  std::array<std::uint8_t, 16384> chunk_{};
};

/// Both ends of a bulk transfer: divide the rate by the packets of one end as you like.
void bulk(benchmark::State& state) {
  Pair pair;
  while (!pair.a->established() || !pair.b->established()) pair.exchange();
  const StreamId id = pair.a->open_stream();
  const Bytes data(64 * 1024, 0x5a);
  const BytesView slice(data);
  for (int i = 0; i < 2000; ++i) {  // windows and buffers grow to their size
    pair.a->write(id, std::span(&slice, 1));
    pair.exchange();
  }
  const std::uint64_t packets = pair.packets, received = pair.received, before = allocations;
  for (auto _ : state) {
    pair.a->write(id, std::span(&slice, 1));
    pair.exchange();
  }
  const auto moved = static_cast<double>(pair.packets - packets);
  state.counters["packets/s"] = benchmark::Counter(moved, benchmark::Counter::kIsRate);
  state.counters["allocations/packet"] = static_cast<double>(allocations - before) / moved;
  state.SetBytesProcessed(static_cast<std::int64_t>(pair.received - received));
}
BENCHMARK(bulk);

/// 64-byte messages, each written by itself, sent in the batches of 64 that an event gathers.
void small_writes(benchmark::State& state) {
  Pair pair;
  while (!pair.a->established() || !pair.b->established()) pair.exchange();
  const StreamId id = pair.a->open_stream();
  const std::array<std::uint8_t, 64> data{};
  const BytesView slice(data);
  std::uint64_t messages = 0;
  const std::uint64_t before = allocations;
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) messages += pair.a->write(id, std::span(&slice, 1)) == 64 ? 1 : 0;
    pair.exchange();
  }
  state.counters["messages/s"] = benchmark::Counter(static_cast<double>(messages), benchmark::Counter::kIsRate);
  state.counters["allocations/message"] = static_cast<double>(allocations - before) / static_cast<double>(std::max<std::uint64_t>(1, messages));
}
BENCHMARK(small_writes);

void handshake(benchmark::State& state) {
  for (auto _ : state) {
    Pair pair;
    while (!pair.a->established() || !pair.b->established()) pair.exchange();
    benchmark::DoNotOptimize(pair.packets);
  }
}
BENCHMARK(handshake)->Unit(benchmark::kMicrosecond);

/// What one established connection holds: idle, and after it moved a message of 1 KiB each way.
void memory(benchmark::State& state) {
  std::int64_t idle = 0, used = 0;
  for (auto _ : state) {
    const std::int64_t before = live_bytes;
    Pair pair;
    while (!pair.a->established() || !pair.b->established()) pair.exchange();
    for (int i = 0; i < 4; ++i) {
      pair.now += 30ms;
      pair.exchange();
    }
    idle = (live_bytes - before) / 2;
    for (auto* side : {pair.a.get(), pair.b.get()}) {
      const Bytes data(1024, 1);
      const BytesView slice(data);
      side->write(side->open_stream(), std::span(&slice, 1));
      pair.exchange();
    }
    used = (live_bytes - before) / 2;
  }
  state.counters["idle bytes"] = static_cast<double>(idle);
  state.counters["used bytes"] = static_cast<double>(used);
  state.counters["sizeof(Connection)"] = static_cast<double>(sizeof(Connection));
}
BENCHMARK(memory)->Iterations(3);

}  // namespace
