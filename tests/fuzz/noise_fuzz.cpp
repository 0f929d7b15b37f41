// Drives both ends of a handshake with arbitrary bytes. The input is a list of steps, so that the fuzzer gets past
// message 1: honest messages are written by the machines themselves, and the input says what becomes of them on the
// way.
//
// Held throughout: a refused message changes nothing; a message 2 or 3 that the peer did not write is never accepted; a
// handshake that nobody touched always completes, with equal keys on both sides.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/crypto/noise.h"

namespace {

using namespace peerbed;

SecretKey secret(std::uint8_t seed) {
  SecretKey key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(seed + i * 13);
  return key;
}

struct Look {
  std::array<std::uint8_t, 32> hash;
  PeerId remote;
  bool turn, complete;
  bool operator==(const Look&) const = default;
};
Look look(const NoiseXX& machine) {
  return {machine.handshake_hash(), machine.remote_static(), machine.my_turn(), machine.complete()};
}

class Wire {
 public:
  Wire()
      : a_(NoiseRole::initiator, alice(), as_bytes("fuzz"), secret(3)),
        b_(NoiseRole::responder, bob(), as_bytes("fuzz"), secret(4)) {}

  /// The side whose turn it is writes.
  void write(BytesView payload) {
    NoiseXX* const from = a_.my_turn() ? &a_ : b_.my_turn() ? &b_ : nullptr;
    if (from == nullptr) return;
    Bytes out(payload.size() + NoiseXX::kOverhead[1]);
    const Result<std::size_t> size = from->write_message(payload, out);
    PEERBED_CHECK(size.has_value(), "a side whose turn it is can write");
    out.resize(*size);
    PEERBED_CHECK(!from->my_turn(), "nobody writes twice");
    in_flight_ = out;
    delivered_ = false;
    sent_payload_.assign(payload.begin(), payload.end());
    to_b_ = from == &a_;
  }

  void deliver_honestly() {
    if (!in_flight_ || delivered_) return;
    NoiseXX& to = to_b_ ? b_ : a_;
    const std::optional<Bytes> payload = offer(to, *in_flight_);
    if (!deceived_) {
      PEERBED_CHECK(payload.has_value(), "an honest message is accepted");
      PEERBED_CHECK(*payload == sent_payload_, "an honest payload arrives as it was sent");
    }
    if (payload) delivered_ = true;
  }

  void deliver(bool to_b, BytesView bytes) {
    NoiseXX& to = to_b ? b_ : a_;
    const bool honest = in_flight_ && !delivered_ && to_b == to_b_ && std::ranges::equal(*in_flight_, bytes);
    if (honest) return deliver_honestly();
    const bool in_clear = to_b && b_waits_for_first();
    if (!offer(to, bytes)) return;
    PEERBED_CHECK(in_clear, "only message 1 can be forged");
    deceived_ = true;
  }

  [[nodiscard]] Bytes in_flight() const { return in_flight_.value_or(Bytes{}); }
  [[nodiscard]] bool to_b() const { return to_b_; }

  void finish() {
    if (deceived_) return;
    if (in_flight_) deliver_honestly();
    while (!a_.complete() || !b_.complete()) {
      write({});
      deliver_honestly();
    }
    const NoiseKeys a = a_.split(), b = b_.split();
    PEERBED_CHECK(a.send.bytes == b.receive.bytes && a.receive.bytes == b.send.bytes,
                  "both sides derive the same keys");
    PEERBED_CHECK(a_.remote_static() == bob().public_key && b_.remote_static() == alice().public_key,
                  "each side knows the other");
    PEERBED_CHECK(a_.handshake_hash() == b_.handshake_hash(), "both sides saw the same handshake");
  }

 private:
  static const KeyPair& alice() {
    static const KeyPair keys = make_key_pair(secret(1));
    return keys;
  }
  static const KeyPair& bob() {
    static const KeyPair keys = make_key_pair(secret(2));
    return keys;
  }

  [[nodiscard]] bool b_waits_for_first() const { return !b_.complete() && !b_.my_turn() && b_is_fresh_; }

  std::optional<Bytes> offer(NoiseXX& to, BytesView bytes) {
    const Look before = look(to);
    Bytes payload(bytes.size());
    const Result<std::size_t> size = to.read_message(bytes, payload);
    if (!size) {
      PEERBED_CHECK(look(to) == before, "a refused message changes nothing");
      return std::nullopt;
    }
    PEERBED_CHECK(*size <= bytes.size(), "a payload is smaller than its message");
    if (&to == &b_) b_is_fresh_ = false;
    payload.resize(*size);
    return payload;
  }

  NoiseXX a_, b_;
  std::optional<Bytes> in_flight_;
  Bytes sent_payload_;
  bool to_b_ = true, delivered_ = false, deceived_ = false, b_is_fresh_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in({data, size});
  Wire wire;
  for (int steps = 0; steps < 24 && in.remaining() > 0; ++steps) {
    const std::uint8_t step = in.u8();
    switch (step % 6) {
      case 0:
        wire.write(in.bytes(std::min<std::size_t>(in.u8(), in.remaining())));
        break;
      case 1:
        wire.deliver_honestly();
        break;
      case 2: {  // one byte changed
        Bytes bytes = wire.in_flight();
        const std::size_t at = in.u16();
        const std::uint8_t flip = in.u8();
        if (!bytes.empty()) bytes[at % bytes.size()] ^= flip;
        wire.deliver(wire.to_b(), bytes);
        break;
      }
      case 3: {  // cut short, and continued with bytes of the input
        Bytes bytes = wire.in_flight();
        bytes.resize(std::min<std::size_t>(bytes.size(), in.u16()));
        const BytesView more = in.bytes(std::min<std::size_t>(in.u8(), in.remaining()));
        bytes.insert(bytes.end(), more.begin(), more.end());
        wire.deliver(wire.to_b(), bytes);
        break;
      }
      case 4: {  // reflected to its sender
        const Bytes bytes = wire.in_flight();
        wire.deliver(!wire.to_b(), bytes);
        break;
      }
      default:  // bytes of the input alone
        wire.deliver((step & 0x80) != 0, in.bytes(std::min<std::size_t>(in.u8(), in.remaining())));
        break;
    }
  }
  wire.finish();
  return 0;
}
