#pragma once
// Small numbers and texts between the ranks of a measurement, through the store.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/collective.h"

namespace spindrift::coll {

class Gather final {
 public:
  Gather(Store& store, std::uint32_t rank, std::uint32_t ranks, Duration timeout)
      : store_(store), timeout_(timeout), rank_(rank), ranks_(ranks) {}

  // All ranks call these in the same order. Rank 0 gets all texts by rank, the others nothing.
  Result<std::vector<std::string>> to_rank_0(std::string_view text);
  // What rank 0 said, at all ranks.
  Result<std::string> from_rank_0(std::string_view text);

 private:
  Store& store_;
  const Duration timeout_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  std::uint32_t round_ = 0;
};

}  // namespace spindrift::coll
