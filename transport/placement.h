#pragma once
// Bytes between packets and user memory: scatter lists, line-ordered copies.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "spindrift/memory.h"
#include "spindrift/provider.h"

namespace spindrift {

// For regions whose owner reads flags inside the buffer: ascending stores, each aligned 8 bytes
// atomic, the last 8 bytes of every 128-byte line after the rest of that line (release).
void copy_line_ordered(std::byte* to, std::span<const std::byte> from);

inline void place(std::byte* to, std::span<const std::byte> from, bool is_line_ordered) {
  if (from.empty()) return;
  if (is_line_ordered)
    copy_line_ordered(to, from);
  else
    std::memcpy(to, from.data(), from.size());
}

// Copies `from` to byte `offset` of the list; what does not fit is the caller's mistake (checked
// before). `ordered`: bit i says that piece i is line-ordered.
void scatter(std::span<const Sge> list, std::uint64_t offset, std::span<const std::byte> from,
             std::uint32_t ordered);

// Names `bytes` bytes from byte `offset` of the list as pieces; returns how many pieces.
std::uint8_t gather(std::span<const Sge> list, std::uint64_t offset, std::uint32_t bytes,
                    std::span<std::span<const std::byte>, kMaxPieces> out);

}  // namespace spindrift
