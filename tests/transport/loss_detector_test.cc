// Which packets are judged lost, rule by rule, on a connection whose sent log the test fills.
#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"
#include "transport/loss_rules.h"

namespace spindrift {
namespace {

using std::chrono::microseconds;
using test::EnginePair;

constexpr Duration kRtt = microseconds(100);

class LossDetector : public testing::Test {
 protected:
  explicit LossDetector(std::string rule = "per_path") {
    ConnectOptions options;
    options.loss_rule = std::move(rule);
    options.path_count = 2;
    options.path_selector = "round_robin";
    EXPECT_TRUE(pair.open(options));
    c = pair.at_a;
    // As if every path had answered in kRtt for a while.
    for (int i = 0; i < 100; ++i)
      c->rtt.add(kRtt);
    for (std::uint16_t p = 0; p < 2; ++p) {
      const PathFeedback feedback{.path = PathId{p}, .packets = 1, .rtt = kRtt};
      for (int i = 0; i < 100; ++i)
        c->paths->on_feedback({&feedback, 1}, start, kRtt);
    }
    first = c->send->log.next();
  }
  // The next PSN leaves on `path` at `when`.
  Psn send(std::uint16_t path, Time when) {
    SentUnit& unit = c->send->log.append();
    unit.kind = SentUnit::Kind::kClose;  // no message behind it
    unit.nominal_bytes = 1000;
    c->flow->on_sent(unit.nominal_bytes, when);
    c->send->log.sent(unit, PathId{path}, when);
    return unit.psn;
  }
  // It arrived: what acknowledge() does for the detector.
  void arrive(Psn psn) {
    SentUnit& unit = *c->send->log.find(psn);
    LossState& loss = c->send->loss;
    loss.paths[unit.path.value].newest_acked_seq = unit.path_seq.value;
    loss.newest_acked_sent = std::max(loss.newest_acked_sent, unit.sent_time);
    c->send->log.take_out(unit, SentUnit::State::kAcked);
  }
  // Everything from `first` that has not arrived is told missing.
  AckView view() const {
    AckView out{.cumulative = Psn{first.value - 1}, .sack_base = first};
    for (std::uint64_t i = 0; i < 64; ++i) {
      const SentUnit* unit = c->send->log.find(Psn{first.value + i});
      if (unit != nullptr && unit->state == SentUnit::State::kAcked) out.sack_bitmap |= 1ULL << i;
    }
    return out;
  }
  void judge_path(std::uint16_t path, const AckView& seen) {
    LossReport report(pair.a.context(), *c, LossCause::kReordered, start);
    const PathFeedback touched{.path = PathId{path}};
    c->loss_rule->on_ack(report, *c, {&touched, 1}, seen);
  }
  SentUnit::State state(Psn psn) const { return c->send->log.find(psn)->state; }

