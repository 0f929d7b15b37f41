// Two connections and a scripted path between them, in virtual time. No environment, no sockets: the machines alone.
#pragma once

#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "core/base/check.h"
#include "core/env/random_stream.h"
#include "core/transport/connection.h"

namespace peerbed::test {

inline KeyPair key_pair(std::uint8_t seed) {
  SecretKey secret{};
  secret.fill(seed);
  return make_key_pair(secret);
}

/// One way of the path. Packets are served one after another at `rate` from a drop-tail queue, then take `delay`.
struct Way {
  Duration delay = 20ms;
  DataRate rate{};               ///< zero: infinite
  std::size_t queue_limit = 1'000'000;
  std::function<bool(std::uint64_t index, BytesView)> drop;        ///< true: lost
  std::function<Duration(std::uint64_t index)> extra_delay;        ///< per packet: reorders
  std::function<void(std::uint64_t index, Bytes&)> corrupt;
  std::size_t mark_at = 0;       ///< queue length from which ECN-capable packets are marked; zero: never
  // measured
  std::uint64_t packets = 0, bytes = 0, dropped = 0;
  TimePoint free_at{};
  std::size_t queued = 0;
};

class Side {
 public:
  Endpoint address;
  KeyPair keys;
  TransportConfig config;
  std::unique_ptr<Connection> connection;
  std::vector<LinkEvent> log;           ///< all events but readable and writable
  std::vector<TimePoint> log_times;
  std::vector<Bytes> datagrams;
  std::map<StreamId, std::uint64_t> received;  ///< bytes read in order
  std::map<StreamId, bool> ended;
  std::map<StreamId, TimePoint> ended_at;
  std::map<StreamId, TimePoint> first_byte_at;
  bool read_at_once = true;
  bool verify = true;
  std::map<StreamId, std::uint64_t> to_write;  ///< still to be written, then finished
  std::uint64_t wakeups = 0, sent = 0;
  std::uint64_t ce_received = 0;

  [[nodiscard]] bool has(LinkEvent::Kind kind) const { return count(kind) > 0; }
  [[nodiscard]] std::size_t count(LinkEvent::Kind kind) const {
    std::size_t n = 0;
    for (const LinkEvent& e : log) n += e.kind == kind ? 1 : 0;
    return n;
  }
  [[nodiscard]] std::optional<LinkCloseReason> closed() const {
    for (const LinkEvent& e : log) {
      if (e.kind == LinkEvent::Kind::closed) return e.reason;
    }
    return std::nullopt;
  }
};

class Pipe {
 public:
  Side a, b;  ///< a dials
  Way ab, ba;
  TimePoint now{};
  std::function<void(Side&, const LinkEvent&)> on_event;

  explicit Pipe(const TransportConfig& config = {}) {
    a.address = Endpoint{IpAddress::v4(192, 0, 2, 1), 1000};
    b.address = Endpoint{IpAddress::v4(198, 51, 100, 2), 2000};
    a.keys = key_pair(1);
    b.keys = key_pair(2);
    a.config = b.config = config;
  }

  void start(std::optional<PeerId> expected = std::nullopt, std::string_view other_application = {}) {
    make(a, true, b.address, expected, a.config.application);
    make(b, false, a.address, std::nullopt, other_application.empty() ? std::string_view(b.config.application) : other_application);
    settle(a);
  }

  /// Runs until nothing is left to do or `until`.
  void run(TimePoint until) {
    while (step(until)) {}
    if (now < until) now = until;
  }
  bool run_while(TimePoint until, const std::function<bool()>& condition) {
    while (condition()) {
      if (!step(until)) return !condition();
    }
    return true;
  }
  void run_for(Duration d) { run(now + d); }
  bool establish(Duration within = 5s) {
    if (!a.connection) start();
    return run_while(now + within, [this] { return !(a.connection->established() && b.connection->established()); });
  }

  static std::uint8_t byte_at(StreamId stream, std::uint64_t offset) {
    return static_cast<std::uint8_t>(offset * 131 + (offset >> 8) * 7 + stream * 17);
  }
  /// Opens a stream and keeps it fed until `size` bytes are written; then it is finished.
  StreamId send(Side& side, std::uint64_t size) {
    const StreamId id = side.connection->open_stream();
    side.to_write[id] = size;
    written_[{&side, id}] = 0;
    feed(side, id);
    settle(side);
    return id;
  }
  void settle(Side& side) {
    drain(side);
    std::array<std::uint8_t, kMaxDatagram> buffer;
    while (const auto transmit = side.connection->poll_transmit(now, buffer)) {
      ++side.sent;
      transport(side, *transmit, BytesView(buffer).first(transmit->size));
      drain(side);
    }
  }
  void read_all(Side& side, StreamId id) {
    std::array<std::uint8_t, 16384> chunk;
    while (true) {
      const StreamRead r = side.connection->read(now, id, chunk);
      if (r.bytes > 0 && side.received[id] == 0) side.first_byte_at[id] = now;
      for (std::size_t i = 0; side.verify && i < r.bytes; ++i) {
        PEERBED_CHECK(chunk[i] == byte_at(id, side.received[id] + i), "a stream delivered a wrong byte");
      }
      side.received[id] += r.bytes;
      if (r.end && !side.ended[id]) {
        side.ended[id] = true;
        side.ended_at[id] = now;
      }
      if (r.bytes == 0 || r.end) return;
    }
  }
  /// Puts a datagram on the wire as if it came from `from`.
  void inject(Side& to, const Endpoint& from, BytesView datagram) {
    to.connection->on_datagram(now, Path{from, 0}, Ecn::not_ect, datagram);
    settle(to);
  }
  std::function<void(Side& from, BytesView)> tap;  ///< sees every datagram that is sent
  bool ecn_path = true;
  int rekey_bits = PacketKeys::kDefaultBits;

