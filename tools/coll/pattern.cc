#include "tools/coll/pattern.h"

namespace spindrift::coll {
namespace {

// A prime far from every power of two and every chunk border, so that misplaced pieces show.
constexpr std::uint64_t kPeriod = 65521;

}  // namespace

float Pattern::value(std::uint32_t rank, std::uint64_t index) {
  const auto hash =
      static_cast<std::uint32_t>(index % kPeriod) * 2654435761U + rank * 40503U * 977U;
  return static_cast<float>(static_cast<std::int32_t>((hash >> 16) & 0xFF) - 128);
}

Pattern::Pattern(std::uint32_t ranks) : sums_(kPeriod, 0.0F) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < kPeriod; ++i)
      sums_[i] += value(rank, i);
  }
}

void Pattern::fill(std::span<float> buffer, std::uint32_t rank, std::uint64_t first) {
  for (std::size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = value(rank, first + i);
}

std::uint64_t Pattern::count_wrong(std::span<const float> buffer, std::uint64_t first) const {
  std::uint64_t wrong = 0;
  std::uint64_t place = first % kPeriod;
  for (const float element : buffer) {
    if (element != sums_[place]) ++wrong;
    ++place;
    if (place == kPeriod) place = 0;
  }
  return wrong;
}

}  // namespace spindrift::coll
