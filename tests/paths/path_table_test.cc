// Every transition of the drawing in path_table.h, probing, and what loss must not do.
#include "transport/paths/path_table.h"

#include <cmath>
#include <map>

#include "tests/paths/allocation_count.h"
#include "tests/paths/policies_under_test.h"
#include "transport/base/rng.h"

namespace spindrift::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kRto = milliseconds(1);

Time at(Duration since_start) {
  return Time(since_start);
}

PathTable make_table(std::uint32_t path_count,
                     const PathSelectorInfo& policy = kRoundRobinPathPolicy) {
  return PathTable(policy.make(path_count, 11), path_count);
}

void tell(PathTable& table, const PathFeedback& feedback, Time now, Duration rto = kRto) {
  table.on_feedback({&feedback, 1}, now, rto);
}

void make_bad(PathTable& table, std::uint32_t path, Time now = at({})) {
  tell(table, feedback_of(path, PathOutcome::kLost, 4), now);
}

constexpr PathId kPath{3};

TEST(PathTable, StartsWithAllPathsGood) {
  PathTable table = make_table(16);
  EXPECT_EQ(table.size(), 16U);
  EXPECT_EQ(table.usable(), 16U);
  EXPECT_EQ(table.state(kPath), PathState::kGood);
  EXPECT_EQ(table.next_probe(), kNever);
  EXPECT_EQ(table.slowest_rtt(), Duration{});
}

TEST(PathTable, LeavesMarksToThePolicy) {
  PathTable table = make_table(16);
  tell(table, feedback_of(kPath.value, PathOutcome::kMarked), at({}));
  EXPECT_EQ(table.state(kPath), PathState::kGood);
  EXPECT_EQ(table.counters(kPath).packets_marked, 1U);
}

TEST(PathTable, TrimAndLossEachSkip) {
  for (const PathOutcome outcome : {PathOutcome::kTrimmed, PathOutcome::kLost}) {
    PathTable table = make_table(16);
    tell(table, feedback_of(kPath.value, outcome), at({}));
    EXPECT_EQ(table.state(kPath), PathState::kSkip);
    EXPECT_EQ(table.usable(), 16U);
  }
}

TEST(PathTable, ASkippedPathIsPassedOverOnce) {
  PathTable table = make_table(16);
  tell(table, feedback_of(kPath.value, PathOutcome::kTrimmed), at({}));
  std::map<std::uint16_t, int> counts;
  for (int i = 0; i < 15; ++i)
    ++counts[table.pick(at({}))->value];
  EXPECT_EQ(counts[kPath.value], 0);
  EXPECT_EQ(table.state(kPath), PathState::kGood);
  for (int i = 0; i < 16; ++i)
    ++counts[table.pick(at({}))->value];
  EXPECT_EQ(counts[kPath.value], 1);
}

TEST(PathTable, ASkippedPathIsUsedAfterAShortTime) {
  PathTable table = make_table(16);
  tell(table, feedback_of(kPath.value, PathOutcome::kLost), at({}));
  std::map<std::uint16_t, int> counts;
  for (int i = 0; i < 16; ++i)
    ++counts[table.pick(at(kRto / 4))->value];
  EXPECT_EQ(counts[kPath.value], 1);
}

TEST(PathTable, APathThatLosesAgainRestsForATimeout) {
  PathTable table = make_table(16);
  for (int i = 0; i < 2; ++i)
    tell(table, feedback_of(kPath.value, PathOutcome::kLost), at({}));
  EXPECT_EQ(table.state(kPath), PathState::kSkip);
  for (int i = 0; i < 64; ++i)
    EXPECT_NE(table.pick(at(kRto / 2)), kPath);
  std::map<std::uint16_t, int> counts;
  for (int i = 0; i < 16; ++i)
    ++counts[table.pick(at(kRto))->value];
  EXPECT_EQ(counts[kPath.value], 1);
}

TEST(PathTable, ABadPathIsNotUsed) {
  PathTable table = make_table(16);
  make_bad(table, kPath.value);
  EXPECT_EQ(table.state(kPath), PathState::kBad);
  EXPECT_EQ(table.usable(), 15U);
  EXPECT_EQ(table.counters(kPath).times_bad, 1U);
  for (int i = 0; i < 64; ++i)
    EXPECT_NE(table.pick(at(2 * kRto)), kPath);
}

