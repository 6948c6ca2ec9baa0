#pragma once
// Flow sizes: a cumulative distribution, linear between its points.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "spindrift/result.h"

#include "transport/base/rng.h"

namespace spindrift::sim {

class SizeDistribution {
 public:
  struct Point {
    double bytes = 0;
    double share = 0;  // of flows up to this size, 0..1
  };
  // Both rise; the last share is 1.
  explicit SizeDistribution(std::vector<Point> points) : points_(std::move(points)) {}
  std::uint64_t draw(Rng& rng) const;
  double mean_bytes() const;
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;
};

// "web_search", "data_mining", or a file of lines "bytes percent".
Result<SizeDistribution> find_size_distribution(std::string_view name);

}  // namespace spindrift::sim
