#include "transport/base/pages.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

namespace spindrift::testing {
namespace {

bool is_zeroed(const Pages& pages) {
  return std::all_of(pages.bytes().begin(), pages.bytes().end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(Pages, AreZeroedAndOfTheSizeAskedFor) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{5000}, Pages::kHugeBytes - 1, Pages::kHugeBytes,
        Pages::kHugeBytes + 1, 3 * Pages::kHugeBytes + 4097}) {
    const Pages pages = Pages::map(bytes).value();
    ASSERT_EQ(pages.size(), bytes);
    EXPECT_TRUE(is_zeroed(pages)) << bytes;
    std::fill(pages.bytes().begin(), pages.bytes().end(), std::byte{1});
  }
}

TEST(Pages, FromAHugePageOnBeginAtOne) {
  for (int i = 1; i < 20; ++i) {
    const Pages pages = Pages::map(Pages::kHugeBytes + static_cast<std::size_t>(i) * 4096).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % Pages::kHugeBytes, 0U);
  }
}

TEST(Pages, MoveAlongWithTheirMemory) {
  Pages pages = Pages::map(100).value();
  std::byte* const at = pages.data();
  Pages moved = std::move(pages);
  EXPECT_EQ(moved.data(), at);
  EXPECT_TRUE(pages.is_empty());  // NOLINT(bugprone-use-after-move): that is what is asked
  moved = Pages::map(200).value();
  EXPECT_EQ(moved.size(), 200U);
  EXPECT_TRUE(Pages::map(0).value().is_empty());
}

TEST(Pages, MoreThanThereIsIsAnError) {
  const Result<Pages> pages = Pages::map(std::size_t{1} << 60U);
  ASSERT_FALSE(pages.ok());
  EXPECT_EQ(pages.error().code(), ErrorCode::kNoMemory);
  EXPECT_NE(pages.error().message().find("1152921504606846976 bytes"), std::string::npos);
}

}  // namespace
}  // namespace spindrift::testing
