#pragma once
// Output in the format of nccl-tests, so that its users and their scripts can read it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/collective.h"

#include "tools/coll/options.h"

namespace spindrift::coll {

// What one rank measured.
struct RankTime {
  double mean_us = 0;
  double slowest_us = 0;  // of its calls
};

// One measurement of all ranks.
struct Outcome {
  double time_us = 0;                  // mean over ranks and calls
  std::optional<std::uint64_t> wrong;  // elements; none: not checked
  std::vector<RankTime> ranks;
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string algorithm;
  Outcome out_of_place{};
  std::optional<Outcome> in_place{};  // none: there is no such thing
};

struct Bandwidth {
  double algorithm_gbs = 0;  // 1e9 bytes of the buffer per second
  double bus_gbs = 0;        // what the slowest link carries
};
Bandwidth bandwidth_of(Collective collective, std::uint64_t bytes, double time_us,
                       std::uint32_t ranks);

// `value` in `width` columns: two decimals, then one, none, or an exponent as it grows.
std::string fit(double value, int width);

std::string table_header();
std::string table_row(const Row& row, const Options& options, std::uint32_t ranks);
std::string table_footer(Collective collective, std::uint64_t wrong, double average_bus_gbs);

// One line: which rank took longest, which least, and the slowest call of all.
std::string spread_line(const Row& row);

}  // namespace spindrift::coll
