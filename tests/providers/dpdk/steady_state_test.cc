// Endpoints over DPDK allocate nothing while they transfer: neither the engine and the provider
// (operator new) nor DPDK and its drivers (DPDK's heap). Over each memory link, in one process.
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rte_malloc.h>

#include "spindrift/endpoint.h"
#include "spindrift/open.h"

#include "providers/dpdk/dpdk_io.h"
#include "tests/paths/allocation_count.h"
#include "tests/providers/dpdk/dpdk_pair.h"

namespace spindrift::testing {
namespace {

constexpr std::size_t kMemoryBytes = 4U << 20U;
constexpr std::size_t kAhead = 16;  // requests under way
constexpr std::size_t kShort = 64;
constexpr std::size_t kLong = 256U << 10U;

struct End {
  std::unique_ptr<Endpoint> endpoint;
  std::vector<std::byte> memory = std::vector<std::byte>(kMemoryBytes);
  MemoryRegion region{};
  ConnId conn{};
  std::size_t done = 0;

  void turn() {
    std::array<Completion, 64> completions{};
    const std::size_t count = endpoint->poll(completions);
    for (const Completion& one : std::span(completions).first(count))
      EXPECT_EQ(one.status, OpStatus::kOk);
    done += count;
  }
};

class DpdkSteadyState : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    pair_ = make_dpdk_pair(GetParam());
    for (const std::size_t host : {0U, 1U}) {
      const DeviceOptions options = pair_->options(host);
      auto io = std::move(open_dpdk({&options, 1})).value();
      ASSERT_TRUE(io->add_rail(dpdk_address(4, host, 0)).ok());
      auto made = Endpoint::create(std::move(io), {}, builtin_registry());
      ASSERT_TRUE(made.ok()) << made.error().message();
      ends_.at(host).endpoint = std::move(made).value();
      ends_.at(host).region =
          ends_.at(host).endpoint->register_memory(ends_.at(host).memory, kAllAccess).value();
    }
    pair_->connect();
    connect();
  }

  void connect() {
    Endpoint& near = *ends_[0].endpoint;
    Endpoint& far = *ends_[1].endpoint;
    ASSERT_TRUE(far.listen("dpdk://10.77.0.2:4793").ok());
    ends_[0].conn = near.connect("dpdk://10.77.0.2:4793").value();
    bool is_open = false;
    for (int turns = 0; turns < 10'000'000 && !is_open; ++turns) {
      near.progress();
      far.progress();
      ConnEvent event;
      if (far.take_event(ConnEvent::Kind::kRequest, event)) {
        ends_[1].conn = event.conn;
        ASSERT_TRUE(far.accept(event.conn).ok());
      }
      is_open = near.take_event(ConnEvent::Kind::kEstablished, event);
    }
    ASSERT_TRUE(is_open);
  }

  Sge piece(const End& end, std::size_t number, std::size_t bytes) {
    return sge_of(end.region, number % kAhead * bytes, static_cast<std::uint32_t>(bytes));
  }
  bool post(End& end, OpKind kind, std::size_t number, std::size_t bytes) {
    const Sge local = piece(end, number, bytes);
    const WorkRequest work{.conn = end.conn,
                           .kind = kind,
                           .local = {&local, 1},
                           .remote_key = ends_[1].region.remote.key};
    return end.endpoint->post({&work, 1}).accepted == 1;
  }
  void run(OpKind kind, std::size_t count, std::size_t bytes) {
    End& near = ends_[0];
    End& far = ends_[1];
    near.done = far.done = 0;
    std::size_t posted = 0;
    std::size_t receives = 0;
    const bool needs_receives = kind == OpKind::kSend;
    for (int turns = 0; turns < 50'000'000; ++turns) {
      const std::size_t arrived = needs_receives ? far.done : near.done;
      if (near.done == count && arrived == count) break;
      while (needs_receives && receives < count && receives < far.done + 2 * kAhead &&
             post(far, OpKind::kReceive, receives, bytes))
        ++receives;
      const bool has_receive = !needs_receives || posted < receives;
      if (posted < count && posted < arrived + kAhead && has_receive)
        posted += post(near, kind, posted, bytes) ? 1 : 0;
      near.turn();
      far.turn();
    }
    EXPECT_EQ(near.done, count);
  }

  std::unique_ptr<DpdkPair> pair_;
  std::array<End, 2> ends_;
};

unsigned pieces_of_dpdk_heap() {
  rte_malloc_socket_stats stats{};
  EXPECT_EQ(rte_malloc_get_socket_stats(0, &stats), 0);
  return stats.alloc_count;
}

TEST_P(DpdkSteadyState, TransfersWithoutAllocating) {
  struct Load {
    OpKind kind;
    std::size_t count;
    std::size_t bytes;
  };
  for (const Load& load : {Load{OpKind::kWrite, 400, kLong}, Load{OpKind::kRead, 400, kLong},
                           Load{OpKind::kSend, 20000, kShort}}) {
    run(load.kind, load.count, load.bytes);  // until every queue has grown to what it needs
    const std::uint64_t before = test::allocation_count();
    const unsigned pieces = pieces_of_dpdk_heap();
    run(load.kind, load.count, load.bytes);
    EXPECT_EQ(test::allocation_count(), before) << to_string(load.kind);
    EXPECT_EQ(pieces_of_dpdk_heap(), pieces) << to_string(load.kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, DpdkSteadyState, ::testing::Values("memif", "vhost", "ring"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace spindrift::testing
