#include "collectives/communicator.h"

#include <gtest/gtest.h>

#include "collectives/call.h"
#include "collectives/group_communicator.h"
#include "collectives/links.h"
#include "collectives/run.h"
#include "collectives/session.h"
#include "tests/collectives/call_case.h"
#include "tests/collectives/fake_group.h"

namespace spindrift::collectives {
namespace {

#ifdef __SANITIZE_THREAD__  // there is one thread only, and every access costs ten times as much
constexpr std::uint32_t kLargestGroup = 16;
constexpr std::uint32_t kMostRanks = 4;
constexpr std::uint64_t kLateSeeds = 3;
constexpr std::uint64_t kOverlapSeeds = 5;
#else
constexpr std::uint32_t kLargestGroup = kMaxRanks;
constexpr std::uint32_t kMostRanks = 9;
constexpr std::uint64_t kLateSeeds = 12;
constexpr std::uint64_t kOverlapSeeds = 60;
#endif

// One call after the other on one group.
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
  for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
    buffers[rank]->expect_right();
    group[rank].forget_memory();
    if (testing::Test::HasFailure()) return;
  }
}

class EveryAlgorithmRuns : public testing::TestWithParam<const CollectiveAlgorithm*> {};

TEST_P(EveryAlgorithmRuns, ForEveryCountAndGroupInAndOutOfPlace) {
  const CollectiveAlgorithm& algorithm = *GetParam();
  if (algorithm.collective == Collective::kBarrier || algorithm.why_not != nullptr) return;
  for (std::uint32_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    FakeGroup group({.ranks = ranks, .seed = ranks, .shares_memory = algorithm.is_shared});
    for (const std::uint64_t count : {0ULL, 1ULL, 2ULL, 31ULL, 33ULL, 1025ULL, 5003ULL}) {
      for (const bool is_in_place : {false, true}) {
        if (is_in_place && algorithm.collective == Collective::kAllToAllV) continue;
        const std::uint32_t root = has_root(algorithm.collective) ? (ranks - 1) / 2 : 0;
        expect_right(group, {.collective = algorithm.collective,
                             .ranks = ranks,
                             .count = count,
                             .root = root,
                             .is_in_place = is_in_place,
                             .algorithm = std::string(algorithm.name)});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(EveryAlgorithmRuns, WhateverIsLateAndWhateverQueueIsFull) {
  const CollectiveAlgorithm& algorithm = *GetParam();
  if (algorithm.collective == Collective::kBarrier || algorithm.why_not != nullptr) return;
  for (std::uint64_t seed = 1; seed <= kLateSeeds; ++seed) {
    const auto ranks = static_cast<std::uint32_t>(2 + seed % 6);
    FakeGroup group(
        {.ranks = ranks, .seed = seed, .full_percent = 60, .shares_memory = algorithm.is_shared});
    group.world().move_percent = static_cast<std::uint32_t>(5 + seed * 7);
    const bool is_in_place = seed % 2 == 0 && algorithm.collective != Collective::kAllToAllV;
    expect_right(group, {.collective = algorithm.collective,
                         .ranks = ranks,
                         .count = 9001,
                         .root = has_root(algorithm.collective) ? ranks - 1 : 0,
                         .is_in_place = is_in_place,
                         .algorithm = std::string(algorithm.name)});
    if (HasFailure()) return;
  }
}

std::string name_of(const testing::TestParamInfo<const CollectiveAlgorithm*>& info) {
  return std::string(to_string(info.param->collective)) + "_" + std::string(info.param->name);
}
INSTANTIATE_TEST_SUITE_P(Plans, EveryAlgorithmRuns,
                         testing::ValuesIn(collective_algorithms().begin(),
                                           collective_algorithms().end()),
                         name_of);

void expect_every_operation_right(FakeGroup& group, CallCase wanted) {
  for (const DataType type : kAllTypes)
    for (const ReduceOp op : kAllOps) {
      wanted.type = type;
      wanted.op = op;
      for (wanted.count = 77; wanted.count < 3000; wanted.count += 2034)
        expect_right(group, wanted);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(Communicator, ReducesEveryTypeByEveryOperation) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 7U, 9U}) {
    FakeGroup group({.ranks = ranks});
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
      expect_every_operation_right(group, {.collective = collective, .ranks = ranks});
  }
}

TEST(Communicator, MovesEveryTypeByEveryCollective) {
  FakeGroup group({.ranks = 5});
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kBarrier || collective == Collective::kSendReceive) continue;
    for (const DataType type : kAllTypes)
      expect_right(group, {.collective = collective, .ranks = 5, .count = 801, .type = type});
  }
}

TEST(Communicator, RunsTheLargestGroup) {
  FakeGroup group({.ranks = kLargestGroup});
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kBarrier || collective == Collective::kSendReceive) continue;
    expect_right(group, {.collective = collective, .ranks = kLargestGroup, .count = 301});
  }
  for (const char* algorithm : {"ring", "mesh", "tree", "halving_doubling"})
    expect_right(group, {.ranks = kLargestGroup, .count = 40001, .algorithm = algorithm});
}

