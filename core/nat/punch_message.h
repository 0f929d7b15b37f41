// The words of a hole punch, exchanged over the relayed link itself, so that only the two ends can speak them. The shape
// is that of libp2p's DCUtR: connect, answer, sync; the opener measures the round trip of the first two and fires half of
// it after sync, when the other side receives it: the first packets cross in mid-path.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/endpoint.h"

namespace peerbed {

inline constexpr std::string_view kPunchChannel = "peerbed/punch/1";
inline constexpr std::size_t kMaxPunchCandidates = 8;

enum class PunchMessageType : std::uint8_t {
  connect = 0,  ///< initiator: my candidates
  answer = 1,   ///< responder: mine, at once
  sync = 2,     ///< initiator: fire when you read this
  verdict = 3,  ///< either: `direct` says whether a direct path was validated here
};

struct PunchMessage {
  PunchMessageType type = PunchMessageType::connect;
  std::uint8_t attempt = 1;
  bool direct = false;
  std::vector<Endpoint> candidates;
  bool operator==(const PunchMessage&) const = default;
};

[[nodiscard]] Bytes encode_punch_message(const PunchMessage& message);
[[nodiscard]] std::optional<PunchMessage> parse_punch_message(BytesView bytes);

}  // namespace peerbed
