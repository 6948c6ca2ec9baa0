#pragma once
// Where an axis has its ticks, and what stands beside them.
#include <string>
#include <vector>

#include "tools/chart/quantity.h"

namespace spindrift::chart {

struct Tick {
  double value = 0;
  std::string label{};
};

struct Range {
  double from = 0;
  double to = 1;
};

struct Ticks {
  std::vector<Tick> ticks{};  // ascending, within the range
  std::string unit{};         // of all labels; empty: every label has its own, or there is none
};

// Steps of 1, 2 or 5 times a power of ten, in the unit that suits the range's larger end; at most
// `count_max` (>= 2) of them. An empty range (from >= to) has one tick.
Ticks linear_ticks(Range range, Quantity quantity, int count_max);
// Whole powers (of ten; of two for bytes), thinned to `count_max`; 2 and 5 between them where the
// range has room. Both ends of the range are above zero.
Ticks logarithmic_ticks(Range range, Quantity quantity, int count_max);

// From zero (or below, for negative values) to the first step that is not below `largest`.
Range rounded_range(Range data, Quantity quantity, int count_max);

}  // namespace spindrift::chart
