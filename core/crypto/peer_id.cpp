#include "core/crypto/peer_id.h"

namespace peerbed {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::size_t kTextSize = 52;  // ceil(256 / 5): 260 bits, so the last character carries 4 padding bits

/// A character for an error sentence: what a terminal cannot show is given as its byte.
std::string quoted(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte > 0x20 && byte < 0x7f) return std::string("'") + c + "'";
  static constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

std::string PeerId::to_string() const {
  std::string text;
  text.reserve(kTextSize);
  std::uint32_t bits = 0;
  int held = 0;
  for (const std::uint8_t byte : key) {
    bits = (bits << 8) | byte;
    held += 8;
    while (held >= 5) {
      held -= 5;
      text += kAlphabet[(bits >> held) & 31];
    }
  }
  text += kAlphabet[(bits << (5 - held)) & 31];
  return text;
}

std::string PeerId::short_string() const { return to_string().substr(0, 8); }

Result<PeerId> PeerId::parse(std::string_view text) {
  if (text.size() != kTextSize) {
    return bad_input("a peer id has " + std::to_string(kTextSize) + " characters, this one has " +
                     std::to_string(text.size()));
  }
  PeerId id;
  std::uint32_t bits = 0;
  int held = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t value = kAlphabet.find(text[i]);
    if (value == std::string_view::npos) {
      return bad_input("a peer id is written with a-z and 2-7 in lower case, but character " + std::to_string(i + 1) +
                       " is " + quoted(text[i]));
    }
    bits = (bits << 5) | static_cast<std::uint32_t>(value);
    held += 5;
    if (held >= 8) {
      held -= 8;
      id.key[at++] = static_cast<std::uint8_t>(bits >> held);
    }
  }
  // One peer has one text: the bits after the key must be zero.
  if ((bits & ((1U << held) - 1)) != 0) {
    return bad_input("the last character of the peer id is " + quoted(text.back()) +
                     ", which no peer id ends in; is it mistyped?");
  }
  return id;
}

}  // namespace peerbed
