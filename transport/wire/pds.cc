#include "transport/wire/pds.h"

#include "transport/base/bytes.h"
#include "transport/base/check.h"
#include "transport/wire/request_codec.h"

namespace spindrift::wire {

namespace {

using namespace internal;  // NOLINT(google-build-using-namespace): constants of request_codec.h

constexpr std::uint8_t kTypeAck = 7;
constexpr std::uint8_t kTypeAckCc = 8;
constexpr std::uint8_t kTypeNack = 10;
constexpr std::uint8_t kTypeControl = 11;

constexpr std::size_t kPrologueBytes = 2;
constexpr std::size_t kAckBytes = 12;
constexpr std::size_t kAckCcBytes = 32;
constexpr std::size_t kNackBytes = 16;
constexpr std::size_t kControlBytes = 16;

// Flags of the prologue. Bits without a name are ignored, except those that would change the
// length or the meaning of what follows.
constexpr std::uint16_t kAckFlagExpectedPsn = 0x40;
constexpr std::uint16_t kFlagMarked = 0x20;
constexpr std::uint16_t kAckFlagProbe = 0x08;
constexpr unsigned kAckRequestShift = 1;
constexpr std::uint16_t kAckRequestMask = 0x03;
constexpr std::uint16_t kNackFlagRudi = 0x08;
constexpr std::uint16_t kControlFlagRod = 0x20;

constexpr std::int16_t as_signed(std::uint16_t value) {
  return static_cast<std::int16_t>(value);
}
constexpr std::uint16_t as_unsigned(std::int16_t value) {
  return static_cast<std::uint16_t>(value);
}

ParseError parse_ack_cc(std::span<const std::byte> packet, Ack& out) {
  if (packet.size() < kAckCcBytes) return ParseError::kTooShort;
  const unsigned cc_type = load_be<std::uint8_t>(packet, 12) >> 4;
  if (cc_type > static_cast<unsigned>(CcType::kCredit)) return ParseError::kBadField;
  out.has_cc = true;
  out.cc_type = static_cast<CcType>(cc_type);
  out.mpr = load_be<std::uint8_t>(packet, 13);
  out.sack_psn_offset = as_signed(load_be<std::uint16_t>(packet, 14));
  out.sack_bitmap = load_be<std::uint64_t>(packet, 16);
  out.ack_cc_state = load_be<std::uint64_t>(packet, 24);
  return ParseError::kOk;
}

constexpr bool may_follow_ack(unsigned next) {
  return next == static_cast<unsigned>(NextHeader::kNone) ||
         (next >= static_cast<unsigned>(NextHeader::kResponse) &&
          next <= static_cast<unsigned>(NextHeader::kResponseDataSmall));
}

ParseError parse_ack(std::span<const std::byte> packet, bool has_cc, Ack& out) {
  if (packet.size() < kAckBytes) return ParseError::kTooShort;
  const auto word = load_be<std::uint16_t>(packet, 0);
  const unsigned next = word >> 7 & 0x0f;
  if (!may_follow_ack(next)) return ParseError::kUnknownNextHeader;
  // It adds four bytes, for secured connections that we do not have.
  if ((word & kAckFlagExpectedPsn) != 0) return ParseError::kBadField;
  out.next = static_cast<NextHeader>(next);
  out.is_marked = (word & kFlagMarked) != 0;
  out.is_retransmit = (word & kFlagRetransmit) != 0;
  out.is_probe = (word & kAckFlagProbe) != 0;
  out.request = static_cast<std::uint8_t>(word >> kAckRequestShift & kAckRequestMask);
  if (out.request == kAckRequestMask) return ParseError::kBadField;
  const auto offset_or_opaque = load_be<std::uint16_t>(packet, 2);
  if (out.is_probe) {
    out.probe_opaque = offset_or_opaque;
  } else {
    out.ack_psn_offset = as_signed(offset_or_opaque);
  }
  out.cack_psn = load_be<std::uint32_t>(packet, 4);
  out.spdcid = load_be<std::uint16_t>(packet, 8);
  out.dpdcid = load_be<std::uint16_t>(packet, 10);
  return has_cc ? parse_ack_cc(packet, out) : ParseError::kOk;
}

ParseError parse_nack(std::span<const std::byte> packet, Nack& out) {
  if (packet.size() < kNackBytes) return ParseError::kTooShort;
  const auto word = load_be<std::uint16_t>(packet, 0);
  if ((word >> 7 & 0x0f) != 0) return ParseError::kUnknownNextHeader;
  if ((word & kNackFlagRudi) != 0) return ParseError::kBadField;
  out.is_marked = (word & kFlagMarked) != 0;
  out.is_retransmit = (word & kFlagRetransmit) != 0;
  out.code = load_be<std::uint8_t>(packet, 2);
  out.vendor_code = load_be<std::uint8_t>(packet, 3);
  out.psn = load_be<std::uint32_t>(packet, 4);
  out.spdcid = load_be<std::uint16_t>(packet, 8);
  out.dpdcid = load_be<std::uint16_t>(packet, 10);
  out.payload = load_be<std::uint32_t>(packet, 12);
  return ParseError::kOk;
}

ParseError parse_control(std::span<const std::byte> packet, Control& out) {
  if (packet.size() < kControlBytes) return ParseError::kTooShort;
  const auto word = load_be<std::uint16_t>(packet, 0);
  const unsigned type = word >> 7 & 0x0f;
  if (type > static_cast<unsigned>(ControlType::kNegotiation)) return ParseError::kUnknownControl;
  if ((word & kControlFlagRod) != 0) return ParseError::kBadField;
  out.type = static_cast<ControlType>(type);
  out.is_retransmit = (word & kFlagRetransmit) != 0;
  out.wants_ack = (word & kRequestFlagAckRequest) != 0;
  out.is_syn = (word & kRequestFlagSyn) != 0;
  out.probe_opaque = load_be<std::uint16_t>(packet, 2);
  out.psn = load_be<std::uint32_t>(packet, 4);
  out.spdcid = load_be<std::uint16_t>(packet, 8);
  out.dpdcid = load_be<std::uint16_t>(packet, 10);
  out.payload = load_be<std::uint32_t>(packet, 12);
  return ParseError::kOk;
}

}  // namespace

std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kOk:
      return "ok";
    case ParseError::kTooShort:
      return "too short";
    case ParseError::kUnknownType:
      return "unknown packet type";
    case ParseError::kUnknownNextHeader:
      return "unknown next header";
    case ParseError::kUnknownControl:
      return "unknown control type";
    case ParseError::kUnknownOpcode:
      return "unknown opcode";
    case ParseError::kBadVersion:
      return "unknown version";
    case ParseError::kBadLength:
      return "contradictory length";
    case ParseError::kBadField:
      return "field out of range";
  }
  return "unknown parse error";
}

