// Calls through memory that the ranks of a host share: slots, rounds, results, and when they are
// used.
#include <gtest/gtest.h>

#include "collectives/shared_area.h"
#include "collectives/shared_run.h"
#include "tests/collectives/call_case.h"
#include "tests/collectives/fake_group.h"

namespace spindrift::collectives {
namespace {

class TwoAreas {
 public:
  TwoAreas() {
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      memory_.push_back(FakeSegments::make());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<std::span<const std::byte>> members;
      for (std::vector<std::byte>& one : memory_)
        members.push_back(FakeSegments::aligned(one));
      areas_.push_back(
          std::make_unique<SharedArea>(rank, members, FakeSegments::aligned(memory_[rank])));
    }
  }
  SharedArea& operator[](std::uint32_t rank) { return *areas_[rank]; }

 private:
  FakeMemory memory_;
  std::vector<std::unique_ptr<SharedArea>> areas_;
};

TEST(SharedArea, ASlotIsWrittenAgainOnlyWhenTheOtherIsThroughWithIt) {
  TwoAreas areas;
  for (std::uint32_t round = 0; round < SharedArea::kSlots; ++round) {
    ASSERT_TRUE(areas[0].may_write()) << round;
    areas[0].publish(5);
    areas[0].finish_round();
  }
  EXPECT_FALSE(areas[0].may_write());
  areas[1].publish(5);
  areas[1].finish_round();
  EXPECT_FALSE(areas[0].may_write()) << "the other may still read the slot of round 0";
  areas[1].publish(5);
  EXPECT_TRUE(areas[0].may_write());
}

TEST(SharedArea, ARoundIsThereWhenItIsPublishedAndNotBefore) {
  TwoAreas areas;
  for (const std::size_t bytes : {std::size_t{8}, SharedArea::kSlotBytes}) {
    areas[0].own_payload(bytes)[bytes - 1] = std::byte{7};
    EXPECT_EQ(areas[1].look(0, 5), SharedArea::Found::kNotYet);
    areas[0].publish(5);
    EXPECT_EQ(areas[1].look(0, 5), SharedArea::Found::kHere);
    EXPECT_EQ(areas[1].look(0, 6), SharedArea::Found::kOtherCall);
    EXPECT_EQ(areas[1].payload(0, bytes)[bytes - 1], std::byte{7});
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      areas[rank].finish_round();
  }
}

TEST(SharedArea, SaysWhoSleeps) {
  TwoAreas areas;
  EXPECT_FALSE(areas[1].is_asleep(0));
  areas[0].set_asleep(true);
  EXPECT_TRUE(areas[1].is_asleep(0));
  EXPECT_FALSE(areas[0].is_asleep(1));
  areas[0].set_asleep(false);
  EXPECT_FALSE(areas[1].is_asleep(0));
}

void expect_right(FakeGroup& group, const CallCase& one) {
  std::vector<std::unique_ptr<RankBuffers>> buffers;
  for (std::uint32_t rank = 0; rank < one.ranks; ++rank)
    buffers.push_back(std::make_unique<RankBuffers>(one, rank));
  for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
    const Result<WorkId> started = group[rank].start(buffers[rank]->call());
    ASSERT_TRUE(started.ok()) << one << ": " << started.error().message();
  }
  const Status status = group.run();
  ASSERT_TRUE(status.ok()) << one << ": " << status.error().message();
  for (const std::unique_ptr<RankBuffers>& own : buffers)
    own->expect_right();
}

