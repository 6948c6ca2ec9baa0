#pragma once
// One call under way: runs a bound plan over links.
//
// A step moves in slices. A small message is sent as soon as the plan's waits allow, and is used as
// soon as they allow at the receiver. Large slices are written straight into place after the
// receiver has granted them, which it does ahead: for a plain receive when the place is free, for
// one that is added when there is landing memory. What is added is added on arrival, while later
// slices are under way.
//
// What of a call goes through shared memory (shared_run.h) runs here too: messages wait until its
// first phase is over, and its second until they are through.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/bound_plan.h"
#include "collectives/links.h"
#include "collectives/memory_pool.h"
#include "collectives/message.h"
#include "collectives/reduce.h"
#include "collectives/shared_run.h"

namespace spindrift::collectives {

// A buffer of the call. It is registered where messages are large.
struct RunBuffer {
  std::byte* data = nullptr;
  RegionSet set{};
};

struct RunCall {
  const BoundPlan* plan = nullptr;
  SharedCall shared{};  // with an area: what goes through memory
  RunBuffer input{};
  RunBuffer output{};
  // kSendReceive: addresses are absolute (data is null), and regions are looked up here.
  std::span<const RegionSet> pieces{};
  std::size_t element_bytes = 1;
  ReduceKernel reduce{};
  FinishKernel finish{};  // null: nothing to do for a final sum
  std::uint32_t ranks = 1;
  std::uint8_t group = 0;
  std::uint32_t operation = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::uint32_t> members{};  // rank in the group -> rank of the links
  std::uint32_t slices_in_flight = 8;
};

class Run final {
 public:
  Run(Links& links, MemoryPool& pool, std::uint32_t index)
      : links_(links), pool_(pool), index_(index) {}

  // To be filled in before begin().
  RunCall& new_call() {
    // All that not every call fills in; wiping the rest out costs more than a small call has.
    call_.shared.area = nullptr;
    call_.pieces = {};
    call_.reduce = {};
    call_.finish = {};
    return call_;
  }
  // Allocates when a plan is larger than those before it. The plan must outlive the run.
  Status begin();
  // Does what may be done now, but no more than a few slices of local work.
  void advance();
  bool has_more() const { return !queue_.empty(); }
  bool is_done() const { return unfinished_ == 0 && (!is_shared() || shared_.is_done()); }
  bool is_shared() const { return call_.shared.area != nullptr; }
  // The next that it needs is written by others of this host, without a message.
  bool waits_for_memory() const {
    return is_shared() && !shared_.is_done() && (unfinished_ == 0 || is_held());
  }
  // Only for shared ones: does what may be done now; false: nothing could be.
  bool advance_shared();
  // Something met a full queue: advance() again after the next completions.
  void retry_blocked();
  bool has_blocked() const { return has_blocked_; }

  // From the links; peers are ranks of the group.
  void on_message(std::uint32_t peer, const MessageHeader& header,
                  std::span<const std::byte> payload);
  void on_written(std::uint32_t peer, std::uint32_t channel, std::uint64_t bytes);
  void on_write_done(std::uint32_t lane);
  void on_open(std::uint32_t peer);

  struct Failure {
    std::string what;
    std::uint32_t peer = kNobody;  // rank of the group that is to blame
  };
  const std::optional<Failure>& failure() const { return failure_; }
  // Whether unfinished work needs this peer; and what all unfinished lanes wait for.
  bool needs(std::uint32_t peer) const;
  std::string describe_waiting() const;
  // Gives landing and scratch memory back; the run can begin another call then.
  void end();

  std::uint32_t index() const { return index_; }
  const RunCall& call() const { return call_; }
  RunCall& call() { return call_; }

  // What lives as long as the call; the caller's business.
  struct Belongings {
    std::vector<RegionSet> sets;          // in use in the buffer cache; RunCall::pieces
    std::vector<std::byte> bytes;         // buffers of calls that have none of their user's
    std::optional<BoundPlan> plan;        // RunCall::plan of calls that are not planned ahead
    std::uint32_t* plan_users = nullptr;  // of RunCall::plan otherwise: one less at the end
  };
  Belongings& belongings() { return belongings_; }

 private:
  // Slices of local work in one advance(), so that the transport has its turn in between.
  static constexpr std::uint32_t kLocalSlices = 4;