std::uint64_t pack(const NsccState& state) {
  return static_cast<std::uint64_t>(state.service_time) << 48 |
         static_cast<std::uint64_t>(state.restores_window) << 47 |
         static_cast<std::uint64_t>(state.window_penalty & 0x7f) << 40 |
         static_cast<std::uint64_t>(state.received_quanta & kMask24) << 16 | state.out_of_order;
}

NsccState unpack_nscc(std::uint64_t ack_cc_state) {
  NsccState state;
  state.service_time = static_cast<std::uint16_t>(ack_cc_state >> 48);
  state.restores_window = (ack_cc_state >> 47 & 1) != 0;
  state.window_penalty = static_cast<std::uint8_t>(ack_cc_state >> 40 & 0x7f);
  state.received_quanta = static_cast<std::uint32_t>(ack_cc_state >> 16 & kMask24);
  state.out_of_order = static_cast<std::uint16_t>(ack_cc_state);
  return state;
}

ParseError parse_pds(std::span<const std::byte> packet, Pds& out) {
  if (packet.size() < kPrologueBytes) return ParseError::kTooShort;
  const unsigned type = load_be<std::uint8_t>(packet, 0) >> 3;
  switch (type) {
    case kTypeRudRequest:
      out.bytes = kRudRequestBytes;
      return parse_request(packet, false, out.header.emplace<RudRequest>());
    case kTypeRudCcRequest:
      out.bytes = kRudCcRequestBytes;
      return parse_request(packet, true, out.header.emplace<RudRequest>());
    case kTypeAck:
      out.bytes = kAckBytes;
      return parse_ack(packet, false, out.header.emplace<Ack>());
    case kTypeAckCc:
      out.bytes = kAckCcBytes;
      return parse_ack(packet, true, out.header.emplace<Ack>());
    case kTypeNack:
      out.bytes = kNackBytes;
      return parse_nack(packet, out.header.emplace<Nack>());
    case kTypeControl:
      out.bytes = kControlBytes;
      return parse_control(packet, out.header.emplace<Control>());
    default:
      return ParseError::kUnknownType;
  }
}

