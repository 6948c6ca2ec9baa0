// The credit pacer alone: turns, pace, spare credit.
#include "transport/credit_pacer.h"

#include <map>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kGrant = 16'384;

class Pacer : public ::testing::Test {
 protected:
  Pacer() { pacer_.set_link_rate(Rate::gbps(8)); }  // a byte per nanosecond, less 1 %

  void open(std::uint32_t source, std::uint64_t spare = 0) {
    pacer_.open(source, {.grant_bytes = kGrant, .spare_bytes = spare});
  }
  void run_to(Time end) {
    for (; now_ <= end; now_ += 1us)
      pacer_.run(now_, [this](std::uint32_t source) { turns_.push_back(source); });
  }
  double kib(std::uint32_t source) const {
    return static_cast<double>(pacer_.granted_bytes(source)) / 1024;
  }

  CreditPacer pacer_{8};
  std::vector<std::uint32_t> turns_;
  Time now_ = Time(1s);
};

TEST_F(Pacer, GrantsTheFirstAtOnceAndTheRestAtTheLinksPace) {
  open(3);
  pacer_.want(3, 1'000'000'000);
  EXPECT_LE(pacer_.next(), now_);
  run_to(now_);
  EXPECT_EQ(pacer_.granted_bytes(3), kGrant);
  EXPECT_NEAR(static_cast<double>((pacer_.next() - Time(1s)).count()), kGrant / 0.99, 200);
  run_to(Time(1s) + 10ms);
  EXPECT_NEAR(static_cast<double>(pacer_.granted_bytes(3)), 9.9e6, 2 * kGrant);
}

TEST_F(Pacer, TakesTurns) {
  for (const std::uint32_t source : {1, 4, 6}) {
    open(source);
    pacer_.want(source, 3 * kGrant);
  }
  run_to(now_ + 10ms);
  EXPECT_EQ(turns_, (std::vector<std::uint32_t>{1, 4, 6, 1, 4, 6, 1, 4, 6}));
  EXPECT_EQ(pacer_.next(), kNever);
}

TEST_F(Pacer, GrantsNoMoreThanIsWanted) {
  open(0);
  pacer_.want(0, kGrant + 256);
  run_to(now_ + 10ms);
  EXPECT_EQ(pacer_.granted_bytes(0), kGrant + 256);
  pacer_.want(0, 100);  // an older wish
  run_to(now_ + 10ms);
  EXPECT_EQ(pacer_.granted_bytes(0), kGrant + 256);
}

TEST_F(Pacer, SpareCreditComesLastAndOnlyToThoseWhoOnceAsked) {
  for (const std::uint32_t source : {0, 1, 2})
    open(source, 2 * kGrant);
  pacer_.want(0, kGrant);
  pacer_.want(1, 4 * kGrant);
  run_to(now_ + 10ms);
  EXPECT_EQ(pacer_.granted_bytes(0), 3 * kGrant);
  EXPECT_EQ(pacer_.granted_bytes(1), 6 * kGrant);
  EXPECT_EQ(pacer_.granted_bytes(2), 0U);
  EXPECT_EQ(turns_, (std::vector<std::uint32_t>{0, 1, 1, 1, 1, 0, 1, 0, 1}));
}

TEST_F(Pacer, WhoHasSpareCreditIsServedWhenItWantsMore) {
  open(0, 100 * kGrant);
  open(1, 0);
  pacer_.want(0, kGrant);
  run_to(now_ + 40us);
  pacer_.want(1, 2 * kGrant);
  pacer_.want(0, 200 * kGrant);
  turns_.clear();
  run_to(now_ + 80us);
  EXPECT_EQ(turns_, (std::vector<std::uint32_t>{1, 0, 1, 0, 0}));
}

TEST_F(Pacer, AfterIdlenessThereIsNothingToCatchUp) {
  open(0);
  pacer_.want(0, kGrant);
  run_to(now_ + 1ms);
  pacer_.want(0, 100 * kGrant);
  turns_.clear();
  run_to(now_);
  EXPECT_EQ(turns_.size(), 1U);
}

TEST_F(Pacer, AHeldUpThreadCatchesUp50MicrosecondsAtMost) {
  open(0);
  pacer_.want(0, 1'000 * kGrant);
  run_to(now_);
  turns_.clear();
  now_ += 10ms;
  run_to(now_);
  EXPECT_EQ(turns_.size(), 4U);  // 50 us of 16.5 us each, and the one that is due now
}

TEST_F(Pacer, AClosedSourceGetsNothingAndAReopenedOneBeginsAnew) {
  open(0);
  open(1);
  pacer_.want(0, 10 * kGrant);
  pacer_.want(1, 2 * kGrant);
  run_to(now_);
  pacer_.close(0);
  run_to(now_ + 1ms);
  EXPECT_EQ(pacer_.granted_bytes(0), kGrant);
  EXPECT_EQ(pacer_.granted_bytes(1), 2 * kGrant);
  open(0);
  EXPECT_EQ(pacer_.granted_bytes(0), 0U);
  pacer_.want(0, kGrant);
  run_to(now_ + 1ms);
  EXPECT_EQ(pacer_.granted_bytes(0), kGrant);
}

}  // namespace
}  // namespace spindrift
