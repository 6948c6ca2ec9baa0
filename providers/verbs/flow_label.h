#pragma once
// What chooses the UDP source port of a connected queue pair under RoCE v2. Internal to
// providers/verbs.
#include <cstddef>
#include <cstdint>

#include "providers/verbs/verbs_greeting.h"

namespace spindrift {

// Labels below 2^14 are the lower bits of the UDP source port; 0 would leave the choice to the
// device.
inline constexpr std::uint32_t kFlowLabels = 0x3fff - kMaxVerbsLanes - 1;
inline constexpr std::uint32_t kFirstSourcePort = 0xc000;

// Of the queue pair `index` (0..kMaxVerbsLanes) of those that begin anywhere: different ones.
constexpr std::uint32_t flow_label(std::uint64_t base, std::size_t index) {
  return static_cast<std::uint32_t>(1 + base % kFlowLabels + index);
}

}  // namespace spindrift
