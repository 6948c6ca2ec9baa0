#include "collectives/shared_run.h"

#include <algorithm>
#include <cstring>

namespace spindrift::collectives {
namespace {

// What a rank adds up for all begins at multiples of this many elements.
constexpr std::uint64_t kGrain = 32;
// What others have written comes from their caches: while some is used, the next is on its way.
constexpr std::size_t kAheadBytes = 4096;
constexpr std::size_t kLineBytes = 64;

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

void copy_ahead(std::byte* to, const std::byte* from, std::size_t bytes) {
  use_ahead(from, bytes,
            [&](std::size_t at, std::size_t length) { std::memcpy(to + at, from + at, length); });
}

}  // namespace

std::uint32_t SharedRun::blocks_in_slot() const {
  switch (call_->collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return call_->area->ranks();
    default:
      return 1;
  }
}

void SharedRun::begin(const SharedCall& call) {
  call_ = &call;
  const std::size_t block_bytes = SharedArea::kSlotBytes / blocks_in_slot();
  part_elements_ = block_bytes / call_->element_bytes;
  const std::uint64_t parts = (call_->count + part_elements_ - 1) / part_elements_;
  rounds_ = call_->collective == Collective::kBarrier ? 1 : parts;
  if (call_->adds_parts) rounds_ *= 2;
  round_ = 0;
  next_source_ = 0;
  has_published_ = has_news_ = false;
  other_caller_.reset();
  first_round_ = call_->area->take_rounds(rounds_);
}

bool SharedRun::advance() {
  bool has_moved = false;
  for (std::uint32_t turn = 0; turn < kRoundsAtOnce && !is_done(); ++turn) {
    if (call_->area->round() != first_round_ + round_) return has_moved;
    if (!has_published_) {
      if (!publish()) return has_moved;
      has_moved = true;
    }
    const std::uint32_t before = next_source_;
    const bool is_over = collect();
    has_moved = has_moved || is_over || next_source_ != before;
    if (!is_over) return has_moved;
    call_->area->finish_round();
    ++round_;
    has_published_ = false;
    next_source_ = 0;
  }
  return has_moved;
}

bool SharedRun::publish() {
  if (!call_->area->may_write()) return false;
  if (contributes()) {
    const Part now = part();
    fill(call_->area->own_payload(slot_bytes(now)), now);
  }
  call_->area->publish(call_->fingerprint);
  has_published_ = has_news_ = true;
  return true;
}

// What this rank adds to the others' contributions.
const std::byte* SharedRun::own_block() const {
  const bool is_block = call_->collective == Collective::kReduceScatter;
  return call_->input + (is_block ? bytes(call_->area->rank() * call_->count) : 0);
}

// Whether the sums of the ranks before this one are written over what it adds, which then has to be
// in the slot.
bool SharedRun::loses_input() const {
  return call_->area->rank() >= 2 && own_block() == call_->output;
}

// Whether this rank puts anything into its slot.
bool SharedRun::contributes() const {
  const bool is_root = call_->area->rank() == call_->root;
  switch (call_->collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return is_root;
    case Collective::kGather:
      return !is_root;
    case Collective::kReduce:
      return !is_root || loses_input();
    case Collective::kBarrier:
      return false;
    default:
      return true;
  }
}

SharedRun::Part SharedRun::part() const {
  const std::uint64_t index = call_->adds_parts ? round_ / 2 : round_;
  const std::uint64_t first = index * part_elements_;
  return {.first = first,
          .count = std::min(part_elements_, call_->count - std::min(call_->count, first))};
}

SharedRun::Part SharedRun::kept(const Part& part, std::uint32_t rank) const {
  if (!call_->adds_parts) return part;
  const std::uint64_t ranks = call_->area->ranks();
  const std::uint64_t even = (part.count + ranks - 1) / ranks;
  const std::uint64_t share = (even + kGrain - 1) / kGrain * kGrain;
  const std::uint64_t first = std::min(share * rank, part.count);
  return {.first = part.first + first, .count = std::min(share, part.count - first)};
}

std::size_t SharedRun::slot_bytes(const Part& part) const {
  return blocks_in_slot() * bytes(part.count);
}

void SharedRun::fill(std::byte* slot, const Part& part) const {
  if (is_second()) {
    const Part own = kept(part, call_->area->rank());
    move_bytes(slot, call_->output + bytes(own.first), bytes(own.count));
    return;
  }
  if (call_->adds_parts && !loses_input()) {
    fill_but_kept(slot, part);
    return;
  }
  const std::uint32_t blocks = blocks_in_slot();
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const bool is_own = blocks > 1 && block == call_->area->rank();
    const bool reads_own = call_->collective == Collective::kReduceScatter && loses_input();
    if (is_own && !reads_own) continue;
    move_bytes(slot + block * bytes(part.count),
               call_->input + bytes(block * call_->count + part.first), bytes(part.count));
  }
}

