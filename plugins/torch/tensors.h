#pragma once
// What of a tensor the transport needs to know. The errors are exceptions, as PyTorch's are.
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "spindrift/collective.h"

namespace spindrift::torch_plugin {

inline void check_tensor(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided, "spindrift ", operation,
              ": a dense tensor on the CPU is needed, this one is ", tensor.layout(), " on ",
              tensor.device());
  TORCH_CHECK(tensor.is_contiguous(), "spindrift ", operation,
              ": the tensor is not contiguous; pass tensor.contiguous()");
}

inline at::Tensor& only_tensor(std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK(tensors.size() == 1, "spindrift ", operation, ": one tensor per rank, not ",
              tensors.size());
  check_tensor(tensors.front(), operation);
  return tensors.front();
}

// All of one type, with `elements` each.
inline void check_all(const std::vector<at::Tensor>& tensors, const at::Tensor& like,
                      std::int64_t elements, const char* operation) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, operation);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type() && tensor.numel() == elements,
                "spindrift ", operation, ": a tensor of ", tensor.numel(), " elements of type ",
                tensor.scalar_type(), " among those of ", elements, " of type ",
                like.scalar_type());
  }
}

// How a reduction of PyTorch is one of ours. Booleans are bytes of 0 and 1.
struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

inline DataType data_type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBfloat16;
    case at::kChar:
      return DataType::kInt8;
    case at::kByte:
    case at::kBool:
      return DataType::kUint8;
    case at::kShort:
      return DataType::kInt16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    default:
      TORCH_CHECK(false, "spindrift reduces no tensors of type ", type);
  }
}

inline Reduction reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto kind = static_cast<c10d::ReduceOp::RedOpType>(op);
  const bool is_bool = tensor.scalar_type() == at::kBool;
  Reduction reduction{.type = data_type_of(tensor.scalar_type())};
  switch (kind) {
    case c10d::ReduceOp::SUM:
      // "Any of them": a sum of bytes would not be a boolean.
      reduction.op = is_bool ? ReduceOp::kMax : ReduceOp::kSum;
      return reduction;
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(!is_bool, "spindrift: booleans have no average");
      reduction.op = ReduceOp::kAverage;
      return reduction;
    case c10d::ReduceOp::PRODUCT:
      reduction.op = is_bool ? ReduceOp::kMin : ReduceOp::kProduct;
      return reduction;
    case c10d::ReduceOp::MIN:
      reduction.op = ReduceOp::kMin;
      return reduction;
    case c10d::ReduceOp::MAX:
      reduction.op = ReduceOp::kMax;
      return reduction;
    default:
      TORCH_CHECK(false, "spindrift reduces by SUM, AVG, PRODUCT, MIN and MAX; PyTorch's number ",
                  static_cast<int>(kind), " is none of them");
  }
}

}  // namespace spindrift::torch_plugin
