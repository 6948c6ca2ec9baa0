#pragma once
// Elements of every type as doubles and back, one at a time: the plain reference.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "spindrift/collective.h"

namespace spindrift::collectives {

inline constexpr DataType kAllTypes[] = {
    DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
    DataType::kInt8,    DataType::kUint8,   DataType::kInt16,   DataType::kUint16,
    DataType::kInt32,   DataType::kUint32,  DataType::kInt64,   DataType::kUint64};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kAverage};

inline bool is_float(DataType type) {
  return type <= DataType::kBfloat16;
}

// A binary format with `mantissa` explicit bits, smallest normal exponent `low`, largest `high`.
struct SmallFormat {
  int mantissa = 0;
  int low = 0;
  int high = 0;
};
inline constexpr SmallFormat kHalf{.mantissa = 10, .low = -14, .high = 15};
inline constexpr SmallFormat kBrain{.mantissa = 7, .low = -126, .high = 127};

// To nearest, ties to even.
inline double rounded(double value, const SmallFormat& format) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.low);
  const double quantum = std::ldexp(1.0, exponent - format.mantissa);
  const double result = std::nearbyint(value / quantum) * quantum;
  const double limit = std::ldexp(2.0, format.high);
  return std::abs(result) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                   : result;
}

// `value` must be one the format has.
inline std::uint16_t bits_of(double value, const SmallFormat& format) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0;
  const int bias = format.high;
  const auto special = static_cast<std::uint32_t>((2 * bias + 1) << format.mantissa);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | special | 1U << (format.mantissa - 1));
  }
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | special);
  if (value == 0) return static_cast<std::uint16_t>(sign);
  const double magnitude = std::abs(value);
  const int exponent = std::max(std::ilogb(magnitude), format.low);
  const auto scaled = static_cast<std::uint32_t>(std::ldexp(magnitude, format.mantissa - exponent));
  const auto biased = static_cast<std::uint32_t>(exponent + bias - 1) << format.mantissa;
  return static_cast<std::uint16_t>(sign | (biased + scaled));
}

inline double value_of(std::uint16_t bits, const SmallFormat& format) {
  const int bias = format.high;
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = (bits & 0x7FFF) >> format.mantissa;
  const int fraction = bits & ((1 << format.mantissa) - 1);
  if (exponent == 2 * bias + 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int implied = exponent == 0 ? 0 : 1 << format.mantissa;
  return sign * std::ldexp(fraction + implied, std::max(exponent, 1) - bias - format.mantissa);
}

template <class T>
void store_as(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof(value));
}
template <class T>
T load_as(const std::byte* place) {
  T value{};
  std::memcpy(&value, place, sizeof(value));
  return value;
}

// Integers of up to 2^53 and what the format holds.
inline void store(DataType type, std::byte* place, double value) {
  switch (type) {
    case DataType::kFloat32:
      return store_as(place, static_cast<float>(value));
    case DataType::kFloat64:
      return store_as(place, value);
    case DataType::kFloat16:
      return store_as(place, bits_of(rounded(value, kHalf), kHalf));
    case DataType::kBfloat16:
      return store_as(place, bits_of(rounded(value, kBrain), kBrain));
    case DataType::kInt8:
      return store_as(place, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
    case DataType::kUint8:
      return store_as(place, static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
    case DataType::kInt16:
      return store_as(place, static_cast<std::int16_t>(static_cast<std::int64_t>(value)));
    case DataType::kUint16:
      return store_as(place, static_cast<std::uint16_t>(static_cast<std::int64_t>(value)));
    case DataType::kInt32:
      return store_as(place, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    case DataType::kUint32:
      return store_as(place, static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
    case DataType::kInt64:
      return store_as(place, static_cast<std::int64_t>(value));
    case DataType::kUint64:
      return store_as(place, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
}

inline double load(DataType type, const std::byte* place) {
  switch (type) {
    case DataType::kFloat32:
      return load_as<float>(place);
    case DataType::kFloat64:
      return load_as<double>(place);
    case DataType::kFloat16:
      return value_of(load_as<std::uint16_t>(place), kHalf);
    case DataType::kBfloat16:
      return value_of(load_as<std::uint16_t>(place), kBrain);
    case DataType::kInt8:
      return load_as<std::int8_t>(place);
    case DataType::kUint8:
      return load_as<std::uint8_t>(place);
    case DataType::kInt16:
      return load_as<std::int16_t>(place);
    case DataType::kUint16:
      return load_as<std::uint16_t>(place);
    case DataType::kInt32:
      return load_as<std::int32_t>(place);
    case DataType::kUint32:
      return load_as<std::uint32_t>(place);
    case DataType::kInt64:
      return static_cast<double>(load_as<std::int64_t>(place));
    case DataType::kUint64:
      return static_cast<double>(load_as<std::uint64_t>(place));
  }
  return 0;
}

// What is left of a value after it was stored.
inline double as(DataType type, double value) {
  std::byte place[8];
  store(type, place, value);
  return load(type, place);
}

// One addition, with the type's rounding; an average is divided by the caller.
inline double combine(DataType type, ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return as(type, a + b);
    case ReduceOp::kProduct:
      return as(type, a * b);
    case ReduceOp::kMin:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case ReduceOp::kMax:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  }
  return 0;
}

inline double finish(DataType type, ReduceOp op, double value, std::uint32_t ranks) {
  if (op != ReduceOp::kAverage || ranks == 1) return value;
  const double quotient = value / ranks;
  // Half precision is divided in float and rounded again.
  return as(type,
            is_float(type) && type != DataType::kFloat64 ? static_cast<float>(quotient) : quotient);
}

}  // namespace spindrift::collectives