void expect_hierarchical_right(FakeGroup& group, std::uint64_t count) {
  for (const bool is_in_place : {false, true})
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast})
      expect_right(group, {.collective = collective,
                           .ranks = 6,
                           .count = count,
                           .is_in_place = is_in_place,
                           .algorithm = "hierarchical"});
}

TEST(Communicator, RanksOfOneHostTalkOverAnEndpointOfTheirOwn) {
  for (const std::uint32_t ranks_per_host : {1U, 2U, 3U, 6U}) {
    FakeGroup group({.ranks = 6, .ranks_per_host = ranks_per_host});
    for (const std::uint64_t count : {3ULL, 7001ULL}) {
      for (const Collective collective : all_collectives()) {
        if (collective == Collective::kBarrier || collective == Collective::kSendReceive) continue;
        expect_right(group, {.collective = collective, .ranks = 6, .count = count});
      }
      if (ranks_per_host != 1 && ranks_per_host != 6) expect_hierarchical_right(group, count);
    }
    EXPECT_EQ(group.endpoint(0).posted > 0, ranks_per_host < 6) << ranks_per_host << " per host";
  }
}

void expect_barrier_holds(bool shares_memory) {
  FakeGroup group({.ranks = 4, .shares_memory = shares_memory});
  for (const std::uint32_t rank : {0U, 1U, 3U})
    ASSERT_TRUE(group[rank].start({.collective = Collective::kBarrier}).ok());
  for (std::uint32_t turn = 0; turn < 2000; ++turn)
    ASSERT_TRUE(group[turn % 4].progress().ok());
  for (const std::uint32_t rank : {0U, 1U, 3U})
    EXPECT_FALSE(group[rank].is_done());
  ASSERT_TRUE(group[2].start({.collective = Collective::kBarrier}).ok());
  EXPECT_TRUE(group.run().ok());
}

TEST(Communicator, ABarrierHoldsUntilAllAreThere) {
  expect_barrier_holds(false);
  expect_barrier_holds(true);
}

