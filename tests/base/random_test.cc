#include "transport/base/random.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(Random, NeverRepeatsA64BitValueInAThousand) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i)
    seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(Random, FillsEveryPartOfALongBuffer) {
  std::vector<std::byte> bytes(std::size_t{1} << 16);
  fill_random(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    const auto block = std::span(bytes).subspan(at, 64);
    const auto zeros = std::count(block.begin(), block.end(), std::byte{0});
    ASSERT_LT(zeros, 64) << "at " << at;
  }
  fill_random({});
}

}  // namespace
}  // namespace spindrift
