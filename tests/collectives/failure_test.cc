// What is left of a group when a rank fails, leaves or stays away.
#include <gtest/gtest.h>

#include "tests/collectives/fake_group.h"

namespace spindrift::collectives {
namespace {

TEST(Failure, ADeadRankIsNamedByAllOthersWithItsAddressAndTheCause) {
  FakeGroup group({.ranks = 4, .algorithm = "ring"});
  std::vector<std::vector<float>> data(4, std::vector<float>(50000, 1.0F));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(group[rank]
                    .start({.input = data[rank].data(),
                            .output = data[rank].data(),
                            .count = data[rank].size()})
                    .ok());
  }
  for (int turn = 0; turn < 40; ++turn)
    ASSERT_TRUE(group[static_cast<std::uint32_t>(turn % 4)].progress().ok());
  group.endpoint(1).die("no answer for 5 s");
  std::vector<bool> has_failed(4, false);
  for (int turn = 0; turn < 100000; ++turn) {
    const auto rank = static_cast<std::uint32_t>(turn % 4);
    if (rank != 1 && !group[rank].progress().ok()) has_failed[rank] = true;
  }
  for (const std::uint32_t rank : {0U, 2U, 3U}) {
    ASSERT_TRUE(has_failed[rank]) << rank;
    ASSERT_TRUE(group[rank].failure().has_value());
    EXPECT_EQ(group[rank].failure()->rank, 1U);
    const std::string& message = group[rank].failure()->error.message();
    EXPECT_NE(message.find("rank 1 (fake://1)"), std::string::npos) << message;
    EXPECT_NE(message.find("no answer for 5 s"), std::string::npos) << message;
    EXPECT_TRUE(group[rank].is_done());
    EXPECT_FALSE(group[rank].start({}).ok()) << "an error is final";
  }
}

TEST(Failure, ADeadRankIsNamedByThoseWhoWaitForItsMemory) {
  // Rank 1 takes no turn after the first and is dead when the others need it.
  FakeGroup group({.ranks = 4, .algorithm = "shared", .shares_memory = true});
  std::vector<std::vector<float>> data(4, std::vector<float>(200000, 1.0F));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const CollectiveCall call{
        .input = data[rank].data(), .output = data[rank].data(), .count = data[rank].size()};
    ASSERT_TRUE(group[rank].start(call).ok());
  }
  for (int turn = 0; turn < 4000; ++turn) {
    const auto rank = static_cast<std::uint32_t>(turn % 4);
    ASSERT_TRUE(rank == 1 || group[rank].progress().ok());
  }
  EXPECT_FALSE(group[0].is_done());
  group.endpoint(1).die("no answer for 5 s");
  for (const std::uint32_t rank : {0U, 2U, 3U}) {
    Status status = ok_status();
    for (int turn = 0; turn < 10000 && status.ok(); ++turn)
      status = group[rank].progress();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(group[rank].failure()->rank, 1U) << status.error().message();
    EXPECT_NE(status.error().message().find("rank 1 (fake://1)"), std::string::npos)
        << status.error().message();
  }
}

TEST(Failure, AnAbortIsHeardByTheOthers) {
  FakeGroup group({.ranks = 3, .algorithm = "ring"});
  std::vector<float> data(3, 1.0F);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(group[rank].start({.input = &data[rank], .output = &data[rank], .count = 1}).ok());
  ASSERT_TRUE(group.run().ok());
  for (const std::uint32_t rank : {0U, 1U})
    ASSERT_TRUE(group[rank].start({.input = &data[rank], .output = &data[rank], .count = 1}).ok());
  group[2].abort("out of memory");
  EXPECT_TRUE(group[2].failure().has_value());
  for (const std::uint32_t rank : {0U, 1U}) {
    Status status = ok_status();
    for (int turn = 0; turn < 10000 && status.ok(); ++turn)
      status = group[rank].progress();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(group[rank].failure()->rank, 2U);
    EXPECT_NE(status.error().message().find("out of memory"), std::string::npos)
        << status.error().message();
  }
}

void expect_missing_rank_is_named(bool shares_memory, const char* words) {
  FakeGroup group({.ranks = 3, .shares_memory = shares_memory});
  float value = 1;
  ASSERT_TRUE(group[0].start({.input = &value, .output = &value, .count = 1}).ok());
  Status status = ok_status();
  for (int turn = 0; turn < 10'000'000 && status.ok(); ++turn) {
    status = group[0].progress();
    (void)group[1].progress();
    (void)group[2].progress();
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kTimedOut);
  EXPECT_NE(status.error().message().find(words), std::string::npos) << status.error().message();
}

TEST(Failure, SaysWhomItWaitsForWhenNothingMoves) {
  expect_missing_rank_is_named(false, "receiving from rank 1 (fake://1)");
  expect_missing_rank_is_named(true, "waiting in shared memory for rank 1 (fake://1)");
}

}  // namespace
}  // namespace spindrift::collectives
