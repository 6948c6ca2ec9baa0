#include "sim/network.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/sim/bare_network.h"
#include "transport/base/rng.h"

namespace spindrift::sim {
namespace {

constexpr Picoseconds kFrameTime = 332'800;  // 4160 bytes at 100 Gb/s

TopologySpec dumbbell(std::uint32_t hosts) {
  TopologySpec spec;
  spec.name = "dumbbell";
  spec.hosts = hosts;
  return spec;
}

SwitchSpec large_buffers() {
  SwitchSpec spec;
  spec.queue_bytes = 1ULL << 30;
  spec.control_bytes = 1ULL << 30;
  spec.marking = Marking::kOff;
  return spec;
}

std::size_t count_marked(const std::vector<Seen>& seen) {
  return static_cast<std::size_t>(
      std::count_if(seen.begin(), seen.end(), [](const Seen& one) { return one.is_marked; }));
}

TEST(Network, DeliversAPacketAfterSerialisationAndPropagationOnEveryLink) {
  BareNetwork world(dumbbell(2), large_buffers());
  world.send(0, 1, 0);
  world.run();
  ASSERT_EQ(world.seen().size(), 1U);
  EXPECT_EQ(world.seen()[0].at, 3 * (kFrameTime + kMicrosecond));
  EXPECT_EQ(world.network().hops(), 3U);
  EXPECT_EQ(world.network().packets().in_use(), 0U);
}

// Rates that do not divide a picosecond round up: nothing is ever early.
TEST(Network, RoundsUpWhereAByteTakesNoWholeNumberOfPicoseconds) {
  TopologySpec spec;
  spec.name = "two_hosts";
  spec.host_link.rate_bps = 30'000'000'000;
  BareNetwork world(spec, large_buffers());
  EXPECT_EQ(world.network().transmission(0, 1), 267);
  EXPECT_EQ(world.network().transmission(0, 3000), 800'000);
}

TEST(Network, KeepsTheOrderOfAPath) {
  BareNetwork world(dumbbell(2), large_buffers());
  for (std::uint16_t i = 0; i < 100; ++i)
    world.send(0, 1, i);
  world.run();
  ASSERT_EQ(world.seen().size(), 100U);
  for (std::uint16_t i = 0; i < 100; ++i)
    EXPECT_EQ(world.seen()[i].tag, i);
}

TEST(Network, LetsControlPacketsOvertakeData) {
  BareNetwork world(dumbbell(4), large_buffers());
  for (std::uint16_t i = 0; i < 20; ++i) {
    world.send(0, 2, i);
    world.send(1, 2, i);
  }
  world.run(10 * kFrameTime);
  world.send(0, 3, 999, TrafficClass::kControl, 64);
  world.run();
  const auto control = std::find_if(world.seen().begin(), world.seen().end(),
                                    [](const Seen& one) { return one.tag == 999; });
  ASSERT_NE(control, world.seen().end());
  EXPECT_LT(control - world.seen().begin(), 20);
}

TEST(Network, LosesAtTheRateThatALinkHas) {
  constexpr int kPackets = 200'000;
  constexpr double kLoss = 0.01;
  BareNetwork world(dumbbell(2), large_buffers());
  world.network().set_loss(world.port("switch0", "switch1"), kLoss);
  for (int i = 0; i < kPackets; ++i)
    world.send(0, 1, static_cast<std::uint16_t>(i));
  world.run();
  const double lost = kPackets - static_cast<double>(world.seen().size());
  EXPECT_NEAR(lost, kPackets * kLoss, 4 * std::sqrt(kPackets * kLoss));
  EXPECT_EQ(world.network().counters(world.port("switch0", "switch1")).drops_loss,
            static_cast<std::uint64_t>(lost));
}

// Poisson arrivals at a port that serves one packet in a fixed time: the mean number waiting is
// rho^2 / (2 (1 - rho)).
class PoissonLoad : public testing::TestWithParam<double> {};

TEST_P(PoissonLoad, LeavesTheQueueThatTheoryKnows) {
  constexpr int kPackets = 2'000'000;
  const double rho = GetParam();
  // Fast links into the switch: they do not shape what arrives at the slow one.
  TopologySpec spec = dumbbell(2);
  spec.host_link.rate_bps = 10'000'000'000'000;
  spec.host_link.delay = 0;
  BareNetwork world(spec, large_buffers());
  Rng rng(3);
  int left = kPackets;
  PortCounters counters;
  const std::uint32_t port = world.port("switch0", "switch1");
  world.on_timer = [&] {
    world.send(0, 1, 0);
    counters = world.network().counters(port);
    if (--left == 0) return;
    const double uniform = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    const double gap = -std::log(uniform) * static_cast<double>(kFrameTime) / rho;
    world.events().schedule(world.timer(), world.events().now() + std::llround(gap));
  };
  world.events().schedule(world.timer(), 1);
  world.run();
  const double expected = rho * rho / (2 * (1 - rho));
  EXPECT_EQ(world.seen().size(), static_cast<std::size_t>(kPackets));
  EXPECT_NEAR(counters.mean_queue_bytes / BareNetwork::kFrame, expected, 0.02 * expected);
}

INSTANTIATE_TEST_SUITE_P(Loads, PoissonLoad, testing::Values(0.5, 0.8, 0.9));

TEST(Network, DropsWhatDoesNotFitWhenItDoesNotTrim) {
  SwitchSpec spec = large_buffers();
  spec.trims = false;
  spec.queue_bytes = 10 * BareNetwork::kFrame;
  BareNetwork world(dumbbell(4), spec);
  for (std::uint16_t i = 0; i < 50; ++i) {
    world.send(0, 2, i);
    world.send(1, 2, i);
  }
  world.run();
  const PortCounters counters = world.network().counters(world.port("switch0", "switch1"));
  EXPECT_EQ(world.seen().size() + counters.drops_full, 100U);
  EXPECT_GT(counters.drops_full, 30U);
  EXPECT_LE(counters.max_queue_bytes, spec.queue_bytes);
  EXPECT_EQ(world.network().packets().in_use(), 0U);
}

// What the plan says of one port goes before what holds for all.
TEST(Network, APortMayHaveAQueueOfItsOwn) {
  SwitchSpec spec = large_buffers();
  spec.trims = false;
  auto plan = std::get<NetworkPlan>(plan_network(dumbbell(4)));
  for (NetworkPlan::Link& link : plan.links)
    if (plan.nodes[link.a].is_switch && plan.nodes[link.b].is_switch)
      link.queue_a = link.queue_b = 5 * BareNetwork::kFrame;
  BareNetwork world(plan, spec);
  for (std::uint16_t i = 0; i < 50; ++i)
    for (const std::uint32_t from : {0U, 1U})
      world.send(from, 2, i);
  world.run();
  const PortCounters middle = world.network().counters(world.port("switch0", "switch1"));
  EXPECT_EQ(middle.max_queue_bytes, 5U * BareNetwork::kFrame);
  EXPECT_GT(middle.drops_full, 20U);
}

TEST(Network, TrimsWhatDoesNotFitAndSaysWhetherItWasTheLastHop) {
  SwitchSpec spec = large_buffers();
  spec.queue_bytes = 10 * BareNetwork::kFrame;
  TopologySpec fast_middle = dumbbell(4);
  fast_middle.fabric_link.rate_bps = 1'000'000'000'000;
  for (const bool is_last_hop : {false, true}) {
    BareNetwork world(is_last_hop ? fast_middle : dumbbell(4), spec);
    for (std::uint16_t i = 0; i < 50; ++i) {
      world.send(0, 2, i);
      world.send(1, 2, i);
    }
    world.run();
    ASSERT_EQ(world.seen().size(), 100U);
    std::size_t trimmed = 0;
    for (const Seen& one : world.seen()) {
      if (!one.is_trimmed) continue;
      ++trimmed;
      EXPECT_EQ(one.wire_bytes, spec.trimmed_bytes);
      EXPECT_EQ(one.is_trimmed_last_hop, is_last_hop);
    }
    EXPECT_GT(trimmed, 30U);
  }
}

// Two senders whose packets arrive at the same picosecond share what is lost.
TEST(Network, SharesLossAmongSymmetricSenders) {
  SwitchSpec spec = large_buffers();
  spec.queue_bytes = 10 * BareNetwork::kFrame;
  BareNetwork world(dumbbell(4), spec);
  for (int i = 0; i < 2000; ++i) {
    world.send(0, 2, 0);
    world.send(1, 2, 0);
  }
  world.run();
  std::size_t trimmed[2] = {0, 0};
  for (const Seen& one : world.seen())
    if (one.is_trimmed) ++trimmed[one.source];
  const double all = static_cast<double>(trimmed[0] + trimmed[1]);
  EXPECT_GT(all, 1900);
  EXPECT_NEAR(static_cast<double>(trimmed[0]), all / 2, all / 10);
}

// A queue that stays near q marks the share of the ramp at q.
TEST(Network, MarksAlongTheRamp) {
  SwitchSpec spec = large_buffers();
  spec.marking = Marking::kRed;
  spec.kmin_bytes = 20 * BareNetwork::kFrame;
  spec.kmax_bytes = 120 * BareNetwork::kFrame;
  spec.pmax = 0.5;
  BareNetwork world(dumbbell(4), spec);
  // 70 packets more than the port serves, then as many as it serves.
  int left = 20'000;
  world.on_timer = [&] {
    world.send(left % 2 == 0 ? 0 : 1, 2, 0);
    if (--left != 0) world.events().schedule(world.timer(), world.events().now() + kFrameTime);
  };
  for (int i = 0; i < 70; ++i)
    world.send(i % 2 == 0 ? 0 : 1, 2, 0);
  world.events().schedule(world.timer(), 1);
  world.run(20'000 * kFrameTime);
  const double share = static_cast<double>(count_marked(world.seen())) / 20'000;
  const PortCounters counters = world.network().counters(world.port("switch0", "switch1"));
  const double queue = counters.mean_queue_bytes / BareNetwork::kFrame;
  const double expected = 0.5 * (queue - 20) / 100;
  EXPECT_GT(expected, 0.03);
  EXPECT_NEAR(share, expected, 0.1 * expected);
}

TEST(Network, MarksEverythingAboveAStep) {
  SwitchSpec spec = large_buffers();
  spec.marking = Marking::kStep;
  spec.kmin_bytes = 5 * BareNetwork::kFrame;
  BareNetwork world(dumbbell(4), spec);
  for (int i = 0; i < 50; ++i) {
    world.send(0, 2, 0);
    world.send(1, 2, 0);
  }
  world.run();
  // The queue rises to 49 and falls to nothing: only its first and last packets meet less.
  EXPECT_GT(count_marked(world.seen()), 85U);
  EXPECT_LT(count_marked(world.seen()), 96U);
}

TEST(Network, SharesABufferByItsThreshold) {
  SwitchSpec spec = large_buffers();
  spec.buffer = BufferKind::kShared;
  spec.shared_bytes = 100 * BareNetwork::kFrame;
  spec.alpha = 1;
  spec.trims = false;
  BareNetwork world(dumbbell(4), spec);
  for (int i = 0; i < 500; ++i) {
    world.send(0, 2, 0);
    world.send(1, 2, 0);
  }
  world.run();
  // One hot port may take alpha / (1 + alpha) of the buffer.
  const PortCounters counters = world.network().counters(world.port("switch0", "switch1"));
  EXPECT_NEAR(static_cast<double>(counters.max_queue_bytes), 50 * BareNetwork::kFrame,
              2 * BareNetwork::kFrame);
}

TEST(Network, LosesWhatALinkThatIsDownCarries) {
  BareNetwork world(dumbbell(2), large_buffers());
  const std::uint32_t middle = world.port("switch0", "switch1");
  for (std::uint16_t i = 0; i < 100; ++i)
    world.send(0, 1, i);
  world.run(50 * kFrameTime);
  world.network().set_down(middle, true);
  world.run(70 * kFrameTime);
  world.network().set_down(middle, false);
  world.run();
  const std::uint64_t lost = world.network().counters(middle).drops_down;
  EXPECT_EQ(world.seen().size() + lost, 100U);
  EXPECT_NEAR(static_cast<double>(lost), 20 + 3, 3);  // 20 sent meanwhile, 3 on the wire
}

TEST(Network, SlowsALinkDown) {
  BareNetwork world(dumbbell(2), large_buffers());
  world.network().set_rate(world.port("switch0", "switch1"), 25'000'000'000);
  for (std::uint16_t i = 0; i < 100; ++i)
    world.send(0, 1, i);
  world.run();
  EXPECT_EQ(world.seen().back().at, 100 * 4 * kFrameTime + 2 * kFrameTime + 3 * kMicrosecond);
}

}  // namespace
}  // namespace spindrift::sim
