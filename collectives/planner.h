#pragma once
// Which algorithm a call gets, and the plans that were made: one for each kind of call.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/plan.h"

#include "collectives/bound_plan.h"
#include "collectives/call.h"
#include "collectives/cost_model.h"
#include "collectives/shared_run.h"

namespace spindrift::collectives {

// What a plan depends on.
struct PlanKey {
  Collective collective = Collective::kAllReduce;
  bool is_in_place = false;
  std::uint8_t element_bytes = 1;
  std::uint32_t root = 0;
  std::uint64_t count = 0;
  const CollectiveAlgorithm* algorithm = nullptr;  // null: to be chosen
  constexpr bool operator==(const PlanKey&) const = default;
};

struct PlannerOptions {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t slice_bytes = 0;
  bool is_deterministic = false;
  std::string algorithm{};  // CommunicatorOptions::algorithm, or SPINDRIFT_ALGO
  PlanTopology topology{};
  CostModel costs{};
  std::vector<bool>
      has_segments{};            // by rank: shows the others of its host its memory; empty: none
  std::string why_not_shared{};  // another reason not to go through it; empty: none
};

class Planner final {
 public:
  // Refuses an `algorithm` text that names what is not there.
  static Result<Planner> create(PlannerOptions options);
  // What is learned after the ranks have met: PlannerOptions::has_segments.
  void set_segments(std::vector<bool> has_segments) {
    options_.has_segments = std::move(has_segments);
  }
  void set_why_not_shared(std::string reason) { options_.why_not_shared = std::move(reason); }
  // Ranks of this one's host, ascending.
  std::vector<std::uint32_t> near_ranks() const;
  // For a communicator of some ranks of this one, of which this process is number `rank`.
  Result<Planner> for_part(std::uint32_t rank, std::span<const std::uint32_t> members) const;

  struct Entry {
    PlanKey key{};
    const CollectiveAlgorithm* algorithm = nullptr;
    BoundPlan plan;                       // the messages
    std::optional<BoundShared> shared{};  // what goes through memory instead
    std::uint64_t last_use = 0;
    std::uint32_t users = 0;      // calls under way
    std::uint32_t name_hash = 0;  // of the algorithm
  };
  // The plan for a call; made when it is not there. Stays where it is while it has users; otherwise
  // the least recently used are given up.
  Result<Entry*> find(const PlanKey& key);
  // A plan of another shape than `count` says; not kept.
  Result<BoundPlan> bind(Collective collective, const CollectiveAlgorithm* algorithm,
                         const BindRequest& request) const;
  Result<AlgorithmChoice> explain(const PlanKey& key) const;
  // Of messages that go straight to their receivers: `messages` of them, of `bytes` in all.
  AlgorithmChoice explain_transfers(std::uint32_t messages, double bytes) const;
  Result<const CollectiveAlgorithm*> choose(const PlanKey& key) const;

 private:
  explicit Planner(PlannerOptions options) : options_(std::move(options)) {}
  Status parse(std::string_view text);
  void give_up_oldest();
  PlanRequest request_for(const PlanKey& key) const;
  std::string why_not(const CollectiveAlgorithm& algorithm, const PlanKey& key) const;
  std::string why_not_shared() const;
  std::string why_no_memory() const;
  // Whether a call, or what of it stays inside hosts, goes through memory.
  bool uses_memory(const CollectiveAlgorithm& algorithm, const PlanKey& key) const;
  std::uint64_t larger_bytes(const PlanKey& key) const;
  Result<PlanCost> cost(const CollectiveAlgorithm& algorithm, const PlanKey& key) const;
  // What the options ask for; null: nothing.
  const CollectiveAlgorithm* forced(Collective collective) const;

  struct KnownCost {
    const CollectiveAlgorithm* algorithm = nullptr;
    std::uint32_t root = 0;
    PlanCost cost{};
  };
  PlannerOptions options_;
  std::vector<const CollectiveAlgorithm*> forced_;
  std::vector<std::unique_ptr<Entry>> entries_;
  mutable std::vector<KnownCost> known_;
  Entry* last_ = nullptr;
  std::uint64_t uses_ = 0;
};

}  // namespace spindrift::collectives
