#pragma once
// Output in the format of nccl-tests, so that its users and their scripts can read it.
#include <cstdint>
#include <optional>
#include <string>

#include "spindrift/collective.h"

namespace spindrift::coll {

// One measurement, averaged or summed over the ranks.
struct Outcome {
  double time_us = 0;
  std::optional<std::uint64_t> wrong;  // elements; none: not checked
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  Outcome out_of_place{};
  Outcome in_place{};
};

struct Bandwidth {
  double algorithm_gbs = 0;  // 1e9 bytes of the buffer per second
  double bus_gbs = 0;        // times 2(n-1)/n: what the slowest link carries
};
Bandwidth bandwidth_of(std::uint64_t bytes, double time_us, std::uint32_t ranks);

// `value` in `width` columns: two decimals, then one, none, or an exponent as it grows.
std::string fit(double value, int width);

std::string table_header();
std::string table_row(const Row& row, DataType type, ReduceOp op, std::uint32_t ranks);
std::string table_footer(std::uint64_t wrong, double average_bus_gbs);

}  // namespace spindrift::coll
