#include "collectives/reduce.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/collectives/numbers.h"
#include "transport/base/rng.h"

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
  const ReduceKernel sum = find_reduce_kernel(DataType::kFloat32, ReduceOp::kSum);
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
  const ReduceKernel sum = find_reduce_kernel(DataType::kFloat32, ReduceOp::kSum);
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

// Values that matter: zeros, denormals, the largest, infinities, NaN, ties between two neighbours.
std::vector<double> special_values(const SmallFormat& format) {
  const double tiny = std::ldexp(1.0, format.low - format.mantissa);
  const double largest = std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa), format.high);
  const double step = std::ldexp(1.0, -format.mantissa);
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values{0.0,
                             tiny,
                             3 * tiny,
                             std::ldexp(1.0, format.low) - tiny,
                             std::ldexp(1.0, format.low),
                             1.0,
                             1.0 + step,
                             1.0 + 3 * step,
                             step / 2,
                             step / 4,
                             3 * step / 2,
                             largest,
                             largest / 2,
                             0.3,
                             1e-3,
                             infinity,
                             std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t i = values.size(); i > 0; --i)
    values.push_back(-values[i - 1]);
  return values;
}

struct Pairs {
  std::vector<double> a;
  std::vector<double> b;
};

// All pairs of special values, and many random ones.
Pairs pairs_of(DataType type) {
  const SmallFormat format = type == DataType::kFloat16 ? kHalf : kBrain;
  const std::vector<double> special = special_values(format);
  Pairs pairs;
  for (const double a : special) {
    for (const double b : special) {
      pairs.a.push_back(as(type, a));
      pairs.b.push_back(as(type, b));
    }
  }
  Rng rng(5);
  for (int i = 0; i < 20000; ++i) {
    pairs.a.push_back(value_of(static_cast<std::uint16_t>(rng.below(65536)), format));
    pairs.b.push_back(value_of(static_cast<std::uint16_t>(rng.below(65536)), format));
    if (type == DataType::kFloat32) {
      // As likely close together as far apart.
      pairs.a.back() *= 1.0 + static_cast<double>(rng.below(1U << 20)) * 0x1p-22;
      pairs.a.back() = as(type, pairs.a.back());
    }
  }
  return pairs;
}

class FloatKernels : public testing::TestWithParam<DataType> {};

TEST_P(FloatKernels, RoundEveryOperationLikeTheReferenceInDoublePrecision) {
  const DataType type = GetParam();
  const Pairs pairs = pairs_of(type);
  const std::size_t size = bytes_of(type);
  std::vector<std::byte> a(pairs.a.size() * size);
  std::vector<std::byte> b(a.size());
  std::vector<std::byte> out(a.size());
  for (std::size_t i = 0; i < pairs.a.size(); ++i) {
    store(type, &a[i * size], pairs.a[i]);
    store(type, &b[i * size], pairs.b[i]);
  }
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    find_reduce_kernel(type, op).run(out.data(), a.data(), b.data(), pairs.a.size());
    for (std::size_t i = 0; i < pairs.a.size(); ++i) {
      const double got = load(type, &out[i * size]);
      const double expected = combine(type, op, pairs.a[i], pairs.b[i]);
      if (std::isnan(expected) && std::isnan(got)) continue;
      ASSERT_EQ(got, expected) << to_string(type) << " " << to_string(op) << " of " << pairs.a[i]
                               << " and " << pairs.b[i];
      if (op == ReduceOp::kSum || op == ReduceOp::kProduct) {
        ASSERT_EQ(std::signbit(got), std::signbit(expected)) << pairs.a[i] << " " << pairs.b[i];
      }
    }
  }
}

