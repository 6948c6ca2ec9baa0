// The kernels, compiled once for each set of vector instructions (Highway); the best one that this
// processor has is chosen when a kernel is looked up.
#include "collectives/reduce.h"

#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce.cc"
#include <hwy/foreach_target.h>  // compiles this file again for each target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace spindrift::collectives {
namespace HWY_NAMESPACE {  // NOLINT: Highway's name
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// NaN wins: a + b is one when either is.
struct Min {
  template <class D, class V>
  static V run(D, V a, V b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), hn::Min(a, b));
  }
  template <class T>
  static T scalar(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class D, class V>
  static V run(D, V a, V b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), hn::Max(a, b));
  }
  template <class T>
  static T scalar(T a, T b) {
    return a > b ? a : b;
  }
};
struct Sum {
  template <class D, class V>
  static V run(D, V a, V b) {
    return hn::Add(a, b);
  }
  // Integers wrap around; narrow ones are promoted, and cut back here.
  template <class T>
  static T scalar(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  }
};
struct Product {
  template <class D, class V>
  static V run(D, V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    using U = std::make_unsigned_t<T>;
    // In 64 bits: two 16-bit factors would overflow a signed int.
    const std::uint64_t product = static_cast<std::uint64_t>(static_cast<U>(a)) * static_cast<U>(b);
    return static_cast<T>(static_cast<U>(product));
  }
};

// How elements of a type become vectors of float (or double) and back. `Block` elements at once.
template <class T>
struct Plain {
  using Element = T;
  using D = hn::ScalableTag<T>;
  static std::size_t block() { return hn::Lanes(D()); }
  template <class F>
  static void map(const T* a, const T* b, T* out, F f) {
    const D d;
    hn::StoreU(f(d, hn::LoadU(d, a), hn::LoadU(d, b)), d, out);
  }
};

// Two bfloat16 lie in each 32-bit lane; each is a float without its lower half. Sums are rounded to
// nearest even. A NaN needs no care: its lower half is zero, so that rounding does not carry.
struct Bfloat16 {
  using Element = std::uint16_t;
  using D = hn::ScalableTag<std::uint32_t>;
  using F32 = hn::ScalableTag<float>;
  static std::size_t block() { return 2 * hn::Lanes(D()); }

  // What is added carries into the upper half where that is to be rounded up.
  template <class V>
  static V rounded(V bits) {
    const D d;
    const auto is_odd = hn::TestBit(bits, hn::Set(d, 0x10000));
    return hn::Add(bits, hn::IfThenElse(is_odd, hn::Set(d, 0x8000), hn::Set(d, 0x7FFF)));
  }
  // Once: g++ would read memory again for each use, and loads across cache lines are what counts.
  static auto loaded(const std::uint16_t* from) {
    auto bits = hn::LoadU(D(), reinterpret_cast<const std::uint32_t*>(from));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    asm("" : "+v"(bits.raw));
#endif
    return bits;
  }
  // The upper halves of one and the lower ones of the other.
  template <class V>
  static V upper_of(V one, V other) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Or(hn::And(one, hn::Set(D(), 0xFFFF0000U)), other);
#else
    const hn::Repartition<std::uint16_t, D> u16;
    return hn::BitCast(D(), hn::OddEven(hn::BitCast(u16, one), hn::BitCast(u16, other)));
#endif
  }
  template <class F>
  static void map(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* out, F f) {
    const D d;
    const F32 f32;
    const auto upper = hn::Set(d, 0xFFFF0000U);
    const auto x = loaded(a);
    const auto y = loaded(b);
    const auto low =
        f(f32, hn::BitCast(f32, hn::ShiftLeft<16>(x)), hn::BitCast(f32, hn::ShiftLeft<16>(y)));
    const auto high =
        f(f32, hn::BitCast(f32, hn::And(x, upper)), hn::BitCast(f32, hn::And(y, upper)));
    const auto result =
        upper_of(rounded(hn::BitCast(d, high)), hn::ShiftRight<16>(rounded(hn::BitCast(d, low))));
    hn::StoreU(result, d, reinterpret_cast<std::uint32_t*>(out));
  }
};

