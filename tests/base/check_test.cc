#include "transport/base/check.h"

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(CheckDeathTest, EndsTheProcessAndNamesTheClaim) {
  const int packets = 3;
  EXPECT_DEATH(SPINDRIFT_CHECK(packets == 4), "check_test.cc:.*packets == 4");
}

TEST(Check, LetsATrueClaimPass) {
  int evaluations = 0;
  SPINDRIFT_CHECK(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(Check, IsOneStatement) {
  bool is_else_reached = false;
  if (false)
    SPINDRIFT_CHECK(false);
  else
    is_else_reached = true;
  EXPECT_TRUE(is_else_reached);
}

}  // namespace
}  // namespace spindrift
