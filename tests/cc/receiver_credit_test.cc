// Receiver credit, alone and with NSCC: what the sender makes of grants.
//
// 100 Gb/s, 12 us, 4160-byte packets: BDP 150000, window and speculative window 225000.
#include "tests/cc/algorithms_under_test.h"

namespace spindrift::test {
namespace {

class Credit : public ::testing::TestWithParam<const CcInfo*> {
 protected:
  Credit() : cc_(make_default(*GetParam(), reference_flow())) {}

  SendLimits ack(std::uint64_t bytes, std::uint64_t in_flight) {
    return cc_->on_ack({.acked_bytes = bytes, .in_flight_bytes = in_flight});
  }
  SendLimits grant(std::uint64_t total) {
    return cc_->on_signal(Time{}, CreditGranted{.credit_bytes = total});
  }

  std::unique_ptr<CongestionControl> cc_;
};

TEST_P(Credit, StartsWithAWindowOnSpeculation) {
  EXPECT_EQ(cc_->initial(), (SendLimits{.window_bytes = 225'000, .credit_bytes = 225'000}));
}

TEST_P(Credit, TheFirstNewsForfeitsWhatIsLeftOfIt) {
  EXPECT_EQ(ack(4'160, 40'000).credit_bytes, 44'160U);
  EXPECT_EQ(ack(40'000, 0).credit_bytes, 44'160U);
}

TEST_P(Credit, ALossIsNewsToo) {
  EXPECT_EQ(cc_->on_loss({.lost_bytes = 8'320, .in_flight_bytes = 10'000, .lost_packets = 2})
                .credit_bytes,
            18'320U);
}

TEST_P(Credit, GrantsAddToWhatWasSpentOnSpeculation) {
  (void)ack(4'160, 100'000);
  EXPECT_EQ(grant(16'384).credit_bytes, 104'160U + 16'384);
  EXPECT_EQ(grant(32'768).credit_bytes, 104'160U + 32'768);
}

TEST_P(Credit, AnOlderGrantTakesNothingBack) {
  (void)ack(4'160, 100'000);
  (void)grant(32'768);
  EXPECT_EQ(grant(16'384).credit_bytes, 104'160U + 32'768);
}

TEST_P(Credit, AGrantBeforeTheFirstNewsCountsFromThen) {
  EXPECT_EQ(grant(16'384).credit_bytes, 225'000U);
  EXPECT_EQ(ack(4'160, 10'000).credit_bytes, 14'160U + 16'384);
}

INSTANTIATE_TEST_SUITE_P(Both, Credit, ::testing::Values(&kReceiverCredit, &kNsccReceiverCredit),
                         test_name);

TEST(ReceiverCredit, MarksAndLossesLeaveItsWindowAlone) {
  const auto cc = make_default(kReceiverCredit, reference_flow());
  EXPECT_EQ(
      cc->on_ack({.rtt = microseconds(500), .acked_bytes = 4'160, .is_marked = true}).window_bytes,
      225'000U);
  EXPECT_EQ(cc->on_loss({.lost_bytes = 100'000, .lost_packets = 1}).window_bytes, 225'000U);
}

TEST(ReceiverCredit, FollowsThePath) {
  const auto cc = make_default(kReceiverCredit, reference_flow());
  const PathChanged path{.base_rtt = microseconds(6), .link_rate = Rate::gbps(100)};
  EXPECT_EQ(cc->on_signal(Time{}, path).window_bytes, 112'500U);
}

TEST(NsccReceiverCredit, TheWindowIsThatOfNscc) {
  const auto both = make_default(kNsccReceiverCredit, reference_flow());
  const auto nscc = make_default(kNscc, reference_flow());
  for (int i = 1; i <= 100; ++i) {
    const AckEvent event{.now = Time(microseconds(i)),
                         .rtt = microseconds(12 + i % 60),
                         .acked_bytes = 4'160,
                         .received_bytes = 4'160,
                         .in_flight_bytes = 100'000,
                         .is_marked = i % 3 == 0};
    ASSERT_EQ(both->on_ack(event).window_bytes, nscc->on_ack(event).window_bytes) << i;
  }
}

TEST(NsccReceiverCredit, TrimsAtTheLastHopDoNotTouchTheWindow) {
  const auto cc = make_default(kNsccReceiverCredit, reference_flow());
  const LossEvent last_hop{
      .lost_bytes = 4'160, .lost_packets = 1, .cause = LossCause::kTrimmedLastHop};
  EXPECT_EQ(cc->on_loss(last_hop).window_bytes, 225'000U);
  const LossEvent before{.lost_bytes = 4'160, .lost_packets = 1, .cause = LossCause::kTrimmed};
  EXPECT_EQ(cc->on_loss(before).window_bytes, 220'840U);
}

TEST(NsccReceiverCredit, HasTheParametersOfBoth) {
  ASSERT_EQ(kNsccReceiverCredit.parameters.size(), kNscc.parameters.size() + 1);
  for (std::size_t i = 0; i < kNscc.parameters.size(); ++i)
    EXPECT_EQ(kNsccReceiverCredit.parameters[i].name, kNscc.parameters[i].name);
  EXPECT_EQ(kNsccReceiverCredit.parameters.back().name, "speculative_bdp");
}

}  // namespace
}  // namespace spindrift::test
