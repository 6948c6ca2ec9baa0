#pragma once
// What lies on the medium: a head, and behind it the engine's header and payload, or the status
// words. Little-endian; both ends say so in their greeting. Nothing in it is trusted. Internal to
// providers/libfabric.
#include <array>
#include <cstddef>
#include <cstdint>

#include "spindrift/message_fabric.h"

#include "providers/libfabric/ofi_options.h"

namespace spindrift {

enum class OfiKind : std::uint8_t {
  kMessage = 1,
  kShown,   // the words that the sender shows, and how far it is
  kRegion,  // numbered like a message: how memory of the sender's is read, by each lane
};

struct OfiHead {
  std::uint64_t connection = 0;  // as its receiver named it when it was made
  std::uint32_t number = 0;      // kMessage: of the message. kShown: messages sent before
  std::uint32_t released = 0;    // messages of the receiver that the sender is done with, ever
  std::uint16_t heard = 0;       // kShown of the receiver that the sender has taken, ever
  std::uint16_t serial = 0;      // kShown: its number
  OfiKind kind = OfiKind::kMessage;
  std::uint8_t header_bytes = 0;
  std::uint16_t reads = 0;  // kShown, the first: 1: the sender has read of the receiver's memory
};
static_assert(sizeof(OfiHead) == 24);

struct OfiShown {
  OfiHead head{};
  std::array<std::uint64_t, 4> words{};
};
static_assert(sizeof(OfiShown) == 56);

// kRegion. Replaces what was said of its slot before.
struct OfiRegionCard {
  struct ByLane {
    std::uint64_t address = 0;
    std::uint64_t key = 0;
  };
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::array<ByLane, kMostOfiRails> lanes{};
};
static_assert(sizeof(OfiRegionCard) == 8 + 16 * kMostOfiRails);
inline constexpr std::uint32_t kMostOfiRegions = 1U << 16U;  // of a peer's, at a time

// Largest payload of one message, in front of which head and header stand.
inline constexpr std::uint32_t kOfiPayloadBytes = 16256;
inline constexpr std::size_t kOfiBufferBytes =
    sizeof(OfiHead) + kFabricHeaderBytes + kOfiPayloadBytes;

}  // namespace spindrift
