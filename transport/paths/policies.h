#pragma once
// The path policies that ship, for the composition root to list. One file each.
#include "spindrift/path_selector.h"

namespace spindrift {

extern const PathSelectorInfo kSinglePathPolicy;
extern const PathSelectorInfo kRoundRobinPathPolicy;
extern const PathSelectorInfo kBitmapPathPolicy;
extern const PathSelectorInfo kRepsPathPolicy;
extern const PathSelectorInfo kMixedPathPolicy;
extern const PathSelectorInfo kLeastRttPathPolicy;

}  // namespace spindrift