// Nobody else needs what this rank itself adds up.
void SharedRun::fill_but_kept(std::byte* slot, const Part& part) const {
  const Part own = kept(part, call_->area->rank());
  const std::byte* const from = call_->input + bytes(part.first);
  const std::uint64_t before = own.first - part.first;
  const std::uint64_t behind = before + own.count;
  move_bytes(slot, from, bytes(before));
  move_bytes(slot + bytes(behind), from + bytes(behind), bytes(part.count - behind));
}

bool SharedRun::collects_from(std::uint32_t rank) const {
  const std::uint32_t own = call_->area->rank();
  switch (call_->collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return rank == call_->root;
    case Collective::kReduce:
    case Collective::kGather:
      return own == call_->root;
    default:
      return true;
  }
}

bool SharedRun::collect() {
  const std::uint32_t own = call_->area->rank();
  const Part now = part();
  bool has_seen_all = true;
  for (; next_source_ < call_->area->ranks(); ++next_source_) {
    if (!collects_from(next_source_)) {
      has_seen_all = false;
      continue;
    }
    if (next_source_ != own) {
      const SharedArea::Found found = call_->area->look(next_source_, call_->fingerprint);
      if (found == SharedArea::Found::kOtherCall) other_caller_ = next_source_;
      if (found != SharedArea::Found::kHere) return false;
    }
    take(next_source_, now);
  }
  if (has_seen_all) call_->area->note_all_here();
  return true;
}

void SharedRun::take(std::uint32_t rank, const Part& part) {
  const std::uint32_t own = call_->area->rank();
  switch (call_->collective) {
    case Collective::kAllReduce:
      if (is_second()) {
        const Part sum = kept(part, rank);
        if (rank == own) return;
        copy_ahead(call_->output + bytes(sum.first), call_->area->payload(rank, slot_bytes(part)),
                   bytes(sum.count));
      } else {
        const Part sum = kept(part, own);
        add(rank, sum, sum.first - part.first);
      }
      return;
    case Collective::kReduce:
      add(rank, part, 0);
      return;
    case Collective::kReduceScatter:
      add(rank, part, own * part.count);
      return;
    case Collective::kAllGather:
    case Collective::kGather:
      copy_out(rank, part, 0, rank);
      return;
    case Collective::kBroadcast:
      copy_out(rank, part, 0, 0);
      return;
    case Collective::kScatter:
      copy_out(rank, part, own, 0);
      return;
    case Collective::kAllToAll:
      copy_out(rank, part, own, rank);
      return;
    default:
      return;
  }
}

// output = ((rank 0's + rank 1's) + rank 2's) + ...; what is added begins `skipped` elements behind
// the start of the slot.
void SharedRun::add(std::uint32_t rank, const Part& part, std::uint64_t skipped) {
  if (rank == 0 || part.count == 0) return;
  const std::uint32_t own = call_->area->rank();
  const std::size_t slot = slot_bytes(this->part());
  const auto contribution = [&](std::uint32_t of) {
    return of == own && !loses_input() ? own_block() + bytes(part.first)
                                       : call_->area->payload(of, slot) + bytes(skipped);
  };
  std::byte* const output = call_->output + bytes(part.first);
  const std::byte* const incoming = contribution(rank);
  const std::byte* const before = rank == 1 ? contribution(0) : output;
  use_ahead(rank == own ? before : incoming, bytes(part.count), [&](std::size_t at, std::size_t n) {
    call_->reduce.run(output + at, before + at, incoming + at, n / call_->element_bytes);
  });
  const std::uint32_t ranks = call_->area->ranks();
  if (rank + 1 == ranks && call_->finish.run != nullptr)
    call_->finish.run(output, part.count, ranks);
}

void SharedRun::copy_out(std::uint32_t rank, const Part& part, std::uint32_t slot_block,
                         std::uint32_t block) const {
  std::byte* const to = call_->output + bytes(block * call_->count + part.first);
  if (rank == call_->area->rank()) {
    move_bytes(to, call_->input + bytes(slot_block * call_->count + part.first), bytes(part.count));
    return;
  }
  copy_ahead(to, call_->area->payload(rank, slot_bytes(part)) + slot_block * bytes(part.count),
             bytes(part.count));
}

bool SharedRun::needs(std::uint32_t rank) const {
  if (is_done() || rank == call_->area->rank()) return false;
  const std::uint64_t last = first_round_ + rounds_ - 1;
  // What it has published is there even when it is gone.
  if (collects_from(rank)) return !call_->area->has_published(rank, last);
  // Others are needed to be through with the slots that this rank still has to write.
  return last >= SharedArea::kSlots &&
         !call_->area->has_published(rank, last - SharedArea::kSlots + 1);
}

}  // namespace spindrift::collectives