TEST(Communicator, GroupsOfMessagesMatchInOrderAndReachTheOwnRank) {
  FakeGroup group({.ranks = 3});
  // Each rank sends a short and a long message to every rank, itself too.
  constexpr std::uint64_t kLong = 4000;
  std::vector<std::vector<float>> sent(3);
  std::vector<std::vector<float>> got(3, std::vector<float>(3 * (kLong + 1)));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint64_t i = 0; i < kLong + 1; ++i)
      sent[rank].push_back(static_cast<float>(rank * 10000 + i));
    std::vector<Transfer> transfers;
    for (std::uint32_t peer = 0; peer < 3; ++peer) {
      float* const place = got[rank].data() + std::uint64_t{peer} * (kLong + 1);
      transfers.push_back({.peer = peer, .is_send = true, .data = sent[rank].data(), .count = 1});
      transfers.push_back(
          {.peer = peer, .is_send = true, .data = sent[rank].data() + 1, .count = kLong});
      transfers.push_back({.peer = peer, .data = place, .count = 1});
      transfers.push_back({.peer = peer, .data = place + 1, .count = kLong});
    }
    CollectiveCall call{.collective = Collective::kSendReceive};
    call.transfers = transfers;
    ASSERT_TRUE(group[rank].start(call).ok());
  }
  ASSERT_TRUE(group.run().ok());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t peer = 0; peer < 3; ++peer) {
      for (std::uint64_t i = 0; i < kLong + 1; ++i)
        ASSERT_EQ(got[rank][peer * (kLong + 1) + i], sent[peer][i]);
    }
  }
}

TEST(Communicator, AllToAllVMovesADifferentLengthBetweenEachPair) {
  constexpr std::uint32_t kRanks = 5;
  FakeGroup group({.ranks = kRanks});
  const auto length = [](std::uint32_t from, std::uint32_t to) {
    return std::uint64_t{from} * 700 * to + (from == to ? 3 : 0);
  };
  struct Tables {
    std::vector<std::uint64_t> input_counts, input_offsets, output_counts, output_offsets;
    std::vector<std::int32_t> input, output;
  };
  std::vector<Tables> tables(kRanks);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    Tables& own = tables[rank];
    for (std::uint32_t peer = 0; peer < kRanks; ++peer) {
      own.input_counts.push_back(length(rank, peer));
      own.input_offsets.push_back(own.input.size());
      for (std::uint64_t i = 0; i < length(rank, peer); ++i)
        own.input.push_back(static_cast<std::int32_t>(rank * 1000000 + peer * 100000 + i));
      own.output_counts.push_back(length(peer, rank));
      own.output_offsets.push_back(own.output.size());
      own.output.resize(own.output.size() + length(peer, rank) + 1, -1);  // a gap between blocks
    }
    CollectiveCall call{.collective = Collective::kAllToAllV,
                        .input = own.input.data(),
                        .output = own.output.data(),
                        .type = DataType::kInt32};
    call.input_counts = own.input_counts;
    call.input_offsets = own.input_offsets;
    call.output_counts = own.output_counts;
    call.output_offsets = own.output_offsets;
    ASSERT_TRUE(group[rank].start(call).ok());
  }
  const Status status = group.run();
  ASSERT_TRUE(status.ok()) << status.error().message();
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::uint32_t peer = 0; peer < kRanks; ++peer) {
      const std::int32_t* const block =
          tables[rank].output.data() + tables[rank].output_offsets[peer];
      for (std::uint64_t i = 0; i < length(peer, rank); ++i)
        ASSERT_EQ(block[i], static_cast<std::int32_t>(peer * 1000000 + rank * 100000 + i));
      ASSERT_EQ(block[length(peer, rank)], -1) << "wrote into the gap";
    }
  }
}

// By any algorithm that does for a group with so many ranks on each host (0: all on one).
CallCase random_case(Rng& rng, std::uint32_t ranks, std::uint32_t ranks_per_host) {
  PlanRequest request{.ranks = ranks};
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    request.topology.hosts.push_back(ranks_per_host == 0 ? 0 : rank / ranks_per_host);
  CallCase one{.ranks = ranks, .root = static_cast<std::uint32_t>(rng.below(ranks))};
  const auto& all = collective_algorithms();
  const std::uint64_t which = rng.below(all.size() + 1);
  one.collective = which == all.size() ? Collective::kSendReceive : all[which]->collective;
  if (which < all.size()) {
    const CollectiveAlgorithm& algorithm = *all[which];
    const bool is_wrong_place = ranks_per_host > 0 && algorithm.is_shared;
    const bool does = algorithm.why_not == nullptr || algorithm.why_not(request).empty();
    if (does && !is_wrong_place) one.algorithm = std::string(algorithm.name);
  }
  if (one.collective != Collective::kBarrier)
    one.count = rng.below(3) == 0 ? 2000 + rng.below(5000) : rng.below(400);
  one.is_in_place = rng.below(2) == 0 && may_be_in_place(one.collective);
  return one;
}

