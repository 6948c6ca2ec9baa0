#include "collectives/reduce.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace spindrift::collectives {
namespace {

std::vector<float> values(std::size_t count, std::uint32_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    out[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(seed)),
                        static_cast<int>(seed >> 28) - 40);
  }
  return out;
}

TEST(SumFloat32, EqualsScalarAdditionBitForBitAtEveryLengthAndAlignment) {
  const ReduceKernel sum = find_reduce_kernel(DataType::kFloat32, ReduceOp::kSum).value();
  for (std::size_t shift = 0; shift < 4; ++shift) {
    for (std::size_t count = 0; count < 70; ++count) {
      const std::vector<float> a = values(count + shift, 1);
      const std::vector<float> b = values(count + 3, 2);
      std::vector<float> target(count + 1, -1.0F);
      sum.run(target.data(), a.data() + shift, b.data() + 3, count);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = a[i + shift] + b[i + 3];
        ASSERT_EQ(std::memcmp(&target[i], &expected, sizeof(float)), 0) << count << " at " << i;
      }
      ASSERT_EQ(target[count], -1.0F) << "wrote past the end";
    }
  }
}

TEST(SumFloat32, MayWriteOverEitherSource) {
  const ReduceKernel sum = find_reduce_kernel(DataType::kFloat32, ReduceOp::kSum).value();
  const std::vector<float> a = values(1000, 3);
  const std::vector<float> b = values(1000, 4);
  std::vector<float> expected(1000);
  sum.run(expected.data(), a.data(), b.data(), 1000);
  std::vector<float> left = a;
  sum.run(left.data(), left.data(), b.data(), 1000);
  EXPECT_EQ(left, expected);
  std::vector<float> right = b;
  sum.run(right.data(), a.data(), right.data(), 1000);
  EXPECT_EQ(right, expected);
}

TEST(FindReduceKernel, RefusesWhatIsNotThereAndSaysWhatIs) {
  const Result<ReduceKernel> half = find_reduce_kernel(DataType::kFloat16, ReduceOp::kSum);
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(half.error().message().find("half"), std::string::npos);
  EXPECT_NE(half.error().message().find("sum over float"), std::string::npos);
  EXPECT_FALSE(find_reduce_kernel(DataType::kFloat32, ReduceOp::kMax).ok());
}

}  // namespace
}  // namespace spindrift::collectives