TEST(Shared, ReducesEveryTypeByEveryOperation) {
  for (std::uint32_t ranks = 2; ranks <= 9; ++ranks) {
    FakeGroup group({.ranks = ranks, .shares_memory = true});
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (!algorithm->is_shared || !reduces(algorithm->collective)) continue;
      for (const DataType type : kAllTypes) {
        for (const ReduceOp op : kAllOps) {
          for (const std::uint64_t count : {1ULL, 77ULL, 2111ULL}) {
            expect_right(group, {.collective = algorithm->collective,
                                 .ranks = ranks,
                                 .count = count,
                                 .type = type,
                                 .op = op,
                                 .root = has_root(algorithm->collective) ? ranks / 2 : 0,
                                 .is_in_place = count == 77,
                                 .algorithm = std::string(algorithm->name)});
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Shared, MovesMoreThanASlotHolds) {
  for (const std::uint32_t ranks : {2U, 3U, 5U, 9U}) {
    FakeGroup group({.ranks = ranks, .shares_memory = true});
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (!algorithm->is_shared || algorithm->collective == Collective::kBarrier) continue;
      for (const std::uint64_t count : {16384ULL, 16385ULL, 200003ULL}) {
        for (const bool is_in_place : {false, true}) {
          expect_right(group, {.collective = algorithm->collective,
                               .ranks = ranks,
                               .count = count,
                               .root = has_root(algorithm->collective) ? ranks - 1 : 0,
                               .is_in_place = is_in_place,
                               .algorithm = std::string(algorithm->name)});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

struct Hosts {
  std::uint32_t ranks;
  std::uint32_t per_host;
};

TEST(Shared, HierarchicalCallsSendNoMessagesInsideHosts) {
  for (const Hosts hosts : {Hosts{3, 2}, Hosts{4, 2}, Hosts{5, 3}, Hosts{7, 3}, Hosts{9, 4}}) {
    FakeGroup group(
        {.ranks = hosts.ranks, .ranks_per_host = hosts.per_host, .shares_memory = true});
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (!algorithm->is_hierarchical) continue;
      const bool is_barrier = algorithm->collective == Collective::kBarrier;
      for (const std::uint64_t count : {0ULL, 1ULL, 77ULL, 2111ULL, 17001ULL}) {
        for (const std::uint32_t root : {0U, hosts.ranks / 2, hosts.ranks - 1}) {
          expect_right(group, {.collective = algorithm->collective,
                               .ranks = hosts.ranks,
                               .count = is_barrier ? 0 : count,
                               .op = count == 77 ? ReduceOp::kAverage : ReduceOp::kSum,
                               .root = has_root(algorithm->collective) ? root : 0,
                               .is_in_place = root == 0,
                               .algorithm = std::string(algorithm->name)});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    EXPECT_EQ(group.posted_near(), 0U) << hosts.ranks << " ranks, " << hosts.per_host << " each";
  }
}

TEST(Shared, LongHierarchicalCallsGoByMessages) {
  FakeGroup group({.ranks = 4, .ranks_per_host = 2, .shares_memory = true});
  expect_right(group, {.ranks = 4, .count = 300'000, .algorithm = "hierarchical"});
  EXPECT_GT(group.posted_near(), 0U);
}

TEST(Shared, ABarrierOfSeveralHostsHoldsUntilAllAreThere) {
  for (std::uint32_t late = 0; late < 4; ++late) {
    FakeGroup group({.ranks = 4,
                     .algorithm = "barrier:hierarchical",
                     .ranks_per_host = 2,
                     .shares_memory = true});
    std::vector<std::uint32_t> early{0, 1, 2, 3};
    early.erase(early.begin() + late);
    for (const std::uint32_t rank : early)
      ASSERT_TRUE(group[rank].start({.collective = Collective::kBarrier}).ok());
    for (std::uint32_t turn = 0; turn < 2000; ++turn)
      ASSERT_TRUE(group[turn % 4].progress().ok());
    for (const std::uint32_t rank : early)
      EXPECT_FALSE(group[rank].is_done()) << rank << " without " << late;
    ASSERT_TRUE(group[late].start({.collective = Collective::kBarrier}).ok());
    EXPECT_TRUE(group.run().ok());
  }
}

TEST(Shared, ARootThatRunsAheadWaitsForTheSlots) {
  FakeGroup group({.ranks = 3, .algorithm = "broadcast:shared", .shares_memory = true});
  constexpr std::uint32_t kCalls = 50;
  std::vector<std::int32_t> sent(kCalls);
  std::vector<std::vector<std::int32_t>> got(3, std::vector<std::int32_t>(kCalls, -1));
  const auto start = [&](std::uint32_t rank, std::uint32_t i) {
    sent[i] = static_cast<std::int32_t>(i);
    const CollectiveCall call{.collective = Collective::kBroadcast,
                              .input = rank == 0 ? &sent[i] : nullptr,
                              .output = &got[rank][i],
                              .count = 1,
                              .type = DataType::kInt32};
    return group[rank].start(call).ok();
  };
  for (std::uint32_t i = 0; i < kCalls; ++i)
    ASSERT_TRUE(start(0, i));
  for (int turn = 0; turn < 100; ++turn)
    ASSERT_TRUE(group[0].progress().ok());
  EXPECT_FALSE(group[0].is_done());
  for (std::uint32_t i = 0; i < kCalls; ++i)
    ASSERT_TRUE(start(1, i) && start(2, i));
  ASSERT_TRUE(group.run().ok());
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(got[rank], sent) << rank;
}

TEST(Shared, TellsARankThatMakesACallOfMessagesInstead) {
  // The one waits for memory, the other for a message; only what the first says of itself helps.
  FakeGroup group({.ranks = 2, .shares_memory = true});
  std::vector<float> data(2, 1.0F);
  CollectiveCall call{.collective = Collective::kBroadcast, .output = data.data(), .count = 1};
  call.root = 1;
  call.algorithm = "direct";
  ASSERT_TRUE(group[0].start(call).ok());
  const CollectiveCall sum{.input = &data[1], .output = &data[1], .count = 1};
  ASSERT_TRUE(group[1].start(sum).ok());
  Status status = ok_status();
  for (int turn = 0; turn < 20'000'000 && status.ok(); ++turn)
    status = group[static_cast<std::uint32_t>(turn % 2)].progress();
  ASSERT_FALSE(status.ok());
}

AlgorithmChoice::Candidate candidate(const AlgorithmChoice& choice, const std::string& name) {
  for (const AlgorithmChoice::Candidate& one : choice.candidates)
    if (one.name == name) return one;
  return {};
}

TEST(Shared, IsChosenForSmallCallsOfRanksThatAllShareMemory) {
  FakeGroup sharing({.ranks = 3, .shares_memory = true});
  EXPECT_EQ(sharing[0].explain({.count = 2}).value().algorithm, "shared");
  const AlgorithmChoice longer = sharing[0].explain({.count = 1U << 24}).value();
  EXPECT_NE(longer.algorithm.substr(0, 6), "shared");
  EXPECT_NE(candidate(longer, "shared").excluded.find("1048576 bytes"), std::string::npos);
  FakeGroup apart({.ranks = 2});
  EXPECT_EQ(candidate(apart[0].explain({.count = 2}).value(), "shared").excluded,
            "ranks 0 and 1 are on different hosts");
  FakeGroup near({.ranks = 2, .ranks_per_host = 2});
  EXPECT_EQ(candidate(near[0].explain({.count = 2}).value(), "shared").excluded,
            "rank 0 shares no memory with the others of its host");
  CollectiveCall call{.count = 0};
  call.algorithm = "shared";
  EXPECT_EQ(near[0].start(call).error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace spindrift::collectives
