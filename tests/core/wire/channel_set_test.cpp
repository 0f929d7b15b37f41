#include "core/wire/channel_set.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

namespace peerbed {
namespace {

/// Two ends of a link without a network: bytes written here can be read there, `room` at a time.
class PipeLink final : public Link {
 public:
  void join(PipeLink& other) { other_ = &other; }
  void set_handler(LinkHandler&) override {}
  LinkKind kind() const override { return LinkKind::udp; }
  bool initiator() const override { return true; }
  bool established() const override { return true; }
  const PeerId& remote() const override { return remote_; }
  Path path() const override { return {}; }
  std::uint64_t session() const override { return 1; }
  StreamId open_stream(TimePoint) override {
    const StreamId id = next_++ * 2;
    other_->opened.push_back(id);
    return id;
  }
  std::size_t write(TimePoint, StreamId stream, std::span<const BytesView> slices) override {
    std::size_t taken = 0;
    for (const BytesView slice : slices) {
      const std::size_t n = std::min(slice.size(), room);
      Bytes& in = other_->inbox[stream];
      in.insert(in.end(), slice.begin(), slice.begin() + static_cast<std::ptrdiff_t>(n));
      room -= n;
      taken += n;
    }
    return taken;
  }
  StreamRead read(TimePoint, StreamId stream, MutableBytes into) override {
    Bytes& in = inbox[stream];
    const std::size_t n = std::min({in.size(), into.size(), read_at_most});
    std::copy(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n), into.begin());
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
    return {n, in.empty() && ended};
  }
  void finish(TimePoint, StreamId) override {}
  bool send_datagram(TimePoint, BytesView) override { return false; }
  std::size_t max_datagram_payload() const override { return 0; }
  void probe_path(TimePoint, const Path&) override {}
  bool use_path(TimePoint, const Path&) override { return false; }
  void close(TimePoint) override {}
  LinkStats stats() const override { return {}; }

  std::map<StreamId, Bytes> inbox;
  std::vector<StreamId> opened;
  std::size_t room = SIZE_MAX, read_at_most = SIZE_MAX;
  bool ended = false;

 private:
  PipeLink* other_ = nullptr;
  PeerId remote_;
  StreamId next_ = 0;
};

struct Collector final : ChannelSink {
  void on_channel_message(TimePoint, Link&, ChannelId channel, BytesView message) override {
    messages.emplace_back(channel, std::string(as_text(message)));
    if (on_message) on_message();
  }
  void on_channel_writable(TimePoint, Link&, ChannelId channel) override { writable.push_back(channel); }
  void on_channel_fault(TimePoint, Link&, std::string_view reason) override { faults.emplace_back(reason); }
  std::vector<std::pair<ChannelId, std::string>> messages;
  std::vector<ChannelId> writable;
  std::vector<std::string> faults;
  std::function<void()> on_message;
};

class Channels : public testing::Test {
 protected:
  Channels() {
    a_.join(b_);
    b_.join(a_);
    chat_ = here_.add("chat", {.max_message = DataSize{1000}});
    bulk_ = here_.add("bulk", {});
    there_bulk_ = there_.add("bulk", {});  // another order: on the wire a channel is its name
    there_chat_ = there_.add("chat", {.max_message = DataSize{100}});
  }
  void receive() {
    for (const StreamId stream : b_.opened) receiver_.on_stream_opened(stream);
    b_.opened.clear();
    for (auto& [stream, bytes] : b_.inbox) receiver_.on_stream_readable(TimePoint{}, stream);
  }
  SendStatus send(ChannelId channel, std::string_view text) { return sender_.send(TimePoint{}, channel, as_bytes(text)); }

