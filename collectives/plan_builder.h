#pragma once
// Writes plans down in program order: an algorithm says what one rank does, step after step, as if
// nothing ran at the same time. The waits that keep this true while lanes run side by side follow
// from which places the steps read and write.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/plan.h"

namespace spindrift::collectives {

inline ChunkRef input(std::uint32_t chunk) {
  return {.buffer = BufferKind::kInput, .chunk = chunk};
}
inline ChunkRef output(std::uint32_t chunk) {
  return {.buffer = BufferKind::kOutput, .chunk = chunk};
}
inline ChunkRef scratch(std::uint32_t chunk) {
  return {.buffer = BufferKind::kScratch, .chunk = chunk};
}

// How to add what comes to what is there.
struct Addition {
  bool is_incoming_first = false;
  bool is_final = false;
};

class PlanBuilder final {
 public:
  PlanBuilder(const PlanRequest& request, std::uint32_t chunks_per_block,
              std::uint32_t scratch_blocks = 0);

  // Messages of one channel to a peer meet the peer's receives of that channel in order.
  void use_channel(std::uint32_t channel) { channel_ = channel; }
  void send(std::uint32_t peer, ChunkRef source, std::uint32_t chunks = 1);
  void receive(std::uint32_t peer, ChunkRef target, std::uint32_t chunks = 1);
  // target = source (+) what comes
  void receive_reduce(std::uint32_t peer, ChunkRef source, ChunkRef target, Addition addition,
                      std::uint32_t chunks = 1);
  // Nothing where source and target are the same place.
  void copy(ChunkRef source, ChunkRef target, std::uint32_t chunks = 1);
  // target = source (+) operand
  void reduce(ChunkRef source, ChunkRef operand, ChunkRef target, bool is_final,
              std::uint32_t chunks = 1);

  // What follows waits for everything since the last call.
  void next_round();

  Plan finish() { return std::move(plan_); }

 private:
  struct Use {
    StepRef step{};
    std::size_t first_place = 0;  // of what the step uses there
    std::uint32_t chunks = 0;
  };
  struct Place {
    std::vector<Use> writers;  // of the value that is there: one, or none
    std::vector<Use> readers;  // since then
  };

  void add(std::optional<std::uint32_t> peer, Step step);
  std::uint32_t lane_for(std::optional<std::uint32_t> peer, StepKind kind);
  std::size_t place_of(const ChunkRef& ref) const { return map_.of(ref); }
  void wait_for(Step& step, const Use& use, std::size_t first_place);
  void read(Step& step, StepRef here, const ChunkRef& ref);
  void write(Step& step, StepRef here, const ChunkRef& ref);

  Plan plan_;
  const PlaceMap map_;
  std::uint32_t channel_ = 0;
  std::vector<Place> places_;
  std::vector<StepRef> previous_round_;
  std::vector<StepRef> this_round_;
};

}  // namespace spindrift::collectives
