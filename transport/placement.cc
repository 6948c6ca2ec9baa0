#include "transport/placement.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)  // which takes wide stores for torn ones
#include <emmintrin.h>
#define SPINDRIFT_HAS_WIDE_STORES 1
#endif

#include "transport/base/check.h"

namespace spindrift {
namespace {

constexpr std::size_t kLineBytes = 128;
constexpr std::size_t kWordBytes = 8;

void store_word(std::byte* to, const std::byte* from, std::memory_order order) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, kWordBytes);
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to)).store(word, order);
}

#ifdef SPINDRIFT_HAS_WIDE_STORES
// Whole lines, from an aligned `to` on. The processor keeps the order of stores and never tears the
// aligned halves of 16 bytes; the line's last word has a store of its own.
void copy_lines(std::byte* to, const std::byte* from, std::size_t lines) {
  constexpr std::size_t kWideBytes = sizeof(__m128i);
  for (; lines != 0; --lines) {
    for (std::size_t i = 0; i < kLineBytes - kWideBytes; i += kWideBytes)
      _mm_store_si128(reinterpret_cast<__m128i*>(to + i),
                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    store_word(to + kLineBytes - kWideBytes, from + kLineBytes - kWideBytes,
               std::memory_order_release);
    store_word(to + kLineBytes - kWordBytes, from + kLineBytes - kWordBytes,
               std::memory_order_release);
    to += kLineBytes;
    from += kLineBytes;
  }
}
#endif

}  // namespace

void copy_line_ordered(std::byte* to, std::span<const std::byte> from) {
  const std::byte* source = from.data();
  std::size_t left = from.size();
  while (left != 0 && reinterpret_cast<std::uintptr_t>(to) % kWordBytes != 0) {
    std::atomic_ref<std::byte>(*to++).store(*source++, std::memory_order_relaxed);
    --left;
  }
  while (left >= kWordBytes) {
#ifdef SPINDRIFT_HAS_WIDE_STORES
    if (left >= kLineBytes && reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0) {
      const std::size_t bytes = left / kLineBytes * kLineBytes;
      copy_lines(to, source, bytes / kLineBytes);
      to += bytes;
      source += bytes;
      left -= bytes;
      continue;
    }
#endif
    const bool ends_line =
        (reinterpret_cast<std::uintptr_t>(to) + kWordBytes) % kLineBytes == 0 || left == kWordBytes;
    store_word(to, source, ends_line ? std::memory_order_release : std::memory_order_relaxed);
    // A compiler may merge neighbouring relaxed stores but not move them over the release.
    to += kWordBytes;
    source += kWordBytes;
    left -= kWordBytes;
  }
  for (; left != 0; --left)
    std::atomic_ref<std::byte>(*to++).store(*source++, std::memory_order_release);
}

void scatter(std::span<const Sge> list, std::uint64_t offset, std::span<const std::byte> from,
             std::uint32_t ordered) {
  for (std::size_t i = 0; i < list.size() && !from.empty(); ++i) {
    const Sge& piece = list[i];
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(from.size(), piece.bytes - offset);
    place(piece.data + offset, from.first(n), ((ordered >> i) & 1) != 0);
    from = from.subspan(n);
    offset = 0;
  }
  SPINDRIFT_CHECK(from.empty());
}

std::uint8_t gather(std::span<const Sge> list, std::uint64_t offset, std::uint32_t bytes,
                    std::span<std::span<const std::byte>, kMaxPieces> out) {
  std::uint8_t count = 0;
  for (const Sge& piece : list) {
    if (bytes == 0) break;
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, piece.bytes - offset));
    out[count++] = {piece.data + offset, n};
    bytes -= n;
    offset = 0;
  }
  SPINDRIFT_CHECK(bytes == 0);
  return count;
}

}  // namespace spindrift
