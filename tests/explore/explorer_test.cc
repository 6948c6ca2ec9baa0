// Every scenario explored as far as a few seconds go. Farther: spindrift_explore.
#include "tests/explore/explorer.h"

#include <gtest/gtest.h>

namespace spindrift::test {
namespace {

constexpr std::uint64_t kReplays = 12000;  // of each scenario

class EveryScenario : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryScenario, IsNeverStuckAndLosesAndRepeatsNoCompletion) {
  const Exploration found = explore(*find_scenario(GetParam()), kReplays);
  EXPECT_EQ(found.failure, "") << "spindrift_explore --scenario " << GetParam() << " --actions '"
                               << to_string(found.actions) << "'";
  EXPECT_GT(found.states, 100U);
  RecordProperty("states", static_cast<int>(found.states));
  RecordProperty("depth", static_cast<int>(found.depth));
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> out;
  for (const Scenario& scenario : all_scenarios())
    out.push_back(scenario.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Explorer, EveryScenario, testing::ValuesIn(names()),
                         [](const auto& one) { return std::string(one.param); });

TEST(Explorer, FindsALostCompletionAndTheActionsThatRepeatIt) {
  Scenario scenario = *find_scenario("send_receive");
  scenario.config.loses_a_completion = true;
  const Exploration found = explore(scenario, kReplays);
  ASSERT_NE(found.failure, "");
  EXPECT_EQ(replay(scenario, found.actions), found.failure);
  std::vector<Action> parsed;
  ASSERT_TRUE(parse_actions(to_string(found.actions), parsed));
  EXPECT_EQ(parsed, found.actions);
}

TEST(Explorer, KnowsNoOtherActions) {
  std::vector<Action> parsed;
  EXPECT_FALSE(parse_actions("deliver-A0 deliver-A9", parsed));
  EXPECT_FALSE(parse_actions("hope", parsed));
}

}  // namespace
}  // namespace spindrift::test
