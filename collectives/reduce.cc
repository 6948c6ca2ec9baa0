#include "collectives/reduce.h"

#include <absl/strings/str_format.h>

namespace spindrift::collectives {
namespace {

// The loops carry no dependence, which the compiler cannot see where target is one of the sources.
void sum_float32(void* target, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<float*>(target);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i)
    out[i] = x[i] + y[i];
}

}  // namespace

Result<ReduceKernel> find_reduce_kernel(DataType type, ReduceOp op) {
  if (type == DataType::kFloat32 && op == ReduceOp::kSum) {
    return ReduceKernel{.run = sum_float32};
  }
  return Error(ErrorCode::kUnsupported,
               absl::StrFormat("no %s over %s in this version; there is: sum over float",
                               to_string(op), to_string(type)));
}

}  // namespace spindrift::collectives
