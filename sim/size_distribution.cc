#include "sim/size_distribution.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace spindrift::sim {
namespace {

using Point = SizeDistribution::Point;

// Search cluster, Alizadeh et al., "Data Center TCP", SIGCOMM 2010, figure 4, with the points that
// simulations of this field commonly use.
constexpr Point kWebSearch[] = {{1, 0},       {10e3, 0.15}, {20e3, 0.20},  {30e3, 0.30},
                                {50e3, 0.40}, {80e3, 0.53}, {200e3, 0.60}, {1e6, 0.70},
                                {2e6, 0.80},  {5e6, 0.90},  {10e6, 0.97},  {30e6, 1}};
// Data mining cluster, Greenberg et al., "VL2", SIGCOMM 2009, figure 2, with the points of
// Alizadeh et al., "pFabric", SIGCOMM 2013, section 5.1: packets of 1460 bytes.
constexpr double kPacket = 1460;
constexpr Point kDataMining[] = {{1, 0},
                                 {kPacket, 0.5},
                                 {2 * kPacket, 0.6},
                                 {3 * kPacket, 0.7},
                                 {7 * kPacket, 0.8},
                                 {267 * kPacket, 0.9},
                                 {2107 * kPacket, 0.95},
                                 {66667 * kPacket, 0.99},
                                 {666667 * kPacket, 1}};

Result<SizeDistribution> read_file(std::string_view name) {
  std::ifstream in{std::string(name)};
  if (!in)
    return Error(ErrorCode::kNotFound,
                 "must be web_search, data_mining, or a file of lines \"bytes percent\"");
  std::vector<Point> points;
  double bytes = 0;
  double percent = 0;
  while (in >> bytes >> percent) {
    const bool rises =
        points.empty() || (bytes >= points.back().bytes && percent / 100 >= points.back().share);
    if (!rises || bytes < 0 || bytes > 0x1.0p40 || percent < 0 || percent > 100)
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrCat("line ", points.size() + 1, " (", bytes, " ", percent,
                                "): sizes must be 0..2^40, percentages 0..100, and both rise"));
    points.push_back({.bytes = bytes, .share = percent / 100});
  }
  if (!in.eof() || points.size() < 2 || points.back().share != 1)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat("after line ", points.size(),
                              ": expected two numbers a line, the last percentage 100"));
  return SizeDistribution(std::move(points));
}

}  // namespace

std::uint64_t SizeDistribution::draw(Rng& rng) const {
  const double share = static_cast<double>(rng.next() >> 11) * 0x1.0p-53;
  const auto above = std::upper_bound(points_.begin(), points_.end(), share,
                                      [](double s, const Point& p) { return s < p.share; });
  if (above == points_.begin())
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(above->bytes));
  if (above == points_.end()) return static_cast<std::uint64_t>(points_.back().bytes);
  const Point& below = *(above - 1);
  const double part = (share - below.share) / (above->share - below.share);
  const double bytes = below.bytes + part * (above->bytes - below.bytes);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes));
}

double SizeDistribution::mean_bytes() const {
  double sum = points_.front().bytes * points_.front().share;
  for (std::size_t i = 1; i < points_.size(); ++i)
    sum +=
        (points_[i].share - points_[i - 1].share) * (points_[i].bytes + points_[i - 1].bytes) / 2;
  return sum;
}

Result<SizeDistribution> find_size_distribution(std::string_view name) {
  if (name == "web_search") return SizeDistribution({std::begin(kWebSearch), std::end(kWebSearch)});
  if (name == "data_mining")
    return SizeDistribution({std::begin(kDataMining), std::end(kDataMining)});
  return read_file(name);
}

}  // namespace spindrift::sim
