#pragma once
// What of a call goes through the memory that ranks of a host share (shared_area.h) instead of by
// messages: all of it, or, where there are several hosts, what comes before and behind the messages
// between them. Every rank copies what others need of it into its slot, and those who need it take
// it out of there, in the order of the ranks where it is added up.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "spindrift/collective.h"

#include "collectives/reduce.h"
#include "collectives/shared_area.h"
#include "collectives/shared_tables.h"

namespace spindrift::collectives {

// Tables for one count and type: places in bytes, and pieces cut into rounds.
class BoundShared final {
 public:
  struct Piece {
    std::uint64_t offset = 0;  // in the phase's source
    std::uint64_t bytes = 0;
    bool is_for_others = true;
  };
  struct Take {
    std::uint32_t place = 0;
    std::uint32_t piece = 0;
    std::uint64_t offset = 0;  // in the phase's target
    std::uint64_t bytes = 0;
  };
  struct Phase {
    BufferKind source = BufferKind::kInput;
    BufferKind target = BufferKind::kOutput;
    bool adds = false;
    bool is_final = false;
    bool sees_all = false;  // takes from everybody else
    std::uint32_t pieces = 0;
    std::uint64_t piece_bytes = 0;  // of the longest
    std::uint64_t part_bytes = 0;   // of a piece in one round
    std::uint64_t rounds = 0;
    std::uint64_t sources = 0;  // a bit for each place that is taken from
    std::vector<Piece> shown{};
    std::vector<Take> takes{};
  };

  BoundShared(const SharedTables& tables, std::uint64_t count, std::size_t element_bytes);
  const Phase& phase(std::size_t number) const { return phases_[number]; }
  std::uint64_t rounds() const { return phases_[0].rounds + phases_[1].rounds; }
  // Place -> rank.
  std::span<const std::uint32_t> members() const { return members_; }

 private:
  std::array<Phase, 2> phases_;
  std::vector<std::uint32_t> members_;
};

struct SharedCall {
  SharedArea* area = nullptr;  // null: nothing goes through memory
  const BoundShared* tables = nullptr;
  std::array<std::byte*, 3> buffers{};  // by BufferKind
  std::size_t element_bytes = 1;
  std::uint32_t ranks = 1;  // whose sum is divided for an average
  ReduceKernel reduce{};
  FinishKernel finish{};
  std::uint32_t fingerprint = 0;
};

class SharedRun final {
 public:
  // The call's rounds follow those of the calls begun before. It stays where it is until the run is
  // over.
  void begin(const SharedCall& call);
  // What comes before messages is over, and all is.
  bool is_past_first() const { return phase_ > 0; }
  bool is_done() const { return phase_ == kPhases; }
  // Does what may be done now, a few rounds at most: of the second phase only with `may_end`.
  // False: nothing could be.
  bool advance(bool may_end);
  // Whether a round was published since the last time: those who sleep are to be woken.
  bool take_published() { return std::exchange(has_news_, false); }

  // The place of who has published another call in this one's place.
  std::optional<std::uint32_t> other_caller() const { return other_caller_; }
  // Whether what is left to do needs the rank at this place to do something first.
  bool needs(std::uint32_t place) const;

 private:
  static constexpr std::uint32_t kPhases = 2;
  // Rounds of one advance(), so that the transport has its turn in between.
  static constexpr std::uint32_t kRoundsAtOnce = 4;

  void begin_phase();
  void begin_round();
  void end_round();
  bool publish();
  void fill(std::byte* slot) const;
  bool collect();
  void take(const BoundShared::Take& take) const;
  void add(const BoundShared::Take& take, std::size_t bytes) const;
  // Of a piece in the present round.
  std::size_t part_of(std::uint64_t piece_bytes) const {
    return piece_bytes > at_ ? std::min<std::uint64_t>(piece_bytes - at_, stride_) : 0;
  }
  const std::byte* own_piece(std::uint32_t piece) const {
    return buffer(now_->source) + now_->shown[piece].offset + at_;
  }
  const std::byte* shown_piece(std::uint32_t place, std::uint32_t piece) const {
    return call_->area->payload(place, now_->pieces * stride_) + piece * stride_;
  }
  std::byte* buffer(BufferKind kind) const {
    return call_->buffers[static_cast<std::size_t>(kind)];
  }

  const SharedCall* call_ = nullptr;
  std::uint64_t first_round_ = 0;  // of the area's
  std::uint64_t done_rounds_ = 0;  // of the call's
  std::uint32_t phase_ = 0;
  const BoundShared::Phase* now_ = nullptr;
  std::uint64_t round_ = 0;   // of the phase's
  std::uint64_t at_ = 0;      // where it begins in every piece
  std::uint64_t stride_ = 0;  // how much of the longest piece it has
  std::uint32_t next_take_ = 0;
  bool loses_own_ = false;
  bool has_published_ = false;  // the present round
  bool has_news_ = false;
  std::optional<std::uint32_t> other_caller_;
};

}  // namespace spindrift::collectives
