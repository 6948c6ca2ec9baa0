#include "tests/contract/fabric_world.h"

#include <gtest/gtest.h>

#include "providers/module/export_module.h"
#include "providers/module/foreign_module.h"
#include "providers/shm/shm_fabric.h"
#include "tests/sim/lane_world.h"
#include "tests/transport/scripted_fabric.h"

namespace spindrift {
namespace {

struct SimulatedPair final : public FabricPair {
  explicit SimulatedPair(const sim::LaneWorldOptions& options) : world(options) {
    a = world.make();
    b = world.make();
  }
  ~SimulatedPair() override {
    a.reset();
    b.reset();
  }
  void pass_time() override { static_cast<void>(world.step(world.now() + sim::kMicrosecond)); }
  void rest() override { world.run(world.now() + 20 * sim::kMillisecond); }
  sim::LaneWorld world;
};

constexpr ProviderInfo kShmModule{
    .name = "shm",
    .summary = {},
    .probe = [] { return ok_status(); },
    .open_fabric = [](const Url& /*url*/) { return open_shm({.ring_bytes = 65536}); }};

// Shared memory as if it came from a module: all goes through a ForeignMessageFabric.
std::unique_ptr<FabricPair> pair_behind_border() {
  const ProviderModule* module = exported_module<kShmModule>();
  EXPECT_TRUE(check_provider_module(module, "shm").ok());
  auto pair = std::make_unique<FabricPair>();
  for (auto* side : {&pair->a, &pair->b})
    *side = std::move(open_fabric_of(*module, "shm://").value());
  return pair;
}

struct ScriptedPair final : public FabricPair {
  ScriptedPair() : net({.lanes = 8, .loss = 0}) {
    a = net.make();
    b = net.make();
  }
  ~ScriptedPair() override {
    a.reset();
    b.reset();
  }
  void pass_time() override { net.advance_to(net.now() + std::chrono::microseconds(1)); }
  void rest() override { net.advance_to(net.now() + std::chrono::milliseconds(20)); }
  bool set_lane(std::uint16_t lane, bool is_up) override {
    net.set_lane(lane, is_up);
    return true;
  }
  test::ScriptedNet net;
};

}  // namespace

std::vector<FabricWorld> fabric_worlds() {
  const auto shm = [](SingleCopy single_copy) {
    return [single_copy] {
      auto pair = std::make_unique<FabricPair>();
      for (auto* side : {&pair->a, &pair->b})
        *side = std::move(open_shm({.single_copy = single_copy, .ring_bytes = 65536}).value());
      return pair;
    };
  };
  const auto lanes = [](double loss) {
    return [loss]() -> std::unique_ptr<FabricPair> {
      return std::make_unique<SimulatedPair>(
          sim::LaneWorldOptions{.loss = loss, .lane = {.timeout = 100 * sim::kMicrosecond}});
    };
  };
  return {{"shm", shm(SingleCopy::kAuto)},
          {"shm_copying", shm(SingleCopy::kOff)},
          {"module", pair_behind_border},
          {"sim_lanes", lanes(0)},
          {"sim_lanes_lossy", lanes(0.02)},
          {"scripted", [] { return std::make_unique<ScriptedPair>(); }}};
}

}  // namespace spindrift
