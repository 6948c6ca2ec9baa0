// Ranks as threads, each with an endpoint of its own, over UDP on the loopback interface.
#include <functional>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "spindrift/collective.h"
#include "spindrift/open.h"

#include "collectives/bootstrap/socket.h"
#include "collectives/bootstrap/tcp_store.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

struct Group {
  std::uint32_t ranks = 2;
  std::string faults;
  std::uint32_t slice_bytes = 16384;
  Duration stall_timeout = kPatience;
};

CommunicatorOptions options_for(const Group& group, std::uint32_t rank) {
  CommunicatorOptions options;
  options.rank = rank;
  options.ranks = group.ranks;
  options.slice_bytes = group.slice_bytes;
  options.setup_timeout = kPatience;
  options.stall_timeout = group.stall_timeout;
  options.spin = Duration::zero();
  return options;
}

using Body = std::function<void(Communicator&)>;

void run_rank(const Group& group, std::uint32_t rank, const std::string& store_address,
              const Body& body) {
  auto store = TcpStore::connect(store_address, kPatience);
  ASSERT_TRUE(store.ok()) << store.error().message();
  OpenOptions open;
  open.faults = group.faults;
  if (!open.faults.empty()) open.faults += ",seed=" + std::to_string(rank + 1);
  auto endpoint = open_endpoint("udp://", open);
  ASSERT_TRUE(endpoint.ok()) << endpoint.error().message();
  auto communicator =
      Communicator::create(*endpoint.value(), *store.value(), options_for(group, rank));
  ASSERT_TRUE(communicator.ok()) << communicator.error().message();
  body(*communicator.value());
  communicator.value()->close();
}

void run_group(const Group& group, const Body& body) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < group.ranks; ++rank) {
    threads.emplace_back([&, rank] { run_rank(group, rank, server.value()->address(), body); });
  }
  for (std::thread& thread : threads)
    thread.join();
}

float value_of(std::uint32_t rank, std::uint64_t i) {
  return static_cast<float>(static_cast<int>((i * 7 + rank * 13 + i / 97) % 31) - 15);
}

void expect_all_reduce(Communicator& communicator, std::uint64_t count, bool is_in_place) {
  std::vector<float> input(count);
  for (std::uint64_t i = 0; i < count; ++i)
    input[i] = value_of(communicator.rank(), i);
  std::vector<float> apart(is_in_place ? 0 : count, std::numeric_limits<float>::quiet_NaN());
  std::vector<float>& output = is_in_place ? input : apart;
  const Status status =
      communicator.all_reduce({.input = input.data(), .output = output.data(), .count = count});
  communicator.forget_memory();
  ASSERT_TRUE(status.ok()) << status.error().message();
  for (std::uint64_t i = 0; i < count; ++i) {
    float expected = 0;
    for (std::uint32_t rank = 0; rank < communicator.ranks(); ++rank)
      expected += value_of(rank, i);
    ASSERT_EQ(output[i], expected)
        << "rank " << communicator.rank() << " element " << i << " of " << count;
  }
}

void expect_all_counts(Communicator& communicator) {
  for (const std::uint64_t count : {0ULL, 1ULL, 33ULL, 1000ULL, 65537ULL, 300007ULL}) {
    for (const bool is_in_place : {false, true}) {
      expect_all_reduce(communicator, count, is_in_place);
    }
  }
}

class AllReduceOverUdp : public testing::TestWithParam<std::uint32_t> {};

TEST_P(AllReduceOverUdp, SumsEveryCountInAndOutOfPlace) {
  run_group({.ranks = GetParam(), .faults = {}}, expect_all_counts);
}

TEST_P(AllReduceOverUdp, SumsAreRightWhile5PercentOfThePacketsAreLost) {
  run_group({.ranks = GetParam(), .faults = "loss=5%"}, expect_all_counts);
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduceOverUdp, testing::Values(1U, 2U, 3U, 4U, 5U),
                         testing::PrintToStringParamName());

TEST(AllReduceE2e, SumsAreRightUnderLossDuplicationAndReordering) {
  run_group({.ranks = 3, .faults = "loss=2%,duplicate=2%,reorder=5%"}, expect_all_counts);
}