// Half precision as bits in 32-bit lanes, exactly and with rounding to nearest even; so that
// processors without conversion instructions give the same results as those with them.
struct Float16 {
  using Element = std::uint16_t;
  using F32 = hn::ScalableTag<float>;
  using U32 = hn::ScalableTag<std::uint32_t>;
  using U16 = hn::Rebind<std::uint16_t, F32>;
  using F16 = hn::Rebind<hwy::float16_t, F32>;
  static std::size_t block() { return hn::Lanes(F32()); }

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  static auto load(const std::uint16_t* from) {
    return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(from)));
  }
  template <class V>
  static void store(V value, std::uint16_t* to) {
    hn::StoreU(hn::DemoteTo(F16(), value), F16(), reinterpret_cast<hwy::float16_t*>(to));
  }
#else
  static auto load(const std::uint16_t* from) {
    const U32 u32;
    const auto half = hn::PromoteTo(u32, hn::LoadU(U16(), from));
    const auto magnitude = hn::And(half, hn::Set(u32, 0x7FFFU));
    // Moves the exponent by a multiplication, which normalises denormals.
    const auto scaled = hn::Mul(hn::BitCast(F32(), hn::ShiftLeft<13>(magnitude)),
                                hn::BitCast(F32(), hn::Set(u32, 0x77800000U)));
    const auto is_special = hn::Gt(magnitude, hn::Set(u32, 0x7BFFU));
    const auto special = hn::Or(hn::BitCast(u32, scaled), hn::Set(u32, 0x7F800000U));
    const auto bits = hn::IfThenElse(is_special, special, hn::BitCast(u32, scaled));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(u32, 0x8000U)));
    return hn::BitCast(F32(), hn::Or(bits, sign));
  }
  template <class V>
  static void store(V value, std::uint16_t* to) {
    const U32 u32;
    const auto bits = hn::BitCast(u32, value);
    const auto sign = hn::And(bits, hn::Set(u32, 0x80000000U));
    const auto magnitude = hn::Xor(bits, sign);
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(u32, 0xC8000FFFU)), odd));
    // Adding a half lets the adder round to the spacing of half precision's denormals.
    const auto half = hn::Set(F32(), 0.5F);
    const auto tiny = hn::Sub(hn::BitCast(u32, hn::Add(hn::BitCast(F32(), magnitude), half)),
                              hn::BitCast(u32, half));
    const auto infinity = hn::Set(u32, 0x7C00U);
    const auto large = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7F800000U)),
                                      hn::Set(u32, 0x7E00U), infinity);
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, 0x38800000U)), tiny, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x477FFFFFU)), large, result);
    result = hn::Or(result, hn::ShiftRight<16>(sign));
    hn::StoreU(hn::TruncateTo(U16(), result), U16(), to);
  }
#endif

  template <class F>
  static void map(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* out, F f) {
    store(f(F32(), load(a), load(b)), out);
  }
};

// Full blocks, and the rest in a block of its own, by the same instructions.
template <class Type, class F>
void map_all(void* target, const void* first, const void* second, std::size_t count, F f) {
  using T = typename Type::Element;
  auto* out = static_cast<T*>(target);
  const auto* a = static_cast<const T*>(first);
  const auto* b = static_cast<const T*>(second);
  const std::size_t block = Type::block();
  std::size_t i = 0;
  for (; i + 2 * block <= count; i += 2 * block) {
    Type::map(a + i, b + i, out + i, f);
    Type::map(a + i + block, b + i + block, out + i + block, f);
  }
  for (; i + block <= count; i += block)
    Type::map(a + i, b + i, out + i, f);
  if (i == count) return;
  constexpr std::size_t kLargestBlock = 256;
  T x[kLargestBlock] = {};
  T y[kLargestBlock] = {};
  T z[kLargestBlock];
  std::memcpy(x, a + i, (count - i) * sizeof(T));
  std::memcpy(y, b + i, (count - i) * sizeof(T));
  Type::map(x, y, z, f);
  std::memcpy(out + i, z, (count - i) * sizeof(T));
}

template <class Type, class Op>
void reduce_floats(void* target, const void* a, const void* b, std::size_t count) {
  map_all<Type>(target, a, b, count,
                [](auto d, auto x, auto y) HWY_ATTR { return Op::run(d, x, y); });
}

