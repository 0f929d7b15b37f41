#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cstring>

#include "core/sockets/file_descriptor.h"
#include "core/sockets/socket_address.h"
#include "tests/core/sockets/sockets_fixture.h"

namespace peerbed {
namespace {

Bytes numbered(std::size_t size, std::size_t n) {
  Bytes bytes(size, static_cast<std::uint8_t>(n));
  for (std::size_t i = 0; i + 1 < size; i += 7) bytes[i] = static_cast<std::uint8_t>(n >> 8);
  return bytes;
}

class DatagramSocketTest : public SocketsTest {
 protected:
  /// Sends `count` datagrams of `size` in one batch from a to b, and waits until they are there.
  void transfer(std::size_t count, std::size_t size, Family family = Family::v4, Ecn ecn = Ecn::not_ect) {
    receiver = {};
    to_socket = open_datagrams(*b, receiver, family);
    from_socket = open_datagrams(*a, sender, family);
    std::vector<Bytes> payloads;
    std::vector<OutgoingDatagram> batch;
    for (std::size_t i = 0; i < count; ++i) payloads.push_back(numbered(size, i));
    for (const Bytes& p : payloads) batch.push_back({to_socket->local_endpoint(), p, ecn, 0});
    EXPECT_EQ(from_socket->send(batch), count);
    EXPECT_TRUE(until([&] { return receiver.payloads.size() == count; }));
    EXPECT_EQ(receiver.payloads, payloads);
  }