  EnginePair pair;
  Connection* c = nullptr;
  Time start{std::chrono::seconds(1)};
  Psn first{};
};

TEST_F(LossDetector, APacketIsLostWhenALaterOneOfItsPathArrived) {
  const Psn lost = send(0, start);
  const Psn other_path = send(1, start);
  const Psn later = send(0, start);
  arrive(later);
  judge_path(0, view());
  judge_path(1, view());
  EXPECT_EQ(state(lost), SentUnit::State::kLost);
  EXPECT_EQ(state(other_path), SentUnit::State::kInFlight);
  EXPECT_EQ(c->flow->in_flight(), 2000U);  // `later` is the test's to take out of the flow
  EXPECT_EQ(c->counters.retransmits_reordered, 1U);
}

TEST_F(LossDetector, AnAcknowledgementThatDoesNotShowItLosesNothing) {
  const Psn untold = send(0, start);
  const Psn later = send(0, start);
  arrive(later);
  AckView seen = view();
  seen.cumulative = Psn{first.value - 10};
  seen.sack_base = Psn{later.value};
  seen.sack_bitmap = 1;
  judge_path(0, seen);
  EXPECT_EQ(state(untold), SentUnit::State::kInFlight);
}

TEST_F(LossDetector, ANeedlessRetransmissionRaisesThePathsThreshold) {
  const Psn early = send(0, start);
  on_spurious(*c, *c->send->log.find(early), start);
  arrive(send(0, start));
  judge_path(0, view());
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  arrive(send(0, start));
  judge_path(0, view());
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}

TEST_F(LossDetector, TimeJudgesOnlyWhatALaterArrivalOvertook) {
  const Psn early = send(0, start);
  judge_by_time(pair.a.context(), *c, start + 100 * kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  const Psn later = send(1, start + microseconds(1));
  arrive(later);
  judge_by_time(pair.a.context(), *c, start + kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  // Its time: the slowest path's RTT and a quarter (both paths answer alike).
  EXPECT_GT(c->send->loss.next_check, start + kRtt);
  EXPECT_LE(c->send->loss.next_check, start + 2 * kRtt);
  judge_by_time(pair.a.context(), *c, c->send->loss.next_check);
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}

TEST_F(LossDetector, TheAnswerToAProbeLosesOnlyWhatLeftWellBeforeIt) {
  const Psn old = send(0, start);
  const Time probe = start + 3 * kRtt;
  const Psn recent = send(1, probe - microseconds(10));
  judge_by_probe(pair.a.context(), *c, view(), probe, probe + kRtt);
  EXPECT_EQ(state(old), SentUnit::State::kLost);
  EXPECT_EQ(state(recent), SentUnit::State::kInFlight);
}

class RackDetector : public LossDetector {
 protected:
  RackDetector() : LossDetector("rack") {}
};
TEST_F(RackDetector, HearsOnlyTime) {
  EXPECT_EQ(c->loss_rule->on_ack, nullptr);
  const Psn early = send(0, start);
  arrive(send(0, start + microseconds(1)));
  judge_by_time(pair.a.context(), *c, start + kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  judge_by_time(pair.a.context(), *c, start + 2 * kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}

class PacketThresholdDetector : public LossDetector {
 protected:
  PacketThresholdDetector() : LossDetector("packet_threshold") {}
};
TEST_F(PacketThresholdDetector, CountsLaterPacketsOfAnyPath) {
  const Psn early = send(0, start);
  arrive(send(1, start));
  arrive(send(1, start));
  judge_path(1, view());
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  arrive(send(1, start));
  judge_path(1, view());
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}
TEST_F(PacketThresholdDetector, DoesNotCountAgainstWhatWasSentAgain) {
  const Psn early = send(0, start);
  for (int i = 0; i < 3; ++i)
    arrive(send(1, start));
  judge_path(1, view());
  SentUnit& unit = *c->send->log.find(early);
  c->flow->on_sent(unit.nominal_bytes, start);
  c->send->log.sent(unit, PathId{1}, start + kRtt);
  judge_path(1, view());
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  arrive(send(0, start + kRtt + microseconds(1)));
  judge_by_time(pair.a.context(), *c, start + 2 * kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  judge_by_time(pair.a.context(), *c, start + 3 * kRtt);
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}

class TimeoutDetector : public LossDetector {
 protected:
  TimeoutDetector() : LossDetector("timeout") {}
};
TEST_F(TimeoutDetector, WaitsForTheWholeTimeout) {
  const Psn early = send(0, start);
  arrive(send(0, start + microseconds(1)));
  judge_by_time(pair.a.context(), *c, start + current_rto(*c) - microseconds(1));
  EXPECT_EQ(state(early), SentUnit::State::kInFlight);
  EXPECT_EQ(c->send->loss.next_check, start + current_rto(*c));
  judge_by_time(pair.a.context(), *c, start + current_rto(*c));
  EXPECT_EQ(state(early), SentUnit::State::kLost);
}

TEST_F(LossDetector, WhatIsLostIsQueuedOnceAndInOrder) {
  std::vector<Psn> sent;
  for (int i = 0; i < 20; ++i)
    sent.push_back(send(0, start));
  arrive(send(0, start));
  judge_path(0, view());
  judge_path(0, view());
  ASSERT_EQ(c->send->lost.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(c->send->lost[i], sent[i]);
}

}  // namespace
}  // namespace spindrift
