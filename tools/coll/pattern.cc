#include "tools/coll/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace spindrift::coll {
namespace {

// A prime far from every power of two and every chunk border, so that misplaced pieces show.
constexpr std::uint64_t kPeriod = 65521;
// Only this many ranks of a product hold a 2: what all types can tell apart stays small.
constexpr std::uint32_t kDoublingRanks = 6;

bool is_half(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16;
}

bool is_floating(DataType type) {
  return is_half(type) || type == DataType::kFloat32 || type == DataType::kFloat64;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Of a value that half precision holds without rounding, or any number for a comparison.
std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  if (value == 0) return sign;
  const std::uint32_t exponent = (bits >> 23 & 0xFFU) - 127 + 15;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FFU));
}

double from_half(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(fraction + 1024, exponent - 25);
}

// Integers wrap as in the type itself.
void encode(double value, DataType type, std::byte* to) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (type) {
    case DataType::kFloat32:
      return store(to, static_cast<float>(value));
    case DataType::kFloat64:
      return store(to, value);
    case DataType::kFloat16:
      return store(to, to_half(static_cast<float>(value)));
    case DataType::kBfloat16:
      return store(to, static_cast<std::uint16_t>(
                           std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DataType::kInt8:
    case DataType::kUint8:
      return store(to, static_cast<std::uint8_t>(whole));
    case DataType::kInt16:
    case DataType::kUint16:
      return store(to, static_cast<std::uint16_t>(whole));
    case DataType::kInt32:
    case DataType::kUint32:
      return store(to, static_cast<std::uint32_t>(whole));
    case DataType::kInt64:
    case DataType::kUint64:
      return store(to, static_cast<std::uint64_t>(whole));
  }
}

double decode(const std::byte* from, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return load<float>(from);
    case DataType::kFloat64:
      return load<double>(from);
    case DataType::kFloat16:
      return from_half(load<std::uint16_t>(from));
    case DataType::kBfloat16:
      return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from)} << 16);
    default:
      return 0;  // integers are compared as they lie in memory
  }
}

// Half a unit in the last place of a number, relative, and as much again for the way there.
double tolerance(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x1p-9;
    case DataType::kBfloat16:
      return 0x1p-6;
    case DataType::kFloat64:
      return 0x1p-50;
    default:
      return 0x1p-21;
  }
}

double combine(double a, double b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return a + b;
  }
  return a;
}

}  // namespace

Pattern::Pattern(DataType type, ReduceOp op, std::uint32_t ranks)
    : type_(type),
      op_(op),
      ranks_(ranks),
      element_bytes_(bytes_of(type)),
      is_rounded_(op == ReduceOp::kAverage && is_floating(type)) {}

std::int64_t Pattern::value(std::uint32_t rank, std::uint64_t index) const {
  const auto hash =
      static_cast<std::uint32_t>(index % kPeriod) * 2654435761U + rank * 40503U * 977U;
  if (op_ == ReduceOp::kProduct) {
    return rank < kDoublingRanks && (hash >> 16 & 1) != 0 ? 2 : 1;
  }
  // 0..3: the sum of 64 stays below 256, which bfloat16 and uint8 just hold. Wider types get more.
  if (is_half(type_) || element_bytes_ == 1) return hash >> 16 & 3;
  return hash >> 16 & 0xFF;
}

const Pattern::Table& Pattern::table_of(std::uint32_t rank) {
  Table& table = tables_[rank];
  if (!table.empty()) return table;
  table.resize(kPeriod * element_bytes_);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    encode(static_cast<double>(value(rank, i)), type_, table.data() + i * element_bytes_);
  }
  return table;
}

const Pattern::Table& Pattern::reduced_table() {
  if (!reduced_.empty()) return reduced_;
  reduced_.resize(kPeriod * element_bytes_);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    auto result = static_cast<double>(value(0, i));
    for (std::uint32_t rank = 1; rank < ranks_; ++rank)
      result = combine(result, static_cast<double>(value(rank, i)), op_);
    if (op_ == ReduceOp::kAverage) result /= ranks_;
    encode(result, type_, reduced_.data() + i * element_bytes_);
  }
  return reduced_;
}

void Pattern::fill(std::span<std::byte> buffer, std::uint32_t rank, std::uint64_t first) {
  const Table& table = table_of(rank);
  std::size_t place = first % kPeriod * element_bytes_;
  while (!buffer.empty()) {
    const std::size_t bytes = std::min(buffer.size(), table.size() - place);
    std::memcpy(buffer.data(), table.data() + place, bytes);
    buffer = buffer.subspan(bytes);
    place = 0;
  }
}

bool Pattern::is_same(const std::byte* a, const std::byte* b) const {
  if (std::memcmp(a, b, element_bytes_) == 0) return true;
  if (!is_rounded_) return false;
  const double value = decode(a, type_);
  const double expected = decode(b, type_);
  return std::abs(value - expected) <= std::abs(expected) * tolerance(type_);
}

std::uint64_t Pattern::differences(std::span<const std::byte> buffer, const Table& table,
                                   std::uint64_t first) const {
  std::uint64_t wrong = 0;
  std::size_t place = first % kPeriod * element_bytes_;
  while (!buffer.empty()) {
    const std::size_t bytes = std::min(buffer.size(), table.size() - place);
    const std::byte* expected = table.data() + place;
    if (std::memcmp(buffer.data(), expected, bytes) != 0) {
      for (std::size_t at = 0; at < bytes; at += element_bytes_) {
        if (!is_same(buffer.data() + at, expected + at)) ++wrong;
      }
    }
    buffer = buffer.subspan(bytes);
    place = 0;
  }
  return wrong;
}

std::uint64_t Pattern::count_wrong(std::span<const std::byte> buffer, std::uint32_t rank,
                                   std::uint64_t first) {
  return differences(buffer, table_of(rank), first);
}

std::uint64_t Pattern::count_wrong_reduced(std::span<const std::byte> buffer, std::uint64_t first) {
  return differences(buffer, reduced_table(), first);
}

}  // namespace spindrift::coll
