#pragma once
// Figures of a network plugin, moved as NCCL's proxy moves them.
#include <string>

#include "tools/nccl/world.h"

namespace spindrift::nccl_check {

struct MeasureOptions {
  std::string what;  // "bandwidth", "both", "latency", "idle"
  double seconds = 1;
  std::size_t step_bytes = 512U << 10U;
  bool is_pinned = false;
  bool is_merged = false;  // over all devices at once
};
// Prints one JSON object; the exit code of the program.
int measure(RunOptions run, const MeasureOptions& options);

}  // namespace spindrift::nccl_check