// Several calls of all kinds under way at once, started by each rank whenever it likes.
TEST(Communicator, CallsOverlapInAnyWayAndMatchByOrder) {
  for (std::uint64_t seed = 1; seed <= kOverlapSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 977);
    const auto ranks = static_cast<std::uint32_t>(2 + rng.below(6));
    const auto ranks_per_host = static_cast<std::uint32_t>(seed % 2 == 0 ? 0 : 1 + rng.below(3));
    FakeGroup group({.ranks = ranks,
                     .seed = seed,
                     .full_percent = seed % 3 == 0 ? 40U : 0U,
                     .ranks_per_host = ranks_per_host,
                     .shares_memory = true});
    std::vector<CallCase> cases;
    for (std::uint64_t i = 0; i < 30; ++i) {
      cases.push_back(random_case(rng, ranks, ranks_per_host));
      cases.back().seed = seed * 100 + i;
    }
    std::vector<std::vector<std::unique_ptr<RankBuffers>>> buffers(ranks);
    std::vector<std::size_t> started(ranks, 0);
    for (std::uint64_t left = ranks * cases.size(); left > 0;) {
      const auto rank = static_cast<std::uint32_t>(rng.below(ranks));
      if (started[rank] < cases.size() && rng.below(4) == 0) {
        buffers[rank].push_back(std::make_unique<RankBuffers>(cases[started[rank]++], rank));
        const Result<WorkId> work = group[rank].start(buffers[rank].back()->call());
        ASSERT_TRUE(work.ok()) << work.error().message();
        --left;
      }
      const Status status = group[rank].progress();
      ASSERT_TRUE(status.ok()) << status.error().message();
    }
    const Status status = group.run();
    ASSERT_TRUE(status.ok()) << status.error().message();
    for (const auto& own : buffers) {
      for (const std::unique_ptr<RankBuffers>& one : own)
        one->expect_right();
    }
    if (HasFailure()) return;
  }
}

TEST(Communicator, ARankThatRunsFarAheadIsMadeToWaitAndNothingIsLost) {
  FakeGroup group({.ranks = 2});
  constexpr int kCalls = 6000;
  std::int32_t value = 0;
  std::vector<std::int32_t> got(kCalls, -1);
  for (std::int32_t i = 0; i < kCalls; ++i) {
    value = i;
    const CollectiveCall call{.collective = Collective::kBroadcast,
                              .input = &value,
                              .output = &value,
                              .count = 1,
                              .type = DataType::kInt32};
    Result<WorkId> work = group[0].start(call);
    for (int turn = 0; turn < 50 && !group[0].is_done(); ++turn) {
      ASSERT_TRUE(group[0].progress().ok());
      ASSERT_TRUE(group[1].progress().ok());
    }
    ASSERT_TRUE(work.ok()) << work.error().message();
    if (!group[0].is_done()) break;  // made to wait
  }
  for (std::int32_t i = 0; i < kCalls; ++i) {
    const CollectiveCall call{.collective = Collective::kBroadcast,
                              .output = &got[static_cast<std::size_t>(i)],
                              .count = 1,
                              .type = DataType::kInt32};
    if (i > value) break;
    ASSERT_TRUE(group[1].start(call).ok());
    ASSERT_TRUE(group.run().ok());
    ASSERT_EQ(got[static_cast<std::size_t>(i)], i);
  }
}

