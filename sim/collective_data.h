#pragma once
// What the ranks of a simulated collective put in, and what has to come out.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "spindrift/collective.h"

#include "sim/workload.h"

namespace spindrift::sim {

std::optional<Collective> collective_of(std::string_view name);
std::vector<std::string_view> collective_operations();

struct CollectiveShape {
  Collective collective = Collective::kAllReduce;
  std::uint32_t ranks = 1;
  std::uint64_t count = 1;  // as in CollectiveCall; floats
};
CollectiveShape collective_shape(const WorkloadSpec& spec, std::uint32_t ranks);

// A flow for each rank and call; its bytes are those that the rank must at least send or receive.
FlowPlans collective_calls(const WorkloadSpec& spec, std::uint32_t ranks);

// Of one rank; rank 0 is the root. Sums of all ranks are whole numbers that a float holds.
std::vector<float> collective_input(const CollectiveShape& shape, std::uint32_t rank);
std::vector<float> collective_output(const CollectiveShape& shape, std::uint32_t rank);  // zeros
// Against a plain reference.
bool is_right(const CollectiveShape& shape, std::uint32_t rank, const std::vector<float>& output);

}  // namespace spindrift::sim
