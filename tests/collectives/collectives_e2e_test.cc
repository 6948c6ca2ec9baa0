// Ranks as threads, each with an endpoint of its own, over UDP on the loopback interface: every
// collective, groups split from groups, and what is left after a rank has gone.
#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "collectives/bootstrap/tcp_store.h"
#include "tests/collectives/call_case.h"
#include "transport/base/rng.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

struct GroupCase {
  std::uint32_t ranks = 2;
  std::string faults{};
  bool is_deterministic = false;
  std::uint32_t ranks_per_host = 0;
  std::string provider = "udp";  // GroupOptions::provider
};

struct Rank {
  Communicator& communicator;
  Store& store;
  const std::vector<std::string>& notes;
};
using Body = std::function<void(Rank)>;

GroupOptions options_of(const GroupCase& group, std::uint32_t rank) {
  GroupOptions options;
  options.provider = group.provider;
  options.open.endpoint.has_guardian = true;
  options.open.faults = group.faults;
  if (!group.faults.empty()) options.open.faults += ",seed=" + std::to_string(rank + 1);
  CommunicatorOptions& own = options.communicator;
  own.rank = rank;
  own.ranks = group.ranks;
  own.slice_bytes = 16384;
  own.setup_timeout = kPatience;
  own.stall_timeout = kPatience;
  own.is_deterministic = group.is_deterministic;
  if (group.ranks_per_host > 0) own.host_id = std::to_string(rank / group.ranks_per_host);
  return options;
}

void run_rank(const GroupCase& group, std::uint32_t rank, const std::string& store_address,
              const Body& body) {
  auto store = TcpStore::connect(store_address, kPatience);
  ASSERT_TRUE(store.ok()) << store.error().message();
  std::vector<std::string> notes;
  GroupOptions options = options_of(group, rank);
  options.communicator.on_note = [&](const std::string& note) { notes.push_back(note); };
  auto opened = open_group(*store.value(), options);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  Communicator& communicator = *opened.value().communicator;
  body({.communicator = communicator, .store = *store.value(), .notes = notes});
  communicator.close();
}

void run_group(const GroupCase& group, const Body& body) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < group.ranks; ++rank)
    threads.emplace_back([&, rank] { run_rank(group, rank, server.value()->address(), body); });
  for (std::thread& thread : threads)
    thread.join();
}

void expect_right(Communicator& communicator, CallCase one) {
  one.ranks = communicator.ranks();
  RankBuffers buffers(one, communicator.rank());
  const Status status = communicator.run(buffers.call());
  communicator.forget_memory();
  ASSERT_TRUE(status.ok()) << one << ": " << status.error().message();
  buffers.expect_right();
}

void expect_all_collectives(Communicator& communicator) {
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::kSendReceive) continue;
    if (collective == Collective::kBarrier) {
      ASSERT_TRUE(communicator.barrier().ok());
      continue;
    }
    for (const std::uint64_t count : {1ULL, 1001ULL, 70001ULL}) {
      for (const bool is_in_place : {false, true}) {
        if (is_in_place && collective == Collective::kAllToAllV) continue;
        expect_right(communicator, {.collective = collective,
                                    .count = count,
                                    .root = communicator.ranks() - 1,
                                    .is_in_place = is_in_place});
      }
    }
  }
}

TEST(CollectivesE2e, EveryCollectiveIsRight) {
  run_group({.ranks = 4}, [](Rank rank) { expect_all_collectives(rank.communicator); });
}

TEST(CollectivesE2e, EveryCollectiveIsRightWhile1PercentOfThePacketsIsLost) {
  run_group({.ranks = 3, .faults = "loss=1%"},
            [](Rank rank) { expect_all_collectives(rank.communicator); });
}

void expect_every_algorithm_is_right(Communicator& communicator, bool is_one_host) {
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (algorithm->collective == Collective::kBarrier) continue;
    // Hierarchies are for several hosts, shared memory for one.
    if (is_one_host ? algorithm->why_not != nullptr : algorithm->is_shared) continue;
    for (const std::uint64_t count : {7ULL, 40001ULL}) {
      expect_right(communicator, {.collective = algorithm->collective,
                                  .count = count,
                                  .algorithm = std::string(algorithm->name)});
    }
  }
}

TEST(CollectivesE2e, EveryAlgorithmIsRightAlsoBetweenHosts) {
  // The second time through memory inside the hosts.
  for (const char* provider : {"udp", "auto"}) {
    run_group({.ranks = 5, .ranks_per_host = 2, .provider = provider},
              [](Rank rank) { expect_every_algorithm_is_right(rank.communicator, false); });
  }
}

TEST(CollectivesE2e, EveryAlgorithmIsRightInsideAHost) {
  run_group({.ranks = 5, .provider = "shm"},
            [](Rank rank) { expect_every_algorithm_is_right(rank.communicator, true); });
}

