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

namespace spindrift {

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float";
    case DataType::kFloat64:
      return "double";
    case DataType::kFloat16:
      return "half";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kInt8:
      return "int8";
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt32:
      return "int32";
    case DataType::kUint32:
      return "uint32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint64:
      return "uint64";
  }
  return "unknown";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "prod";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "avg";
  }
  return "unknown";
}

std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
    case DataType::kUint64:
      return 8;
  }
  return 1;
}

}  // namespace spindrift
