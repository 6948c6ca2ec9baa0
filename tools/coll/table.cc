#include "tools/coll/table.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "tools/coll/operations.h"

namespace spindrift::coll {
namespace {

std::string columns(Collective collective, std::uint64_t bytes,
                    const std::optional<Outcome>& outcome, std::uint32_t ranks) {
  if (!outcome) return absl::StrFormat("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  const Bandwidth bandwidth = bandwidth_of(collective, bytes, outcome->time_us, ranks);
  std::string text = absl::StrFormat("  %7s  %6s  %6s", fit(outcome->time_us, 7),
                                     fit(bandwidth.algorithm_gbs, 6), fit(bandwidth.bus_gbs, 6));
  if (outcome->wrong) {
    absl::StrAppendFormat(&text, "  %6g", static_cast<double>(*outcome->wrong));
  } else {
    text += "    N/A";
  }
  return text;
}

}  // namespace

Bandwidth bandwidth_of(Collective collective, std::uint64_t bytes, double time_us,
                       std::uint32_t ranks) {
  if (time_us <= 0) return {};
  Bandwidth out;
  out.algorithm_gbs = static_cast<double>(bytes) / time_us * 1e-3;
  out.bus_gbs = out.algorithm_gbs * bus_factor(collective, ranks);
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

std::string table_row(const Row& row, const Options& options, std::uint32_t ranks) {
  const Operation& operation = operation_of(options.collective);
  const int root = operation.has_root ? static_cast<int>(options.root) : -1;
  return absl::StrFormat("%12d  %12d  %8s  %6s  %6d", row.bytes, row.count, to_string(options.type),
                         operation.has_reduction ? to_string(options.op) : "none", root) +
         columns(options.collective, row.bytes, row.out_of_place, ranks) +
         columns(options.collective, row.bytes, row.in_place, ranks) + "\n";
}

std::string table_footer(Collective collective, std::uint64_t wrong, double average_bus_gbs) {
  return absl::StrFormat("# %-20s : %d %s\n# %-20s : %g \n#\n# Collective test concluded: %s\n#\n",
                         "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED",
                         "Avg bus bandwidth", average_bus_gbs, operation_of(collective).title);
}

std::string spread_line(const Row& row) {
  const std::vector<RankTime>& ranks = row.out_of_place.ranks;
  if (ranks.empty()) return {};
  const auto [least, most] = std::minmax_element(
      ranks.begin(), ranks.end(),
      [](const RankTime& a, const RankTime& b) { return a.mean_us < b.mean_us; });
  const auto worst = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankTime& a, const RankTime& b) { return a.slowest_us < b.slowest_us; });
  return absl::StrFormat(
      "# Ranks at %d bytes     : %.2f us at rank %d to %.2f us at rank %d; slowest call %.2f us at "
      "rank %d\n",
      row.bytes, least->mean_us, least - ranks.begin(), most->mean_us, most - ranks.begin(),
      worst->slowest_us, worst - ranks.begin());
}

}  // namespace spindrift::coll
