#include <cstring>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "transport/base/crc32c.h"

namespace spindrift {
namespace {

// Bit by bit, from the definition.
std::uint32_t slow_crc32c(const std::vector<std::byte>& bytes) {
  std::uint32_t state = ~std::uint32_t{0};
  for (const std::byte one : bytes) {
    state ^= static_cast<std::uint32_t>(one);
    for (int bit = 0; bit < 8; ++bit)
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~state;
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> out(count);
  std::uint32_t x = 12345;
  for (std::byte& one : out) {
    x = x * 1664525 + 1013904223;
    one = static_cast<std::byte>(x >> 24);
  }
  return out;
}

TEST(PluginChecksum, GivesTheStandardCheckValue) {
  const std::string_view text = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text))), 0xe3069283U);
}

TEST(PluginChecksum, AgreesWithTheDefinitionAtEveryLength) {
  for (const std::size_t count :
       {0, 1, 7, 8, 9, 127, 1023, 3071, 3072, 3073, 4096, 6144, 9000, 16256}) {
    const auto bytes = some_bytes(count);
    EXPECT_EQ(crc32c(bytes), slow_crc32c(bytes)) << count << " bytes";
  }
}

TEST(PluginChecksum, ContinuesWhereItStopped) {
  const auto bytes = some_bytes(10000);
  for (const std::size_t cut : {0, 1, 8, 3072, 5000, 9999, 10000}) {
    const std::span<const std::byte> all(bytes);
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace spindrift
