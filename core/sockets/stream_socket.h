// TCP over the kernel.
#pragma once

#include <memory>

#include "core/sockets/event_loop.h"
#include "core/sockets/socket_address.h"

namespace peerbed {

class KernelStreamSocket final : public StreamSocket, private Pollable {
 public:
  struct Setup {
    std::optional<DataSize> buffer;
    std::optional<IpAddress> source;  ///< where a connection starts that has no chosen local endpoint
  };
  static Result<std::unique_ptr<StreamSocket>> connect(EventLoop& loop, const Setup& setup,
                                                       const ConnectOptions& options, StreamHandler& handler);
  /// An accepted connection; it has no handler yet.
  KernelStreamSocket(EventLoop& loop, FileDescriptor fd, const Endpoint& local, const Endpoint& remote);
  ~KernelStreamSocket() override;
  KernelStreamSocket(const KernelStreamSocket&) = delete;
  KernelStreamSocket& operator=(const KernelStreamSocket&) = delete;

  void set_handler(StreamHandler& handler) override { handler_ = &handler; }
  [[nodiscard]] bool has_handler() const { return handler_ != nullptr; }
  [[nodiscard]] EventLoop::Token token() const { return token_; }
  [[nodiscard]] Endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] Endpoint remote_endpoint() const override { return remote_; }
  std::size_t send(std::span<const BytesView> slices) override;
  ReceiveResult receive(MutableBytes into) override;
  void shutdown_send() override;

 private:
  enum class State : std::uint8_t { connecting, open, closed };

  void on_events(TimePoint now, std::uint32_t events) override;
  void on_deferred(TimePoint now) override;
  bool finish_connecting(TimePoint now, std::uint32_t events);
  /// Tells on_closed if the connection failed, or ended in order in both directions. True: nothing more to do here.
  bool close_if_over(TimePoint now);
  void close(TimePoint now, CloseReason reason);
  void failed(int error);
  void drained();

  EventLoop& loop_;
  FileDescriptor fd_;
  Endpoint local_, remote_;
  StreamHandler* handler_ = nullptr;
  State state_ = State::open;
  bool wants_writable_ = false;
  bool readable_told_ = false;      ///< and not drained since
  bool peer_ended_ = false;         ///< its FIN arrived, perhaps behind data
  bool end_received_ = false;       ///< receive() has said so
  bool shutdown_ = false;           ///< shutdown_send() was called
  bool deferred_ = false;
  int error_ = 0;                   ///< met by a call, told by on_closed
  std::uint64_t drained_in_turn_ = 0;
  EventLoop::Token token_ = EventLoop::kNoToken;
};

class KernelStreamListener final : public StreamListener, private Pollable, private TimerHandler {
 public:
  static Result<std::unique_ptr<StreamListener>> open(EventLoop& loop, std::optional<DataSize> buffer,
                                                      const Endpoint& local, ListenerHandler& handler);
  ~KernelStreamListener() override;
  KernelStreamListener(const KernelStreamListener&) = delete;
  KernelStreamListener& operator=(const KernelStreamListener&) = delete;
  [[nodiscard]] Endpoint local_endpoint() const override { return local_; }

 private:
  KernelStreamListener(EventLoop& loop, FileDescriptor fd, ListenerHandler& handler);
  void on_events(TimePoint now, std::uint32_t events) override;
  void on_deferred(TimePoint now) override;
  void on_timer(TimePoint now) override;

  EventLoop& loop_;
  FileDescriptor fd_;
  Endpoint local_;
  ListenerHandler& handler_;
  EventLoop::Token token_ = EventLoop::kNoToken;
  LoopTimer retry_;
};

}  // namespace peerbed
