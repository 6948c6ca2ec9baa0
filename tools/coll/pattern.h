#pragma once
// Values whose sums over all ranks are known exactly, whatever the order of addition.
#include <cstdint>
#include <span>
#include <vector>

namespace spindrift::coll {

class Pattern final {
 public:
  explicit Pattern(std::uint32_t ranks);

  // Small integers, different at every rank: |sum| <= 64 * 128, exact in float.
  static float value(std::uint32_t rank, std::uint64_t index);
  // Element i of the buffer holds the value of element `first` + i.
  static void fill(std::span<float> buffer, std::uint32_t rank, std::uint64_t first);
  // Elements that differ from the sum over all ranks; NaN counts as different.
  std::uint64_t count_wrong(std::span<const float> buffer, std::uint64_t first) const;

 private:
  std::vector<float> sums_;  // repeats with kPeriod
};

}  // namespace spindrift::coll
