#pragma once
// Two libfabric fabrics of one process that are joined by two networks, each of which can be cut.
#include <memory>
#include <string>

#include "tests/contract/fabric_world.h"

namespace spindrift {

// Makes the networks for this process, the first time; false: it may not.
bool may_make_networks();

struct OfiRailsPair final : public FabricPair {
  explicit OfiRailsPair(const std::string& provider, std::uint64_t shuffle_seed = 0);
  ~OfiRailsPair() override;
  void pass_time() override;
  void rest() override;
  bool set_lane(std::uint16_t lane, bool is_up) override;
};

}  // namespace spindrift
