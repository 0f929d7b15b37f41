// Whatever a user types: a text that is accepted is the one text of its peer.
#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/crypto/peer_id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peerbed;
  const std::string_view text = as_text({data, size});
  const Result<PeerId> parsed = PeerId::parse(text);
  if (parsed) {
    PEERBED_CHECK(parsed->to_string() == text, "one peer has one text");
  } else {
    PEERBED_CHECK(parsed.error().message.find('\n') == std::string::npos, "an error is one sentence");
  }
  return 0;
}
