#include "sim/collective_data.h"

#include <algorithm>
#include <array>

namespace spindrift::sim {
namespace {

struct Named {
  std::string_view name;
  Collective collective;
};
constexpr std::array<Named, 9> kOperations{{{"all_reduce", Collective::kAllReduce},
                                            {"reduce_scatter", Collective::kReduceScatter},
                                            {"all_gather", Collective::kAllGather},
                                            {"broadcast", Collective::kBroadcast},
                                            {"reduce", Collective::kReduce},
                                            {"all_to_all", Collective::kAllToAll},
                                            {"gather", Collective::kGather},
                                            {"scatter", Collective::kScatter},
                                            {"barrier", Collective::kBarrier}}};

constexpr std::uint32_t kNumbers = 64;

// Element i of rank r; different enough that a misplaced piece shows.
std::uint32_t mix(std::uint64_t i) {
  return static_cast<std::uint32_t>((i * 0x9E3779B97F4A7C15ULL) >> 40) % kNumbers;
}
float element(std::uint32_t rank, std::uint64_t i) {
  return static_cast<float>((mix(i) + rank) % kNumbers);
}
float sum_of(std::uint32_t ranks, std::uint64_t i) {
  const std::uint32_t first = mix(i);
  std::uint32_t sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    sum += (first + rank) % kNumbers;
  return static_cast<float>(sum);
}

bool has_blocks_in(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllToAll ||
         collective == Collective::kScatter;
}
bool has_blocks_out(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kAllToAll ||
         collective == Collective::kGather;
}
bool has_blocks(Collective collective) {
  return has_blocks_in(collective) || has_blocks_out(collective);
}

float expected(const CollectiveShape& shape, std::uint32_t rank, std::uint64_t i) {
  const std::uint64_t block = i / shape.count;
  const std::uint64_t inside = i % shape.count;
  switch (shape.collective) {
    case Collective::kReduceScatter:
      return sum_of(shape.ranks, rank * shape.count + i);
    case Collective::kAllGather:
    case Collective::kGather:
      return element(static_cast<std::uint32_t>(block), inside);
    case Collective::kAllToAll:
      return element(static_cast<std::uint32_t>(block), rank * shape.count + inside);
    case Collective::kBroadcast:
      return element(0, i);
    case Collective::kScatter:
      return element(0, rank * shape.count + i);
    default:
      return sum_of(shape.ranks, i);
  }
}

// Of this rank's link, one way.
std::uint64_t least_bytes(const CollectiveShape& shape, std::uint32_t rank) {
  const std::uint64_t block = shape.count * sizeof(float);
  const std::uint64_t others = shape.ranks - 1;
  switch (shape.collective) {
    case Collective::kAllReduce:
      return 2 * block * others / shape.ranks;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return block * others;
    case Collective::kGather:
    case Collective::kScatter:
      return rank == 0 ? block * others : block;
    case Collective::kBarrier:
      return 1;
    default:
      return block;
  }
}

}  // namespace

std::optional<Collective> collective_of(std::string_view name) {
  for (const Named& one : kOperations)
    if (one.name == name) return one.collective;
  return std::nullopt;
}

std::vector<std::string_view> collective_operations() {
  std::vector<std::string_view> out;
  for (const Named& one : kOperations)
    out.push_back(one.name);
  return out;
}

CollectiveShape collective_shape(const WorkloadSpec& spec, std::uint32_t ranks) {
  CollectiveShape shape{.collective = *collective_of(spec.operation), .ranks = ranks};
  const std::uint64_t floats = spec.bytes / sizeof(float);
  shape.count = std::max<std::uint64_t>(1, has_blocks(shape.collective) ? floats / ranks : floats);
  return shape;
}

FlowPlans collective_calls(const WorkloadSpec& spec, std::uint32_t ranks) {
  const CollectiveShape shape = collective_shape(spec, ranks);
  FlowPlans out;
  for (std::uint32_t call = 0; call < spec.repeats; ++call)
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      out.push_back({.source = rank,
                     .destination = (rank + 1) % ranks,
                     .bytes = std::max<std::uint64_t>(1, least_bytes(shape, rank))});
  return out;
}

std::vector<float> collective_input(const CollectiveShape& shape, std::uint32_t rank) {
  const bool is_root_only =
      shape.collective == Collective::kBroadcast || shape.collective == Collective::kScatter;
  if (shape.collective == Collective::kBarrier || (is_root_only && rank != 0)) return {};
  std::vector<float> out(shape.count * (has_blocks_in(shape.collective) ? shape.ranks : 1));
  for (std::uint64_t i = 0; i < out.size(); ++i)
    out[i] = element(rank, i);
  return out;
}

std::vector<float> collective_output(const CollectiveShape& shape, std::uint32_t rank) {
  const bool is_root_only =
      shape.collective == Collective::kReduce || shape.collective == Collective::kGather;
  if (shape.collective == Collective::kBarrier || (is_root_only && rank != 0)) return {};
  return std::vector<float>(shape.count * (has_blocks_out(shape.collective) ? shape.ranks : 1));
}

bool is_right(const CollectiveShape& shape, std::uint32_t rank, const std::vector<float>& output) {
  for (std::uint64_t i = 0; i < output.size(); ++i)
    if (output[i] != expected(shape, rank, i)) return false;
  return true;
}

}  // namespace spindrift::sim
