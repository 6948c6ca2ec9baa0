#pragma once
// Scenarios that travel inside the command. The texts are tools/data/scenarios/*.toml.
#include <span>
#include <string_view>

namespace spindrift::simtool {

struct ShippedScenario {
  std::string_view name;
  std::string_view text;
};
std::span<const ShippedScenario> shipped_scenarios();

}  // namespace spindrift::simtool
