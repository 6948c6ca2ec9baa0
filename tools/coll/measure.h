#pragma once
// Runs one operation as often as asked: for time first, then once more for the result.
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/collective.h"

#include "tools/coll/call_buffers.h"
#include "tools/coll/gather.h"
#include "tools/coll/options.h"
#include "tools/coll/table.h"

namespace spindrift::coll {

class Measurement final {
 public:
  Measurement(Communicator& communicator, Gather& gather, const Options& options);

  // Both places of one size. Only rank 0 knows the times and sums of all.
  Result<Row> run(std::uint64_t count);

 private:
  Result<Outcome> run_place(std::uint64_t count, Place place);
  // Adds the times of `rounds` calls to `own`.
  Status time(std::uint64_t count, Place place, std::uint32_t rounds, RankTime& own);
  Result<std::uint64_t> count_wrong(std::uint64_t count, Place place);

  Communicator& communicator_;
  Gather& gather_;
  const Options& options_;
  CallBuffers buffers_;
};

// What each rank measured of one thing, put together at rank 0; elsewhere the own alone. Times
// averaged, wrong elements summed.
Result<std::vector<Outcome>> combine(Gather& gather, std::span<const RankTime> own,
                                     std::span<const std::uint64_t> wrong, bool is_checked);

}  // namespace spindrift::coll