std::size_t encode(const Ack& header, std::span<std::byte> out) {
  const std::size_t bytes = header.has_cc ? kAckCcBytes : kAckBytes;
  SPINDRIFT_CHECK(out.size() >= bytes);
  const unsigned request = (unsigned{header.request} & kAckRequestMask) << kAckRequestShift;
  const unsigned flags = flag_if(header.is_marked, kFlagMarked) |
                         flag_if(header.is_retransmit, kFlagRetransmit) |
                         flag_if(header.is_probe, kAckFlagProbe) | request;
  const std::uint8_t type = header.has_cc ? kTypeAckCc : kTypeAck;
  store_be(out, 0, prologue(type, static_cast<std::uint8_t>(header.next), flags));
  store_be(out, 2, header.is_probe ? header.probe_opaque : as_unsigned(header.ack_psn_offset));
  store_be(out, 4, header.cack_psn);
  store_be(out, 8, header.spdcid);
  store_be(out, 10, header.dpdcid);
  if (header.has_cc) {
    const unsigned cc_type = static_cast<unsigned>(header.cc_type) << 4;
    store_be(out, 12, static_cast<std::uint8_t>(cc_type));
    store_be(out, 13, header.mpr);
    store_be(out, 14, as_unsigned(header.sack_psn_offset));
    store_be(out, 16, header.sack_bitmap);
    store_be(out, 24, header.ack_cc_state);
  }
  return bytes;
}

std::size_t encode(const Nack& header, std::span<std::byte> out) {
  SPINDRIFT_CHECK(out.size() >= kNackBytes);
  const unsigned flags =
      flag_if(header.is_marked, kFlagMarked) | flag_if(header.is_retransmit, kFlagRetransmit);
  store_be(out, 0, prologue(kTypeNack, 0, flags));
  store_be(out, 2, header.code);
  store_be(out, 3, header.vendor_code);
  store_be(out, 4, header.psn);
  store_be(out, 8, header.spdcid);
  store_be(out, 10, header.dpdcid);
  store_be(out, 12, header.payload);
  return kNackBytes;
}

std::size_t encode(const Control& header, std::span<std::byte> out) {
  SPINDRIFT_CHECK(out.size() >= kControlBytes);
  const unsigned flags = flag_if(header.is_retransmit, kFlagRetransmit) |
                         flag_if(header.wants_ack, kRequestFlagAckRequest) |
                         flag_if(header.is_syn, kRequestFlagSyn);
  store_be(out, 0, prologue(kTypeControl, static_cast<std::uint8_t>(header.type), flags));
  store_be(out, 2, header.probe_opaque);
  store_be(out, 4, header.psn);
  store_be(out, 8, header.spdcid);
  store_be(out, 10, header.dpdcid);
  store_be(out, 12, header.payload);
  return kControlBytes;
}

}  // namespace spindrift::wire