TEST(PathTable, ThreePacketsLostInARowCondemnAPathOfShortBursts) {
  PathTable table = make_table(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(table.state(PathId{}), PathState::kBad) << i;
    (void)table.pick(at({}));
    table.on_sent(PathId{}, 1, 1000);
    tell(table, feedback_of(0, PathOutcome::kLost), at({}));
  }
  EXPECT_EQ(table.state(PathId{}), PathState::kBad);
}

TEST(PathTable, TwoWholeBurstsLostCondemnAPathOfLongBursts) {
  PathTable table = make_table(1);
  for (int i = 0; i < 3; ++i) {
    (void)table.pick(at({}));
    table.on_sent(PathId{}, 32, 32'000);
  }
  tell(table, feedback_of(0, PathOutcome::kLost, 63), at({}));
  EXPECT_EQ(table.state(PathId{}), PathState::kSkip);
  tell(table, feedback_of(0, PathOutcome::kLost, 1), at({}));
  EXPECT_EQ(table.state(PathId{}), PathState::kBad);
}

TEST(PathTable, ADeliveryBetweenLossesStartsTheCountAgain) {
  PathTable table = make_table(16);
  for (int i = 0; i < 100; ++i) {
    tell(table, feedback_of(kPath.value, PathOutcome::kLost, 2), at({}));
    tell(table, feedback_of(kPath.value, PathOutcome::kMarked, 1), at({}));
  }
  EXPECT_EQ(table.state(kPath), PathState::kSkip);
}

TEST(PathTable, AProbeReplyRestoresABadPath) {
  PathTable table = make_table(16);
  make_bad(table, kPath.value);
  table.on_probe_reply(kPath, microseconds(50));
  EXPECT_EQ(table.state(kPath), PathState::kGood);
  EXPECT_EQ(table.usable(), 16U);
  EXPECT_EQ(table.next_probe(), kNever);
  EXPECT_EQ(table.counters(kPath).rtt, microseconds(50));
}

TEST(PathTable, ArrivingDataRestoresABadPath) {
  PathTable table = make_table(16);
  make_bad(table, kPath.value);
  tell(table, feedback_of(kPath.value, PathOutcome::kDelivered), at(kRto));
  EXPECT_EQ(table.state(kPath), PathState::kGood);
}

TEST(PathTable, ADeniedPathIsNeverProposedNorProbed) {
  PathTable table = make_table(4);
  table.deny(kPath, true);
  EXPECT_EQ(table.state(kPath), PathState::kDenied);
  for (std::uint32_t i = 0; i < 3; ++i)
    make_bad(table, i);
  for (int i = 0; i < 100; ++i)
    EXPECT_NE(table.pick(at({})), kPath);
  for (int i = 0; i < 100; ++i)
    EXPECT_NE(table.take_due_probe(at(milliseconds(500 * i))), kPath);
}

TEST(PathTable, ALinkThatIsDownTakesItsPathOutAndItsReturnAsksForAProbe) {
  PathTable table = make_table(4);
  EXPECT_TRUE(table.on_link_down(kPath, at({}), kRto));
  EXPECT_FALSE(table.on_link_down(kPath, at({}), kRto));
  EXPECT_EQ(table.state(kPath), PathState::kBad);
  EXPECT_EQ(table.usable(), 3U);
  EXPECT_EQ(table.next_probe(), at(kRto));
  tell(table, feedback_of(kPath.value, PathOutcome::kDelivered, 1), at({}));  // was under way
  EXPECT_EQ(table.state(kPath), PathState::kBad);
  const Time returned = at(microseconds(300));
  EXPECT_EQ(table.take_due_probe(returned), std::nullopt);
  table.on_link_up(kPath, returned);
  table.on_link_up(PathId{0}, returned);  // was never down
  EXPECT_EQ(table.take_due_probe(returned), kPath);
  EXPECT_EQ(table.take_due_probe(returned), std::nullopt);
  table.on_probe_reply(kPath, microseconds(10));
  EXPECT_EQ(table.usable(), 4U);
}

TEST(PathTable, ADeniedPathStaysSoWhateverItsLinkDoes) {
  PathTable table = make_table(4);
  table.deny(kPath, true);
  EXPECT_FALSE(table.on_link_down(kPath, at({}), kRto));
  table.on_link_up(kPath, at({}));
  EXPECT_EQ(table.state(kPath), PathState::kDenied);
  EXPECT_EQ(table.take_due_probe(at({})), std::nullopt);
}

TEST(PathTable, NoFeedbackLiftsADenial) {
  PathTable table = make_table(16);
  table.deny(kPath, true);
  for (const PathOutcome outcome :
       {PathOutcome::kDelivered, PathOutcome::kMarked, PathOutcome::kTrimmed, PathOutcome::kLost}) {
    tell(table, feedback_of(kPath.value, outcome, 99), at(kRto));
    EXPECT_EQ(table.state(kPath), PathState::kDenied);
  }
  table.on_probe_reply(kPath, microseconds(1));
  EXPECT_EQ(table.state(kPath), PathState::kDenied);
  EXPECT_EQ(table.usable(), 15U);
}

TEST(PathTable, TheOperatorTurnsAnyStateToDeniedAndBackToGood) {
  PathTable table = make_table(16);
  make_bad(table, 1);
  tell(table, feedback_of(2, PathOutcome::kMarked), at({}));
  for (std::uint16_t i = 0; i < 3; ++i) {
    table.deny(PathId{i}, true);
    EXPECT_EQ(table.state(PathId{i}), PathState::kDenied);
    table.deny(PathId{i}, false);
    EXPECT_EQ(table.state(PathId{i}), PathState::kGood);
  }
  EXPECT_EQ(table.usable(), 16U);
}

TEST(PathTable, AllowingAPathThatIsNotDeniedChangesNothing) {
  PathTable table = make_table(16);
  make_bad(table, kPath.value);
  table.deny(kPath, false);
  EXPECT_EQ(table.state(kPath), PathState::kBad);
}

TEST(PathTable, ProposesNothingOnlyWhenAllAreDenied) {
  PathTable table = make_table(2);
  table.deny(PathId{0}, true);
  EXPECT_EQ(table.pick(at({})), PathId{1});
  table.deny(PathId{1}, true);
  EXPECT_EQ(table.pick(at({})), std::nullopt);
}

TEST(PathTable, ProposesAllInTurnWhenAllAreBad) {
  PathTable table = make_table(16);
  for (std::uint32_t i = 0; i < 16; ++i)
    make_bad(table, i);
  EXPECT_EQ(table.usable(), 0U);
  std::set<PathId> seen;
  for (int i = 0; i < 16; ++i)
    seen.insert(*table.pick(at({})));
  EXPECT_EQ(seen.size(), 16U);
}

TEST(PathTable, SpreadsOverTheUsablePathsWhenThePolicyInsistsOnABadOne) {
  PathTable table = make_table(16, kSinglePathPolicy);
  const PathId home = *table.pick(at({}));
  tell(table, feedback_of(home.value, PathOutcome::kLost, 4), at({}));
  ASSERT_EQ(table.state(home), PathState::kBad);
  for (int i = 0; i < 32; ++i)
    EXPECT_NE(table.pick(at({})), home);
}

TEST(PathTable, ProbingStartsAtOneRtoAndDoublesUpTo50Ms) {
  PathTable table = make_table(16);
  make_bad(table, kPath.value);
  Duration interval = kRto;
  Time due = at({}) + kRto;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(table.next_probe(), due);
    EXPECT_EQ(table.take_due_probe(due - Duration{1}), std::nullopt);
    EXPECT_EQ(table.take_due_probe(due), kPath);
    EXPECT_EQ(table.take_due_probe(due), std::nullopt);
    interval = std::min<Duration>(interval * 2, milliseconds(50));
    due += interval;
  }
  EXPECT_EQ(interval, milliseconds(50));
}

