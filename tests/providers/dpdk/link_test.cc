// A device whose link goes down and comes back, and one that is reset: over net_ring, which sends
// to itself, has a link that can be set, and needs nothing.
#include <array>

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include "providers/dpdk/dpdk_io.h"
#include "providers/dpdk/pools.h"
#include "providers/dpdk/port_device.h"
#include "tests/providers/dpdk/dpdk_pair.h"

// What drivers call; DPDK installs no header that declares them.
extern "C" {
struct rte_eth_dev;
rte_eth_dev* rte_eth_dev_allocated(const char* name);
int rte_eth_dev_callback_process(rte_eth_dev* device, rte_eth_event_type event, void* more);
}

namespace spindrift::testing {
namespace {

DeviceOptions ring_device(const char* name) {
  DeviceOptions options;
  options.device = name;
  options.ring = 64;
  options.mbufs = 256;
  options.nets.push_back({dpdk_address(4, 0, 0), 24});
  return options;
}

// What the device says within a while; it is asked every few milliseconds.
std::vector<IoError> said(PacketIo& io) {
  std::array<RxPacket, 8> packets{};
  std::array<IoError, 8> errors{};
  for (int tries = 0; tries < 1000; ++tries) {
    io.release(std::span(packets).first(io.receive(packets)));
    const std::size_t count = io.poll_errors(errors);
    if (count != 0) return {errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(count)};
    usleep(1000);
  }
  return {};
}

TEST(DpdkLink, SaysWhenItGoesDownAndWhenItIsBack) {
  const DeviceOptions options = ring_device("net_ring0");
  auto io = std::move(open_dpdk({&options, 1})).value();
  ASSERT_TRUE(io->add_rail(dpdk_address(4, 0, 0)).ok());
  ASSERT_TRUE(io->add_rail(dpdk_address(4, 0, 0)).ok());
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_ring0", &port), 0);
  std::array<RxPacket, 8> packets{};
  ASSERT_EQ(io->receive(packets), 0U);  // sees that it is up

  ASSERT_EQ(rte_eth_dev_set_link_down(port), 0);
  const auto down = said(*io);
  ASSERT_EQ(down.size(), 2U);
  EXPECT_EQ(down[0].kind, IoError::Kind::kLinkDown);
  EXPECT_NE(down[0].rail, down[1].rail);

  ASSERT_EQ(rte_eth_dev_set_link_up(port), 0);
  const auto up = said(*io);
  ASSERT_EQ(up.size(), 2U);
  EXPECT_EQ(up[1].kind, IoError::Kind::kLinkUp);
}

class ResetCounter final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    if (name.ends_with("_resets")) resets += value;
    if (name.ends_with("_resets_failed")) failed += value;
  }
  std::uint64_t resets = 0;
  std::uint64_t failed = 0;
};

TEST(DpdkLink, ADeviceWhoseDriverAsksForAResetIsReset) {
  const DeviceOptions options = ring_device("net_ring2");
  auto io = std::move(open_dpdk({&options, 1})).value();
  ASSERT_TRUE(io->add_rail(dpdk_address(4, 0, 0)).ok());
  rte_eth_dev* const device = rte_eth_dev_allocated("net_ring2");
  ASSERT_NE(device, nullptr);
  const auto resets = [&] {
    ResetCounter seen;
    io->counters(seen);
    EXPECT_EQ(seen.failed, 0U);
    return seen.resets;
  };
  for (std::uint64_t times = 1; times <= 3; ++times) {
    ASSERT_EQ(rte_eth_dev_callback_process(device, RTE_ETH_EVENT_INTR_RESET, nullptr), 0);
    std::array<RxPacket, 8> packets{};
    for (int tries = 0; tries < 1000 && resets() < times; ++tries) {
      io->release(std::span(packets).first(io->receive(packets)));
      usleep(1000);
    }
    ASSERT_EQ(resets(), times);
  }
}

TEST(DpdkDevice, CarriesFramesAfterAResetAsBefore) {
  const DeviceOptions options = ring_device("net_ring1");
  auto device = std::move(PortDevice::open(options)).value();
  rte_mempool* pool = take_pool(pool_wish(options, device->socket()));
  ASSERT_NE(pool, nullptr);
  const auto passes = [&] {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool);
    rte_pktmbuf_append(frame, 60);
    rte_mbuf* arrived = nullptr;
    const bool is_there = device->transmit(0, {&frame, 1}) == 1 &&
                          device->receive(0, {&arrived, 1}) == 1 && arrived == frame;
    rte_pktmbuf_free(frame);
    return is_there;
  };
  EXPECT_TRUE(passes());
  EXPECT_FALSE(device->wants_reset());
  for (int times = 0; times < 3; ++times) {
    const Status status = device->reset(options);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_TRUE(passes());
  }
  EXPECT_EQ(rte_mempool_avail_count(pool), pool->size);
  give_back_pool(pool);
}

}  // namespace
}  // namespace spindrift::testing
