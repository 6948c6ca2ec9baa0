// The window that never moves.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

TEST(FixedWindow, DerivesTwoBdp) {
  // 2 x 100 Gb/s x 24 us = 600000, above 64 packets of 4160
  FlowInfo flow = reference_flow();
  flow.base_rtt = microseconds(24);
  EXPECT_EQ(make_default(kFixedWindow, flow)->initial(), (SendLimits{.window_bytes = 600'000}));
}

TEST(FixedWindow, DerivesAtLeast64Packets) {
  FlowInfo flow = reference_flow();
  flow.base_rtt = microseconds(1);
  EXPECT_EQ(make_default(kFixedWindow, flow)->initial().window_bytes, 64U * 4160);
}

TEST(FixedWindow, TakesTheChosenWindowWithinBounds) {
  const FlowInfo flow = reference_flow();
  const auto window_for = [&flow](double chosen) {
    return kFixedWindow.make(flow, {&chosen, 1})->initial().window_bytes;
  };
  EXPECT_EQ(window_for(100'000), 100'000U);
  EXPECT_EQ(window_for(1), 4'160U);
  EXPECT_EQ(window_for(1e12), 8'000'000U);
}

TEST(FixedWindow, IgnoresMarksAndLossesButNotANewPath) {
  Driver driver(kFixedWindow, reference_flow());
  const SendLimits before = driver.limits();
  driver.run_rtt({.delay = microseconds(100), .is_marked = true, .lost_share = 0.5});
  EXPECT_EQ(driver.limits(), before);
  const auto cc = make_default(kFixedWindow, reference_flow());
  const PathChanged longer{.base_rtt = microseconds(48), .link_rate = Rate::gbps(100)};
  EXPECT_EQ(cc->on_signal(Time{}, longer).window_bytes, 1'200'000U);
}

}  // namespace
}  // namespace spindrift::test
