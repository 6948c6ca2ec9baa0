#pragma once
// The shared memory of one connection: made by the side that calls, checked by the side that is
// called. Internal to providers/shm.
#include <span>
#include <utility>

#include "spindrift/result.h"

#include "providers/shm/shm_layout.h"
#include "transport/base/unique_fd.h"

namespace spindrift {

class ShmMemory {
 public:
  ShmMemory() = default;
  ShmMemory(ShmMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), layout_(other.layout_) {}
  ShmMemory& operator=(ShmMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(layout_, other.layout_);
    return *this;
  }
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;
  ~ShmMemory();

  // Maps `fd`, which is as long as the layout says and can never become shorter.
  static Result<ShmMemory> map(int fd, const ShmLayout& layout);

  bool is_mapped() const { return base_ != nullptr; }
  ShmBlock& block(int side) const {
    return *reinterpret_cast<ShmBlock*>(base_ + static_cast<std::size_t>(side) * sizeof(ShmBlock));
  }
  ShmSlot* slots(int side) const {
    return reinterpret_cast<ShmSlot*>(base_ + layout_.slots_at(side));
  }
  std::span<std::byte> payload(int side) const {
    return {base_ + layout_.payload_at(side), layout_.ring_bytes};
  }

 private:
  std::byte* base_ = nullptr;
  ShmLayout layout_;
};

// A memfd of that layout, filled with zeros that are there already (running out of memory later
// would be a signal instead of an error), sealed against every change of its length.
Result<UniqueFd> make_shm_file(const ShmLayout& layout);
// ok, or what is wrong with a descriptor that a peer sent.
Status check_shm_file(int fd, const ShmLayout& layout);

}  // namespace spindrift
