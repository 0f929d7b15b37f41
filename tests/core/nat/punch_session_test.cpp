#include "core/nat/punch_session.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace peerbed {
namespace {

using Role = PunchSession::Role;

const Endpoint kA{IpAddress::v4(198, 18, 0, 1), 1000}, kB{IpAddress::v4(198, 18, 0, 2), 2000};

/// Two sessions joined by a relayed path of given one-way delays; time is a variable. Probes are recorded, and cross a
/// direct path that a test may open or close.
class Punch {
 public:
  explicit Punch(PunchConfig config = {}) : a_(Role::initiator, {kA}, config, now_), b_(Role::responder, {kB}, config, now_) {}

  void run(Duration budget) {
    const TimePoint end = now_ + budget;
    drain();
    while (!agenda_.empty() || a_.next_timeout() || b_.next_timeout()) {
      TimePoint next = TimePoint::max();
      if (!agenda_.empty()) next = agenda_.begin()->first;
      for (const PunchSession* s : {&a_, &b_}) next = std::min(next, s->next_timeout().value_or(TimePoint::max()));
      if (next > end) break;
      now_ = next;
      while (!agenda_.empty() && agenda_.begin()->first <= now_) {
        const auto task = agenda_.begin()->second;
        agenda_.erase(agenda_.begin());
        task();
      }
      for (PunchSession* s : {&a_, &b_}) {
        if (s->next_timeout() && *s->next_timeout() <= now_) s->on_timeout(now_);
      }
      drain();
    }
  }

  Duration delay_ab_ = 50ms, delay_ba_ = 50ms;
  std::function<bool(const char* from)> probe_arrives = [](const char*) { return true; };
  TimePoint now_{};
  std::vector<TimePoint> probes_a_, probes_b_;
  int connects_ = 0;
  PunchSession a_, b_;

 private:
  void drain() {
    while (const auto m = a_.poll_message()) {
      if (m->type == PunchMessageType::connect) ++connects_;
      agenda_.emplace(now_ + delay_ab_, [this, m = *m] { b_.on_message(now_, m); });
    }
    while (const auto m = b_.poll_message()) agenda_.emplace(now_ + delay_ba_, [this, m = *m] { a_.on_message(now_, m); });
    while (a_.poll_probe()) probe(probes_a_, "a", a_, kB);
    while (b_.poll_probe()) probe(probes_b_, "b", b_, kA);
  }
  // A probe that arrives is answered; the answer validates the path for who sent it, one round trip of 20 ms later.
  void probe(std::vector<TimePoint>& log, const char* from, PunchSession& session, const Endpoint& to) {
    log.push_back(now_);
    if (probe_arrives(from)) agenda_.emplace(now_ + 20ms, [this, &session, to] { session.on_path_validated(now_, {to, 0}); });
  }
  std::multimap<TimePoint, std::function<void()>> agenda_;
};

TEST(PunchSession, BothFirstPacketsLeaveAtTheSameInstantOverASymmetricRelay) {
  Punch punch;
  punch.run(30s);
  ASSERT_FALSE(punch.probes_a_.empty());
  EXPECT_EQ(punch.probes_a_.front(), punch.probes_b_.front());
  EXPECT_EQ(punch.probes_a_.front(), TimePoint{} + 150ms);  // connect, answer, and half a round trip for sync
  EXPECT_EQ(punch.a_.verdict(), true);
  EXPECT_EQ(punch.b_.verdict(), true);
  EXPECT_EQ(punch.a_.attempts(), 1);
}

TEST(PunchSession, OverAnAsymmetricRelayTheSkewIsHalfTheAsymmetry) {  // DCUtR: (owd_AB - owd_BA) / 2
  Punch punch;
  punch.delay_ab_ = 10ms;
  punch.delay_ba_ = 150ms;
  punch.run(30s);
  EXPECT_EQ(punch.probes_a_.front() - punch.probes_b_.front(), 70ms);
}

TEST(PunchSession, WithoutADirectPathBothGiveUpAfterThreeAttempts) {
  Punch punch;
  punch.probe_arrives = [](const char*) { return false; };
  punch.run(60s);
  EXPECT_EQ(punch.a_.verdict(), false);
  EXPECT_EQ(punch.b_.verdict(), false);
  EXPECT_EQ(punch.connects_, 3);
  EXPECT_EQ(punch.a_.attempts(), 3);
  EXPECT_LT(punch.now_, TimePoint{} + 15s);
  EXPECT_FALSE(punch.a_.next_timeout());
  EXPECT_FALSE(punch.b_.next_timeout());
}

TEST(PunchSession, ProbesAreBoundedWhateverTheCandidates) {
  Punch punch;
  punch.probe_arrives = [](const char*) { return false; };
  punch.run(60s);
  EXPECT_LE(punch.probes_a_.size(), 3U * 16U);  // nobody can make a node spray packets at a third party
}

TEST(PunchSession, ASideWhoseProbesAreLostKeepsTryingAsLongAsTheOtherHasAWay) {
  Punch punch;
  int lost = 0;
  punch.probe_arrives = [&](const char* from) { return from[0] == 'b' || ++lost > 14; };  // all of a's first window is lost
  punch.run(60s);
  EXPECT_EQ(punch.b_.verdict(), true);
  EXPECT_EQ(punch.a_.verdict(), true);
  EXPECT_EQ(punch.a_.remote_verdict(), true);
}

TEST(PunchSession, AnInitiatorThatVanishesLeavesTheResponderWithAVerdictInBoundedTime) {
  PunchSession b(Role::responder, {kB}, {}, TimePoint{});
  b.on_message(TimePoint{}, {PunchMessageType::connect, 1, false, {kA}});
  ASSERT_TRUE(b.poll_message());
  TimePoint now{};
  while (b.next_timeout()) b.on_timeout(now = *b.next_timeout());
  EXPECT_EQ(b.verdict(), false);
  EXPECT_EQ(now, TimePoint{} + 5s);
}

TEST(PunchSession, AStaleAnswerOrSyncIsIgnored) {
  PunchSession a(Role::initiator, {kA}, {}, TimePoint{});
  ASSERT_TRUE(a.poll_message());
  a.on_message(TimePoint{} + 1ms, {PunchMessageType::answer, 7, false, {kB}});
  a.on_message(TimePoint{} + 1ms, {PunchMessageType::sync, 1, false, {}});
  EXPECT_FALSE(a.poll_message());
  EXPECT_FALSE(a.poll_probe());
}

TEST(PunchMessage, EveryTypeReadsBack) {
  const Endpoint v6{IpAddress::parse("2001:db8::7").value(), 9};
  for (const PunchMessage& message :
       {PunchMessage{PunchMessageType::connect, 1, false, {kA, v6}}, PunchMessage{PunchMessageType::answer, 2, false, {}},
        PunchMessage{PunchMessageType::sync, 3, false, {}}, PunchMessage{PunchMessageType::verdict, 3, true, {}}}) {
    EXPECT_EQ(parse_punch_message(encode_punch_message(message)), message);
  }
}

TEST(PunchMessage, CutLongAndForeignOnesAreRefused) {
  const Bytes whole = encode_punch_message({PunchMessageType::connect, 1, false, {kA, kB}});
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse_punch_message(BytesView(whole).first(n))) << n;
  Bytes longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(parse_punch_message(longer));
  EXPECT_FALSE(parse_punch_message(Bytes{9, 1}));
  EXPECT_FALSE(parse_punch_message(Bytes{0, 1, 9}));  // nine candidates
}

}  // namespace
}  // namespace peerbed
