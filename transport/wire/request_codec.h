#pragma once
// Encoding and parsing of the two headers that every data packet has, RUD_REQ and REQ_STD: inline,
// because what the caller does not use of a header then costs nothing.
#include "transport/base/bytes.h"
#include "transport/base/check.h"
#include "transport/wire/hello.h"
#include "transport/wire/ses.h"

namespace spindrift::wire {

inline constexpr std::size_t kRudRequestBytes = 12;

namespace internal {

inline constexpr std::uint8_t kTypeRudRequest = 2;
inline constexpr std::uint8_t kTypeRudCcRequest = 13;
inline constexpr std::size_t kRudCcRequestBytes = 16;

// Flags of the prologue.
inline constexpr std::uint16_t kFlagRetransmit = 0x10;
inline constexpr std::uint16_t kRequestFlagAckRequest = 0x08;
inline constexpr std::uint16_t kRequestFlagSyn = 0x04;

// Second byte of a SES request: version (2 bits), then these flags.
inline constexpr unsigned kSesVersionShift = 6;
inline constexpr unsigned kSesDeliveryComplete = 0x20;
inline constexpr unsigned kSesInitiatorError = 0x10;
inline constexpr unsigned kSesRelative = 0x08;
inline constexpr unsigned kSesHeaderData = 0x04;
inline constexpr unsigned kSesEom = 0x02;
inline constexpr unsigned kSesSom = 0x01;

inline constexpr std::uint8_t kMask6 = 0x3f;
inline constexpr std::uint16_t kMask12 = 0x0fff;
inline constexpr std::uint16_t kMask14 = 0x3fff;
inline constexpr std::uint32_t kMask24 = 0x00ffffff;

constexpr std::uint16_t prologue(std::uint8_t type, std::uint8_t next, unsigned flags) {
  return static_cast<std::uint16_t>((type & 0x1fU) << 11 | (next & 0x0fU) << 7 | (flags & 0x7fU));
}
constexpr unsigned flag_if(bool is_set, unsigned flag) {
  return is_set ? flag : 0U;
}

// The 20 bytes that SES requests begin with, except for the 16 bits at offset 2.
template <class Request>
ParseError parse_common(std::span<const std::byte> in, Request& out) {
  if (in.size() < Request::kBytes) return ParseError::kTooShort;
  const unsigned opcode = load_be<std::uint8_t>(in, 0) & kMask6;
  if (opcode > static_cast<unsigned>(Opcode::kSend)) return ParseError::kUnknownOpcode;
  const unsigned flags = load_be<std::uint8_t>(in, 1);
  if (flags >> kSesVersionShift != 0) return ParseError::kBadVersion;
  out.opcode = static_cast<Opcode>(opcode);
  out.delivery_complete = (flags & kSesDeliveryComplete) != 0;
  out.initiator_error = (flags & kSesInitiatorError) != 0;
  out.is_relative = (flags & kSesRelative) != 0;
  out.has_header_data = (flags & kSesHeaderData) != 0;
  out.is_eom = (flags & kSesEom) != 0;
  out.is_som = (flags & kSesSom) != 0;
  out.ri_generation = load_be<std::uint8_t>(in, 4);
  out.job_id = load_be<std::uint32_t>(in, 4) & kMask24;
  out.pid_on_fep = load_be<std::uint16_t>(in, 8) & kMask12;
  out.resource_index = load_be<std::uint16_t>(in, 10) & kMask12;
  out.buffer_offset = load_be<std::uint64_t>(in, 12);
  return ParseError::kOk;
}

template <class Request>
void encode_common(const Request& header, std::span<std::byte> out) {
  SPINDRIFT_CHECK(out.size() >= Request::kBytes);
  const unsigned flags = flag_if(header.delivery_complete, kSesDeliveryComplete) |
                         flag_if(header.initiator_error, kSesInitiatorError) |
                         flag_if(header.is_relative, kSesRelative) |
                         flag_if(header.has_header_data, kSesHeaderData) |
                         flag_if(header.is_eom, kSesEom) | flag_if(header.is_som, kSesSom);
  store_be(out, 0, static_cast<std::uint8_t>(header.opcode));
  store_be(out, 1, static_cast<std::uint8_t>(flags));
  store_be(out, 4,
           static_cast<std::uint32_t>(header.ri_generation) << 24 | (header.job_id & kMask24));
  store_be(out, 8, static_cast<std::uint16_t>(header.pid_on_fep & kMask12));
  store_be(out, 10, static_cast<std::uint16_t>(header.resource_index & kMask12));
  store_be(out, 12, header.buffer_offset);
}

}  // namespace internal

// `packet` begins with a RUD_REQ or RUD_CC_REQ (has_cc_state).
[[nodiscard]] inline ParseError parse_request(std::span<const std::byte> packet, bool has_cc_state,
                                              RudRequest& out) {
  using namespace internal;  // NOLINT(google-build-using-namespace): the constants above
  if (packet.size() < (has_cc_state ? kRudCcRequestBytes : kRudRequestBytes))
    return ParseError::kTooShort;
  const auto word = load_be<std::uint16_t>(packet, 0);
  const unsigned next = word >> 7 & 0x0f;
  if (next > static_cast<unsigned>(NextHeader::kResponseDataSmall))
    return ParseError::kUnknownNextHeader;
  out.next = static_cast<NextHeader>(next);
  out.is_retransmit = (word & kFlagRetransmit) != 0;
  out.wants_ack = (word & kRequestFlagAckRequest) != 0;
  out.is_syn = (word & kRequestFlagSyn) != 0;
  out.clear_psn_offset = static_cast<std::int16_t>(load_be<std::uint16_t>(packet, 2));
  out.psn = load_be<std::uint32_t>(packet, 4);
  out.spdcid = load_be<std::uint16_t>(packet, 8);
  const auto target = load_be<std::uint16_t>(packet, 10);
  out.psn_offset = static_cast<std::uint16_t>(out.is_syn ? target & kMask12 : 0);
  out.dpdcid = out.is_syn ? std::uint16_t{0} : target;
  out.has_cc_state = has_cc_state;
  if (has_cc_state) {
    const auto state = load_be<std::uint32_t>(packet, 12);
    out.ccc_id = static_cast<std::uint8_t>(state >> 24);
    out.credit_target = state & kMask24;
  }
  return ParseError::kOk;
}

inline bool is_plain_request(std::span<const std::byte> packet) {
  return packet.size() >= kRudRequestBytes &&
         std::to_integer<unsigned>(packet[0]) >> 3 == internal::kTypeRudRequest;
}

inline std::size_t encode(const RudRequest& header, std::span<std::byte> out) {
  using namespace internal;  // NOLINT(google-build-using-namespace)
  const std::size_t bytes = header.has_cc_state ? kRudCcRequestBytes : kRudRequestBytes;
  SPINDRIFT_CHECK(out.size() >= bytes);
  const unsigned flags = flag_if(header.is_retransmit, kFlagRetransmit) |
                         flag_if(header.wants_ack, kRequestFlagAckRequest) |
                         flag_if(header.is_syn, kRequestFlagSyn);
  store_be(out, 0,
           prologue(header.has_cc_state ? kTypeRudCcRequest : kTypeRudRequest,
                    static_cast<std::uint8_t>(header.next), flags));
  store_be(out, 2, static_cast<std::uint16_t>(header.clear_psn_offset));
  store_be(out, 4, header.psn);
  store_be(out, 8, header.spdcid);
  store_be(out, 10,
           header.is_syn ? static_cast<std::uint16_t>(header.psn_offset & kMask12) : header.dpdcid);
  if (header.has_cc_state)
    store_be(out, 12,
             static_cast<std::uint32_t>(header.ccc_id) << 24 | (header.credit_target & kMask24));
  return bytes;
}

// Makes a copy of a packet's headers (RUD_REQ and REQ_STD, neither first nor last of its message)
// those of another packet of that message, as long.
inline void place_in_run(std::span<std::byte> headers, std::int16_t clear_psn_offset,
                         std::uint32_t psn, std::uint32_t message_offset) {
  store_be(headers, 2, static_cast<std::uint16_t>(clear_psn_offset));
  store_be(headers, 4, psn);
  store_be(headers, kRudRequestBytes + 36, message_offset);
}

[[nodiscard]] inline ParseError parse(std::span<const std::byte> in, StandardRequest& out,
                                      std::size_t& bytes) {
  using namespace internal;  // NOLINT(google-build-using-namespace)
  const ParseError error = parse_common(in, out);
  if (error != ParseError::kOk) return error;
  out.message_id = load_be<std::uint16_t>(in, 2);
  out.initiator = load_be<std::uint32_t>(in, 20);
  out.key = load_be<std::uint64_t>(in, 24);
  const auto last_words = load_be<std::uint64_t>(in, 32);
  out.header_data = out.is_som ? last_words : 0;
  out.payload_length =
      out.is_som ? std::uint16_t{0} : static_cast<std::uint16_t>(last_words >> 32 & kMask14);
  out.message_offset = out.is_som ? 0 : static_cast<std::uint32_t>(last_words);
  out.request_length = load_be<std::uint32_t>(in, 40);
  bytes = StandardRequest::kBytes;
  return ParseError::kOk;
}

inline std::size_t encode(const StandardRequest& header, std::span<std::byte> out) {
  using namespace internal;  // NOLINT(google-build-using-namespace)
  encode_common(header, out);
  store_be(out, 2, header.message_id);
  store_be(out, 20, header.initiator);
  store_be(out, 24, header.key);
  const std::uint64_t place =
      std::uint64_t{header.payload_length & std::uint32_t{kMask14}} << 32 | header.message_offset;
  store_be(out, 32, header.is_som ? header.header_data : place);
  store_be(out, 40, header.request_length);
  return StandardRequest::kBytes;
}

// Whether the SES request `in` names the resource index of HELLOs.
inline bool may_be_hello(std::span<const std::byte> in) {
  return in.size() >= StandardRequest::kBytes &&
         (load_be<std::uint16_t>(in, 10) & internal::kMask12) == kHelloResourceIndex;
}

}  // namespace spindrift::wire
