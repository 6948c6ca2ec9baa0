#include "transport/base/crc32c.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "transport/base/rng.h"

namespace spindrift {
namespace {

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

// One bit at a time, from the definition.
std::uint32_t reference_crc(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

TEST(Crc32c, GivesThePublishedCheckValues) {
  EXPECT_EQ(crc_of("123456789"), 0xe3069283U);
  EXPECT_EQ(crc_of(""), 0U);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43U);
}

TEST(Crc32c, FollowsTheDefinitionAtEveryLengthAndAlignment) {
  Rng rng(1);
  std::vector<std::byte> bytes(700);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(rng.next());
  for (std::size_t length = 0; length < 600; ++length) {
    const auto part = std::span<const std::byte>(bytes).subspan(length % 17, length);
    ASSERT_EQ(crc32c(part), reference_crc(part)) << length << " bytes";
  }
}

TEST(Crc32c, ContinuesFromAFinishedValueAtEverySplit) {
  Rng rng(2);
  std::vector<std::byte> bytes(100);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(rng.next());
  const std::span<const std::byte> all(bytes);
  for (std::size_t split = 0; split <= all.size(); ++split) {
    ASSERT_EQ(crc32c(all.subspan(split), crc32c(all.first(split))), crc32c(all)) << split;
  }
}

}  // namespace
}  // namespace spindrift