  ChannelRegistry here_, there_;
  ChannelId chat_, bulk_, there_bulk_, there_chat_;
  PipeLink a_, b_;
  std::array<std::uint8_t, 64> scratch_{};
  Collector sent_, got_;
  ChannelSet sender_{a_, here_, scratch_, sent_}, receiver_{b_, there_, scratch_, got_};
};

TEST_F(Channels, MessagesArriveWholeInOrderUnderTheirChannelsName) {
  EXPECT_EQ(send(chat_, "one"), SendStatus::taken);
  EXPECT_EQ(send(bulk_, "two"), SendStatus::taken);
  EXPECT_EQ(send(chat_, ""), SendStatus::taken);
  EXPECT_EQ(send(chat_, "three"), SendStatus::taken);
  receive();
  const std::vector<std::pair<ChannelId, std::string>> expected{
      {there_chat_, "one"}, {there_chat_, ""}, {there_chat_, "three"}, {there_bulk_, "two"}};
  EXPECT_EQ(got_.messages, expected);
}

TEST_F(Channels, AMessageIsTheSameHoweverTheStreamIsCut) {
  const std::string text(5000, 'x');
  for (const std::size_t piece : {1U, 2U, 7U, 63U, 64U}) {
    b_.read_at_most = piece;
    send(bulk_, text);
    receive();
  }
  ASSERT_EQ(got_.messages.size(), 5U);
  for (const auto& [channel, message] : got_.messages) EXPECT_EQ(message, text);
}

TEST_F(Channels, MessagesOfAnySizesBehindEachOtherComeApartWhereTheyWereJoined) {
  std::vector<std::string> sent;
  for (const std::size_t piece : {1U, 5U, 63U, 64U, 1000U}) {
    b_.read_at_most = piece;
    for (const std::size_t size : {5000U, 0U, 3U, 64U, 63U, 62U, 200U, 1U, 300U, 61U}) {  // around the scratch buffer's 64
      sent.emplace_back(size, static_cast<char>('a' + sent.size() % 26));
      send(bulk_, sent.back());
    }
    receive();
  }
  ASSERT_EQ(got_.messages.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(got_.messages[i].second, sent[i]) << "message " << i;
  EXPECT_TRUE(got_.faults.empty());
}

TEST_F(Channels, AFullLinkTakesOneMessageMoreAndThenBlocksUntilItDrained) {
  a_.room = 10;
  EXPECT_EQ(send(bulk_, "0123456789"), SendStatus::taken);
  EXPECT_EQ(send(bulk_, "next"), SendStatus::blocked);
  sender_.on_stream_writable(TimePoint{}, 0);
  EXPECT_TRUE(sent_.writable.empty());
  a_.room = 1000;
  sender_.on_stream_writable(TimePoint{}, 0);
  ASSERT_EQ(sent_.writable.size(), 1U);
  EXPECT_EQ(send(bulk_, "next"), SendStatus::taken);
  receive();
  ASSERT_EQ(got_.messages.size(), 2U);
  EXPECT_EQ(got_.messages[0].second, "0123456789");
  EXPECT_EQ(got_.messages[1].second, "next");
}

TEST_F(Channels, ALinkThatTakesNothingStillKeepsTheNameBeforeTheMessage) {
  a_.room = 0;
  EXPECT_EQ(send(chat_, "hello"), SendStatus::blocked);  // the name alone is waiting
  a_.room = 1000;
  sender_.on_stream_writable(TimePoint{}, 0);
  EXPECT_EQ(send(chat_, "hello"), SendStatus::taken);
  receive();
  ASSERT_EQ(got_.messages.size(), 1U);
  EXPECT_EQ(got_.messages[0].second, "hello");
}

TEST_F(Channels, APausedChannelDeliversNothingAndResumesWhereItStopped) {
  got_.on_message = [&] {
    if (got_.messages.size() == 1) receiver_.pause(there_bulk_, true);
  };
  for (int i = 0; i < 5; ++i) send(bulk_, std::string(40, static_cast<char>('a' + i)));
  receive();
  EXPECT_EQ(got_.messages.size(), 1U);
  receive();
  EXPECT_EQ(got_.messages.size(), 1U);
  receiver_.pause(there_bulk_, false);
  receiver_.deliver(TimePoint{});
  ASSERT_EQ(got_.messages.size(), 5U);
  EXPECT_EQ(got_.messages[4].second, std::string(40, 'e'));
}

TEST_F(Channels, AnUnknownChannelIsReadAndDroppedWithoutHurtingOthers) {
  const ChannelId extra = here_.add("extra", {});
  send(extra, std::string(500, 'x'));
  send(chat_, "still here");
  receive();
  EXPECT_EQ(receiver_.unknown_channels(), 1U);
  ASSERT_EQ(got_.messages.size(), 1U);
  EXPECT_EQ(got_.messages[0].second, "still here");
  EXPECT_TRUE(got_.faults.empty());
}

TEST_F(Channels, ATooLongMessageIsAFaultBeforeItsBytesAreKept) {
  send(chat_, std::string(500, 'x'));  // allowed here, not there
  receive();
  ASSERT_EQ(got_.faults.size(), 1U);
  EXPECT_EQ(got_.faults[0], "a message is longer than its channel allows");
  EXPECT_TRUE(got_.messages.empty());
}

TEST_F(Channels, AStreamThatEndsInsideAMessageIsAFault) {
  a_.room = 8;
  send(bulk_, "0123456789");
  b_.ended = true;
  receive();
  ASSERT_EQ(got_.faults.size(), 1U);
  EXPECT_EQ(got_.faults[0], "a channel ended inside a message");
}

}  // namespace
}  // namespace peerbed