TEST(CollectivesE2e, SmallCallsInsideAHostGoThroughSharedMemoryInSplitGroupsToo) {
  run_group({.ranks = 4, .ranks_per_host = 2, .provider = "auto"}, [](Rank rank) {
    Communicator& world = rank.communicator;
    EXPECT_NE(world.explain({.count = 2}).value().algorithm, "shared");
    auto near = world.split(static_cast<std::int32_t>(world.rank() / 2), 0);
    ASSERT_TRUE(near.ok()) << near.error().message();
    EXPECT_EQ(near.value()->explain({.count = 2}).value().algorithm, "shared");
    for (int round = 0; round < 20; ++round)
      expect_right(*near.value(), {.count = 11, .seed = static_cast<std::uint64_t>(round)});
    ASSERT_TRUE(world.barrier().ok());
  });
}

// What session_wait.cc does for programs that wait in loops of their own.
TEST(CollectivesE2e, ARankThatSleepsIsWokenByWhatOthersPublish) {
  run_group({.ranks = 3, .provider = "auto"}, [](Rank rank) {
    std::int32_t value = 1;
    std::int32_t sum = 0;
    for (int round = 0; round < 50; ++round) {
      const Result<WorkId> work = rank.communicator.start(
          {.input = &value, .output = &sum, .count = 1, .type = DataType::kInt32});
      ASSERT_TRUE(work.ok()) << work.error().message();
      while (!rank.communicator.is_done(work.value())) {
        ASSERT_TRUE(rank.communicator.progress().ok());
        if (!rank.communicator.is_done(work.value())) rank.communicator.sleep(kPatience);
      }
      ASSERT_EQ(sum, 3);
    }
  });
}

TEST(CollectivesE2e, SeveralCallsAreUnderWayAtOnce) {
  run_group({.ranks = 3, .faults = "loss=1%,reorder=5%"}, [](Rank rank) {
    std::vector<std::unique_ptr<RankBuffers>> buffers;
    std::vector<WorkId> works;
    for (std::uint64_t i = 0; i < 24; ++i) {
      const Collective collective = i % 3 == 0   ? Collective::kAllReduce
                                    : i % 3 == 1 ? Collective::kAllToAll
                                                 : Collective::kBroadcast;
      const CallCase one{.collective = collective,
                         .ranks = rank.communicator.ranks(),
                         .count = i % 4 == 0 ? 50000 : 10 + i,
                         .root = collective == Collective::kBroadcast ? 1U : 0U,
                         .seed = i};
      buffers.push_back(std::make_unique<RankBuffers>(one, rank.communicator.rank()));
      const Result<WorkId> work = rank.communicator.start(buffers.back()->call());
      ASSERT_TRUE(work.ok()) << work.error().message();
      works.push_back(work.value());
    }
    for (std::size_t i = works.size(); i > 0; --i) {
      const Status status = rank.communicator.wait(works[i - 1]);
      ASSERT_TRUE(status.ok()) << status.error().message();
      buffers[i - 1]->expect_right();
    }
    EXPECT_TRUE(rank.communicator.is_done());
  });
}

// Of every collective; now and then by an algorithm that is told.
CallCase random_case(Rng& rng, const Communicator& communicator) {
  const std::span<const Collective> kinds = all_collectives();
  const std::array sizes{std::uint64_t{0}, rng.below(50), 1000 + rng.below(3000), rng.below(90000)};
  CallCase one{.collective = kinds[rng.below(kinds.size())],
               .ranks = communicator.ranks(),
               .count = sizes[rng.below(sizes.size())],
               .root = static_cast<std::uint32_t>(rng.below(communicator.ranks())),
               .is_in_place = rng.below(2) == 0,
               .seed = rng.below(1000)};
  one.is_in_place = one.is_in_place && may_be_in_place(one.collective);
  const auto& all = collective_algorithms();
  const CollectiveAlgorithm& algorithm = *all[rng.below(all.size())];
  if (one.collective == Collective::kBarrier) one.count = 0;
  CollectiveCall call{.collective = one.collective, .count = one.count, .root = one.root};
  call.algorithm = algorithm.name;
  if (algorithm.collective == one.collective && one.collective != Collective::kAllToAllV &&
      communicator.explain(call).ok()) {
    one.algorithm = std::string(algorithm.name);
  }
  return one;
}

