#pragma once
// Registered memory: what local work may name, and what a peer may reach.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "spindrift/export.h"
#include "spindrift/result.h"

namespace spindrift {

// Rights on a region; combine with |. Reading it locally (as the source of a SEND or WRITE) is
// always allowed.
enum class Access : std::uint8_t {
  kLocalRead = 0,
  kLocalWrite = 1,    // target of RECEIVE, READ and atomic results
  kRemoteRead = 2,    // peers may READ
  kRemoteWrite = 4,   // peers may WRITE
  kRemoteAtomic = 8,  // peers may FETCH_ADD and COMPARE_SWAP
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool has_access(Access rights, Access wanted) {
  return (static_cast<std::uint8_t>(rights) & static_cast<std::uint8_t>(wanted)) ==
         static_cast<std::uint8_t>(wanted);
}
inline constexpr Access kAllAccess =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;

enum class MemoryType : std::uint8_t {
  kHost,  // ordinary memory of this process
  // Device memory exported as a dma-buf; refused by providers that cannot reach it. The network
  // card alone touches it, by reading: SENDs and WRITEs from it, WRITEs into it, READs both ways.
  // No RECEIVEs into it, no atomics, no inline data for it.
  kDmaBuf,
};

struct RegisterOptions {
  MemoryType type = MemoryType::kHost;
  int dmabuf_fd = -1;  // kDmaBuf only; needed until the region is registered
  // The owner reads flags inside the buffer before the completion (NCCL's LL protocols): every
  // 8-byte store is atomic, stores ascend, and the last 8 bytes of each 128-byte line come last.
  bool is_line_ordered = false;
};

// Names a region in local work. Index and generation; dies with the region.
struct LocalKey {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const LocalKey&) const = default;
};

// What a peer needs to reach a region. Send it in a message or as private data.
struct RemoteRegion {
  static constexpr std::size_t kWireBytes = 32;
  std::uint64_t key = 0;  // unguessable: at least 40 random bits; dies with the region
  std::uint64_t bytes = 0;
  std::uint64_t base = 0;  // added by providers whose NIC wants addresses; 0 elsewhere
  Access rights = Access::kLocalRead;

  SPINDRIFT_EXPORT std::array<std::byte, kWireBytes> serialize() const;
  SPINDRIFT_EXPORT static Result<RemoteRegion> deserialize(std::span<const std::byte> wire);
};

struct MemoryRegion {
  std::span<std::byte> bytes{};
  LocalKey local{};
  RemoteRegion remote{};
};

// One piece of a scatter/gather list.
struct Sge {
  std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  LocalKey region{};
};
inline Sge sge_of(const MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes) {
  return Sge{.data = region.bytes.data() + offset, .bytes = bytes, .region = region.local};
}

}  // namespace spindrift
