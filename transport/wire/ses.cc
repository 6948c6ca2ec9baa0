#include "transport/wire/ses.h"

#include "transport/base/bytes.h"
#include "transport/base/check.h"
#include "transport/wire/request_codec.h"

namespace spindrift::wire {

namespace {

using namespace internal;  // NOLINT(google-build-using-namespace): constants of request_codec.h

constexpr std::size_t kAtomicBytes = 4;
constexpr std::size_t kCompareSwapBytes = 36;

std::uint16_t load_masked(std::span<const std::byte> in, std::size_t offset, std::uint16_t mask) {
  return static_cast<std::uint16_t>(load_be<std::uint16_t>(in, offset) & mask);
}

void store_masked(std::span<std::byte> out, std::size_t offset, std::uint16_t value,
                  std::uint16_t mask) {
  store_be(out, offset, static_cast<std::uint16_t>(value & mask));
}

// The generation in the upper 8 bits, the job in the lower 24.
void store_job(std::span<std::byte> out, std::size_t offset, std::uint8_t generation,
               std::uint32_t job_id) {
  store_be(out, offset, static_cast<std::uint32_t>(generation) << 24 | (job_id & kMask24));
}

// The two bytes that all responses begin with.
template <class Header>
ParseError parse_response_start(std::span<const std::byte> in, Header& out) {
  if (in.size() < Header::kBytes) return ParseError::kTooShort;
  const auto first = load_be<std::uint8_t>(in, 0);
  const auto second = load_be<std::uint8_t>(in, 1);
  const unsigned opcode = first & kMask6;
  if (opcode > static_cast<unsigned>(ResponseOpcode::kNone)) return ParseError::kUnknownOpcode;
  if (second >> kSesVersionShift != 0) return ParseError::kBadVersion;
  out = Header{};
  out.list = static_cast<std::uint8_t>(first >> 6);
  out.opcode = static_cast<ResponseOpcode>(opcode);
  out.return_code = second & kMask6;
  return ParseError::kOk;
}

template <class Header>
void encode_response_start(const Header& header, std::span<std::byte> out) {
  SPINDRIFT_CHECK(out.size() >= Header::kBytes);
  const unsigned first = (header.list & 3U) << 6 | (static_cast<unsigned>(header.opcode) & kMask6);
  store_be(out, 0, static_cast<std::uint8_t>(first));
  store_be(out, 1, static_cast<std::uint8_t>(header.return_code & kMask6));
}

}  // namespace

ParseError parse(std::span<const std::byte> in, SmallRequest& out, std::size_t& bytes) {
  const ParseError error = parse_common(in, out);
  if (error != ParseError::kOk) return error;
  out.request_length = load_masked(in, 2, kMask14);
  bytes = SmallRequest::kBytes;
  return ParseError::kOk;
}

ParseError parse(std::span<const std::byte> in, AtomicExtension& out, std::size_t& bytes) {
  if (in.size() < kAtomicBytes) return ParseError::kTooShort;
  const auto opcode = load_be<std::uint8_t>(in, 0);
  const bool is_compare_swap = opcode == static_cast<std::uint8_t>(AtomicOpcode::kCompareSwap);
  if (!is_compare_swap && opcode != static_cast<std::uint8_t>(AtomicOpcode::kSum)) {
    return ParseError::kUnknownOpcode;
  }
  if (is_compare_swap && in.size() < kCompareSwapBytes) return ParseError::kTooShort;
  out = AtomicExtension{};
  out.opcode = static_cast<AtomicOpcode>(opcode);
  out.datatype = load_be<std::uint8_t>(in, 1);
  out.semantic_control = load_be<std::uint8_t>(in, 2);
  bytes = kAtomicBytes;
  if (!is_compare_swap) return ParseError::kOk;
  const bool fits_64_bits = (load_be<std::uint64_t>(in, 4) | load_be<std::uint64_t>(in, 20)) == 0;
  if (!fits_64_bits) return ParseError::kBadField;
  out.compare = load_be<std::uint64_t>(in, 12);
  out.swap = load_be<std::uint64_t>(in, 28);
  bytes = kCompareSwapBytes;
  return ParseError::kOk;
}

ParseError parse(std::span<const std::byte> in, Response& out, std::size_t& bytes) {
  const ParseError error = parse_response_start(in, out);
  if (error != ParseError::kOk) return error;
  out.message_id = load_be<std::uint16_t>(in, 2);
  out.ri_generation = load_be<std::uint8_t>(in, 4);
  out.job_id = load_be<std::uint32_t>(in, 4) & kMask24;
  out.modified_length = load_be<std::uint32_t>(in, 8);
  bytes = Response::kBytes;
  return ParseError::kOk;
}

ParseError parse(std::span<const std::byte> in, ResponseData& out, std::size_t& bytes) {
  const ParseError error = parse_response_start(in, out);
  if (error != ParseError::kOk) return error;
  out.message_id = load_be<std::uint16_t>(in, 2);
  out.ri_generation = load_be<std::uint8_t>(in, 4);
  out.job_id = load_be<std::uint32_t>(in, 4) & kMask24;
  out.read_message_id = load_be<std::uint16_t>(in, 8);
  out.payload_length = load_masked(in, 10, kMask14);
  out.modified_length = load_be<std::uint32_t>(in, 12);
  out.message_offset = load_be<std::uint32_t>(in, 16);
  bytes = ResponseData::kBytes;
  return ParseError::kOk;
}

ParseError parse(std::span<const std::byte> in, ResponseDataSmall& out, std::size_t& bytes) {
  const ParseError error = parse_response_start(in, out);
  if (error != ParseError::kOk) return error;
  out.payload_length = load_masked(in, 2, kMask14);
  out.job_id = load_be<std::uint32_t>(in, 4) & kMask24;
  out.request_psn = load_be<std::uint32_t>(in, 8);
  bytes = ResponseDataSmall::kBytes;
  return ParseError::kOk;
}

std::size_t encode(const SmallRequest& header, std::span<std::byte> out) {
  encode_common(header, out);
  store_masked(out, 2, header.request_length, kMask14);
  return SmallRequest::kBytes;
}

std::size_t encode(const AtomicExtension& header, std::span<std::byte> out) {
  const bool is_compare_swap = header.opcode == AtomicOpcode::kCompareSwap;
  const std::size_t bytes = is_compare_swap ? kCompareSwapBytes : kAtomicBytes;
  SPINDRIFT_CHECK(out.size() >= bytes);
  store_be(out, 0, static_cast<std::uint8_t>(header.opcode));
  store_be(out, 1, header.datatype);
  store_be(out, 2, header.semantic_control);
  store_be(out, 3, std::uint8_t{0});
  if (is_compare_swap) {
    store_be(out, 4, std::uint64_t{0});
    store_be(out, 12, header.compare);
    store_be(out, 20, std::uint64_t{0});
    store_be(out, 28, header.swap);
  }
  return bytes;
}

std::size_t encode(const Response& header, std::span<std::byte> out) {
  encode_response_start(header, out);
  store_be(out, 2, header.message_id);
  store_job(out, 4, header.ri_generation, header.job_id);
  store_be(out, 8, header.modified_length);
  return Response::kBytes;
}

std::size_t encode(const ResponseData& header, std::span<std::byte> out) {
  encode_response_start(header, out);
  store_be(out, 2, header.message_id);
  store_job(out, 4, header.ri_generation, header.job_id);
  store_be(out, 8, header.read_message_id);
  store_masked(out, 10, header.payload_length, kMask14);
  store_be(out, 12, header.modified_length);
  store_be(out, 16, header.message_offset);
  return ResponseData::kBytes;
}

std::size_t encode(const ResponseDataSmall& header, std::span<std::byte> out) {
  encode_response_start(header, out);
  store_masked(out, 2, header.payload_length, kMask14);
  store_job(out, 4, 0, header.job_id);
  store_be(out, 8, header.request_psn);
  return ResponseDataSmall::kBytes;
}

}  // namespace spindrift::wire
