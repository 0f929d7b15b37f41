// UDP over the kernel: batches both ways, segmentation offload, the error queue.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <vector>

#include "core/sockets/event_loop.h"
#include "core/sockets/socket_address.h"

namespace peerbed {

/// What all datagram sockets of an environment share: one thread uses one of them at a time.
class DatagramBuffers {
 public:
  static constexpr std::size_t kMessages = 64;  ///< per system call
  static constexpr std::size_t kSlices = 1024;  ///< of all messages of one sendmmsg
  /// One UDP payload of any size, or what GRO merged, fits. The odd part keeps the slots' first lines, which are all
  /// that small datagrams touch, out of each other's cache sets.
  static constexpr std::size_t kSlot = 65536 + 4096 + 192;
  /// Holds ECN, TTL and segment size; or ECN, local address and segment size.
  static constexpr std::size_t kControl = 128;

  DatagramBuffers();

  struct Message {
    SocketAddress address;
    alignas(cmsghdr) std::array<std::uint8_t, kControl> control;
  };

  /// Makes the first `count` headers to receive ready again: the kernel overwrites their lengths.
  void ready_to_receive(std::size_t count);

  // To send. Not shared with receiving, because a handler sends while it looks at what was received.
  std::array<mmsghdr, kMessages> headers{};
  std::array<Message, kMessages> messages{};
  std::array<iovec, kSlices> slices{};
  std::array<std::size_t, kMessages> datagrams_in{};  ///< how many datagrams a message carries

  std::unique_ptr<std::uint8_t[]> receive_area;  // not zeroed: only what datagrams touch becomes memory
  std::array<mmsghdr, kMessages> receive_headers{};
  std::array<Message, kMessages> receive_messages{};
  std::array<iovec, kMessages> receive_slices{};
  std::vector<IncomingDatagram> batch;
};

/// What the kernel can do, found out once per environment.
struct SegmentationSupport {
  bool send = false;     ///< UDP_SEGMENT, Linux 4.18
  bool receive = false;  ///< UDP_GRO, Linux 5.0
};
[[nodiscard]] SegmentationSupport probe_segmentation();

struct DatagramSocketSetup {
  SegmentationSupport segmentation;
  DataSize buffer;
};

class KernelDatagramSocket final : public DatagramSocket, private Pollable, private TimerHandler {
 public:
  static Result<std::unique_ptr<DatagramSocket>> open(EventLoop& loop, DatagramBuffers& buffers,
                                                      const DatagramSocketSetup& setup, const DatagramOptions& options,
                                                      DatagramHandler& handler);
  ~KernelDatagramSocket() override;
  KernelDatagramSocket(const KernelDatagramSocket&) = delete;
  KernelDatagramSocket& operator=(const KernelDatagramSocket&) = delete;

  [[nodiscard]] Endpoint local_endpoint() const override { return local_; }
  std::size_t send(std::span<const OutgoingDatagram> batch) override;

 private:
  KernelDatagramSocket(EventLoop& loop, DatagramBuffers& buffers, FileDescriptor fd, const Endpoint& local,
                       bool segments, DatagramHandler& handler);
  void on_events(TimePoint now, std::uint32_t events) override;
  void on_deferred(TimePoint now) override;
  void on_timer(TimePoint now) override;

  // send()
  std::size_t fill_messages(std::span<const OutgoingDatagram> batch, std::size_t alone);
  std::size_t run_length(std::span<const OutgoingDatagram> batch) const;
  void write_control(msghdr& header, DatagramBuffers::Message& message, const OutgoingDatagram& first,
                     std::size_t datagrams) const;
  void drop(const OutgoingDatagram& datagram, int error);
  void refuse(std::size_t datagrams, bool kernel_tells);

  void receive(TimePoint now);
  void split(const mmsghdr& received, const DatagramBuffers::Message& message, BytesView bytes);
  bool read_errors(TimePoint now);  ///< false: the handler destroyed this socket

  EventLoop& loop_;
  DatagramBuffers& buffers_;
  FileDescriptor fd_;
  Endpoint local_;
  DatagramHandler& handler_;
  EventLoop::Token token_ = EventLoop::kNoToken;
  LoopTimer retry_;
  bool segments_;
  bool want_writable_ = false;
  std::vector<Unreachable> told_later_;  ///< errors that send() met: rule 1
};

}  // namespace peerbed
