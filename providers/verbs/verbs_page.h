#pragma once
// The block of memory that the peer's device writes: what the peer shows (FabricStatus), and how
// many of our messages it has room for. It is written whole, by one RDMA WRITE, and may be read in
// the middle of one: a sum over it says whether a copy is whole. Nothing in it is trusted; the sum
// guards against haste, not against malice. Internal to providers/verbs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "spindrift/message_fabric.h"

namespace spindrift {

struct VerbsRecord {
  std::array<std::uint64_t, 4> words{};
  std::uint32_t room = 0;        // buffers for messages that it ever posted to the queue pair
  std::uint32_t generation = 0;  // ... which is that one
  std::uint64_t serial = 0;      // grows
  std::uint64_t sum = 0;

  std::uint64_t right_sum() const {
    std::uint64_t mixed = 0x9E3779B97F4A7C15ULL;
    const std::uint64_t room_of_which = room | std::uint64_t{generation} << 32;
    for (const std::uint64_t one :
         {words[0], words[1], words[2], words[3], room_of_which, serial}) {
      mixed = (mixed ^ one) * 0xD6E8FEB86659FD93ULL;
      mixed ^= mixed >> 32;
    }
    return mixed;
  }
};
static_assert(sizeof(VerbsRecord) == 56);

// Records of ours that may be on their way to the peer's page at once.
inline constexpr std::uint32_t kRecordsUnderWay = 4;

// Where the peer writes, and beyond it room to try out the way there and back.
struct VerbsPage {
  alignas(64) VerbsRecord shown{};  // written by the peer
  alignas(64) std::array<VerbsRecord, std::size_t{2} * kRecordsUnderWay> outgoing{};
  alignas(4096) std::array<std::byte, 4096> probe{};   // written and read by the peer
  alignas(4096) std::array<std::byte, 4096> answer{};  // what our own probe brought back
};

// A whole copy, as bytes that another writes meanwhile can be copied; false: try again later.
inline bool read_record(const VerbsRecord& from, VerbsRecord& out) {
  std::array<std::uint64_t, sizeof(VerbsRecord) / 8> copy{};
  const auto* const words = reinterpret_cast<const std::uint64_t*>(&from);
  for (std::size_t i = 0; i < copy.size(); ++i)
    copy[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
  std::memcpy(static_cast<void*>(&out), copy.data(), sizeof(out));
  return out.sum == out.right_sum();
}

}  // namespace spindrift
