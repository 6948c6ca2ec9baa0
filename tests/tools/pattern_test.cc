#include "tools/perf/pattern.h"

#include <vector>

#include <gtest/gtest.h>

namespace spindrift::perf {
namespace {

struct alignas(64) Block {
  std::array<std::byte, 8192> bytes{};
};

TEST(Pattern, PassesItsOwnCheckAtEveryLength) {
  Block block;
  for (std::size_t length = 0; length <= 40; ++length) {
    const std::span<std::byte> bytes = std::span(block.bytes).first(length);
    fill_pattern(bytes, {.connection = 3, .iteration = length});
    EXPECT_FALSE(find_mismatch(bytes, {.connection = 3, .iteration = length})) << length;
  }
}

TEST(Pattern, NamesTheFirstWrongByte) {
  Block block;
  const PatternKey key{.connection = 1, .iteration = 7};
  for (const std::size_t wrong :
       {std::size_t{0}, std::size_t{9}, std::size_t{4096}, std::size_t{8191}}) {
    fill_pattern(block.bytes, key);
    const std::byte right = block.bytes[wrong];
    block.bytes[wrong] ^= std::byte{0x40};
    const auto mismatch = find_mismatch(block.bytes, key);
    ASSERT_TRUE(mismatch.has_value());
    EXPECT_EQ(mismatch->offset, wrong);
    EXPECT_EQ(mismatch->expected, std::to_integer<std::uint8_t>(right));
    EXPECT_EQ(mismatch->found, std::to_integer<std::uint8_t>(right ^ std::byte{0x40}));
  }
}

TEST(Pattern, WritesNothingBeyondTheEnd) {
  Block block;
  fill_pattern(std::span(block.bytes).first(13), {});
  write_stamps(std::span(block.bytes).first(13), {});
  EXPECT_EQ(block.bytes[13], std::byte{0});
}

TEST(Pattern, TellsOtherConnectionsAndIterationsApart) {
  Block block;
  fill_pattern(block.bytes, {.connection = 1, .iteration = 7});
  EXPECT_TRUE(find_mismatch(block.bytes, {.connection = 2, .iteration = 7}));
  EXPECT_TRUE(find_mismatch(block.bytes, {.connection = 1, .iteration = 8}));
}

TEST(Pattern, TellsShiftedContentsApart) {
  Block block;
  fill_pattern(block.bytes, {.connection = 1, .iteration = 7});
  EXPECT_TRUE(find_mismatch(std::span(block.bytes).subspan(8), {.connection = 1, .iteration = 7}));
}

TEST(Pattern, ChangesEvenASingleByteForUpTo255IterationsInARow) {
  const auto first = static_cast<std::uint8_t>(pattern_word({.iteration = 100}, 0));
  for (std::uint64_t later = 101; later < 100 + 256; ++later) {
    EXPECT_NE(static_cast<std::uint8_t>(pattern_word({.iteration = later}, 0)), first);
  }
}

TEST(StampWatch, SeesAStampedMessageOfAnyLength) {
  Block block;
  for (const std::size_t length : {1u, 2u, 7u, 8u, 9u, 511u, 512u, 513u, 520u, 4096u, 8191u}) {
    const std::span<std::byte> bytes = std::span(block.bytes).first(length);
    const PatternKey key{.connection = 0, .iteration = length};
    fill_pattern(bytes, {.connection = 0, .iteration = length - 1});
    StampWatch watch(bytes, key);
    EXPECT_FALSE(watch.has_arrived()) << length;
    write_stamps(bytes, key);
    EXPECT_TRUE(watch.has_arrived()) << length;
  }
}

TEST(StampWatch, WaitsForEvery512ByteStretchInAnyOrder) {
  Block message;
  const PatternKey key{.connection = 0, .iteration = 5};
  fill_pattern(message.bytes, key);
  Block landing;
  StampWatch watch(landing.bytes, key);
  constexpr std::size_t kPacketBytes = 512;
  for (std::size_t end = message.bytes.size(); end > 0; end -= kPacketBytes) {
    EXPECT_FALSE(watch.has_arrived()) << end;
    const std::size_t from = end - kPacketBytes;
    std::copy_n(message.bytes.begin() + static_cast<std::ptrdiff_t>(from), kPacketBytes,
                landing.bytes.begin() + static_cast<std::ptrdiff_t>(from));
  }
  EXPECT_TRUE(watch.has_arrived());
}

TEST(Describe, SaysWhereAndWhat) {
  EXPECT_EQ(describe({.offset = 4096, .expected = 0x3f, .found = 0},
                     {.connection = 2, .iteration = 17}, 65536),
            "connection 2, iteration 17, offset 4096 of 65536: expected 0x3f, found 0x00");
}

TEST(Describe, CountsIterationsFromTheStartOfTheRun) {
  EXPECT_EQ(describe({.offset = 0, .expected = 1, .found = 2},
                     {.connection = 0, .iteration = (1ULL << 32) + 17}, 8),
            "connection 0, iteration 17, offset 0 of 8: expected 0x01, found 0x02");
}

}  // namespace
}  // namespace spindrift::perf
