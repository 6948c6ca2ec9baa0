#include "collectives/shared_area.h"

#include "transport/base/check.h"

namespace spindrift::collectives {

SharedArea::SharedArea(std::uint32_t rank, std::vector<std::span<const std::byte>> members,
                       std::span<std::byte> own)
    : rank_(rank), own_(own.data()) {
  SPINDRIFT_CHECK(own.size() >= kBytes);
  for (const std::span<const std::byte> member : members) {
    SPINDRIFT_CHECK(member.size() >= kBytes);
    members_.push_back(member.data());
  }
  members_[rank_] = own_;
}

bool SharedArea::has_published(std::uint32_t rank, std::uint64_t round) const {
  // Later rounds stand in the same slot only when this rank has published those in between.
  return head(rank, round).number.load(std::memory_order_acquire) > round;
}

bool SharedArea::may_write() {
  if (round_ < free_until_) return true;
  const std::uint64_t wanted = round_ - kSlots + 1;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank)
    if (rank != rank_ && !has_published(rank, wanted)) return false;
  free_until_ = round_ + 1;
  return true;
}

std::byte* SharedArea::own_payload(std::size_t bytes) {
  if (bytes <= SharedHead::kShortBytes) return own_head().payload.data();
  return own_ + kPayloadAt + round_ % kSlots * kSlotBytes;
}

const std::byte* SharedArea::payload(std::uint32_t rank, std::size_t bytes) const {
  if (bytes <= SharedHead::kShortBytes) return head(rank, round_).payload.data();
  return members_[rank] + kPayloadAt + round_ % kSlots * kSlotBytes;
}

void SharedArea::publish(std::uint32_t fingerprint) {
  own_head().fingerprint = fingerprint;
  // In one order with is_asleep(): who falls asleep sees the round, or is seen.
  own_head().number.store(round_ + 1, std::memory_order_seq_cst);
}

SharedArea::Found SharedArea::look(std::uint32_t rank, std::uint32_t fingerprint) const {
  const SharedHead& there = head(rank, round_);
  const std::uint64_t number = there.number.load(std::memory_order_seq_cst);
  if (number <= round_) return Found::kNotYet;
  const std::uint32_t found = *const_cast<const volatile std::uint32_t*>(&there.fingerprint);
  return number == round_ + 1 && found == fingerprint ? Found::kHere : Found::kOtherCall;
}

void SharedArea::set_asleep(bool is_asleep) {
  reinterpret_cast<State*>(own_)->is_asleep.store(is_asleep ? 1 : 0, std::memory_order_seq_cst);
}

bool SharedArea::is_asleep(std::uint32_t rank) const {
  return state(rank).is_asleep.load(std::memory_order_seq_cst) != 0;
}

}  // namespace spindrift::collectives
