#pragma once
// Semantic headers (SES): what a packet does. Layout per public UET 1.0.x sources.
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/pds.h"

namespace spindrift::wire {

enum class Opcode : std::uint8_t {
  kNoOp = 0,
  kWrite = 1,
  kRead = 2,
  kAtomic = 3,
  kFetchingAtomic = 4,
  kSend = 5,
};

// REQ_STD, 44 bytes. With is_som the last word before request_length is header_data, without it
// payload_length and message_offset (so message_offset of a first packet is 0 and its payload
// length is that of the packet).
struct StandardRequest {
  static constexpr std::size_t kBytes = 44;
  Opcode opcode = Opcode::kNoOp;
  bool delivery_complete = false;
  bool initiator_error = false;
  bool is_relative = false;
  bool has_header_data = false;
  bool is_eom = false;
  bool is_som = false;
  std::uint16_t message_id = 0;
  std::uint8_t ri_generation = 0;
  std::uint32_t job_id = 0;          // 24 bits
  std::uint16_t pid_on_fep = 0;      // 12 bits
  std::uint16_t resource_index = 0;  // 12 bits
  std::uint64_t buffer_offset = 0;
  std::uint32_t initiator = 0;
  std::uint64_t key = 0;
  std::uint64_t header_data = 0;     // is_som
  std::uint16_t payload_length = 0;  // 14 bits, !is_som
  std::uint32_t message_offset = 0;  // !is_som
  std::uint32_t request_length = 0;
  bool operator==(const StandardRequest&) const = default;
};

// REQ_SMALL, 20 bytes.
struct SmallRequest {
  static constexpr std::size_t kBytes = 20;
  Opcode opcode = Opcode::kNoOp;
  bool delivery_complete = false;
  bool initiator_error = false;
  bool is_relative = false;
  bool has_header_data = false;
  bool is_eom = false;
  bool is_som = false;
  std::uint16_t request_length = 0;  // 14 bits
  std::uint8_t ri_generation = 0;
  std::uint32_t job_id = 0;
  std::uint16_t pid_on_fep = 0;
  std::uint16_t resource_index = 0;
  std::uint64_t buffer_offset = 0;
  bool operator==(const SmallRequest&) const = default;
};

enum class AtomicOpcode : std::uint8_t { kSum = 2, kCompareSwap = 0x0d };
inline constexpr std::uint8_t kDatatypeUint64 = 7;

// Follows a FETCHING_ATOMIC request: 4 bytes, and 32 more (compare, swap) for kCompareSwap. For
// kSum the operand is the packet's 8-byte payload (big endian). The 16-byte fields carry a 64-bit
// value in their last 8 bytes.
struct AtomicExtension {
  AtomicOpcode opcode = AtomicOpcode::kSum;
  std::uint8_t datatype = kDatatypeUint64;
  std::uint8_t semantic_control = 0;
  std::uint64_t compare = 0;
  std::uint64_t swap = 0;
  bool operator==(const AtomicExtension&) const = default;
};

enum class ResponseOpcode : std::uint8_t { kDefault = 0, kResponse = 1, kWithData = 2, kNone = 3 };

// The return codes used here (a peer may send any 6-bit value).
enum class ReturnCode : std::uint8_t {
  kNull = 0,
  kOk = 1,
  kUnsupportedOp = 6,
  kUnsupportedSize = 7,
  kOutOfRange = 0x0c,
  kAtomicUnaligned = 0x12,
  kPermission = 0x17,
  kOperation = 0x18,
  kBadIndex = 0x19,
  kBadKey = 0x1c,
  kTooLong = 0x22,
  kNoMoreReceives = 0x3f,  // ours
};

// RSP, 12 bytes.
struct Response {
  static constexpr std::size_t kBytes = 12;
  std::uint8_t list = 0;  // 2 bits
  ResponseOpcode opcode = ResponseOpcode::kDefault;
  std::uint8_t return_code = 0;  // 6 bits
  std::uint16_t message_id = 0;
  std::uint8_t ri_generation = 0;
  std::uint32_t job_id = 0;
  std::uint32_t modified_length = 0;
  bool operator==(const Response&) const = default;
};

// RSP_DATA, 20 bytes.
struct ResponseData {
  static constexpr std::size_t kBytes = 20;
  std::uint8_t list = 0;
  ResponseOpcode opcode = ResponseOpcode::kWithData;
  std::uint8_t return_code = 1;
  std::uint16_t message_id = 0;
  std::uint8_t ri_generation = 0;
  std::uint32_t job_id = 0;
  std::uint16_t read_message_id = 0;
  std::uint16_t payload_length = 0;  // 14 bits
  std::uint32_t modified_length = 0;
  std::uint32_t message_offset = 0;
  bool operator==(const ResponseData&) const = default;
};

// RSP_DATA_SMALL, 12 bytes.
struct ResponseDataSmall {
  static constexpr std::size_t kBytes = 12;
  std::uint8_t list = 0;
  ResponseOpcode opcode = ResponseOpcode::kWithData;
  std::uint8_t return_code = 1;
  std::uint16_t payload_length = 0;  // 14 bits
  std::uint32_t job_id = 0;
  std::uint32_t request_psn = 0;
  bool operator==(const ResponseDataSmall&) const = default;
};

// Those of StandardRequest are in request_codec.h.
// `bytes` gets the length of the header on kOk; otherwise `out` and `bytes` mean nothing. Reserved
// bits are ignored.
[[nodiscard]] ParseError parse(std::span<const std::byte> in, SmallRequest& out,
                               std::size_t& bytes);
[[nodiscard]] ParseError parse(std::span<const std::byte> in, AtomicExtension& out,
                               std::size_t& bytes);
[[nodiscard]] ParseError parse(std::span<const std::byte> in, Response& out, std::size_t& bytes);
[[nodiscard]] ParseError parse(std::span<const std::byte> in, ResponseData& out,
                               std::size_t& bytes);
[[nodiscard]] ParseError parse(std::span<const std::byte> in, ResponseDataSmall& out,
                               std::size_t& bytes);

// Each writes a prefix of `out`, which must be long enough, and returns its length.
std::size_t encode(const SmallRequest& header, std::span<std::byte> out);
std::size_t encode(const AtomicExtension& header, std::span<std::byte> out);
std::size_t encode(const Response& header, std::span<std::byte> out);
std::size_t encode(const ResponseData& header, std::span<std::byte> out);
std::size_t encode(const ResponseDataSmall& header, std::span<std::byte> out);

}  // namespace spindrift::wire
