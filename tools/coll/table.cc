#include "tools/coll/table.h"

#include <absl/strings/str_format.h>

namespace spindrift::coll {
namespace {

std::string columns(std::uint64_t bytes, const Outcome& outcome, std::uint32_t ranks) {
  const Bandwidth bandwidth = bandwidth_of(bytes, outcome.time_us, ranks);
  std::string text = absl::StrFormat("  %7s  %6s  %6s", fit(outcome.time_us, 7),
                                     fit(bandwidth.algorithm_gbs, 6), fit(bandwidth.bus_gbs, 6));
  if (outcome.wrong) {
    absl::StrAppendFormat(&text, "  %6g", static_cast<double>(*outcome.wrong));
  } else {
    text += "    N/A";
  }
  return text;
}

}  // namespace

Bandwidth bandwidth_of(std::uint64_t bytes, double time_us, std::uint32_t ranks) {
  if (time_us <= 0) return {};
  Bandwidth out;
  out.algorithm_gbs = static_cast<double>(bytes) / time_us * 1e-3;
  out.bus_gbs = out.algorithm_gbs * 2 * (ranks - 1) / ranks;
  return out;
}

std::string fit(double value, int width) {
  int power = 0;
  double next = 1;
  while (value >= next) {
    next *= 10;
    ++power;
  }
  if (power < width - 2) return absl::StrFormat("%*.2f", width, value);
  if (power < width - 1) return absl::StrFormat("%*.1f", width, value);
  if (power < width + 1) return absl::StrFormat("%*.0f", width, value);
  if (width >= 7) return absl::StrFormat("%*.1e", width, value);
  return absl::StrFormat("%*.0e", width, value);
}

std::string table_header() {
  return "#\n"
         "#                                                         "
         "     out-of-place                       in-place          \n"
         "#       size         count      type   redop    root     t"
         "ime   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n"
         "#        (B)    (elements)                               ("
         "us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n";
}

std::string table_row(const Row& row, DataType type, ReduceOp op, std::uint32_t ranks) {
  return absl::StrFormat("%12d  %12d  %8s  %6s  %6d", row.bytes, row.count, to_string(type),
                         to_string(op), -1) +
         columns(row.bytes, row.out_of_place, ranks) + columns(row.bytes, row.in_place, ranks) +
         "\n";
}

std::string table_footer(std::uint64_t wrong, double average_bus_gbs) {
  return absl::StrFormat("# %-20s : %d %s\n# %-20s : %g \n#\n# Collective test concluded: %s\n#\n",
                         "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED",
                         "Avg bus bandwidth", average_bus_gbs, "all_reduce_perf");
}

}  // namespace spindrift::coll
