#pragma once
// The memory that two processes share: one block that each side shows the other, and for each
// direction a ring of slots and a ring of payload. Internal to providers/shm.
//
//   0      block of side 0   (the one that called)
//   256    block of side 1
//   4096   slots written by side 0, then slots written by side 1
//          payload written by side 0, then payload written by side 1
//
// Everything in it may be changed by the peer at any moment: it is read once, into our own memory,
// and judged there. A slot is ready when its tag is the number of its place in the endless sequence
// of slots; no byte of a tag is ever used for anything else, so payload never looks like one.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "spindrift/message_fabric.h"

namespace spindrift {

inline constexpr std::uint32_t kShmVersion = 2;
inline constexpr std::size_t kShmSlots = 512;
inline constexpr std::size_t kShmSlotBytes = 128;
inline constexpr std::size_t kShmSlotsAt = 4096;

// What stands in front of a slot's header and payload.
struct ShmSlotHead {
  std::uint32_t tag = 0;            // written last, read first
  std::uint32_t payload_bytes = 0;  // here, behind the header, or in the payload ring when too long
  std::uint32_t area_offset = 0;    // of the payload ring; only then
  std::uint16_t lane = 0;
  std::uint8_t header_bytes = 0;
  std::uint8_t is_in_area = 0;
};
static_assert(sizeof(ShmSlotHead) == 16);

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): lies in memory that is zero
struct alignas(kShmSlotBytes) ShmSlot {
  ShmSlotHead head;
  std::byte bytes[kShmSlotBytes - sizeof(ShmSlotHead)];
};
static_assert(sizeof(ShmSlot) == kShmSlotBytes);

// Written by one side, read by the other. The first line changes with what its owner does, the
// second with how far it has emptied the rings that are written towards it.
struct alignas(256) ShmBlock {
  alignas(64) std::atomic<std::uint64_t> status[4];
  std::atomic<std::uint32_t> is_asleep;
  // How fast its owner takes what comes, in bytes per us, out of the ring and by reading.
  std::atomic<std::uint32_t> ring_rate;
  std::atomic<std::uint32_t> read_rate;
  alignas(64) std::atomic<std::uint64_t> slots_taken;
  std::atomic<std::uint64_t> payload_taken;
};
static_assert(sizeof(ShmBlock) == 256);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct ShmLayout {
  std::uint32_t ring_bytes = 0;  // payload, per direction
  std::size_t slots_at(int side) const {
    return kShmSlotsAt + static_cast<std::size_t>(side) * kShmSlots * kShmSlotBytes;
  }
  std::size_t payload_at(int side) const {
    return slots_at(2) + static_cast<std::size_t>(side) * ring_bytes;
  }
  std::size_t total_bytes() const { return payload_at(2); }
};

// Tags begin at 1: fresh memory is zero.
inline std::uint32_t shm_tag(std::uint64_t slot_number) {
  return static_cast<std::uint32_t>(slot_number) + 1;
}

}  // namespace spindrift
