// The network's history from a seed is the same in every build: these numbers were found with g++
// and clang, with and without optimisation. A change of the network changes them; a change of
// compiler, flags or standard library must not.
#include <gtest/gtest.h>

#include "tests/sim/bare_network.h"

namespace spindrift::sim {
namespace {

// Every host sends to every other at once through small queues: marks, trims and losses by chance.
std::uint64_t history_of(TopologySpec topology, SwitchSpec switches) {
  switches.queue_bytes = 40 * BareNetwork::kFrame;
  switches.control_bytes = 10 * BareNetwork::kFrame;
  switches.kmin_bytes = 8 * BareNetwork::kFrame;
  switches.kmax_bytes = 32 * BareNetwork::kFrame;
  switches.pmax = 0.3;
  switches.xoff_bytes = 20 * BareNetwork::kFrame;
  switches.xon_bytes = 16 * BareNetwork::kFrame;
  switches.headroom_bytes = 20 * BareNetwork::kFrame;
  BareNetwork world(topology, switches);
  world.network().set_loss(0, 0.02);
  for (std::uint16_t round = 0; round < 20; ++round)
    for (std::uint32_t from = 0; from < world.plan().hosts; ++from)
      for (std::uint32_t to = 0; to < world.plan().hosts; ++to)
        if (from != to) world.send(from, to, round);
  world.run();
  return world.network().history();
}

TEST(History, IsTheSameWhateverBuiltIt) {
  TopologySpec tree;
  tree.name = "fat_tree";
  tree.hosts = 0;
  SwitchSpec shared;
  shared.buffer = BufferKind::kShared;
  shared.shared_bytes = 1 << 20;
  shared.alpha = 0.7;
  SwitchSpec paused;
  paused.has_pfc = true;
  EXPECT_EQ(history_of({}, {}), 0xcbcd358ef36ae79aU);
  EXPECT_EQ(history_of(tree, {}), 0x84b46e8bc38ac4a1U);
  EXPECT_EQ(history_of(tree, shared), 0x839f34657248ff43U);
  EXPECT_EQ(history_of({}, paused), 0x96c2a3dcf5d1d6bbU);
}

}  // namespace
}  // namespace spindrift::sim
