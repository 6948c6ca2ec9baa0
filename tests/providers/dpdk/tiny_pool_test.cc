// Endpoints over devices whose pools hold few packets, fewer than their rings and than a window:
// the transfers slow down, never stop and lose no packet of the pools for good.
#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_mempool.h>

#include "tests/providers/dpdk/dpdk_ends.h"

namespace spindrift::testing {
namespace {

constexpr std::uint32_t kFewPackets = 32;
constexpr std::size_t kLong = 256U << 10U;
constexpr std::size_t kShort = 64;

class Counters final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, std::uint64_t> values;
};

std::uint64_t counter(const Endpoint& endpoint, const std::string& name) {
  Counters all;
  endpoint.counters(all);
  EXPECT_TRUE(all.values.contains(name)) << name;
  return all.values[name];
}

// Packets that are in no pool: with a driver, an endpoint, or lost.
std::size_t packets_outside() {
  std::size_t count = 0;
  rte_mempool_walk(
      [](rte_mempool* pool, void* sum) {
        if (std::string_view(pool->name).starts_with("spindrift_pool_"))
          *static_cast<std::size_t*>(sum) += rte_mempool_in_use_count(pool);
      },
      &count);
  return count;
}

class DpdkTinyPool : public ::testing::TestWithParam<std::string> {
 protected:
  // What is sent is right, and what came back out of the pools is all that was there.
  static void transfer(DpdkPair& pair) {
    DpdkEnds ends(pair);
    ends.connect();
    ASSERT_FALSE(HasFatalFailure());
    for (std::size_t i = 0; i < DpdkEnds::kMemoryBytes; ++i)
      ends.memory(0)[i] = static_cast<std::byte>(i * 7 + (i >> 8U));
    ends.run(OpKind::kWrite, 200, kLong);
    EXPECT_TRUE(std::ranges::equal(ends.memory(0), ends.memory(1)));
    ends.run(OpKind::kRead, 200, kLong);
    EXPECT_TRUE(std::ranges::equal(ends.memory(0), ends.memory(1)));
    ends.run(OpKind::kSend, 5000, kShort);
    EXPECT_GT(counter(ends.endpoint(0), "tx_no_mbuf"), 0U);
  }
};

TEST_P(DpdkTinyPool, SlowsTransfersDownAndNeitherStopsNorLeaks) {
  const std::string reason = reason_to_skip_dpdk_pair(GetParam());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto pair = make_dpdk_pair(GetParam(), {.mbufs = kFewPackets});
  transfer(*pair);
  const std::size_t outside = packets_outside();
  for (int round = 0; round < 3; ++round) {
    transfer(*pair);
    EXPECT_LE(packets_outside(), outside) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, DpdkTinyPool, ::testing::Values("memif", "af_packet"),
                         [](const auto& one) { return one.param; });

// A ring that is never full receives nothing, without a word.
TEST(DpdkTinyPoolOfRing, IsRefused) {
  const auto pair = make_dpdk_pair("vhost");
  DeviceOptions options = pair->options(1);
  options.device = "net_virtio_user7";
  options.mbufs = kFewPackets;
  const auto io = open_dpdk({&options, 1});
  ASSERT_FALSE(io.ok());
  EXPECT_THAT(io.error().message(), ::testing::HasSubstr("mbufs=32 is too few"));
}

}  // namespace
}  // namespace spindrift::testing
