#include "tools/coll/operations.h"

#include <algorithm>
#include <array>

namespace spindrift::coll {
namespace {

constexpr std::array<Operation, 11> kOperations{{
    {.collective = Collective::kAllReduce,
     .name = "allreduce",
     .title = "all_reduce_perf",
     .help = "everybody gets the sum of all",
     .has_reduction = true},
    {.collective = Collective::kReduceScatter,
     .name = "reduce_scatter",
     .title = "reduce_scatter_perf",
     .help = "everybody gets its part of the sum",
     .has_reduction = true,
     .is_split = true},
    {.collective = Collective::kAllGather,
     .name = "all_gather",
     .title = "all_gather_perf",
     .help = "everybody gets the parts of all",
     .is_split = true},
    {.collective = Collective::kBroadcast,
     .name = "broadcast",
     .title = "broadcast_perf",
     .help = "everybody gets what the root has",
     .has_root = true},
    {.collective = Collective::kReduce,
     .name = "reduce",
     .title = "reduce_perf",
     .help = "the root gets the sum of all",
     .has_reduction = true,
     .has_root = true},
    {.collective = Collective::kAllToAll,
     .name = "alltoall",
     .title = "alltoall_perf",
     .help = "everybody sends everybody a part",
     .is_split = true},
    {.collective = Collective::kAllToAllV,
     .name = "alltoallv",
     .title = "alltoallv_perf",
     .help = "the same with uneven parts, 1 to n times the smallest",
     .can_be_in_place = false,
     .is_split = true},
    {.collective = Collective::kGather,
     .name = "gather",
     .title = "gather_perf",
     .help = "the root gets the parts of all",
     .has_root = true,
     .is_split = true},
    {.collective = Collective::kScatter,
     .name = "scatter",
     .title = "scatter_perf",
     .help = "everybody gets its part from the root",
     .has_root = true,
     .is_split = true},
    {.collective = Collective::kBarrier,
     .name = "barrier",
     .title = "barrier_perf",
     .help = "nobody goes on before all have come",
     .can_be_in_place = false},
    {.collective = Collective::kSendReceive,
     .name = "sendrecv",
     .title = "sendrecv_perf",
     .help = "everybody sends to the next rank and receives from the one before",
     .can_be_in_place = false},
}};

// Parts of an uneven all-to-all: 1 + 2 + ... + ranks times the smallest.
std::uint64_t parts_of(const Operation& operation, std::uint32_t ranks) {
  if (operation.collective == Collective::kAllToAllV) {
    return std::uint64_t{ranks} * (ranks + 1) / 2;
  }
  return operation.is_split ? ranks : 1;
}

}  // namespace

std::span<const Operation> operations() {
  return kOperations;
}

const Operation& operation_of(Collective collective) {
  return *std::find_if(kOperations.begin(), kOperations.end(), [&](const Operation& operation) {
    return operation.collective == collective;
  });
}

std::uint64_t count_for(const Operation& operation, std::uint64_t bytes, DataType type,
                        std::uint32_t ranks) {
  if (operation.collective == Collective::kBarrier) return 0;
  return bytes / (bytes_of(type) * parts_of(operation, ranks));
}

std::uint64_t bytes_for(const Operation& operation, std::uint64_t count, DataType type,
                        std::uint32_t ranks) {
  return count * bytes_of(type) * parts_of(operation, ranks);
}

double bus_factor(Collective collective, std::uint32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
    case Collective::kSendReceive:
      return 1;
  }
  return 1;
}

std::uint64_t uneven_part(std::uint64_t count, std::uint32_t from, std::uint32_t to,
                          std::uint32_t ranks) {
  return count * (1 + (from + to) % ranks);
}

}  // namespace spindrift::coll
