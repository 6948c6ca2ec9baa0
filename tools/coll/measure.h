#pragma once
// Runs one all-reduce as often as asked: time first, then once more for the result.
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/collective.h"

#include "tools/coll/gather.h"
#include "tools/coll/options.h"
#include "tools/coll/pattern.h"
#include "tools/coll/table.h"

namespace spindrift::coll {

class Measurement final {
 public:
  // Buffers for up to `max_count` elements.
  Measurement(Communicator& communicator, Gather& gather, const Options& options,
              std::uint64_t max_count);

  // Both places of one size. Only rank 0 knows the times and sums of all.
  Result<Row> run(std::uint64_t count);
  // All buckets of a model once, in place; outcomes by bucket, each verified.
  Result<std::vector<Outcome>> run_step(std::span<const std::uint64_t> counts);

 private:
  Status barrier();
  Result<Outcome> run_place(std::uint64_t count, bool is_in_place);
  Result<double> time_us(std::uint64_t count, bool is_in_place, std::uint32_t rounds);
  Result<std::uint64_t> count_wrong(std::uint64_t count, bool is_in_place);
  // Times averaged, wrong elements summed.
  Result<std::vector<Outcome>> combine(std::span<const Outcome> own);

  Communicator& communicator_;
  Gather& gather_;
  const Options& options_;
  const Pattern pattern_;
  float token_ = 0;
  std::vector<float> input_;  // made by the first run()
  std::vector<float> output_;
};

}  // namespace spindrift::coll
