#include "core/crypto/identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/bytes.h"
#include "core/crypto/sodium.h"

namespace peerbed {
namespace {

constexpr std::size_t kMaxFileSize = 4096;

std::string reason(int error) { return std::generic_category().message(error); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  [[nodiscard]] int number() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  bool close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || ::close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

/// A string that held a secret: wiped when it goes.
struct SecretText {
  std::string text;
  SecretText() = default;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { sodium_memzero(text.data(), text.size()); }
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Result<void> read_private_file(const std::string& path, std::string& text) {
  // Non-blocking, so that a FIFO of that name is refused below instead of waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return unavailable(fmt::format("cannot read identity file {}: {}", path, reason(errno)));
  struct stat status {};
  // The open file is asked, not the name: the name could point elsewhere by now.
  if (::fstat(file.number(), &status) != 0) {
    return unavailable(fmt::format("cannot read identity file {}: {}", path, reason(errno)));
  }
  if (!S_ISREG(status.st_mode)) return bad_input(fmt::format("identity file {} is not a regular file", path));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return bad_input(fmt::format("identity file {} is open to other users (mode {:04o}); run: chmod 600 {}", path,
                                 static_cast<unsigned>(status.st_mode & 07777), path));
  }
  text.resize(kMaxFileSize + 1);
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable(fmt::format("cannot read identity file {}: {}", path, reason(errno)));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMaxFileSize) {
    return bad_input(fmt::format("identity file {} is larger than {} bytes", path, kMaxFileSize));
  }
  text.resize(size);
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

struct IdentityFields {
  std::string_view peer, secret;
};

/// Lines `name: value`; empty lines and lines that start with # are skipped. An error is what follows the file's name.
Result<IdentityFields> parse_fields(std::string_view text) {
  IdentityFields fields;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = line.find(':');
    const std::string_view name = trimmed(line.substr(0, std::min(colon, line.size())));
    std::string_view* field = name == "peer" ? &fields.peer : name == "secret" ? &fields.secret : nullptr;
    if (colon == std::string_view::npos || field == nullptr) {
      return bad_input(fmt::format("line {} is neither 'peer: ...' nor 'secret: ...'", number));
    }
    if (!field->empty()) return bad_input(fmt::format("line {} gives '{}' a second time", number, name));
    *field = trimmed(line.substr(colon + 1));
  }
  if (fields.secret.empty()) return bad_input("there is no line 'secret: ...'");
  if (fields.peer.empty()) return bad_input("there is no line 'peer: ...'");
  return fields;
}

Result<KeyPair> parse_identity(std::string_view text) {
  const Result<IdentityFields> fields = parse_fields(text);
  if (!fields) return fields.error();
  std::optional<Bytes> secret = from_hex(fields->secret);
  SecretKey key{};
  if (!secret || secret->size() != key.size()) {
    return bad_input(fmt::format("the secret must be {} hexadecimal digits", 2 * key.size()));
  }
  std::copy(secret->begin(), secret->end(), key.begin());
  sodium_memzero(secret->data(), secret->size());
  const KeyPair keys = make_key_pair(key);
  sodium_memzero(key.data(), key.size());
  const Result<PeerId> peer = PeerId::parse(fields->peer);
  if (!peer) return peer.error();
  if (*peer != keys.public_key) return bad_input("the peer id does not belong to the secret");
  return keys;
}

/// A rename is durable once its directory is.
bool sync_directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const FileDescriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a directory and say EINVAL; there is then nothing more to do.
  return file.is_open() && (::fsync(file.number()) == 0 || errno == EINVAL);
}

}  // namespace

KeyPair make_key_pair(const SecretKey& secret) {
  detail::sodium_ready();
  KeyPair keys;
  keys.secret = secret;
  // Fails for no secret: clamping keeps the scalar off zero (RFC 7748 §5).
  const int failed = crypto_scalarmult_base(keys.public_key.key.data(), secret.data());
  PEERBED_CHECK(failed == 0, "X25519 of the base point failed");
  return keys;
}

Result<KeyPair> load_identity(const std::string& path) {
  detail::sodium_ready();
  SecretText file;
  if (const Result<void> read = read_private_file(path, file.text); !read) return read.error();
  Result<KeyPair> keys = parse_identity(file.text);
  if (!keys) return bad_input(fmt::format("identity file {}: {}", path, keys.error().message));
  return keys;
}

Result<void> save_identity(const std::string& path, const KeyPair& keys) {
  detail::sodium_ready();
  SecretText content, hex;
  hex.text = to_hex(keys.secret);
  content.text = fmt::format("# Identity of a Peerbed node. Whoever can read this file can be this node.\n"
                             "peer: {}\nsecret: {}\n",
                             keys.public_key.to_string(), hex.text);

  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));  // created with mode 0600
  if (!file.is_open()) {
    return unavailable(fmt::format("cannot write identity file {}: {}", path, reason(errno)));
  }
  const bool written = ::fchmod(file.number(), S_IRUSR | S_IWUSR) == 0 && write_all(file.number(), content.text) &&
                       ::fsync(file.number()) == 0 && file.close() && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return unavailable(fmt::format("cannot write identity file {}: {}", path, reason(error)));
  }
  if (!sync_directory_of(path)) {
    return unavailable(fmt::format("cannot sync the directory of identity file {}: {}", path, reason(errno)));
  }
  return {};
}

}  // namespace peerbed
