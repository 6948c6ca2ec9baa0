// Stands in for transport/base/crc32c.cc at the linker's seam: the library that NCCL loads depends
// on the C library alone, so it brings no ISA-L. The processor's own instruction, in three streams
// that do not wait for each other, joined as Mark Adler describes in "crc32c.c": the CRC of a
// string followed by zeros is a linear function of its CRC, kept in tables.
#include <array>
#include <cstring>

#include "transport/base/crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace spindrift {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr std::size_t kStreamBytes = 1024;

constexpr std::array<std::uint32_t, 256> byte_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kByteTable = byte_table();

std::uint32_t by_table(const std::byte* data, std::size_t bytes, std::uint32_t state) {
  for (; bytes != 0; --bytes)
    state = (state >> 8) ^ kByteTable[(state ^ static_cast<std::uint32_t>(*data++)) & 0xff];
  return state;
}

#if defined(__x86_64__)
using Matrix = std::array<std::uint32_t, 32>;  // over GF(2), by columns

std::uint32_t apply(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; vector != 0; ++i, vector >>= 1)
    if ((vector & 1) != 0) sum ^= matrix[i];
  return sum;
}

// What kStreamBytes zero bytes do to a state, a byte of it at a time.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

Shift make_shift() {
  Matrix zeros{};  // one zero bit
  zeros[0] = kPolynomial;
  for (std::size_t i = 1; i < 32; ++i)
    zeros[i] = std::uint32_t{1} << (i - 1);
  for (std::size_t bits = 1; bits != kStreamBytes * 8; bits *= 2) {
    Matrix twice{};
    for (std::size_t i = 0; i < 32; ++i)
      twice[i] = apply(zeros, zeros[i]);
    zeros = twice;
  }
  Shift shift{};
  for (std::size_t byte = 0; byte < 4; ++byte)
    for (std::uint32_t value = 0; value < 256; ++value)
      shift[byte][value] = apply(zeros, value << (8 * byte));
  return shift;
}

std::uint32_t shifted(const Shift& shift, std::uint32_t state) {
  return shift[0][state & 0xff] ^ shift[1][(state >> 8) & 0xff] ^ shift[2][(state >> 16) & 0xff] ^
         shift[3][state >> 24];
}

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const std::byte* data,
                                                               std::size_t bytes,
                                                               std::uint32_t state) {
  static const Shift shift = make_shift();
  while (bytes >= 3 * kStreamBytes) {
    std::uint64_t first = state;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kStreamBytes; i += 8) {
      first = _mm_crc32_u64(first, word_at(data + i));
      second = _mm_crc32_u64(second, word_at(data + kStreamBytes + i));
      third = _mm_crc32_u64(third, word_at(data + 2 * kStreamBytes + i));
    }
    state = shifted(shift, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    state = shifted(shift, state) ^ static_cast<std::uint32_t>(third);
    data += 3 * kStreamBytes;
    bytes -= 3 * kStreamBytes;
  }
  std::uint64_t wide = state;
  for (; bytes >= 8; bytes -= 8, data += 8)
    wide = _mm_crc32_u64(wide, word_at(data));
  state = static_cast<std::uint32_t>(wide);
  for (; bytes != 0; --bytes)
    state = _mm_crc32_u8(state, static_cast<std::uint8_t>(*data++));
  return state;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(bytes.data(), bytes.size(), ~crc);
#endif
  return ~by_table(bytes.data(), bytes.size(), ~crc);
}

}  // namespace spindrift
