#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/memory.h"

#include "transport/base/rng.h"

namespace spindrift {
namespace {

using ::testing::HasSubstr;

RemoteRegion sample_region() {
  return {.key = 0x0102030405060708,
          .bytes = 0x1112131415161718,
          .base = 0x2122232425262728,
          .rights = Access::kRemoteRead | Access::kRemoteWrite};
}

std::string refusal_of(std::span<const std::byte> wire) {
  const auto region = RemoteRegion::deserialize(wire);
  return region.ok() ? "accepted" : region.error().message();
}

TEST(RemoteRegion, SurvivesTheWire) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const RemoteRegion sent{.key = rng.next(),
                            .bytes = rng.next(),
                            .base = rng.next(),
                            .rights = static_cast<Access>(rng.below(16))};
    const auto got = RemoteRegion::deserialize(sent.serialize());
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got.value().key, sent.key);
    EXPECT_EQ(got.value().bytes, sent.bytes);
    EXPECT_EQ(got.value().base, sent.base);
    EXPECT_EQ(got.value().rights, sent.rights);
  }
}

TEST(RemoteRegion, LiesBigEndianBehindItsVersion) {
  const auto wire = sample_region().serialize();
  EXPECT_EQ(wire[0], std::byte{1});
  EXPECT_EQ(wire[1], std::byte{6});
  EXPECT_EQ(wire[8], std::byte{0x01});
  EXPECT_EQ(wire[15], std::byte{0x08});
  EXPECT_EQ(wire[16], std::byte{0x11});
  EXPECT_EQ(wire[24], std::byte{0x21});
  EXPECT_EQ(wire[31], std::byte{0x28});
}

TEST(RemoteRegion, RefusesEveryFlippedBit) {
  const auto wire = sample_region().serialize();
  for (std::size_t bit = 0; bit < wire.size() * 8; ++bit) {
    auto flipped = wire;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(RemoteRegion::deserialize(flipped).ok()) << "bit " << bit;
  }
}

TEST(RemoteRegion, RefusesOtherLengthsVersionsAndRights) {
  const auto wire = sample_region().serialize();
  EXPECT_THAT(refusal_of(std::span(wire).first(31)), HasSubstr("31, not 32"));
  EXPECT_THAT(refusal_of({}), HasSubstr("0, not 32"));
  std::vector<std::byte> longer(wire.begin(), wire.end());
  longer.push_back(std::byte{0});
  EXPECT_THAT(refusal_of(longer), HasSubstr("33, not 32"));
  auto other_version = wire;
  other_version[0] = std::byte{2};
  EXPECT_THAT(refusal_of(other_version), HasSubstr("version 2"));
  RemoteRegion unknown_right = sample_region();
  unknown_right.rights = static_cast<Access>(0x10);
  EXPECT_THAT(refusal_of(unknown_right.serialize()), HasSubstr("access rights"));
}

}  // namespace
}  // namespace spindrift
