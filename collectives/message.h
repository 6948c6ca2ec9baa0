#pragma once
// What ranks tell one another in small messages. Little-endian, like every host this runs on.
#include <bit>
#include <cstdint>

namespace spindrift::collectives {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

enum class MessageKind : std::uint8_t {
  kData = 1,     // a step's bytes follow
  kReady = 2,    // a Grant follows: slices may be written
  kNotice = 3,   // the group has failed: u32 rank (or kNobody), then a sentence
  kGoodbye = 4,  // the sender has nothing left to send or to wait for
  kPing = 5,     // nothing: wakes the receiver, and whether it arrives tells whether it lives
  kCalling = 6,  // nothing: the sender waits in this call, which sends no messages of its own
};

struct MessageHeader {
  MessageKind kind = MessageKind::kData;
  std::uint8_t group = 0;
  std::uint16_t channel = 0;
  std::uint32_t operation = 0;    // low half of its number in the group
  std::uint32_t fingerprint = 0;  // of what the sender calls; kData, kReady and kCalling
  std::uint32_t step = 0;         // in its lane
};
static_assert(sizeof(MessageHeader) == 16, "the wire's layout");

// Slices [first, first + slices) of the header's step may be written at `offset` of the region
// `key`, one behind the other.
struct Grant {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint32_t step = 0;
  std::uint32_t first = 0;
  std::uint32_t slices = 0;
  std::uint32_t slice_bytes = 0;  // as the receiver cuts them
};
static_assert(sizeof(Grant) == 32, "the wire's layout");

inline constexpr std::uint32_t kNobody = UINT32_MAX;

// What a write carries as its immediate: who it is for.
struct WriteTag {
  static constexpr std::uint32_t kOperationBits = 12;
  static constexpr std::uint32_t kChannelBits = 12;
  static constexpr std::uint32_t kOperationMask = (1U << kOperationBits) - 1;
  static constexpr std::uint32_t kChannelMask = (1U << kChannelBits) - 1;
  std::uint8_t group = 0;
  std::uint32_t operation = 0;
  std::uint32_t channel = 0;

  constexpr std::uint32_t pack() const {
    return std::uint32_t{group} << (kOperationBits + kChannelBits) |
           (operation & kOperationMask) << kChannelBits | (channel & kChannelMask);
  }
  static constexpr WriteTag unpack(std::uint32_t immediate) {
    return {.group = static_cast<std::uint8_t>(immediate >> (kOperationBits + kChannelBits)),
            .operation = immediate >> kChannelBits & kOperationMask,
            .channel = immediate & kChannelMask};
  }
};

}  // namespace spindrift::collectives