TEST(Communicator, ASplitOfOneRankIsAGroupOfItsOwnOrNone) {
  FakeGroup alone({.ranks = 1});
  auto child = alone[0].split(3, 0);
  ASSERT_TRUE(child.ok());
  ASSERT_NE(child.value(), nullptr);
  EXPECT_EQ(child.value()->ranks(), 1U);
  float value = 5;
  float sum = 0;
  ASSERT_TRUE(child.value()->all_reduce({.input = &value, .output = &sum, .count = 1}).ok());
  EXPECT_EQ(sum, 5);
  auto nobody = alone[0].split(-1, 0);
  ASSERT_TRUE(nobody.ok());
  EXPECT_EQ(nobody.value(), nullptr);
}

void expect_another_call_is_named(bool shares_memory) {
  FakeGroup group({.ranks = 2, .shares_memory = shares_memory});
  float value = 1;
  const CollectiveCall sum{.input = &value, .output = &value, .count = 1};
  CollectiveCall longer = sum;
  longer.count = 0;
  longer.collective = Collective::kAllReduce;
  longer.op = ReduceOp::kMax;
  float other = 1;
  longer.input = longer.output = &other;
  longer.count = 1;
  ASSERT_TRUE(group[0].start(sum).ok());
  ASSERT_TRUE(group[1].start(longer).ok());
  const Status status = group.run();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("another call"), std::string::npos)
      << status.error().message();
}

TEST(Communicator, NamesTheRankThatMakesAnotherCall) {
  expect_another_call_is_named(false);
  expect_another_call_is_named(true);
}

TEST(Communicator, RefusesWhatItCannotDoAndGoesOn) {
  FakeGroup group({.ranks = 2});
  std::vector<float> data(100, 1.0F);
  const auto code = [&](const CollectiveCall& call) { return group[0].start(call).error().code(); };
  EXPECT_EQ(code({.input = data.data(), .output = data.data() + 1, .count = 50}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.input = nullptr, .output = data.data(), .count = 50}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.collective = Collective::kBroadcast, .output = data.data(), .root = 2}),
            ErrorCode::kInvalidArgument);
  CollectiveCall call{.input = data.data(), .output = data.data(), .count = 1};
  call.algorithm = "rign";
  EXPECT_EQ(code(call), ErrorCode::kInvalidArgument);
  expect_right(group, {.count = 100});
}

TEST(Communicator, RefusesMoreCallsThanMayBeUnderWay) {
  FakeGroup group({.ranks = 2});
  std::vector<float> data(Communicator::kMaxInFlight + 1, 1.0F);
  for (std::uint32_t i = 0; i < Communicator::kMaxInFlight; ++i) {
    ASSERT_TRUE(group[0].start({.input = &data[i], .output = &data[i], .count = 1}).ok());
  }
  float& last = data.back();
  EXPECT_EQ(group[0].start({.input = &last, .output = &last, .count = 1}).error().code(),
            ErrorCode::kUnavailable);
}

TEST(Communicator, DeterministicResultsAreTheSameByEveryAlgorithmThatIsAllowed) {
  // Not exact: 1e8 swallows small addends, so the order shows.
  const auto value = [](std::uint32_t rank, std::size_t i) {
    return rank % 3 == 1 ? 1e8F + static_cast<float>(i) : 0.3F * static_cast<float>(rank + i);
  };
  constexpr std::uint32_t kRanks = 6;
  constexpr std::size_t kCount = 3000;
  std::vector<float> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = value(0, i);
    for (std::uint32_t rank = 1; rank < kRanks; ++rank)
      expected[i] += value(rank, i);
  }
  FakeGroup group({.ranks = kRanks, .is_deterministic = true, .shares_memory = true});
  for (const char* algorithm : {"", "direct", "mesh", "shared", "shared_mesh"}) {
    std::vector<std::vector<float>> data(kRanks, std::vector<float>(kCount));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < kCount; ++i)
        data[rank][i] = value(rank, i);
      CollectiveCall call{.input = data[rank].data(), .output = data[rank].data(), .count = kCount};
      call.algorithm = algorithm;
      ASSERT_TRUE(group[rank].start(call).ok());
    }
    ASSERT_TRUE(group.run().ok());
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ(data[rank], expected) << algorithm;
  }
  CollectiveCall call{.count = 0};
  call.algorithm = "ring";
  EXPECT_EQ(group[0].start(call).error().code(), ErrorCode::kUnsupported);
}