TEST(PathTable, ALongRtoDoesNotStretchProbing) {
  PathTable table = make_table(16);
  tell(table, feedback_of(kPath.value, PathOutcome::kLost, 4), at({}), std::chrono::seconds(9));
  EXPECT_EQ(table.next_probe(), at(milliseconds(50)));
}

TEST(PathTable, EveryBadPathGetsItsProbe) {
  PathTable table = make_table(256);
  for (std::uint32_t i = 0; i < 256; ++i)
    make_bad(table, i);
  std::set<PathId> probed;
  while (const auto path = table.take_due_probe(at(kRto)))
    probed.insert(*path);
  EXPECT_EQ(probed.size(), 256U);
}

TEST(PathTable, CountsWhatWasSentLostAndMarked) {
  PathTable table = make_table(16);
  table.on_sent(kPath, 3, 3000);
  tell(table, feedback_of(kPath.value, PathOutcome::kMarked, 2), at({}));
  tell(table, feedback_of(kPath.value, PathOutcome::kLost, 1), at({}));
  const PathCounters& counters = table.counters(kPath);
  EXPECT_EQ(counters.packets_sent, 3U);
  EXPECT_EQ(counters.bytes_sent, 3000U);
  EXPECT_EQ(counters.packets_marked, 2U);
  EXPECT_EQ(counters.packets_lost, 1U);
}