TEST(AllReduceE2e, ProgressWithoutWaitingFinishesToo) {
  run_group({.ranks = 2, .faults = {}}, [](Communicator& communicator) {
    std::vector<float> data(100000, 1.0F);
    ASSERT_TRUE(
        communicator.start({.input = data.data(), .output = data.data(), .count = data.size()})
            .ok());
    while (!communicator.is_done())
      ASSERT_TRUE(communicator.progress().ok());
    EXPECT_EQ(data, std::vector<float>(data.size(), 2.0F));
  });
}

TEST(AllReduceE2e, RefusesWhatItCannotDoAndGoesOn) {
  run_group({.ranks = 2, .faults = {}}, [](Communicator& communicator) {
    std::vector<float> data(100, 1.0F);
    const auto code = [&](const CollectiveCall& work) {
      return communicator.start(work).error().code();
    };
    EXPECT_EQ(code({.input = data.data(), .output = data.data() + 1, .count = 50}),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code({.input = nullptr, .output = data.data(), .count = 50}),
              ErrorCode::kInvalidArgument);
    expect_all_reduce(communicator, 1000, true);
  });
}

TEST(AllReduceE2e, ARankThatLeavesMidwayIsNamedByItsNeighbours) {
  run_group({.ranks = 3, .faults = {}}, [](Communicator& communicator) {
    std::vector<float> data(1 << 20, 1.0F);
    const CollectiveCall work{.input = data.data(), .output = data.data(), .count = data.size()};
    ASSERT_TRUE(communicator.all_reduce(work).ok());
    if (communicator.rank() == 1) return;
    const Status status = communicator.all_reduce(work);
    ASSERT_FALSE(status.ok());
    const std::string& message = status.error().message();
    EXPECT_NE(message.find("rank " + std::to_string(communicator.rank())), std::string::npos)
        << message;
    EXPECT_NE(message.find("udp://127.0.0.1:"), std::string::npos) << message;
  });
}

TEST(AllReduceE2e, ARankThatStaysAwayIsReportedWithinTheTimeout) {
  run_group({.ranks = 2, .faults = {}, .stall_timeout = std::chrono::milliseconds(300)},
            [](Communicator& communicator) {
              std::vector<float> data(1000, 1.0F);
              if (communicator.rank() == 1) {
                // Alive, but in no collective, until the other one has gone.
                const auto deadline = monotonic_now() + std::chrono::seconds(1);
                while (monotonic_now() < deadline)
                  (void)communicator.progress();
                return;
              }
              const Status status = communicator.all_reduce(
                  {.input = data.data(), .output = data.data(), .count = data.size()});
              ASSERT_FALSE(status.ok());
              EXPECT_EQ(status.error().code(), ErrorCode::kTimedOut);
              EXPECT_NE(status.error().message().find("receiving from rank 1"), std::string::npos)
                  << status.error().message();
            });
}

TEST(CommunicatorSetUp, NamesTheMissingRankWithinItsTimeout) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  auto store = TcpStore::connect(server.value()->address(), kPatience);
  auto endpoint = open_endpoint("udp://");
  CommunicatorOptions options = options_for({.ranks = 2, .faults = {}}, 0);
  options.setup_timeout = std::chrono::milliseconds(200);
  const auto communicator = Communicator::create(*endpoint.value(), *store.value(), options);
  ASSERT_FALSE(communicator.ok());
  EXPECT_NE(communicator.error().message().find("rank 1 of 2"), std::string::npos)
      << communicator.error().message();
}

TEST(CommunicatorSetUp, RefusesOptionsOutOfBoundsWithTheBound) {
  const auto server = TcpStoreServer::start("127.0.0.1:0");
  auto store = TcpStore::connect(server.value()->address(), kPatience);
  auto endpoint = open_endpoint("udp://");
  const auto message = [&](const CommunicatorOptions& options) {
    const auto made = Communicator::create(*endpoint.value(), *store.value(), options);
    return made.ok() ? std::string("accepted") : made.error().message();
  };
  CommunicatorOptions options = options_for({.ranks = 2, .faults = {}}, 2);
  EXPECT_NE(message(options).find("0 to 1"), std::string::npos);
  options = options_for({.ranks = 65, .faults = {}}, 0);
  EXPECT_NE(message(options).find("1 to 64"), std::string::npos);
  options = options_for({.ranks = 2, .faults = {}, .slice_bytes = 1000}, 0);
  EXPECT_NE(message(options).find("128"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::collectives
