#pragma once
// Contents that prove where and when they were written: each 8-byte word follows from the
// connection, the iteration and the word's offset. Stamps are a sparse subset of the same words.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace spindrift::perf {

struct PatternKey {
  std::uint64_t connection = 0;
  std::uint64_t iteration = 0;
};

// Consecutive iterations differ in every byte position's word, even in its lowest byte.
std::uint64_t pattern_word(const PatternKey& key, std::uint64_t word_index);

void fill_pattern(std::span<std::byte> bytes, const PatternKey& key);

struct Mismatch {
  std::uint64_t offset = 0;  // first wrong byte
  std::uint8_t expected = 0;
  std::uint8_t found = 0;
};
std::optional<Mismatch> find_mismatch(std::span<const std::byte> bytes, const PatternKey& key);
// "connection 2, iteration 17, offset 4096 of 65536: expected 0x3f, found 0x00".
std::string describe(const Mismatch& mismatch, const PatternKey& key, std::uint64_t bytes);

// One word in every kStampBytes, ending where the stretch ends, and the last word of the message:
// no packet (512 bytes or more, or the last) is without one.
inline constexpr std::uint64_t kStampBytes = 512;
void write_stamps(std::span<std::byte> bytes, const PatternKey& key);

// Waits, by looking, for a message of one iteration to be complete in memory that a peer writes.
// `bytes` starts 8-byte aligned and is not empty.
class StampWatch {
 public:
  StampWatch(std::span<const std::byte> bytes, const PatternKey& key) : bytes_(bytes), key_(key) {}
  bool has_arrived();

 private:
  std::span<const std::byte> bytes_;
  PatternKey key_;
  std::uint64_t seen_words_ = 0;  // every stamp below this word is there
};

}  // namespace spindrift::perf
