#pragma once
// Executor: runs plans over an endpoint. The only part of the collectives that posts work.
//
// A step moves in slices, one message each. Receives are posted ahead as far as slices_in_flight
// and the plan's waits allow; reducing receives land in scratch memory and are added into place on
// arrival, while later slices are under way.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"
#include "spindrift/plan.h"

#include "collectives/plan.h"
#include "collectives/reduce.h"

namespace spindrift::collectives {

// One direction between two ranks: sends of a channel leave by the connection this rank opened,
// receives come from the one the peer opened.
struct Link {
  ConnId conn{};
  std::uint32_t peer = 0;
  std::uint32_t channel = 0;
  bool is_outgoing = false;
  std::string address;  // the peer's, for error messages
};

struct ExecutorOptions {
  std::uint32_t slice_bytes = 262144;
  std::uint32_t slices_in_flight = 8;
  Duration spin{};
  Duration stall_timeout = std::chrono::seconds(300);
};

// What a plan is run over. Input and output are registered regions of at least count elements.
struct Buffers {
  MemoryRegion input{};
  MemoryRegion output{};
  std::uint64_t count = 0;
  std::size_t element_bytes = 4;
  ReduceKernel reduce{};
};

class Executor final {
 public:
  Executor(Endpoint& endpoint, std::vector<Link> links, const ExecutorOptions& options);
  // Ends what is under way and gives the scratch memory back.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The plan is not needed afterwards. Allocates when a plan is larger than those before it.
  Status start(const Plan& plan, const Buffers& buffers);
  // One bounded turn: completions, reductions, new work. Never blocks.
  Status progress();
  bool is_done() const { return unfinished_lanes_ == 0; }
  // Progress until done; sleeps in the endpoint when nothing happened for options.spin.
  Status wait();

 private:
  struct BoundStep {
    StepKind kind = StepKind::kSend;
    std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t slices = 1;
    std::uint32_t first_wait = 0;
    std::uint32_t wait_count = 0;
  };
  struct BoundWait {
    StepRef on{};
    bool is_by_slice = false;
  };
  struct Cursor {
    std::uint32_t step = 0;
    std::uint32_t slice = 0;
  };
  struct LaneState {
    const Link* link = nullptr;  // null: a lane of copies
    std::uint32_t first_step = 0;
    std::uint32_t step_count = 0;
    Cursor posted{};     // next slice to start
    Cursor completed{};  // oldest slice not completed
    std::uint32_t in_flight = 0;
    std::uint64_t posted_slices = 0;     // messages only; chooses the scratch slot
    std::uint64_t completed_slices = 0;  // messages only
    std::uint32_t scratch = 0;           // index into scratch_
  };
  struct Scratch {
    std::vector<std::byte> memory;
    MemoryRegion region{};
  };

  Status bind(const Plan& plan);
  Status bind_lane(const Plan& plan, const Lane& lane);
  void bind_step(const Plan& plan, const Step& step);
  Status bind_scratch(LaneState& lane, std::uint32_t index);
  const Link* find_link(std::uint32_t peer, std::uint32_t channel, bool is_outgoing) const;

  const BoundStep& step_at(const LaneState& lane, const Cursor& cursor) const {
    return steps_[lane.first_step + cursor.step];
  }
  std::uint32_t slice_length(const BoundStep& step, std::uint32_t slice) const;
  bool may_start(const LaneState& lane) const;
  void advance(const LaneState& lane, Cursor& cursor) const;
  void complete_slice(LaneState& lane);
  std::byte* scratch_slot(const LaneState& lane, std::uint64_t slice) const;

  Status turn();
  Status take_completions();
  Status take_events();
  Status on_completion(const Completion& completion);
  Status start_ready();
  // False: the queue is full, or nothing more may start.
  Result<bool> start_slice(std::uint32_t lane_index);
  Status post_slice(std::uint32_t lane_index, const BoundStep& step, bool& was_accepted);
  std::string describe_lane(const LaneState& lane) const;
  std::string describe_stall(Duration silent_for) const;
  // Remembers the error, which is final.
  Error fail(ErrorCode code, std::string message);
  // Ends all work, so that no buffer is touched any more.
  void abort_and_drain();

  Endpoint& endpoint_;
  const std::vector<Link> links_;
  const ExecutorOptions options_;
  Buffers buffers_{};
  std::vector<BoundStep> steps_;
  std::vector<BoundWait> waits_;
  std::vector<LaneState> lanes_;
  std::vector<std::unique_ptr<Scratch>> scratch_;  // kept between plans
  std::vector<bool> is_closed_;                    // by link
  std::uint32_t rank_ = 0;
  std::uint32_t unfinished_lanes_ = 0;
  std::uint32_t outstanding_ = 0;  // messages posted and not completed
  Time last_movement_{};
  std::optional<Error> failure_;
};

}  // namespace spindrift::collectives
