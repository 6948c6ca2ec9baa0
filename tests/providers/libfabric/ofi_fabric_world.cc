// The contract suite of fabrics over the providers of libfabric that need no hardware, each once as
// it is and once with what has arrived taken in any order, as from a medium that keeps none.
// What it tries out is in ofi_traffic, ofi_buffers, ofi_reads, ofi_connections and ofi_endings.
#include <gtest/gtest.h>
#include <unistd.h>

#include "providers/libfabric/ofi_fabric.h"
#include "tests/contract/fabric_world.h"
#include "tests/providers/libfabric/ofi_rails_pair.h"

namespace spindrift {
namespace {

struct OfiPair final : public FabricPair {
  OfiPair(const std::string& provider, std::uint64_t seed, const std::string& host = "127.0.0.1") {
    address = provider + "@" + host + ":0";
    for (auto* side : {&a, &b})
      *side = std::move(open_ofi({.provider = provider, .shuffle_seed = seed}).value());
  }
  // Two endpoints of libfabric's shm in one process share memory without counting: one must not go
  // while something of the other is under way.
  ~OfiPair() override { rest(); }
  // Both have their turn: providers make progress when they are looked at.
  void pass_time() override {
    for (const auto* side : {&a, &b}) {
      if (*side == nullptr) continue;
      static_cast<void>((*side)->poll_events({}));
      static_cast<void>((*side)->poll({}));
    }
  }
  void rest() override {
    for (int turn = 0; turn < 2000; ++turn)
      pass_time();
  }
};

}  // namespace

std::vector<FabricWorld> fabric_worlds() {
  const auto over = [](const char* provider, std::uint64_t seed) {
    return [provider, seed]() -> std::unique_ptr<FabricPair> {
      return std::make_unique<OfiPair>(provider, seed);
    };
  };
  const auto over_rails = [](std::uint64_t seed) {
    return [seed]() -> std::unique_ptr<FabricPair> {
      return std::make_unique<OfiRailsPair>("net", seed);
    };
  };
  std::vector<FabricWorld> worlds = {{"net", over("net", 0)},
                                     {"net_any_order", over("net", 7)},
                                     {"tcp_rxm", over("tcp;ofi_rxm", 0)},
                                     {"shm", over("shm", 0)},
                                     {"shm_any_order", over("shm", 11)},
                                     {"udp_rxd", over("udp;ofi_rxd", 0)}};
  // In the virtual machine (tests/vm), between its two soft-RoCE devices.
  if (::access("/sys/class/infiniband/rxe0", F_OK) == 0)
    for (const char* const provider : {"verbs", "verbs;ofi_rxm"})
      worlds.push_back({std::string(provider) == "verbs" ? "verbs" : "verbs_rxm",
                        [provider]() -> std::unique_ptr<FabricPair> {
                          return std::make_unique<OfiPair>(provider, 0, "10.77.0.1");
                        }});
  if (::geteuid() == 0) {
    worlds.push_back({"rails_of_net", over_rails(0)});
    worlds.push_back({"rails_of_net_any_order", over_rails(13)});
  }
  return worlds;
}

}  // namespace spindrift
