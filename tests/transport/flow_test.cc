// Flow: windows, credit, pacing, delivery.
#include "transport/flow.h"

#include <gtest/gtest.h>

namespace spindrift {
namespace {

using namespace std::chrono_literals;

class Fixed final : public CongestionControl {
 public:
  explicit Fixed(const SendLimits& limits) : limits_(limits) {}
  SendLimits initial() const override { return limits_; }
  SendLimits on_ack(const AckEvent& /*event*/) override { return limits_; }
  SendLimits on_loss(const LossEvent& /*event*/) override { return limits_; }
  SendLimits on_signal(Time /*now*/, const Signal& /*signal*/) override { return limits_; }
  void describe(StateWriter& /*out*/) const override {}

 private:
  SendLimits limits_;
};

Flow flow_of(const SendLimits& limits, std::uint64_t receiver_bytes = kNoLimit) {
  return Flow(std::make_unique<Fixed>(limits), 2000, receiver_bytes);
}

TEST(Flow, StaysWithinTheSmallerOfWindowAndReceiverBuffer) {
  Flow flow = flow_of({.window_bytes = 5000}, 3000);
  EXPECT_EQ(flow.window_bytes(), 3000U);
  flow.on_sent(2000, Time{});
  EXPECT_TRUE(flow.has_room(1000));
  EXPECT_FALSE(flow.has_room(1001));
  AckEvent ack{.now = Time(1us), .acked_bytes = 1500};
  flow.on_ack(ack);
  EXPECT_EQ(ack.in_flight_bytes, 500U);
  EXPECT_EQ(flow.delivered(), 1500U);
  LossEvent loss{.lost_bytes = 500};
  flow.on_loss(loss);
  EXPECT_EQ(flow.in_flight(), 0U);
}

TEST(Flow, OnePacketMayAlwaysBeInFlight) {
  Flow flow = flow_of({.window_bytes = 10});
  EXPECT_TRUE(flow.has_room(9000));
  flow.on_sent(9000, Time{});
  EXPECT_FALSE(flow.has_room(1));
}

TEST(Flow, CreditCountsEverythingEverSent) {
  Flow flow = flow_of({.credit_bytes = 2500});
  flow.on_sent(1000, Time{});
  EXPECT_TRUE(flow.has_room(1500));
  EXPECT_FALSE(flow.has_room(1501));
}

// 8 Gb/s: one byte per nanosecond.
TEST(Flow, PacesToTheRateAndCatchesUpAtMostItsBurst) {
  Flow flow = flow_of({.pacing_rate = Rate::bits_per_second(8'000'000'000)});
  const Time start = Time(1s);
  std::uint64_t at_once = 0;
  while (!flow.is_paced_out(start)) {
    flow.on_sent(1000, start);
    at_once += 1000;
  }
  EXPECT_GE(at_once, 20000U);  // 20 us of catching up
  EXPECT_LE(at_once, 22000U);
  std::uint64_t sent = 0;
  for (Time now = start; now < start + 1ms; now += 500ns)
    while (!flow.is_paced_out(now)) {
      flow.on_sent(1000, now);
      sent += 1000;
    }
  EXPECT_NEAR(static_cast<double>(sent), 1e6, 3000);
  EXPECT_GT(flow.next_send_time(), start + 998us);
}

struct Misfit {
  const char* name;
  SendLimits asked;
  SendLimits used;
  bool is_counted = true;
};

TEST(Flow, LimitsThatMakeNoSenseAreCorrectedAndCounted) {
  const FlowInfo flow{.now = Time(1s), .link_rate = Rate::gbps(1), .mtu_bytes = 1500};
  const Time soon = Time(1s) + LimitCheck::kSoonest;
  const Misfit misfits[] = {
      {"fits", {.window_bytes = 1500}, {.window_bytes = 1500}, false},
      {"link rate", {.pacing_rate = Rate::gbps(1)}, {.pacing_rate = Rate::gbps(1)}, false},
      {"window", {.window_bytes = 0}, {.window_bytes = 1500}},
      {"too fast", {.pacing_rate = Rate::gbps(2)}, {.pacing_rate = Rate::gbps(1)}},
      {"too slow",
       {.pacing_rate = Rate::bits_per_second(1)},
       {.pacing_rate = LimitCheck::kSlowest}},
      {"credit", {.credit_bytes = 7}, {}},
      {"past", {.timer = Time(1s)}, {.timer = soon}},
  };
  for (const Misfit& misfit : misfits) {
    SCOPED_TRACE(misfit.name);
    std::uint64_t clamped = 0;
    const Flow checked(std::make_unique<Fixed>(misfit.asked), 2000, kNoLimit,
                       LimitCheck(flow, CcTraits{}, clamped));
    EXPECT_EQ(checked.limits(), misfit.used);
    EXPECT_EQ(clamped, misfit.is_counted ? 1U : 0U);
    EXPECT_EQ(*checked.check().complaint() != '\0', misfit.is_counted);
  }
}

TEST(Flow, AnOverdueTimerMayStandUntilItHasFired) {
  std::uint64_t clamped = 0;
  Flow flow(std::make_unique<Fixed>(SendLimits{.timer = Time(2s)}), 2000, kNoLimit,
            LimitCheck(FlowInfo{.now = Time(1s), .mtu_bytes = 1500}, CcTraits{}, clamped));
  AckEvent ack{.now = Time(3s)};
  flow.on_ack(ack);
  EXPECT_EQ(flow.limits().timer, Time(2s));
  EXPECT_EQ(clamped, 0U);
  flow.on_signal(Time(3s), TimerFired{});
  EXPECT_EQ(flow.limits().timer, Time(3s) + LimitCheck::kSoonest);
  EXPECT_EQ(clamped, 1U);
}

}  // namespace
}  // namespace spindrift