  CountingDatagrams sender, receiver;
  std::unique_ptr<DatagramSocket> from_socket, to_socket;
};

TEST_F(DatagramSocketTest, ABatchToOneDestinationLeavesInFewMessagesAndArrivesInFew) {
  if (!a->sends_segments() || !b->receives_coalesced()) GTEST_SKIP() << "this kernel has no UDP segmentation offload";
  for (const Family family : {Family::v4, Family::v6}) {
    const SocketCounters from = a->counters();
    const SocketCounters to = b->counters();
    transfer(100, 1200, family);
    // 65 000 / 1200 = 54 datagrams fit a message: 100 take two, in one call.
    EXPECT_EQ(a->counters().send_calls - from.send_calls, 1U);
    EXPECT_EQ(a->counters().segmented_messages - from.segmented_messages, 2U);
    EXPECT_EQ(a->counters().segmented_datagrams - from.segmented_datagrams, 100U);
    EXPECT_EQ(a->counters().datagrams_sent - from.datagrams_sent, 100U);
    EXPECT_GE(b->counters().coalesced_messages - to.coalesced_messages, 2U);
    EXPECT_EQ(b->counters().datagrams_received - to.datagrams_received, 100U);
    EXPECT_LE(receiver.batches, 2U);
  }
}

TEST_F(DatagramSocketTest, WithoutSegmentationABatchStillTakesOneCallFor64) {
  SocketEnvironment::Options options;
  options.segmentation = false;
  a = open(options);
  b = open(options);
  EXPECT_FALSE(a->sends_segments());
  transfer(128, 1200);
  EXPECT_EQ(a->counters().send_calls, 2U);
  EXPECT_EQ(a->counters().segmented_messages, 0U);
  EXPECT_EQ(b->counters().coalesced_messages, 0U);
  EXPECT_LE(b->counters().receive_calls, 4U);
  from_socket.reset();
  to_socket.reset();
}

TEST_F(DatagramSocketTest, APlainReceiverGetsTheSegmentsOfASegmentingSender) {
  SocketEnvironment::Options options;
  options.segmentation = false;
  b = open(options);
  transfer(100, 1000);
  EXPECT_EQ(b->counters().coalesced_messages, 0U);
  EXPECT_EQ(receiver.payloads.size(), 100U);
  to_socket.reset();
}

TEST_F(DatagramSocketTest, MarksSurviveSegmentation) {
  for (const Family family : {Family::v4, Family::v6}) {
    transfer(60, 700, family, Ecn::ce);
    EXPECT_EQ(receiver.marks, std::vector<Ecn>(60, Ecn::ce));
  }
}

TEST_F(DatagramSocketTest, AMessageThatTheKernelCannotCutIsSentPieceByPiece) {
  // A destination port of zero is EINVAL: of a merged message that could as well mean "cannot cut".
  from_socket = open_datagrams(*a, sender);
  to_socket = open_datagrams(*b, receiver);
  const Bytes payload(500, 1);
  std::vector<OutgoingDatagram> batch(5, {Endpoint{IpAddress::loopback(Family::v4), 0}, payload, Ecn::not_ect, 0});
  batch.push_back({to_socket->local_endpoint(), payload, Ecn::not_ect, 0});
  EXPECT_EQ(from_socket->send(batch), batch.size());
  ASSERT_TRUE(until([&] { return receiver.payloads.size() == 1 && sender.errors.size() == 5; }));
  EXPECT_EQ(a->counters().unroutable_dropped, 5U);
  EXPECT_EQ(a->counters().datagrams_sent, 1U);
}

TEST_F(DatagramSocketTest, AnOversizedDatagramIsCountedAndComesBackAsTooBigWithTheMtu) {
  from_socket = open_datagrams(*a, sender);
  to_socket = open_datagrams(*b, receiver);
  const Bytes huge(65'508);  // one more than 65535 with the headers of IPv4 and UDP
  const OutgoingDatagram one{to_socket->local_endpoint(), huge, Ecn::not_ect, 0};
  EXPECT_EQ(from_socket->send({&one, 1}), 1U);
  EXPECT_EQ(a->counters().oversize_dropped, 1U);
  a->run_for(10ms);
  for (const Unreachable& e : sender.errors) {
    EXPECT_EQ(e.reason, UnreachableReason::too_big);
    EXPECT_EQ(e.to, to_socket->local_endpoint());
  }
  EXPECT_LE(sender.errors.size(), 1U);
}

TEST_F(DatagramSocketTest, TheErrorQueueTellsWhichDestinationHasNoSocket) {
  for (const Family family : {Family::v4, Family::v6}) {
    const SocketCounters before = a->counters();
    sender = {};
    from_socket = open_datagrams(*a, sender, family);
    std::vector<Endpoint> closed;
    for (int i = 0; i < 5; ++i) closed.push_back(open_datagrams(*b, receiver, family)->local_endpoint());
    for (const Endpoint& e : closed) {
      const OutgoingDatagram one{e, as_bytes("anyone?"), Ecn::not_ect, 0};
      EXPECT_EQ(from_socket->send({&one, 1}), 1U);
    }
    ASSERT_TRUE(until([&] { return sender.errors.size() == closed.size(); }));
    for (std::size_t i = 0; i < closed.size(); ++i) {
      EXPECT_EQ(sender.errors[i].to, closed[i]);
      EXPECT_EQ(sender.errors[i].reason, UnreachableReason::port);
    }
    EXPECT_EQ(a->counters().errors_received - before.errors_received, 5U);
    // And then the loop is quiet: a socket with an error that nobody takes would wake it for ever.
    const std::uint64_t wakeups = a->counters().wakeups;
    a->run_for(50ms);
    EXPECT_LE(a->counters().wakeups - wakeups, 1U);
  }
}

TEST_F(DatagramSocketTest, ReceivingGoesOnWhileErrorsComeBack) {
  from_socket = open_datagrams(*a, sender);
  to_socket = open_datagrams(*b, receiver);
  const Endpoint closed = open_datagrams(*b, receiver)->local_endpoint();
  for (int i = 0; i < 200; ++i) {
    const OutgoingDatagram lost{closed, as_bytes("lost"), Ecn::not_ect, 0};
    from_socket->send({&lost, 1});
    const OutgoingDatagram back{from_socket->local_endpoint(), as_bytes("back"), Ecn::not_ect, 0};
    to_socket->send({&back, 1});
    a->run_once(0s);
  }
  EXPECT_TRUE(until([&] { return sender.payloads.size() == 200; }));
  EXPECT_GT(sender.errors.size(), 0U);
}

// ---- a device that holds packets back, which loopback never does: a TAP device whose peer does not answer ARP -------

/// True if a network of its own could be had, in which the host is 10.9.0.1 and nobody else is there.
bool enter_lonely_network() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);  // stays open as long as the process lives
  if (tap < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "tap0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap, TUNSETIFF, &request) != 0) return false;
  const FileDescriptor s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress address{};
  to_socket_address({IpAddress::v4(10, 9, 0, 1), 0}, address);
  std::memcpy(&request.ifr_addr, &address.v4, sizeof address.v4);
  if (ioctl(s.value(), SIOCSIFADDR, &request) != 0) return false;
  to_socket_address({IpAddress::v4(255, 255, 255, 0), 0}, address);
  std::memcpy(&request.ifr_netmask, &address.v4, sizeof address.v4);
  if (ioctl(s.value(), SIOCSIFNETMASK, &request) != 0) return false;
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(s.value(), SIOCSIFFLAGS, &request) == 0;
}

/// Tells the kernel where 10.9.0.2 is: what waited for it leaves.
bool introduce_neighbour() {
  const FileDescriptor s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  arpreq request{};
  SocketAddress address{};
  to_socket_address({IpAddress::v4(10, 9, 0, 2), 0}, address);
  std::memcpy(&request.arp_pa, &address.v4, sizeof address.v4);
  request.arp_ha.sa_family = ARPHRD_ETHER;
  std::memcpy(request.arp_ha.sa_data, "\x02\x00\x00\x00\x00\x02", 6);
  request.arp_flags = ATF_COM | ATF_PERM;
  std::strcpy(request.arp_dev, "tap0");
  return ioctl(s.value(), SIOCSARP, &request) == 0;
}

enum LonelyOutcome : int {
  kGood = 0,
  kNoNetwork = 10,
  kNeverRefused,
  kWrongCount,
  kEarlyWord,
  kNoWord,
  kStillRefused,
  kTooManyWords,
};

int refuse_and_recover() {
  if (!enter_lonely_network()) return kNoNetwork;
  SocketEnvironment::Options options;
  options.datagram_buffer = DataSize{64 * 1024};
  auto environment = SocketEnvironment::open(options);
  CountingDatagrams handler;
  auto socket = (*environment)->open_datagram_socket({{IpAddress::v4(10, 9, 0, 1), 0}, true}, handler);
  if (socket.has_error()) return kNoNetwork;
  const Bytes payload(1200, 1);
  const std::vector<OutgoingDatagram> batch(64, {Endpoint{IpAddress::v4(10, 9, 0, 2), 9}, payload, Ecn::not_ect, 0});
  std::size_t taken = batch.size();
  for (int i = 0; i < 20 && taken == batch.size(); ++i) taken = (*socket)->send(batch);
  if (taken == batch.size()) return kNeverRefused;
  if ((*environment)->counters().datagrams_refused != batch.size() - taken) return kWrongCount;
  (*environment)->run_for(20ms);
  if (handler.writable != 0) return kEarlyWord;
  if (!introduce_neighbour()) return kNoNetwork;
  for (int i = 0; i < 100 && handler.writable == 0; ++i) (*environment)->run_for(20ms);
  if (handler.writable != 1) return kNoWord;
  if ((*socket)->send(std::span(batch).first(1)) != 1) return kStillRefused;
  (*environment)->run_for(20ms);
  return handler.writable == 1 ? kGood : kTooManyWords;
}

TEST_F(DatagramSocketTest, AFullSendBufferRefusesTheRestAndTellsWhenThereIsRoom) {  // rule 9, on a real kernel
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(refuse_and_recover());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNetwork) GTEST_SKIP() << "no network namespace with a TAP device to be had here";
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

}  // namespace
}  // namespace peerbed
