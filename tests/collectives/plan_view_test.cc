#include "tools/coll/plan_view.h"

#include <gtest/gtest.h>

#include "tools/coll/tuning.h"

namespace spindrift::coll {
namespace {

std::vector<Plan> ring_of_three() {
  const CollectiveAlgorithm& ring =
      *find_collective_algorithm(Collective::kAllReduce, "ring").value();
  std::vector<Plan> plans;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    plans.push_back(build_plan(ring, {.rank = rank, .ranks = 3}).value());
  return plans;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(PlanText, HasALineForEachStepWithWhatItWaitsFor) {
  const std::string text = plan_text(ring_of_three(), {});
  EXPECT_EQ(count_of(text, "send "), 3U * 4);
  EXPECT_NE(text.find("rank 1\n  lane 0, to rank 2\n     0  send input[1]\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("output[2] = input[2] + what comes, final"), std::string::npos) << text;
  EXPECT_NE(text.find("   after 1.0"), std::string::npos) << text;
}

TEST(PlanText, SaysWhichHostARankIsOn) {
  EXPECT_NE(plan_text(ring_of_three(), {.hosts = {0, 1, 1}}).find("rank 2 (host 1)"),
            std::string::npos);
}

TEST(PlanSvg, DrawsAnArrowForEachMessageAndNamesRanksAndSteps) {
  const std::string svg = plan_svg(ring_of_three(), {}, "a ring <of> three");
  EXPECT_NE(svg.find("a ring &lt;of&gt; three"), std::string::npos);
  // Three strokes for each of twelve messages, and a line for each rank.
  EXPECT_EQ(count_of(svg, "stroke="), 3U * 12 + 3) << svg;
  EXPECT_NE(svg.find("step 4"), std::string::npos);
  EXPECT_NE(svg.find("rank 2"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::coll