TEST(Communicator, ExplainsWhatItChoosesAndWhatItLeavesOut) {
  FakeGroup group({.ranks = 8, .algorithm = "broadcast:tree"});
  CollectiveCall call{.count = 2};
  const AlgorithmChoice tiny = group[0].explain(call).value();
  EXPECT_EQ(tiny.algorithm, "direct");
  EXPECT_GE(tiny.candidates.size(), 5U);
  EXPECT_NE(tiny.reason.find("cost model"), std::string::npos);
  call.count = 1U << 24;
  EXPECT_NE(group[0].explain(call).value().algorithm, "direct");
  call.collective = Collective::kBroadcast;
  const AlgorithmChoice forced = group[0].explain(call).value();
  EXPECT_EQ(forced.algorithm, "tree");
  EXPECT_NE(forced.reason.find("asked"), std::string::npos);
}

TEST(Communicator, ExplainsMessagesByTheirBytes) {
  FakeGroup group({.ranks = 3});
  CollectiveCall call{.collective = Collective::kSendReceive, .type = DataType::kFloat32};
  std::vector<float> data(30000);
  const std::vector<Transfer> transfers{
      {.peer = 1, .is_send = true, .data = data.data(), .count = 10000},
      {.peer = 2, .is_send = true, .data = data.data(), .count = 5},
      {.peer = 1, .is_send = false, .data = data.data() + 20000, .count = 10}};
  call.transfers = transfers;
  const AlgorithmChoice choice = group[0].explain(call).value();
  EXPECT_EQ(choice.algorithm, "direct");
  ASSERT_EQ(choice.candidates.size(), 1U);
  EXPECT_EQ(choice.candidates[0].bytes, 40020);
  EXPECT_GT(choice.candidates[0].predicted_us, 0);
}

TEST(Communicator, TimesBeyondReasonAreRefusedBeforeAnybodyIsTold) {
  class NoStore final : public Store {
    Status set(std::string_view, std::string_view) override { return refuse(); }
    Result<std::string> get(std::string_view, Duration) override { return refuse(); }
    Result<std::int64_t> add(std::string_view, std::int64_t) override { return refuse(); }
    static Error refuse() { return {ErrorCode::kIo, "somebody asked the store"}; }
  } store;
  FakeWorld world(1);
  FakeEndpoint endpoint(world, "fake://0");
  const auto refusal = [&](auto member, Duration value) {
    CommunicatorOptions options{.ranks = 2};
    options.*member = value;
    return Communicator::create(endpoint, store, options).error().message();
  };
  using C = CommunicatorOptions;
  for (const Duration wrong : {Duration::max(), Duration::min(), Duration(-1)}) {
    EXPECT_NE(refusal(&C::stall_timeout, wrong).find("stall_timeout is"), std::string::npos);
    EXPECT_NE(refusal(&C::setup_timeout, wrong).find("setup_timeout is"), std::string::npos);
    EXPECT_NE(refusal(&C::spin, wrong).find("spin is"), std::string::npos);
    EXPECT_NE(refusal(&C::yield, wrong).find("yield is"), std::string::npos);
  }
  EXPECT_NE(refusal(&C::stall_timeout, Duration::zero()).find("1 ms"), std::string::npos);
  EXPECT_EQ(refusal(&C::stall_timeout, std::chrono::hours(24)), "somebody asked the store");
}

}  // namespace
}  // namespace spindrift::collectives
