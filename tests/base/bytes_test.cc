#include "transport/base/bytes.h"

#include <array>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(Bytes, LoadsAndStoresBigEndian) {
  std::array<std::byte, 16> bytes{};
  store_be(std::span<std::byte>(bytes), 1, std::uint64_t{0x0102030405060708});
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[1 + i]), i + 1);
  EXPECT_EQ(load_be<std::uint64_t>(bytes, 1), 0x0102030405060708U);
  EXPECT_EQ(load_be<std::uint32_t>(bytes, 1), 0x01020304U);
  EXPECT_EQ(load_be<std::uint16_t>(bytes, 2), 0x0203U);
  EXPECT_EQ(load_be<std::uint8_t>(bytes, 3), 0x03U);
  EXPECT_EQ(bytes[0], std::byte{0});
  EXPECT_EQ(bytes[9], std::byte{0});
}

TEST(ByteReader, GivesBackWhatWasWritten) {
  std::array<std::byte, 18> bytes{};
  ByteWriter writer(bytes);
  writer.u8(1);
  writer.u16(0x203);
  writer.u32(0x4050607);
  writer.u64(0x8090a0b0c0d0e0f);
  const std::array<std::byte, 3> tail{std::byte{7}, std::byte{8}, std::byte{9}};
  writer.put(tail);
  EXPECT_FALSE(writer.has_failed());
  EXPECT_EQ(writer.written(), bytes.size());
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 1U);
  EXPECT_EQ(reader.u16(), 0x203U);
  EXPECT_EQ(reader.u32(), 0x4050607U);
  EXPECT_EQ(reader.u64(), 0x8090a0b0c0d0e0fU);
  EXPECT_EQ(reader.take(3)[2], std::byte{9});
  EXPECT_TRUE(reader.rest().empty());
  EXPECT_FALSE(reader.has_failed());
}

TEST(ByteReader, FailsForGoodAtTheFirstReadPastTheEnd) {
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u16(), 0x102U);
  EXPECT_EQ(reader.u16(), 0U);
  EXPECT_TRUE(reader.has_failed());
  EXPECT_EQ(reader.u8(), 0U) << "one byte is left, but what it means is unknown by now";
  EXPECT_TRUE(reader.take(1).empty());
}

TEST(ByteReader, TakesNothingWhenThereIsLess) {
  const std::array<std::byte, 3> bytes{};
  ByteReader reader(bytes);
  EXPECT_TRUE(reader.take(4).empty());
  EXPECT_TRUE(reader.has_failed());
}

TEST(ByteWriter, WritesNothingPastTheEnd) {
  std::array<std::byte, 4> bytes{};
  const std::span<std::byte> first_three(bytes.data(), 3);
  ByteWriter writer(first_three);
  writer.u16(0xffff);
  writer.u16(0xffff);
  EXPECT_TRUE(writer.has_failed());
  EXPECT_EQ(writer.written(), 2U);
  writer.u8(0xff);
  EXPECT_EQ(writer.written(), 2U);
  EXPECT_EQ(bytes[2], std::byte{0});
  EXPECT_EQ(bytes[3], std::byte{0});
}

}  // namespace
}  // namespace spindrift
