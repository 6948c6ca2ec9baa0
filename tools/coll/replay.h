#pragma once
// Replays the communication of training steps: a model's gradients in buckets, each bucket reduced
// as soon as the backward pass has made it, several under way at once.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/collective.h"

#include "tools/coll/gather.h"
#include "tools/coll/options.h"
#include "tools/coll/pattern.h"
#include "tools/coll/table.h"
#include "tools/coll/workload.h"

namespace spindrift::coll {

struct ReplayResult {
  std::vector<Outcome> buckets;  // from its start to its end; verified
  Outcome step;                  // from the first gradient to the end of the last bucket
};

class Replay final {
 public:
  // Large models reuse the memory of buckets that are through. May throw std::bad_alloc.
  Replay(Communicator& communicator, Gather& gather, const Options& options,
         std::span<const Bucket> buckets);

  // options.warmup steps, then options.iterations timed ones, then one verified.
  Result<ReplayResult> run();

 private:
  struct Started {
    std::size_t bucket = 0;
    WorkId work{};
    double at_us = 0;
  };
  Status run_step(bool is_timed);
  Status wait_for_oldest(bool is_timed);
  void note_done(bool is_timed);
  Status verify();
  double elapsed_us() const;
  CollectiveCall call_for(std::size_t bucket);

  Communicator& communicator_;
  Gather& gather_;
  const Options& options_;
  const std::span<const Bucket> buckets_;
  Pattern pattern_;
  std::uint64_t slot_bytes_ = 0;
  std::size_t slots_ = 0;
  std::vector<std::byte> memory_;
  std::vector<Started> started_;  // not yet through, in order
  Time step_start_{};
  std::vector<RankTime> bucket_times_;  // sums until the end
  std::vector<std::uint64_t> wrong_;
  RankTime step_time_;
};

}  // namespace spindrift::coll