TEST_P(FloatKernels, AveragesAreDividedInFloatAndRoundedOnce) {
  const DataType type = GetParam();
  const std::size_t size = bytes_of(type);
  for (const std::uint32_t ranks : {2U, 3U, 7U, 64U}) {
    std::vector<std::byte> values(37 * size);
    for (std::size_t i = 0; i < 37; ++i)
      store(type, &values[i * size], static_cast<double>(i) - 11);
    find_finish_kernel(type, ReduceOp::kAverage).run(values.data(), 37, ranks);
    for (std::size_t i = 0; i < 37; ++i) {
      const double sum = static_cast<double>(i) - 11;
      const double quotient = type == DataType::kFloat64
                                  ? sum / ranks
                                  : static_cast<float>(sum) / static_cast<float>(ranks);
      ASSERT_EQ(load(type, &values[i * size]), as(type, quotient)) << sum << " / " << ranks;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FloatKernels,
                         testing::Values(DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                                         DataType::kBfloat16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

// (n - 1) roundings: |error| <= (n - 1) u (sum of |x|), to first order in u.
TEST(HalfPrecisionSums, StayWithinTheStatedBoundInTheNumberOfRanks) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const double unit = std::ldexp(1.0, -(type == DataType::kFloat16 ? 11 : 8));
    const ReduceKernel sum = find_reduce_kernel(type, ReduceOp::kSum);
    Rng rng(9);
    for (const std::uint32_t ranks : {2U, 8U, 64U}) {
      for (int round = 0; round < 200; ++round) {
        std::byte total[8];
        std::byte next[8];
        double exact = 0;
        double magnitudes = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const double value = as(type, (static_cast<double>(rng.below(2000001)) - 1e6) * 1e-6);
          store(type, next, value);
          exact += value;
          magnitudes += std::abs(value);
          if (rank == 0) {
            std::memcpy(total, next, 2);
          } else {
            sum.run(total, total, next, 1);
          }
        }
        const double bound = (ranks - 1) * unit / (1 - (ranks - 1) * unit) * magnitudes;
        ASSERT_LE(std::abs(load(type, total) - exact), bound);
      }
    }
  }
}

TEST(IntegerKernels, WrapAroundAndAverageTowardsZero) {
  const auto one = [](DataType type, ReduceOp op, double a, double b) {
    std::byte x[8];
    std::byte y[8];
    store(type, x, a);
    store(type, y, b);
    find_reduce_kernel(type, op).run(x, x, y, 1);
    return load(type, x);
  };
  EXPECT_EQ(one(DataType::kInt8, ReduceOp::kSum, 127, 1), -128);
  EXPECT_EQ(one(DataType::kUint8, ReduceOp::kProduct, 16, 17), 16);
  EXPECT_EQ(one(DataType::kInt16, ReduceOp::kProduct, -300, 300), -24464);
  EXPECT_EQ(one(DataType::kUint16, ReduceOp::kProduct, 65535, 65535), 1);
  EXPECT_EQ(one(DataType::kInt32, ReduceOp::kProduct, 65536, 65536), 0);
  EXPECT_EQ(one(DataType::kInt64, ReduceOp::kMin, -5, 4), -5);
  EXPECT_EQ(one(DataType::kUint64, ReduceOp::kMax, 5, 4), 5);
  std::int32_t values[2] = {-7, 7};
  find_finish_kernel(DataType::kInt32, ReduceOp::kAverage).run(values, 2, 2);
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(find_finish_kernel(DataType::kInt32, ReduceOp::kSum).run, nullptr);
}

TEST(Kernels, GiveEveryElementTheSameResultWhereverItLies) {
  for (const DataType type : kAllTypes) {
    const std::size_t size = bytes_of(type);
    for (std::size_t count = 0; count < 140; count += 1 + count / 40) {
      std::vector<std::byte> a((count + 1) * size);
      std::vector<std::byte> b((count + 1) * size);
      for (std::size_t i = 0; i < count; ++i) {
        store(type, &a[i * size], static_cast<double>(i % 5));
        store(type, &b[i * size], static_cast<double>(i % 3));
      }
      std::memset(&a[count * size], 0x5A, size);
      find_reduce_kernel(type, ReduceOp::kSum).run(a.data(), a.data(), b.data(), count);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(load(type, &a[i * size]), static_cast<double>(i % 5 + i % 3));
      for (std::size_t i = 0; i < size; ++i)
        ASSERT_EQ(a[count * size + i], std::byte{0x5A}) << "wrote past the end";
    }
  }
}

}  // namespace
}  // namespace spindrift::collectives
