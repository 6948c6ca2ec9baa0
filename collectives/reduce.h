#pragma once
// Element-wise reductions.
#include <cstddef>
#include <cstdint>

#include "spindrift/collective.h"

namespace spindrift::collectives {

// target[i] = a[i] op b[i]. target may be a or b, but must not overlap them otherwise.
using ReduceFunction = void (*)(void* target, const void* a, const void* b, std::size_t count);
// target[i] = target[i] / ranks: the end of an average.
using FinishFunction = void (*)(void* target, std::size_t count, std::uint32_t ranks);

struct ReduceKernel {
  ReduceFunction run = nullptr;
};
struct FinishKernel {
  FinishFunction run = nullptr;  // null: a final sum is left as it is
};

ReduceKernel find_reduce_kernel(DataType type, ReduceOp op);
FinishKernel find_finish_kernel(DataType type, ReduceOp op);

}  // namespace spindrift::collectives
