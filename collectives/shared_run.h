#pragma once
// One call that goes through the memory that all ranks of a host share (shared_area.h) instead of
// by messages. Every rank copies what others need of it into its slot, and those who need it take
// it out of there, in the order of the ranks where it is added up.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "spindrift/collective.h"

#include "collectives/reduce.h"
#include "collectives/shared_area.h"

namespace spindrift::collectives {

struct SharedCall {
  SharedArea* area = nullptr;  // null: the call goes by messages
  Collective collective = Collective::kAllReduce;
  // All-reduce: each rank adds up one part of the vector, for all, instead of all of it, for
  // itself.
  bool adds_parts = false;
  std::uint32_t root = 0;
  std::uint64_t count = 0;  // 0 of a barrier too
  std::size_t element_bytes = 1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  ReduceKernel reduce{};
  FinishKernel finish{};
  std::uint32_t fingerprint = 0;
};

class SharedRun final {
 public:
  // The call's rounds follow those of the calls begun before. It stays where it is until the run is
  // over.
  void begin(const SharedCall& call);
  bool is_done() const { return round_ == rounds_; }
  // Does what may be done now, a few rounds at most. False: nothing could be.
  bool advance();
  // Whether a round was published since the last time: those who sleep are to be woken.
  bool take_published() { return std::exchange(has_news_, false); }

  // Who has published another call in this one's place.
  std::optional<std::uint32_t> other_caller() const { return other_caller_; }
  // Whether what is left to do needs this rank to do something first.
  bool needs(std::uint32_t rank) const;

 private:
  // Rounds of one advance(), so that the transport has its turn in between.
  static constexpr std::uint32_t kRoundsAtOnce = 4;

  struct Part {
    std::uint64_t first = 0;  // element
    std::uint64_t count = 0;
  };
  bool publish();
  void fill(std::byte* slot, const Part& part) const;
  void fill_but_kept(std::byte* slot, const Part& part) const;
  bool collect();
  bool collects_from(std::uint32_t rank) const;
  void take(std::uint32_t rank, const Part& part);
  void add(std::uint32_t rank, const Part& part, std::uint64_t skipped);
  void copy_out(std::uint32_t rank, const Part& part, std::uint32_t slot_block,
                std::uint32_t block) const;
  const std::byte* own_block() const;
  bool loses_input() const;

  // What the present round moves; `kept` of it is this rank's, or `rank`'s, to add up.
  Part part() const;
  Part kept(const Part& part, std::uint32_t rank) const;
  std::uint32_t blocks_in_slot() const;
  std::size_t slot_bytes(const Part& part) const;
  bool is_second() const { return call_->adds_parts && round_ % 2 == 1; }
  bool contributes() const;
  std::size_t bytes(std::uint64_t elements) const { return elements * call_->element_bytes; }

  const SharedCall* call_ = nullptr;
  std::uint64_t first_round_ = 0;
  std::uint64_t round_ = 0;  // of the call's
  std::uint64_t rounds_ = 0;
  std::uint64_t part_elements_ = 0;
  std::uint32_t next_source_ = 0;
  bool has_published_ = false;  // the present round
  bool has_news_ = false;
  std::optional<std::uint32_t> other_caller_;
};

}  // namespace spindrift::collectives