TEST(PathTable, SmoothsRttWithOneEighth) {
  PathTable table = make_table(16);
  tell(table, feedback_of(kPath.value, PathOutcome::kDelivered, 1, microseconds(80)), at({}));
  tell(table, feedback_of(kPath.value, PathOutcome::kDelivered, 1, microseconds(160)), at({}));
  EXPECT_EQ(table.counters(kPath).rtt, microseconds(90));
  EXPECT_EQ(table.counters(kPath).rtt_min, microseconds(80));
}

TEST(PathTable, RttRangeFollowsTheUsablePaths) {
  PathTable table = make_table(16);
  for (std::uint32_t i = 0; i < 3; ++i) {
    tell(table, feedback_of(i, PathOutcome::kDelivered, 1, microseconds(10 * (i + 1))),
         at(10 * kRto));
  }
  EXPECT_EQ(table.fastest_rtt(), microseconds(10));
  EXPECT_EQ(table.slowest_rtt(), microseconds(30));
  make_bad(table, 2, at(20 * kRto));
  EXPECT_EQ(table.slowest_rtt(), microseconds(20));
  table.deny(PathId{0}, true);
  EXPECT_EQ(table.fastest_rtt(), microseconds(20));
}

TEST(PathTable, RttRangeMatchesAFullScan) {
  PathTable table = make_table(16);
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    tell(table,
         feedback_of(static_cast<std::uint32_t>(rng.below(16)), PathOutcome::kDelivered, 1,
                     Duration(static_cast<std::int64_t>(1 + rng.below(100'000)))),
         at({}));
    Duration slowest{}, fastest = Duration::max();
    for (std::uint16_t p = 0; p < 16; ++p) {
      const Duration rtt = table.counters(PathId{p}).rtt;
      slowest = std::max(slowest, rtt);
      if (rtt > Duration{}) fastest = std::min(fastest, rtt);
    }
    ASSERT_EQ(table.slowest_rtt(), slowest);
    ASSERT_EQ(table.fastest_rtt(), fastest);
  }
}

// One burst at a time, each packet lost with 1 %, each burst reported in one feedback.
std::uint32_t smallest_usable_under_loss(std::uint32_t path_count, std::uint32_t burst_packets,
                                         const PathSelectorInfo& policy) {
  PathTable table = make_table(path_count, policy);
  Rng rng(17);
  std::uint32_t smallest = path_count;
  for (int i = 0; i < 40'000; ++i) {
    const Time now = at(microseconds(i));
    const PathId path = *table.pick(now);
    table.on_sent(path, burst_packets, burst_packets * 1000);
    std::uint32_t lost = 0;
    for (std::uint32_t p = 0; p < burst_packets; ++p)
      lost += rng.chance(0.01) ? 1 : 0;
    std::vector<PathFeedback> news;
    if (lost < burst_packets) {
      news.push_back(feedback_of(path.value, PathOutcome::kDelivered, burst_packets - lost));
    }
    if (lost > 0) news.push_back(feedback_of(path.value, PathOutcome::kLost, lost));
    table.on_feedback(news, now, kRto);
    smallest = std::min(smallest, table.usable());
    if (const auto probe = table.take_due_probe(now)) {
      if (!rng.chance(0.01)) table.on_probe_reply(*probe, microseconds(10));
    }
  }
  return smallest;
}

TEST(PathTable, OnePercentRandomLossLeavesNinetyPercentUsable) {
  for (const std::uint32_t path_count : {16U, 256U}) {
    for (const std::uint32_t burst_packets : {1U, 4U, 64U}) {
      for (const PathSelectorInfo* policy : kPolicies) {
        EXPECT_GE(smallest_usable_under_loss(path_count, burst_packets, *policy),
                  static_cast<std::uint32_t>(std::ceil(0.9 * path_count)))
            << policy->name << " over " << path_count << " paths, bursts of " << burst_packets;
      }
    }
  }
}

TEST(PathTable, AnyFeedbackLeavesItConsistentAndProposing) {
  for (const PathSelectorInfo* policy : kPolicies) {
    PathTable table = make_table(16, *policy);
    Rng rng(23);
    for (int i = 0; i < 50'000; ++i) {
      const Time now = at(microseconds(rng.below(2) * static_cast<std::uint64_t>(i)));
      const auto path = table.pick(now);
      if (path.has_value()) {
        ASSERT_NE(table.state(*path), PathState::kDenied);
        table.on_sent(*path, static_cast<std::uint32_t>(rng.below(65)), rng.next() >> 20);
      }
      tell(table,
           feedback_of(static_cast<std::uint32_t>(rng.below(16)),
                       static_cast<PathOutcome>(rng.below(4)),
                       static_cast<std::uint32_t>(rng.next()),
                       Duration(static_cast<std::int64_t>(rng.next() >> 2))),
           now, Duration(static_cast<std::int64_t>(rng.below(1ULL << 40)) - 1000));
      table.deny(PathId{static_cast<std::uint16_t>(rng.below(16))}, rng.chance(0.5));
      (void)table.take_due_probe(now);
      FieldCollector state;
      if (i % 1000 == 0) table.describe(state);
      std::uint32_t usable = 0, denied = 0;
      for (std::uint16_t p = 0; p < 16; ++p) {
        const PathState s = table.state(PathId{p});
        usable += s == PathState::kGood || s == PathState::kSkip ? 1 : 0;
        denied += s == PathState::kDenied ? 1 : 0;
      }
      ASSERT_EQ(table.usable(), usable);
      ASSERT_EQ(table.pick(now).has_value(), denied < 16);
      ASSERT_EQ(table.next_probe() == kNever, usable + denied == 16);
    }
  }
}

TEST(PathTable, NoAllocationAfterConstruction) {
  PathTable table = make_table(256, kMixedPathPolicy);
  Rng rng(29);
  const std::uint64_t before = allocation_count();
  ASSERT_GT(before, 0U) << "nothing is counted";
  for (int i = 0; i < 50'000; ++i) {
    const Time now = at(microseconds(i));
    const PathId path = *table.pick(now);
    table.on_sent(path, 4, 4000);
    const PathFeedback news = feedback_of(path.value, static_cast<PathOutcome>(rng.below(4)), 4,
                                          microseconds(rng.below(100)));
    table.on_feedback({&news, 1}, now, kRto);
    if (const auto probe = table.take_due_probe(now)) {
      table.on_probe_reply(*probe, microseconds(10));
    }
  }
  EXPECT_EQ(allocation_count(), before);
}

class Wild final : public PathSelector {
 public:
  void pick(std::span<PathId> out) override { std::fill(out.begin(), out.end(), PathId{999}); }
  void on_feedback(std::span<const PathFeedback> /*feedback*/) override {}
  void describe(StateWriter& /*out*/) const override {}
};

TEST(PathTable, ChoosesByItselfWhenASelectorPicksWhatIsNoPath) {
  PathTable table(std::make_unique<Wild>(), 4);
  std::uint64_t wild = 0;
  table.count_wild_picks_in(wild);
  const auto path = table.pick(Time{});
  ASSERT_TRUE(path.has_value());
  EXPECT_LT(path->value, 4);
  EXPECT_GT(wild, 0U);
}

}  // namespace
}  // namespace spindrift::test
