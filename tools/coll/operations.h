#pragma once
// The operations of `spindrift coll`, and what nccl-tests calls and counts.
#include <cstdint>
#include <span>
#include <string_view>

#include "spindrift/collective.h"

namespace spindrift::coll {

struct Operation {
  Collective collective = Collective::kAllReduce;
  std::string_view name;   // of the command: "allreduce"
  std::string_view title;  // of the program of nccl-tests: "all_reduce_perf"
  std::string_view help;
  bool has_reduction = false;
  bool has_root = false;
  bool can_be_in_place = true;
  bool is_split = false;  // the larger buffer holds `count` elements for every rank
};

std::span<const Operation> operations();
const Operation& operation_of(Collective collective);

// The larger buffer of one rank holds about `bytes`: the count to call with, rounded down.
std::uint64_t count_for(const Operation& operation, std::uint64_t bytes, DataType type,
                        std::uint32_t ranks);
// The bytes that nccl-tests prints for a count: of the larger of what one rank gives and gets.
std::uint64_t bytes_for(const Operation& operation, std::uint64_t count, DataType type,
                        std::uint32_t ranks);

// What the slowest link carries of each byte counted: 2(n-1)/n for an all-reduce.
double bus_factor(Collective collective, std::uint32_t ranks);

// Elements that rank `from` sends rank `to` in an all-to-all of uneven parts. Over all partners the
// parts are `count` times 1..ranks.
std::uint64_t uneven_part(std::uint64_t count, std::uint32_t from, std::uint32_t to,
                          std::uint32_t ranks);

}  // namespace spindrift::coll