// The calls are the same at all ranks; when each starts and waits for them is its own affair.
void run_random_schedule(Communicator& communicator, std::uint64_t seed) {
  Rng calls(seed);
  Rng own(seed * 64 + communicator.rank());
  std::deque<std::pair<std::unique_ptr<RankBuffers>, WorkId>> under_way;
  for (int i = 0; i < 60; ++i) {
    const CallCase one = random_case(calls, communicator);
    auto buffers = std::make_unique<RankBuffers>(one, communicator.rank());
    const Result<WorkId> work = communicator.start(buffers->call());
    ASSERT_TRUE(work.ok()) << one << ": " << work.error().message();
    under_way.emplace_back(std::move(buffers), work.value());
    while (!under_way.empty() && own.below(8) < under_way.size()) {
      const std::size_t which = own.below(under_way.size());
      const Status status = communicator.wait(under_way[which].second);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.error().message();
      under_way[which].first->expect_right();
      if (testing::Test::HasFailure()) return;
      communicator.forget_memory();
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  ASSERT_TRUE(communicator.wait().ok());
  for (auto& [buffers, work] : under_way)
    buffers->expect_right();
  communicator.forget_memory();
}

TEST(CollectivesE2e, RandomSchedulesOfOverlappingCallsAreRight) {
  for (const GroupCase& group : {GroupCase{.ranks = 3, .faults = "loss=1%,reorder=5%"},
                                 GroupCase{.ranks = 4, .provider = "auto"},
                                 GroupCase{.ranks = 4, .ranks_per_host = 2, .provider = "auto"}}) {
    run_group(group, [](Rank rank) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed)
        run_random_schedule(rank.communicator, seed);
    });
  }
}

void expect_split_groups_are_right(const std::string& provider) {
  run_group({.ranks = 5, .provider = provider}, [](Rank rank) {
    Communicator& world = rank.communicator;
    // Odd ranks, backwards, and even ones; rank 4 takes no part in a second split.
    const auto color = static_cast<std::int32_t>(world.rank() % 2);
    auto part = world.split(color, -static_cast<std::int32_t>(world.rank()));
    ASSERT_TRUE(part.ok()) << part.error().message();
    EXPECT_EQ(part.value()->ranks(), color == 1 ? 2U : 3U);
    EXPECT_EQ(part.value()->rank(), (4 - world.rank()) / 2);
    auto few = world.split(world.rank() == 4 ? -1 : 0, 0);
    ASSERT_TRUE(few.ok());
    EXPECT_EQ(few.value() == nullptr, world.rank() == 4);
    auto copy = part.value()->duplicate();
    ASSERT_TRUE(copy.ok());
    for (int round = 0; round < 3; ++round) {
      expect_right(*part.value(), {.count = 30011});
      expect_right(world, {.collective = Collective::kAllGather, .count = 501});
      if (few.value())
        expect_right(*few.value(), {.collective = Collective::kAllToAll, .count = 9});
      expect_right(*copy.value(), {.collective = Collective::kReduceScatter, .count = 77});
    }
    ASSERT_TRUE(world.barrier().ok());
  });
}

TEST(CollectivesE2e, SplitGroupsAndTheirParentShareConnections) {
  expect_split_groups_are_right("udp");
  expect_split_groups_are_right("auto");
}

void expect_survivors_go_on(const std::string& provider) {
  run_group({.ranks = 4, .provider = provider}, [](Rank rank) {
    Communicator& world = rank.communicator;
    std::vector<float> data(1 << 18, 1.0F);
    const CollectiveCall call{.input = data.data(), .output = data.data(), .count = data.size()};
    Status status = world.all_reduce(call);
    if (world.rank() == 2) {
      ASSERT_TRUE(status.ok()) << status.error().message();
      world.abort("told to by the test");
      return;
    }
    // The news may come while the first call still waits for another rank.
    if (status.ok()) status = world.all_reduce(call);
    ASSERT_FALSE(status.ok());
    ASSERT_TRUE(world.failure().has_value());
    EXPECT_EQ(world.failure()->rank, 2U) << status.error().message();
    const std::vector<std::uint32_t> survivors{0, 1, 3};
    auto rest = world.shrink(rank.store, survivors);
    ASSERT_TRUE(rest.ok()) << rest.error().message();
    EXPECT_EQ(rest.value()->ranks(), 3U);
    expect_right(*rest.value(), {.count = 20000});
    ASSERT_TRUE(rest.value()->barrier().ok());
  });
}

TEST(CollectivesE2e, TheSurvivorsOfAnAbortGoOnWithoutIt) {
  expect_survivors_go_on("udp");
  expect_survivors_go_on("auto");
}

TEST(CollectivesE2e, DeterministicSumsHaveTheSameBitsInEveryRun) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 3; ++run) {
    run_group(
        {.ranks = 4, .faults = run == 0 ? "" : "loss=2%,reorder=10%", .is_deterministic = true},
        [&](Rank rank) {
          std::vector<float> data(50000);
          for (std::size_t i = 0; i < data.size(); ++i) {
            data[i] = (rank.communicator.rank() == 1 ? 1e7F : 0.1F) *
                      static_cast<float>(i % 977 + rank.communicator.rank());
          }
          ASSERT_TRUE(
              rank.communicator
                  .all_reduce({.input = data.data(), .output = data.data(), .count = data.size()})
                  .ok());
          const std::lock_guard lock(mutex);
          results.push_back(data);
        });
  }
  for (const std::vector<float>& result : results)
    ASSERT_EQ(result, results.front());
}

}  // namespace
}  // namespace spindrift::collectives
