// Priority flow control of the bare network.
#include <gtest/gtest.h>

#include "sim/derive.h"
#include "tests/sim/bare_network.h"

namespace spindrift::sim {
namespace {

TopologySpec one_leaf(std::uint32_t hosts) {
  TopologySpec spec;
  spec.hosts = hosts;
  spec.hosts_per_leaf = hosts;
  return spec;
}

SwitchSpec lossless(std::uint64_t headroom_bytes) {
  SwitchSpec spec;
  spec.has_pfc = true;
  spec.trims = false;
  spec.marking = Marking::kOff;
  spec.queue_bytes = 1ULL << 30;
  spec.control_bytes = 1ULL << 20;
  spec.xoff_bytes = 20 * BareNetwork::kFrame;
  spec.xon_bytes = 16 * BareNetwork::kFrame;
  spec.headroom_bytes = headroom_bytes;
  return spec;
}

// As much as derive() finds necessary.
SwitchSpec with_headroom() {
  return derive(lossless(0), std::get<NetworkPlan>(plan_network(one_leaf(9))), {});
}

void incast(BareNetwork& world) {
  for (std::uint32_t sender = 1; sender < 9; ++sender)
    for (std::uint16_t i = 0; i < 200; ++i)
      world.send(sender, 0, i);
  world.run();
}

std::uint64_t drops(const Network& network) {
  std::uint64_t sum = 0;
  for (std::uint32_t port = 0; port < network.port_count(); ++port)
    sum += network.counters(port).drops_full;
  return sum;
}

TEST(Pfc, LosesNothingWhenTheHeadroomHoldsWhatIsOnTheWay) {
  BareNetwork world(one_leaf(9), with_headroom());
  incast(world);
  EXPECT_EQ(world.seen().size(), 1600U);
  EXPECT_EQ(drops(world.network()), 0U);
  EXPECT_GT(world.network().pauses_sent(), 8U);
}

TEST(Pfc, LosesPacketsWhenTheHeadroomIsTooSmall) {
  BareNetwork world(one_leaf(9), lossless(1));
  incast(world);
  EXPECT_GT(drops(world.network()), 0U);
}

TEST(Pfc, CountsPausesAndTheTimeTheyTake) {
  BareNetwork world(one_leaf(9), with_headroom());
  incast(world);
  std::uint64_t received = 0;
  for (std::uint32_t sender = 1; sender < 9; ++sender) {
    const std::uint32_t port = world.port("host" + std::to_string(sender), "leaf0");
    const PortCounters counters = world.network().counters(port);
    received += counters.pauses_received;
    // Each gets an eighth of the link: about seven eighths of the time it stands still.
    EXPECT_GT(counters.paused, world.seen().back().at / 2);
    EXPECT_FALSE(world.network().is_paused(port));
  }
  EXPECT_EQ(received, world.network().pauses_sent());
}

// Every host of a ring of five switches sends to the one two switches on; the shorter way is always
// the same way round, so the ring's queues wait for each other.
TEST(Pfc, FindsPortsThatWaitForEachOther) {
  constexpr std::uint32_t kRing = 5;
  NetworkPlan plan;
  plan.hosts = kRing;
  for (std::uint32_t i = 0; i < kRing; ++i)
    plan.nodes.push_back({.name = "host" + std::to_string(i), .is_switch = false});
  for (std::uint32_t i = 0; i < kRing; ++i)
    plan.add_switch("switch" + std::to_string(i));
  for (std::uint32_t i = 0; i < kRing; ++i) {
    plan.nics.push_back({.host = i, .port = 2 * plan.connect(i, kRing + i, LinkSpec{}, 0)});
    plan.connect(kRing + i, kRing + (i + 1) % kRing, LinkSpec{}, 0);
  }
  BareNetwork world(plan, derive(lossless(0), plan, {}));
  for (std::uint16_t packet = 0; packet < 500; ++packet)
    for (std::uint32_t host = 0; host < kRing; ++host)
      world.send(host, (host + 2) % kRing, packet);
  world.run();
  EXPECT_LT(world.seen().size(), 500 * kRing);
  const auto cycles = world.network().find_deadlocks(0);
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].size(), kRing);
}

TEST(Pfc, FindsNothingWhereEverythingMoves) {
  BareNetwork world(one_leaf(9), lossless(1ULL << 20));
  incast(world);
  EXPECT_TRUE(world.network().find_deadlocks(0).empty());
}

}  // namespace
}  // namespace spindrift::sim
