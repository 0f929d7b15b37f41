// The words of hole punching and relaying, and a punch session that is told them in any order at any time.
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/nat/punch_session.h"
#include "core/nat/relay_client.h"
#include "core/nat/relay_server.h"

using namespace peerbed;

namespace {

struct Port final : RelayServerPort {
  bool can_relay_to(const PeerId& peer) const override { return peer.key[0] < 200; }
  void send_relay_message(TimePoint, const PeerId&, const RelayMessage& m) override {
    PEERBED_CHECK(parse_relay_message(encode_relay_message(m)) == m, "a relay message does not read back");
  }
  bool send_relay_datagram(TimePoint, const PeerId&, BytesView d) override { return d.size() >= kRelayHeaderSize; }
};

void drain(PunchSession& session) {
  while (const auto message = session.poll_message()) {
    PEERBED_CHECK(parse_punch_message(encode_punch_message(*message)) == message, "a punch message does not read back");
  }
  int probes = 0;
  while (session.poll_probe()) ++probes;
  PEERBED_CHECK(probes <= 64, "a session sprays probes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader reader({data, size});
  const auto role = (reader.u8() & 1) != 0 ? PunchSession::Role::initiator : PunchSession::Role::responder;
  TimePoint now{};
  PunchSession session(role, {Endpoint{IpAddress::v4(192, 0, 2, 1), 1}}, {}, now);
  Port port;
  RelayServer server({.max_circuits = 4, .max_circuits_per_peer = 2, .bytes_per_direction = DataSize{100}, .duration = 1s}, port);
  RelayClient client;
  PeerId peer;
  while (!reader.failed() && reader.remaining() > 2) {
    const std::uint8_t what = reader.u8();
    const BytesView bytes = reader.bytes(reader.u8());
    peer.key[0] = what >> 4;
    now += std::chrono::milliseconds(what);
    drain(session);
    switch (what % 5) {
      case 0:
        if (const auto message = parse_punch_message(bytes)) session.on_message(now, *message);
        break;
      case 1:
        if (session.next_timeout()) session.on_timeout(now = std::max(now, *session.next_timeout()));
        break;
      case 2:
        if (const auto message = parse_relay_message(bytes)) {
          if (message->type == RelayMessageType::open) server.on_open(now, peer, *message);
          if (message->type == RelayMessageType::closed) server.on_closed(now, peer, message->circuit);
          std::optional<RelayMessage> reply;
          (void)client.on_message(peer, *message, reply);
        }
        break;
      case 3:
        if (const auto header = parse_relay_header(bytes)) {
          std::array<std::uint8_t, 64> scratch;
          server.on_datagram(now, peer, header->circuit, bytes, scratch);
        }
        break;
      default:
        server.on_peer_disconnected(now, peer);
        (void)client.open(peer, peer);
        (void)client.on_relay_disconnected(peer);
    }
    PEERBED_CHECK(server.circuits() <= 4, "a relay holds more circuits than it may");
  }
  drain(session);
  for (int i = 0; i < 1000 && session.next_timeout(); ++i) {
    session.on_timeout(*session.next_timeout());
    drain(session);
  }
  PEERBED_CHECK(!session.next_timeout() || !session.verdict(), "a session with a verdict still waits");
  return 0;
}
