#pragma once
// Arithmetic of collectives: which types and operations there are, and their kernels.
#include <cstddef>
#include <cstdint>

#include "spindrift/collective.h"

namespace spindrift::collectives {

// target[i] = a[i] op b[i]. `target` may be `a` or `b`, otherwise the three do not overlap.
struct ReduceKernel {
  void (*run)(void* target, const void* a, const void* b, std::size_t count) = nullptr;
};

// Refuses, with the list of what there is, what has no kernel.
Result<ReduceKernel> find_reduce_kernel(DataType type, ReduceOp op);

}  // namespace spindrift::collectives
