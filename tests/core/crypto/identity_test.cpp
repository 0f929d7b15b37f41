#include "core/crypto/identity.h"

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/bytes.h"

namespace peerbed {
namespace {

namespace fs = std::filesystem;

SecretKey secret_of(std::string_view hex) {
  SecretKey secret{};
  const Bytes bytes = from_hex(hex).value();
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

// RFC 7748 §6.1
constexpr std::string_view kAliceSecret = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
constexpr std::string_view kAlicePublic = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
constexpr std::string_view kBobSecret = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
constexpr std::string_view kBobPublic = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
constexpr std::string_view kShared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";

TEST(KeyPair, IsTheX25519PairOfRfc7748Section61) {
  EXPECT_EQ(to_hex(make_key_pair(secret_of(kAliceSecret)).public_key.key), kAlicePublic);
  EXPECT_EQ(to_hex(make_key_pair(secret_of(kBobSecret)).public_key.key), kBobPublic);
  EXPECT_EQ(to_hex(make_key_pair(secret_of(kAliceSecret)).secret), kAliceSecret);
}

TEST(KeyPair, TwoPairsShareTheSecretOfRfc7748Section61) {
  const KeyPair alice = make_key_pair(secret_of(kAliceSecret)), bob = make_key_pair(secret_of(kBobSecret));
  SecretKey one{}, other{};
  ASSERT_EQ(crypto_scalarmult(one.data(), alice.secret.data(), bob.public_key.key.data()), 0);
  ASSERT_EQ(crypto_scalarmult(other.data(), bob.secret.data(), alice.public_key.key.data()), 0);
  EXPECT_EQ(to_hex(one), kShared);
  EXPECT_EQ(to_hex(other), kShared);
}

class IdentityFile : public ::testing::Test {
 protected:
  IdentityFile() {
    std::string name = ::testing::TempDir() + "peerbed-identity-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = name + "/node.key";
  }
  ~IdentityFile() override { fs::remove_all(folder_); }

  void write(std::string_view content, mode_t mode = 0600) const {
    std::ofstream(path_) << content;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  /// Loads what must not load; the error's text behind the file's name.
  [[nodiscard]] std::string complaint() const {
    const Result<KeyPair> loaded = load_identity(path_);
    if (loaded) return "(it loaded)";
    const std::string& message = loaded.error().message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one sentence";
    EXPECT_EQ(message.find(kAliceSecret), std::string::npos) << "an error must not print the secret";
    const std::string head = "identity file " + path_ + ": ";
    return message.compare(0, head.size(), head) == 0 ? message.substr(head.size()) : message;
  }

  fs::path folder_;
  std::string path_;
  KeyPair alice_ = make_key_pair(secret_of(kAliceSecret));
};

TEST_F(IdentityFile, LoadsWhatWasSaved) {
  ASSERT_TRUE(save_identity(path_, alice_));
  const Result<KeyPair> loaded = load_identity(path_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->public_key, alice_.public_key);
  EXPECT_EQ(loaded->secret, alice_.secret);
}

TEST_F(IdentityFile, IsTextWithMode0600WhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{0277}}) {
    const mode_t old = umask(mask);
    const Result<void> saved = save_identity(path_, alice_);
    umask(old);
    ASSERT_TRUE(saved) << saved.error().message;
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600U);
  }
  EXPECT_EQ(content(), "# Identity of a Peerbed node. Whoever can read this file can be this node.\npeer: " +
                           alice_.public_key.to_string() + "\nsecret: " + std::string(kAliceSecret) + "\n");
}

TEST_F(IdentityFile, ASaveReplacesTheOldFileAndLeavesNoTemporary) {
  ASSERT_TRUE(save_identity(path_, alice_));
  const KeyPair bob = make_key_pair(secret_of(kBobSecret));
  ASSERT_TRUE(save_identity(path_, bob));
  EXPECT_EQ(load_identity(path_).value().public_key, bob.public_key);
  EXPECT_EQ(files(), 1);
}

TEST_F(IdentityFile, AFailedSaveSaysWhyAndLeavesNothingBehind) {
  const Result<void> nowhere = save_identity(folder_.string() + "/missing/node.key", alice_);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(nowhere.error().message,
            "cannot write identity file " + folder_.string() + "/missing/node.key: No such file or directory");
  fs::create_directory(path_);
  const Result<void> onto_folder = save_identity(path_, alice_);
  ASSERT_FALSE(onto_folder);
  EXPECT_EQ(files(), 1) << "only the folder that was in the way";
}

TEST_F(IdentityFile, SavesByARelativeName) {
  const fs::path old = fs::current_path();
  fs::current_path(folder_);
  const Result<void> saved = save_identity("node.key", alice_);
  fs::current_path(old);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(load_identity(path_));
}

TEST_F(IdentityFile, IsRefusedWhenOthersCanReadItAndTellsTheRemedy) {
  ASSERT_TRUE(save_identity(path_, alice_));
  for (const mode_t mode : {mode_t{0644}, mode_t{0640}, mode_t{0604}, mode_t{0620}, mode_t{0660}, mode_t{0666}}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    const Result<KeyPair> loaded = load_identity(path_);
    ASSERT_FALSE(loaded) << std::oct << mode;
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_NE(loaded.error().message.find("run: chmod 600 " + path_), std::string::npos) << loaded.error().message;
  }
  for (const mode_t mode : {mode_t{0600}, mode_t{0400}}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_TRUE(load_identity(path_));
  }
}

TEST_F(IdentityFile, AMissingFileIsNamed) {
  const Result<KeyPair> loaded = load_identity(path_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(loaded.error().message, "cannot read identity file " + path_ + ": No such file or directory");
}

TEST_F(IdentityFile, AFolderOrAPipeIsRefusedWithoutWaiting) {
  fs::create_directory(path_);
  EXPECT_EQ(complaint(), "identity file " + path_ + " is not a regular file");
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(complaint(), "identity file " + path_ + " is not a regular file");
}

TEST_F(IdentityFile, BadContentIsToldInOneSentence) {
  const std::string peer = "peer: " + alice_.public_key.to_string() + "\n";
  const std::string secret = "secret: " + std::string(kAliceSecret) + "\n";
  const KeyPair bob = make_key_pair(secret_of(kBobSecret));
  const auto say = [&](std::string_view text) {
    write(text);
    return complaint();
  };
  EXPECT_EQ(say(""), "there is no line 'secret: ...'");
  EXPECT_EQ(say(peer), "there is no line 'secret: ...'");
  EXPECT_EQ(say(secret), "there is no line 'peer: ...'");
  EXPECT_EQ(say(peer + secret + secret), "line 3 gives 'secret' a second time");
  EXPECT_EQ(say("# note\n\n" + peer + "colour: red\n" + secret), "line 4 is neither 'peer: ...' nor 'secret: ...'");
  EXPECT_EQ(say(peer + "secret"), "line 2 is neither 'peer: ...' nor 'secret: ...'");
  EXPECT_EQ(say(peer + "secret: 1234\n"), "the secret must be 64 hexadecimal digits");
  EXPECT_EQ(say(peer + "secret: " + std::string(63, 'a') + "g\n"), "the secret must be 64 hexadecimal digits");
  EXPECT_EQ(say(secret + "peer: " + bob.public_key.to_string() + "\n"), "the peer id does not belong to the secret");
  EXPECT_EQ(say(secret + "peer: abc\n"), "a peer id has 52 characters, this one has 3");
  EXPECT_EQ(say(std::string("\0\xff\x80 binary", 10)), "line 1 is neither 'peer: ...' nor 'secret: ...'");
  EXPECT_EQ(say(std::string(5000, '#')), "identity file " + path_ + " is larger than 4096 bytes");
}

TEST_F(IdentityFile, SpacesCommentsAndLineEndsOfOtherSystemsDoNotMatter) {
  write("\r\n# by hand\r\n  secret :  " + std::string(kAliceSecret) + " \r\n\tpeer: " + alice_.public_key.to_string());
  const Result<KeyPair> loaded = load_identity(path_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->public_key, alice_.public_key);
}

}  // namespace
}  // namespace peerbed
