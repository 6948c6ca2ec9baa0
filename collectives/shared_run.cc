#include "collectives/shared_run.h"

#include <algorithm>
#include <cstring>

#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

constexpr std::size_t kLineBytes = 64;
// What others have written comes from their caches: while some is used, the next is on its way.
constexpr std::size_t kAheadBytes = 4096;

void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

void fetch(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kLineBytes)
    __builtin_prefetch(from + at);
}

// Calls use(offset, bytes) for one piece after the other while the next of `from` is being fetched.
template <class Use>
void use_ahead(const std::byte* from, std::size_t bytes, const Use& use) {
  if (bytes > kAheadBytes) fetch(from, kAheadBytes);
  for (std::size_t at = 0; at < bytes; at += kAheadBytes) {
    const std::size_t length = std::min(kAheadBytes, bytes - at);
    const std::size_t next = at + length;
    fetch(from + next, std::min(kAheadBytes, bytes - next));
    use(at, length);
  }
}

BoundShared::Phase bind_phase(const SharedPhase& phase, std::uint32_t chunks_per_block,
                              std::uint64_t count, std::size_t element_bytes) {
  BoundShared::Phase bound{.source = phase.source,
                           .target = phase.target,
                           .adds = phase.adds,
                           .is_final = phase.is_final,
                           .pieces = phase.pieces};
  if (phase.pieces == 0) return bound;
  const auto range = [&](std::uint32_t chunk) {
    if (phase.chunks == 0) return ElementRange{};
    return range_of(count, chunks_per_block, chunk, phase.chunks);
  };
  // None is longer than the first.
  bound.piece_bytes = range(0).count * element_bytes;
  bound.part_bytes = SharedArea::kSlotBytes / phase.pieces / kLineBytes * kLineBytes;
  bound.rounds = (bound.piece_bytes + bound.part_bytes - 1) / bound.part_bytes;
  if (phase.chunks == 0) bound.rounds = 1;
  for (const SharedPiece& piece : phase.shown) {
    const ElementRange elements = range(piece.chunk);
    bound.shown.push_back({.offset = elements.first * element_bytes,
                           .bytes = elements.count * element_bytes,
                           .is_for_others = piece.is_for_others});
  }
  for (const SharedTake& take : phase.takes) {
    const ElementRange elements = range(take.chunk);
    bound.takes.push_back({.place = take.place,
                           .piece = take.piece,
                           .offset = elements.first * element_bytes,
                           .bytes = elements.count * element_bytes});
    bound.sources |= std::uint64_t{1} << take.place;
  }
  return bound;
}

}  // namespace

BoundShared::BoundShared(const SharedTables& tables, std::uint64_t count, std::size_t element_bytes)
    : phases_{bind_phase(tables.before, tables.chunks_per_block, count, element_bytes),
              bind_phase(tables.behind, tables.chunks_per_block, count, element_bytes)},
      members_(tables.members) {
  static_assert(kMaxRanks <= 64, "a bit for each place");
  const std::uint64_t own = std::uint64_t{1} << tables.place;
  const std::uint64_t all = members_.size() == 64 ? ~0ULL : (1ULL << members_.size()) - 1;
  for (Phase& phase : phases_) {
    phase.sources &= ~own;
    phase.sees_all = phase.sources == (all & ~own);
  }
}

void SharedRun::begin(const SharedCall& call) {
  call_ = &call;
  first_round_ = call.area->take_rounds(call.tables->rounds());
  done_rounds_ = 0;
  phase_ = 0;
  has_published_ = has_news_ = false;
  other_caller_.reset();
  begin_phase();
}

// The next phase that has rounds.
void SharedRun::begin_phase() {
  while (phase_ < kPhases && call_->tables->phase(phase_).rounds == 0)
    ++phase_;
  if (phase_ == kPhases) return;
  now_ = &call_->tables->phase(phase_);
  round_ = 0;
  at_ = 0;
  begin_round();
  loses_own_ = false;
  if (!now_->adds || call_->area->rank() < 2) return;
  // The sums of the ranks before this one are written over what it adds, if that is their place.
  for (const BoundShared::Take& take : now_->takes) {
    if (take.place != call_->area->rank()) continue;
    loses_own_ = buffer(now_->target) + take.offset == own_piece(take.piece);
    return;
  }
}

void SharedRun::begin_round() {
  at_ = round_ * now_->part_bytes;
  stride_ = std::min(now_->piece_bytes - at_, now_->part_bytes);
  next_take_ = 0;
  has_published_ = false;
}

