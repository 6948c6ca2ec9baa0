// Endpoints over DPDK allocate nothing while they transfer: neither the engine and the provider
// (operator new) nor DPDK and its drivers (DPDK's heap). Over each memory link, in one process.
#include <string>

#include <gtest/gtest.h>
#include <rte_malloc.h>

#include "tests/paths/allocation_count.h"
#include "tests/providers/dpdk/dpdk_ends.h"

namespace spindrift::testing {
namespace {

constexpr std::size_t kShort = 64;
constexpr std::size_t kLong = 256U << 10U;

unsigned pieces_of_dpdk_heap() {
  rte_malloc_socket_stats stats{};
  EXPECT_EQ(rte_malloc_get_socket_stats(0, &stats), 0);
  return stats.alloc_count;
}

class DpdkSteadyState : public ::testing::TestWithParam<std::string> {};

TEST_P(DpdkSteadyState, TransfersWithoutAllocating) {
  const auto pair = make_dpdk_pair(GetParam());
  DpdkEnds ends(*pair);
  ends.connect();
  ASSERT_FALSE(HasFatalFailure());
  struct Load {
    OpKind kind;
    std::size_t count;
    std::size_t bytes;
  };
  for (const Load& load : {Load{OpKind::kWrite, 400, kLong}, Load{OpKind::kRead, 400, kLong},
                           Load{OpKind::kSend, 20000, kShort}}) {
    ends.run(load.kind, load.count, load.bytes);  // until every queue has grown to what it needs
    const std::uint64_t before = test::allocation_count();
    const unsigned pieces = pieces_of_dpdk_heap();
    ends.run(load.kind, load.count, load.bytes);
    EXPECT_EQ(test::allocation_count(), before) << to_string(load.kind);
    EXPECT_EQ(pieces_of_dpdk_heap(), pieces) << to_string(load.kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, DpdkSteadyState, ::testing::Values("memif", "vhost", "ring"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace spindrift::testing
