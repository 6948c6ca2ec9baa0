#include "collectives/shared_area.h"

#include "transport/base/check.h"

namespace spindrift::collectives {

SharedArea::SharedArea(std::uint32_t rank, const std::vector<std::span<const std::byte>>& members,
                       std::span<std::byte> own)
    : rank_(rank), own_(own.data()) {
  SPINDRIFT_CHECK(own.size() >= kBytes);
  for (const std::span<const std::byte> member : members) {
    SPINDRIFT_CHECK(member.size() >= kBytes);
    members_.push_back(member.data());
  }
  members_[rank_] = own_;
}

bool SharedArea::has_room() {
  const std::uint64_t wanted = round_ - kSlots + 1;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank)
    if (rank != rank_ && !has_published(rank, wanted)) return false;
  free_until_ = round_ + 1;
  return true;
}

void SharedArea::set_asleep(bool is_asleep) {
  reinterpret_cast<State*>(own_)->is_asleep.store(is_asleep ? 1 : 0, std::memory_order_seq_cst);
}

}  // namespace spindrift::collectives