void SharedRun::end_round() {
  call_->area->finish_round();
  ++done_rounds_;
  if (++round_ < now_->rounds) {
    begin_round();
    return;
  }
  ++phase_;
  begin_phase();
}

bool SharedRun::advance(bool may_end) {
  bool has_moved = false;
  for (std::uint32_t turn = 0; turn < kRoundsAtOnce && !is_done(); ++turn) {
    if (phase_ > 0 && !may_end) return has_moved;
    if (call_->area->round() != first_round_ + done_rounds_) return has_moved;
    if (!has_published_) {
      if (!publish()) return has_moved;
      has_moved = true;
    }
    const std::uint32_t before = next_take_;
    const bool is_over = collect();
    has_moved = has_moved || is_over || next_take_ != before;
    if (!is_over) return has_moved;
    end_round();
  }
  return has_moved;
}

bool SharedRun::publish() {
  SharedArea& area = *call_->area;
  if (!area.may_write()) return false;
  if (!now_->shown.empty()) fill(area.own_payload(now_->pieces * stride_));
  area.publish(call_->fingerprint);
  has_published_ = has_news_ = true;
  return true;
}

void SharedRun::fill(std::byte* slot) const {
  for (std::uint32_t i = 0; i < now_->shown.size(); ++i) {
    const BoundShared::Piece& piece = now_->shown[i];
    if (!piece.is_for_others && !loses_own_) continue;
    move_bytes(slot + i * stride_, own_piece(i), part_of(piece.bytes));
  }
}

bool SharedRun::collect() {
  const std::vector<BoundShared::Take>& takes = now_->takes;
  while (next_take_ < takes.size()) {
    const std::uint32_t place = takes[next_take_].place;
    if (place != call_->area->rank()) {
      const SharedArea::Found found = call_->area->look(place, call_->fingerprint);
      if (found == SharedArea::Found::kOtherCall) other_caller_ = place;
      if (found != SharedArea::Found::kHere) return false;
    }
    for (; next_take_ < takes.size() && takes[next_take_].place == place; ++next_take_)
      take(takes[next_take_]);
  }
  if (now_->sees_all) call_->area->note_all_here();
  return true;
}

void SharedRun::take(const BoundShared::Take& take) const {
  const std::size_t bytes = part_of(take.bytes);
  if (bytes == 0) return;
  if (now_->adds) {
    add(take, bytes);
    return;
  }
  std::byte* const to = buffer(now_->target) + take.offset + at_;
  if (take.place == call_->area->rank()) {
    move_bytes(to, own_piece(take.piece), bytes);
    return;
  }
  const std::byte* const from = shown_piece(take.place, take.piece);
  use_ahead(from, bytes,
            [&](std::size_t at, std::size_t length) { std::memcpy(to + at, from + at, length); });
}

// target = ((place 0's + place 1's) + place 2's) + ...
void SharedRun::add(const BoundShared::Take& take, std::size_t bytes) const {
  if (take.place == 0) return;
  const std::uint32_t own = call_->area->rank();
  const auto contribution = [&](std::uint32_t place) {
    return place == own && !loses_own_ ? own_piece(take.piece) : shown_piece(place, take.piece);
  };
  std::byte* const to = buffer(now_->target) + take.offset + at_;
  const std::byte* const incoming = contribution(take.place);
  const std::byte* const before = take.place == 1 ? contribution(0) : to;
  use_ahead(take.place == own ? before : incoming, bytes, [&](std::size_t at, std::size_t length) {
    call_->reduce.run(to + at, before + at, incoming + at, length / call_->element_bytes);
  });
  const bool is_last = take.place + 1 == call_->area->ranks();
  if (is_last && now_->is_final && call_->finish.run != nullptr)
    call_->finish.run(to, bytes / call_->element_bytes, call_->ranks);
}

bool SharedRun::needs(std::uint32_t place) const {
  if (is_done() || place == call_->area->rank()) return false;
  // What it has published is there even when it is gone.
  std::uint64_t end = first_round_;
  for (std::uint32_t number = 0; number < kPhases; ++number) {
    const BoundShared::Phase& phase = call_->tables->phase(number);
    end += phase.rounds;
    const bool takes = phase.rounds > 0 && (phase.sources >> place & 1U) != 0;
    if (number >= phase_ && takes && !call_->area->has_published(place, end - 1)) return true;
  }
  // Others are needed to be through with the slots that this rank still has to write.
  return end > SharedArea::kSlots && !call_->area->has_published(place, end - SharedArea::kSlots);
}

}  // namespace spindrift::collectives