 private:
  struct Flying {
    TimePoint at;
    std::uint64_t sequence = 0;
    bool to_b = false;
    Endpoint from, to;
    Ecn ecn = Ecn::not_ect;
    Bytes bytes;
    bool operator>(const Flying& o) const { return at != o.at ? at > o.at : sequence > o.sequence; }
  };

  void make(Side& side, bool initiator, const Endpoint& remote, const std::optional<PeerId>& expected, std::string_view app) {
    const Bytes prologue = handshake_prologue(app);
    ConnectionSetup setup;
    setup.initiator = initiator;
    setup.keys = &side.keys;
    setup.config = &side.config;
    setup.prologue = prologue;
    setup.id = initiator ? 0xa1 : 0xb2;
    setup.ephemeral.fill(initiator ? 11 : 12);
    setup.path_secret.bytes.fill(initiator ? 13 : 14);
    setup.path = Path{remote, 0};
    setup.expected = expected;
    setup.rekey_bits = rekey_bits;
    side.connection = std::make_unique<Connection>(now, setup);
  }

  void transport(Side& from, const Transmit& transmit, BytesView bytes) {
    if (tap) tap(from, bytes);
    const bool to_b = &from == &a;
    Way& way = to_b ? ab : ba;
    const std::uint64_t index = way.packets++;
    way.bytes += bytes.size();
    Ecn ecn = ecn_path ? transmit.ecn : Ecn::not_ect;
    if (way.drop && way.drop(index, bytes)) {
      ++way.dropped;
      return;
    }
    TimePoint at = now;
    if (way.rate.bits_per_second > 0) {
      const DataSize size{static_cast<std::int64_t>(bytes.size()) + 28};
      const TimePoint begin = std::max(now, way.free_at);
      const Duration one = way.rate.time_for(size), slot = way.rate.time_for(DataSize{1260});  // full packets
      if (begin - now > slot * static_cast<std::int64_t>(way.queue_limit)) {
        ++way.dropped;
        return;
      }
      if (way.mark_at > 0 && begin - now > slot * static_cast<std::int64_t>(way.mark_at) && ecn == Ecn::ect0) ecn = Ecn::ce;
      at = way.free_at = begin + one;
    }
    Flying flying{at + way.delay + (way.extra_delay ? way.extra_delay(index) : Duration{}), sequence_++, to_b, from.address,
                  transmit.path.remote, ecn, Bytes(bytes.begin(), bytes.end())};
    if (way.corrupt) way.corrupt(index, flying.bytes);
    flying_.push(std::move(flying));
  }

  bool step(TimePoint until) {
    TimePoint next = flying_.empty() ? kNever : flying_.top().at;
    for (const Side* side : {&a, &b}) {
      if (side->connection) next = std::min(next, side->connection->next_timeout().value_or(kNever));
    }
    if (next == kNever || next > until) return false;
    PEERBED_CHECK(next >= now || flying_.empty() || flying_.top().at >= now, "time went backwards");
    stuck_ = next > now ? 0 : stuck_ + 1;
    PEERBED_CHECK(stuck_ < 100'000, "the machines spin without letting time pass");
    now = std::max(now, next);
    if (!flying_.empty() && flying_.top().at <= now) {
      const Flying flying = flying_.top();
      flying_.pop();
      Side& to = flying.to_b ? b : a;
      if (to.address == flying.to) {
        if (flying.ecn == Ecn::ce) ++to.ce_received;
        to.connection->on_datagram(now, Path{flying.from, 0}, flying.ecn, flying.bytes);
        settle(to);
      }
      return true;
    }
    for (Side* side : {&a, &b}) {
      if (side->connection && side->connection->next_timeout().value_or(kNever) <= now) {
        ++side->wakeups;
        side->connection->on_timeout(now);
        settle(*side);
      }
    }
    return true;
  }

  void drain(Side& side) {
    LinkEvents batch;
    while (!side.connection->events().empty()) {
      side.connection->events().take(batch);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const LinkEvent& event = batch[i];
        if (event.kind == LinkEvent::Kind::datagram) {
          const BytesView payload = batch.payload(event);
          side.datagrams.emplace_back(payload.begin(), payload.end());
        } else if (event.kind == LinkEvent::Kind::stream_readable) {
          if (side.read_at_once) read_all(side, event.stream);
        } else if (event.kind == LinkEvent::Kind::stream_writable) {
          feed(side, event.stream);
        } else {
          side.log.push_back(event);
          side.log_times.push_back(now);
        }
        if (on_event) on_event(side, event);
      }
    }
  }

  void feed(Side& side, StreamId id) {
    const auto it = side.to_write.find(id);
    if (it == side.to_write.end()) return;
    std::uint64_t& done = written_[{&side, id}];
    std::array<std::uint8_t, 16384> chunk;
    while (done < it->second) {
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), it->second - done));
      for (std::size_t i = 0; i < n; ++i) chunk[i] = byte_at(id, done + i);
      const BytesView slice = BytesView(chunk).first(n);
      const std::size_t taken = side.connection->write(id, std::span(&slice, 1));
      done += taken;
      if (taken < n) return;
    }
    side.connection->finish(id);
    side.to_write.erase(it);
  }

  std::priority_queue<Flying, std::vector<Flying>, std::greater<>> flying_;
  std::map<std::pair<Side*, StreamId>, std::uint64_t> written_;
  std::uint64_t sequence_ = 0;
  int stuck_ = 0;
};

}  // namespace peerbed::test