  struct Cursor {
    std::uint32_t step = 0;
    std::uint32_t slice = 0;
    constexpr auto operator<=>(const Cursor&) const = default;
  };
  struct Landing {
    MemoryPool::Block block{};
    std::uint32_t slices = 0;
    std::uint32_t used = 0;
  };
  struct LaneRun {
    Cursor posted{};                     // sends and local steps: next slice to start
    Cursor completed{};                  // oldest slice not completed
    Cursor granted{};                    // receives: next slice to grant
    Cursor arrived{};                    // receives: next large slice to arrive
    std::uint32_t in_flight = 0;         // writes under way
    std::uint32_t waiting_arrivals = 0;  // large slices here and not completed
    std::uint32_t stashed = 0;           // small messages here and not completed
    bool is_queued = false;
    bool is_blocked = false;
    std::vector<Grant> grants;  // sends: from first_grant on
    std::size_t first_grant = 0;
    std::vector<Landing> landings;  // added receives: from first_landing on
    std::size_t first_landing = 0;
  };
  struct Stashed {
    std::uint32_t lane = 0;
    std::uint32_t step = 0;
    bool is_used = false;
    std::vector<std::byte> payload;
  };

  // Messages have to wait for what comes before them in memory.
  bool is_held() const { return is_shared() && !shared_.is_past_first(); }
  void queue_all();
  void queue(std::uint32_t lane);
  void queue_dependents(std::uint32_t lane);
  void run_lane(std::uint32_t lane);
  void run_local(std::uint32_t lane);
  void run_send(std::uint32_t lane);
  bool send_small(std::uint32_t lane, const BoundStep& step);
  bool send_slice(std::uint32_t lane, const BoundStep& step);
  void run_receive(std::uint32_t lane);
  void grant_ahead(std::uint32_t lane);
  bool grant_in_place(std::uint32_t lane, const BoundStep& step);
  bool grant_landing(std::uint32_t lane, const BoundStep& step);
  bool send_grant(std::uint32_t lane, const Grant& grant);
  void take_arrived(std::uint32_t lane, const BoundStep& step);
  void take_stashed(std::uint32_t lane, const BoundStep& step);
  void on_data(std::uint32_t lane, const MessageHeader& header, std::span<const std::byte> payload);
  bool is_stashed(std::uint32_t lane, std::uint32_t step) const;
  void on_grant(std::uint32_t lane, std::span<const std::byte> payload);
  void apply(const BoundStep& step, std::uint64_t offset, const std::byte* incoming,
             std::uint32_t bytes);

  bool holds(const BoundStep& step, std::uint32_t slice) const;
  void advance_cursor(const BoundLane& lane, Cursor& cursor) const;
  // A slice of the lane is over.
  void complete(std::uint32_t lane);
  std::byte* at(BufferKind buffer, std::uint64_t offset) const;
  const RegionSet& set_at(BufferKind buffer, const std::byte* address) const;
  bool was_posted(std::uint32_t lane, PostOutcome outcome);
  void fail(std::uint32_t lane, std::string_view what);
  std::uint32_t link_of(const BoundLane& lane) const { return call_.members[lane.peer]; }

  void wake_sleepers();
  bool needs_in_memory(std::uint32_t peer) const;
  std::string describe_waiting_for_memory() const;
  void fail_for_other_call(std::uint32_t peer);

  Links& links_;
  MemoryPool& pool_;
  const std::uint32_t index_;
  RunCall call_{};
  SharedRun shared_;
  const BoundPlan* plan_ = nullptr;
  std::vector<LaneRun> lanes_;  // the first lane_count_ are of this call
  std::uint32_t lane_count_ = 0;
  std::vector<std::uint32_t> queue_;
  std::size_t queue_head_ = 0;
  std::vector<Stashed> stash_;
  MemoryPool::Block scratch_{};
  bool has_scratch_ = false;
  bool has_blocked_ = false;
  std::uint32_t landing_slices_ = 1;  // granted together
  std::uint32_t unfinished_ = 0;
  std::uint32_t local_work_ = 0;  // slices done in this advance()
  std::optional<Failure> failure_;
  Belongings belongings_;
};

}  // namespace spindrift::collectives
