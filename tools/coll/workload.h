#pragma once
// The gradient tensors of a model, and how they travel: in buckets, last tensor first.
//
// The file: one tensor per line, its name and its shape ("layer1.0.conv1.weight 64x64x1x1",
// "fc.bias 1000"), in the order of the forward pass. Empty lines and lines that start with # say
// nothing.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/result.h"

namespace spindrift::coll {

struct Tensor {
  std::string name;
  std::uint64_t elements = 0;
};

struct Bucket {
  std::uint32_t tensors = 0;
  std::uint64_t elements = 0;
};

// A model that ships: its name and its tensors as a file has them.
struct ShippedWorkload {
  std::string_view name;
  std::string_view text;
};
std::span<const ShippedWorkload> shipped_workloads();

// The error names the line.
Result<std::vector<Tensor>> parse_workload(std::string_view text);
// The name of a shipped one, or a file.
Result<std::vector<Tensor>> load_workload(const std::string& name_or_file);

// As PyTorch's DistributedDataParallel does: gradients become ready from the last tensor to the
// first; a bucket is closed by the tensor that fills it; the first bucket is closed at 1 MiB, so
// that communication starts early.
std::vector<Bucket> make_buckets(const std::vector<Tensor>& tensors, std::uint64_t bucket_bytes,
                                 std::uint64_t element_bytes);

}  // namespace spindrift::coll