template <class Type>
void divide_floats(void* target, std::size_t count, std::uint32_t ranks) {
  map_all<Type>(target, target, target, count, [ranks](auto d, auto x, auto) HWY_ATTR {
    using T = hn::TFromD<decltype(d)>;
    return hn::Div(x, hn::Set(d, static_cast<T>(ranks)));
  });
}

// The compiler makes vectors of these; the loops carry no dependence, which it cannot see where
// target is one of the sources.
template <class T, class Op>
void reduce_integers(void* target, const void* first, const void* second, std::size_t count) {
  auto* out = static_cast<T*>(target);
  const auto* a = static_cast<const T*>(first);
  const auto* b = static_cast<const T*>(second);
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i)
    out[i] = Op::scalar(a[i], b[i]);
}

template <class T>
void divide_integers(void* target, std::size_t count, std::uint32_t ranks) {
  auto* out = static_cast<T*>(target);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) < 8) {
      out[i] = static_cast<T>(std::int64_t{out[i]} / std::int64_t{ranks});
    } else {
      out[i] = static_cast<T>(out[i] / static_cast<T>(ranks));
    }
  }
}

template <class Type>
ReduceFunction floats(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return reduce_floats<Type, Product>;
    case ReduceOp::kMin:
      return reduce_floats<Type, Min>;
    case ReduceOp::kMax:
      return reduce_floats<Type, Max>;
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return reduce_floats<Type, Sum>;
}

template <class T>
ReduceFunction integers(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return reduce_integers<T, Product>;
    case ReduceOp::kMin:
      return reduce_integers<T, Min>;
    case ReduceOp::kMax:
      return reduce_integers<T, Max>;
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return reduce_integers<T, Sum>;
}

}  // namespace

ReduceFunction reduce_function(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32:
      return floats<Plain<float>>(op);
    case DataType::kFloat64:
      return floats<Plain<double>>(op);
    case DataType::kFloat16:
      return floats<Float16>(op);
    case DataType::kBfloat16:
      return floats<Bfloat16>(op);
    case DataType::kInt8:
      return integers<std::int8_t>(op);
    case DataType::kUint8:
      return integers<std::uint8_t>(op);
    case DataType::kInt16:
      return integers<std::int16_t>(op);
    case DataType::kUint16:
      return integers<std::uint16_t>(op);
    case DataType::kInt32:
      return integers<std::int32_t>(op);
    case DataType::kUint32:
      return integers<std::uint32_t>(op);
    case DataType::kInt64:
      return integers<std::int64_t>(op);
    case DataType::kUint64:
      return integers<std::uint64_t>(op);
  }
  return nullptr;
}

FinishFunction divide_function(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return divide_floats<Plain<float>>;
    case DataType::kFloat64:
      return divide_floats<Plain<double>>;
    case DataType::kFloat16:
      return divide_floats<Float16>;
    case DataType::kBfloat16:
      return divide_floats<Bfloat16>;
    case DataType::kInt8:
      return divide_integers<std::int8_t>;
    case DataType::kUint8:
      return divide_integers<std::uint8_t>;
    case DataType::kInt16:
      return divide_integers<std::int16_t>;
    case DataType::kUint16:
      return divide_integers<std::uint16_t>;
    case DataType::kInt32:
      return divide_integers<std::int32_t>;
    case DataType::kUint32:
      return divide_integers<std::uint32_t>;
    case DataType::kInt64:
      return divide_integers<std::int64_t>;
    case DataType::kUint64:
      return divide_integers<std::uint64_t>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace spindrift::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spindrift::collectives {
namespace {

HWY_EXPORT(reduce_function);
HWY_EXPORT(divide_function);

}  // namespace

ReduceKernel find_reduce_kernel(DataType type, ReduceOp op) {
  return {.run = HWY_DYNAMIC_DISPATCH(reduce_function)(type, op)};
}

FinishKernel find_finish_kernel(DataType type, ReduceOp op) {
  if (op != ReduceOp::kAverage) return {};
  return {.run = HWY_DYNAMIC_DISPATCH(divide_function)(type)};
}

}  // namespace spindrift::collectives
#endif  // HWY_ONCE
