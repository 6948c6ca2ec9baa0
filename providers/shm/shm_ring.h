#pragma once
// One direction of a connection: the writer's and the reader's half of a ring. Internal to
// providers/shm. Nothing the peer writes makes either touch a byte outside the ring.
#include <algorithm>
#include <cstring>
#include <span>

#include "providers/shm/shm_layout.h"

namespace spindrift {

class ShmWriter {
 public:
  // `slots`, `area`: ours to write; `peer`: where the reader says how far it is.
  void open(ShmSlot* slots, std::span<std::byte> area, const ShmBlock* peer) {
    slots_ = slots;
    area_ = area;
    peer_ = peer;
  }
  // False: no room. The slot is visible at once.
  bool write(const FabricOp& op) {
    std::size_t bytes = 0;
    for (const Sge& piece : op.local)
      bytes += piece.bytes;
    if (next_slot_ - slots_taken_ >= kShmSlots && !look_for_slots()) return false;
    ShmSlot& slot = slots_[next_slot_ % kShmSlots];
    std::byte* to = slot.bytes + op.header.size();
    const bool is_in_area = bytes > sizeof(slot.bytes) - op.header.size();
    std::uint32_t offset = 0;
    if (is_in_area) {
      if (!take_area(bytes, offset)) return false;
      to = area_.data() + offset;
    }
    std::memcpy(slot.bytes, op.header.data(), op.header.size());
    for (const Sge& piece : op.local) {
      if (piece.bytes != 0) std::memcpy(to, piece.data, piece.bytes);
      to += piece.bytes;
    }
    slot.head.payload_bytes = static_cast<std::uint32_t>(bytes);
    slot.head.area_offset = offset;
    slot.head.lane = op.lane;
    slot.head.header_bytes = static_cast<std::uint8_t>(op.header.size());
    slot.head.is_in_area = is_in_area ? 1 : 0;
    std::atomic_ref<std::uint32_t>(slot.head.tag)
        .store(shm_tag(next_slot_), std::memory_order_release);
    ++next_slot_;
    return true;
  }

 private:
  // The reader may claim anything; it can only hurt what it reads itself.
  bool look_for_slots() {
    slots_taken_ = peer_->slots_taken.load(std::memory_order_acquire);
    return next_slot_ - slots_taken_ < kShmSlots;
  }
  // Payload lies in one piece: what is left at the end of the area is passed over.
  bool take_area(std::size_t bytes, std::uint32_t& offset) {
    const std::size_t at = next_byte_ % area_.size();
    const std::size_t skipped = area_.size() - at < bytes ? area_.size() - at : 0;
    const std::uint64_t end = next_byte_ + skipped + round_up(bytes);
    if (end - payload_taken_ > area_.size()) {
      payload_taken_ = peer_->payload_taken.load(std::memory_order_acquire);
      if (end - payload_taken_ > area_.size()) return false;
    }
    offset = static_cast<std::uint32_t>((next_byte_ + skipped) % area_.size());
    next_byte_ = end;
    return true;
  }
  static std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  ShmSlot* slots_ = nullptr;
  std::span<std::byte> area_;
  const ShmBlock* peer_ = nullptr;
  std::uint64_t next_slot_ = 0;
  std::uint64_t next_byte_ = 0;
  std::uint64_t slots_taken_ = 0;
  std::uint64_t payload_taken_ = 0;
};

class ShmReader {
 public:
  enum class Got : std::uint8_t { kNothing, kMessage, kNonsense };

  // `slots`, `area`: the peer's to write; `own`: where we say how far we are.
  void open(ShmSlot* slots, std::span<std::byte> area, ShmBlock* own) {
    slots_ = slots;
    area_ = area;
    own_ = own;
  }
  bool has_message() const {
    return std::atomic_ref<std::uint32_t>(slots_[next_slot_ % kShmSlots].head.tag)
               .load(std::memory_order_acquire) == shm_tag(next_slot_);
  }
  std::uint64_t held() const { return next_slot_ - released_; }
  // The next message, in `out` but for the peer's number. kNonsense: no honest peer wrote that.
  Got read(FabricCompletion& out) {
    if (!has_message()) return Got::kNothing;
    ShmSlot& slot = slots_[next_slot_ % kShmSlots];
    ShmSlotHead head;
    std::memcpy(&head, &slot.head, sizeof(head));  // once; what follows judges the copy
    const std::size_t room = sizeof(slot.bytes);
    if (head.header_bytes > kFabricHeaderBytes) return Got::kNonsense;
    std::memcpy(out.header.data(), slot.bytes, kFabricHeaderBytes);
    if (head.is_in_area == 0) {
      if (head.payload_bytes > room - head.header_bytes) return Got::kNonsense;
      out.payload = {slot.bytes + head.header_bytes, head.payload_bytes};
    } else {
      if (head.area_offset > area_.size() || head.payload_bytes > area_.size() - head.area_offset)
        return Got::kNonsense;
      out.payload = area_.subspan(head.area_offset, head.payload_bytes);
      const std::size_t at = next_byte_ % area_.size();
      if (head.area_offset != at) next_byte_ += area_.size() - at;  // passed over
      if (head.area_offset != next_byte_ % area_.size()) return Got::kNonsense;
      next_byte_ += (std::size_t{head.payload_bytes} + 63) / 64 * 64;
    }
    out.kind = FabricCompletion::Kind::kMessage;
    out.lane = head.lane;
    out.position = next_byte_;
    ++next_slot_;
    return Got::kMessage;
  }
  void release(const FabricCompletion& message) {
    ++released_;
    released_bytes_ = message.position;
    // Now and then: each time the writer has to fetch this line anew.
    if (released_ - told_ < kShmSlots / 4 && released_bytes_ - told_bytes_ < area_.size() / 4)
      return;
    tell();
  }
  void tell() {
    if (told_ == released_) return;
    told_ = released_;
    told_bytes_ = released_bytes_;
    own_->payload_taken.store(told_bytes_, std::memory_order_release);
    own_->slots_taken.store(told_, std::memory_order_release);
  }

 private:
  ShmSlot* slots_ = nullptr;
  std::span<std::byte> area_;
  ShmBlock* own_ = nullptr;
  std::uint64_t next_slot_ = 0;
  std::uint64_t next_byte_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t released_bytes_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t told_bytes_ = 0;
};

}  // namespace spindrift
