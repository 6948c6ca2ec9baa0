// What every path policy promises, over all policies and path counts.
#include <deque>

#include "tests/paths/allocation_count.h"
#include "tests/paths/policies_under_test.h"
#include "transport/base/rng.h"

namespace spindrift::test {
namespace {

using PolicyAndCount = std::tuple<const PathSelectorInfo*, std::uint32_t>;

class PathPolicyContract : public ::testing::TestWithParam<PolicyAndCount> {
 protected:
  const PathSelectorInfo& info() const { return *std::get<0>(GetParam()); }
  std::uint32_t path_count() const { return std::get<1>(GetParam()); }
  std::unique_ptr<PathSelector> make(std::uint64_t seed = 7) const {
    return info().make(path_count(), seed);
  }
  bool is_single() const { return info().name == "single"; }
};

PathFeedback random_feedback(Rng& rng, std::uint32_t path_count) {
  return feedback_of(static_cast<std::uint32_t>(rng.below(path_count)),
                     static_cast<PathOutcome>(rng.below(4)),
                     static_cast<std::uint32_t>(rng.below(65)),
                     Duration(static_cast<std::int64_t>(rng.below(1'000'000))));
}

// Picks under random feedback, which is drawn from the same seed every time.
std::vector<PathId> random_run(PathSelector& selector, std::uint32_t path_count, int steps) {
  Rng rng(99);
  std::vector<PathId> picks;
  std::array<PathId, 8> out{};
  for (int step = 0; step < steps; ++step) {
    const std::size_t wanted = rng.below(out.size() + 1);
    selector.pick({out.data(), wanted});
    picks.insert(picks.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(wanted));
    std::array<PathFeedback, 3> feedback{};
    for (PathFeedback& one : feedback)
      one = random_feedback(rng, path_count);
    selector.on_feedback({feedback.data(), rng.below(feedback.size() + 1)});
  }
  return picks;
}

TEST_P(PathPolicyContract, PicksStayInRangeUnderAnyFeedback) {
  const auto selector = make();
  for (const PathId path : random_run(*selector, path_count(), 20'000)) {
    ASSERT_LT(path.value, path_count());
  }
}

TEST_P(PathPolicyContract, SameSeedSamePicks) {
  EXPECT_EQ(random_run(*make(5), path_count(), 2'000), random_run(*make(5), path_count(), 2'000));
}

TEST_P(PathPolicyContract, SeedsGiveDifferentPicks) {
  if (path_count() == 1) return;
  std::set<std::vector<PathId>> runs;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    runs.insert(random_run(*make(seed), path_count(), 100));
  }
  EXPECT_GT(runs.size(), 1U);
}

TEST_P(PathPolicyContract, CoversAllPathsWhenAllIsWell) {
  if (is_single()) return;  // keeps to one path by design
  const auto selector = make();
  std::set<PathId> seen;
  std::deque<PathId> in_flight;
  for (std::uint32_t i = 0; i < path_count() * 32; ++i) {
    in_flight.push_back(pick_one(*selector));
    seen.insert(in_flight.back());
    if (in_flight.size() < 4) continue;
    tell(*selector, feedback_of(in_flight.front().value, PathOutcome::kDelivered, 1,
                                std::chrono::microseconds(10)));
    in_flight.pop_front();
  }
  EXPECT_EQ(seen.size(), path_count());
}

TEST_P(PathPolicyContract, CoversAllPathsAgainAfterTrouble) {
  if (is_single()) return;  // keeps to one path by design
  const auto selector = make();
  random_run(*selector, path_count(), 1'000);
  std::set<PathId> seen;
  // Long: a penalty of 15 is worked off a point at a time, by the few picks that explore.
  for (std::uint32_t i = 0; i < path_count() * 2'000; ++i) {
    const PathId path = pick_one(*selector);
    seen.insert(path);
    tell(*selector,
         feedback_of(path.value, PathOutcome::kDelivered, 1, std::chrono::microseconds(10)));
  }
  EXPECT_EQ(seen.size(), path_count());
}

TEST_P(PathPolicyContract, NoAllocationAfterConstruction) {
  const auto selector = make();
  Rng rng(3);
  std::array<PathId, 8> out{};
  const std::uint64_t before = allocation_count();
  ASSERT_GT(before, 0U) << "nothing is counted";
  for (int i = 0; i < 10'000; ++i) {
    selector->pick(out);
    const PathFeedback feedback = random_feedback(rng, path_count());
    tell(*selector, feedback);
  }
  EXPECT_EQ(allocation_count(), before);
}

TEST_P(PathPolicyContract, StateNamesAreStableAndLowerCase) {
  const auto selector = make();
  FieldCollector first;
  selector->describe(first);
  random_run(*selector, path_count(), 500);
  FieldCollector second;
  selector->describe(second);
  EXPECT_EQ(first.names(), second.names());
  EXPECT_FALSE(first.names().empty());
  for (const std::string& name : first.names()) {
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PathPolicyContract,
                         ::testing::Combine(::testing::ValuesIn(kPolicies),
                                            ::testing::Values(1, 2, 3, 16, 255, 256)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)->name) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

}  // namespace
}  // namespace spindrift::test
