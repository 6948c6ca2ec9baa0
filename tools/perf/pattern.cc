#include "tools/perf/pattern.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"

namespace spindrift::perf {
namespace {

constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kWordsPerStamp = kStampBytes / kWordBytes;
// The bits above tell runs apart and mean nothing to people.
constexpr std::uint64_t kIterationInRun = 0xFFFFFFFFULL;
// Odd, so that adding it changes the lowest byte.
constexpr std::uint64_t kIterationStep = 0x9E3779B97F4A7C15ULL;

std::uint64_t position_word(std::uint64_t connection, std::uint64_t word_index) {
  std::uint64_t x = (word_index + 1) * 0xBF58476D1CE4E5B9ULL + connection * 0x94D049BB133111EBULL;
  x ^= x >> 31;
  return x * 0xD6E8FEB86659FD93ULL;
}

std::uint64_t words_of(std::uint64_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes;
}

// Stamps are the words s with s % kWordsPerStamp == kWordsPerStamp - 1, and the last word.
std::uint64_t next_stamp(std::uint64_t from_word, std::uint64_t words) {
  const std::uint64_t stamp = from_word / kWordsPerStamp * kWordsPerStamp + kWordsPerStamp - 1;
  return std::min(stamp, words - 1);
}

std::size_t bytes_in_word(std::size_t total_bytes, std::uint64_t word_index) {
  return std::min<std::size_t>(kWordBytes, total_bytes - word_index * kWordBytes);
}

// The peer writes this memory, possibly from the guardian's thread: the load must be a real one.
bool holds_word(const std::byte* at, std::size_t bytes, std::uint64_t word) {
  if (bytes == kWordBytes) {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_ACQUIRE) == word;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto found =
        __atomic_load_n(reinterpret_cast<const std::uint8_t*>(at) + i, __ATOMIC_ACQUIRE);
    if (found != static_cast<std::uint8_t>(word >> (8 * i))) return false;
  }
  return true;
}

}  // namespace

std::uint64_t pattern_word(const PatternKey& key, std::uint64_t word_index) {
  return position_word(key.connection, word_index) + key.iteration * kIterationStep;
}

void fill_pattern(std::span<std::byte> bytes, const PatternKey& key) {
  for (std::uint64_t i = 0; i < words_of(bytes.size()); ++i) {
    const std::uint64_t word = pattern_word(key, i);
    std::memcpy(bytes.data() + i * kWordBytes, &word, bytes_in_word(bytes.size(), i));
  }
}

std::optional<Mismatch> find_mismatch(std::span<const std::byte> bytes, const PatternKey& key) {
  for (std::uint64_t i = 0; i < words_of(bytes.size()); ++i) {
    const std::uint64_t word = pattern_word(key, i);
    const std::byte* at = bytes.data() + i * kWordBytes;
    const std::size_t length = bytes_in_word(bytes.size(), i);
    if (std::memcmp(at, &word, length) == 0) continue;
    std::size_t in_word = 0;
    const auto expected = [&](std::size_t j) { return static_cast<std::uint8_t>(word >> (8 * j)); };
    while (std::to_integer<std::uint8_t>(at[in_word]) == expected(in_word))
      ++in_word;
    return Mismatch{.offset = i * kWordBytes + in_word,
                    .expected = expected(in_word),
                    .found = std::to_integer<std::uint8_t>(at[in_word])};
  }
  return std::nullopt;
}

std::string describe(const Mismatch& mismatch, const PatternKey& key, std::uint64_t bytes) {
  return absl::StrFormat(
      "connection %u, iteration %u, offset %u of %u: expected 0x%02x, found 0x%02x", key.connection,
      key.iteration & kIterationInRun, mismatch.offset, bytes, mismatch.expected, mismatch.found);
}

void write_stamps(std::span<std::byte> bytes, const PatternKey& key) {
  const std::uint64_t words = words_of(bytes.size());
  for (std::uint64_t i = 0; i < words; ++i) {
    i = next_stamp(i, words);
    const std::uint64_t word = pattern_word(key, i);
    std::memcpy(bytes.data() + i * kWordBytes, &word, bytes_in_word(bytes.size(), i));
  }
}

bool StampWatch::has_arrived() {
  const std::uint64_t words = words_of(bytes_.size());
  while (seen_words_ < words) {
    const std::uint64_t stamp = next_stamp(seen_words_, words);
    const std::byte* at = bytes_.data() + stamp * kWordBytes;
    if (!holds_word(at, bytes_in_word(bytes_.size(), stamp), pattern_word(key_, stamp))) {
      return false;
    }
    seen_words_ = stamp + 1;
  }
  return true;
}

}  // namespace spindrift::perf
