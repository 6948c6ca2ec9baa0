#pragma once
// Packet delivery headers (PDS), layout per public UET 1.0.x sources. Encode, and parse into an
// enum: nothing in a packet can trip an assertion, and no byte past the packet is read.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace spindrift::wire {

enum class ParseError : std::uint8_t {
  kOk,
  kTooShort,     // the header does not fit into the packet
  kUnknownType,  // PDS type reserved or one we never send (TSS, ROD, RUDI, UUD, CCX)
  kUnknownNextHeader,
  kUnknownControl,  // CP ctl_type
  kUnknownOpcode,   // SES
  kBadVersion,      // SES version, HELLO version
  kBadLength,       // lengths inside contradict each other or the packet
  kBadField,        // any other value outside its range
};
std::string_view to_string(ParseError error);

enum class NextHeader : std::uint8_t {
  kNone = 0,
  kRequestSmall = 1,
  kRequestMedium = 2,
  kRequestStandard = 3,
  kResponse = 4,
  kResponseData = 5,
  kResponseDataSmall = 6,
};

// RUD_REQ (12 bytes), or RUD_CC_REQ (16) when has_cc_state.
struct RudRequest {
  NextHeader next = NextHeader::kNone;
  bool is_retransmit = false;
  bool wants_ack = false;
  bool is_syn = false;
  bool has_cc_state = false;
  std::uint8_t ccc_id = 0;
  std::uint32_t credit_target = 0;  // 24 bits
  std::int16_t clear_psn_offset = 0;
  std::uint32_t psn = 0;
  std::uint16_t spdcid = 0;
  std::uint16_t dpdcid = 0;      // when !is_syn
  std::uint16_t psn_offset = 0;  // 12 bits, when is_syn (pdc_info is sent as 0)
  bool operator==(const RudRequest&) const = default;
};

// ack_cc_state of cc_type 0.
struct NsccState {
  std::uint16_t service_time = 0;  // 128 ns; 0: invalid, 0xFFFF: over 8.388 ms
  bool restores_window = false;
  std::uint8_t window_penalty = 0;    // rcv_cwnd_pend, 7 bits
  std::uint32_t received_quanta = 0;  // 24 bits, 256 bytes, cumulative
  std::uint16_t out_of_order = 0;     // packets; 0xFFFF: not computed
  bool operator==(const NsccState&) const = default;
};
std::uint64_t pack(const NsccState& state);
NsccState unpack_nscc(std::uint64_t ack_cc_state);

enum class CcType : std::uint8_t { kNscc = 0, kCredit = 1 };

// ACK (12 bytes), or ACK_CC (32) when has_cc.
struct Ack {
  NextHeader next = NextHeader::kNone;  // kResponse: a SES response follows
  bool is_marked = false;
  bool is_retransmit = false;
  bool is_probe = false;     // probe_opaque instead of ack_psn_offset
  std::uint8_t request = 0;  // REQ: 0 none, 1 clear, 2 close
  bool has_cc = false;
  CcType cc_type = CcType::kNscc;
  std::uint8_t mpr = 0;  // units of 128 PSNs
  std::int16_t ack_psn_offset = 0;
  std::uint16_t probe_opaque = 0;
  std::uint32_t cack_psn = 0;
  std::uint16_t spdcid = 0;
  std::uint16_t dpdcid = 0;
  std::int16_t sack_psn_offset = 0;
  std::uint64_t sack_bitmap = 0;  // bit i: cack_psn + sack_psn_offset + i has arrived
  std::uint64_t ack_cc_state = 0;
  bool operator==(const Ack&) const = default;
};

// Codes with a meaning here; others parse too.
enum class NackCode : std::uint8_t {
  kTrimmed = 0x01,
  kTrimmedLastHop = 0x02,
  kNoPdcAvailable = 0x04,
  kNoPacketBuffer = 0x07,
  kNoMessageAvailable = 0x09,  // receiver not ready
  kNoResource = 0x0a,
  kPsnOutOfWindow = 0x0b,
  kInvalidDpdcid = 0x0e,
  kHeaderMismatch = 0x0f,
  kClosing = 0x10,
  kClosingInError = 0x11,
  kInvalidSyn = 0x15,
  kNewStartPsn = 0x17,
  kOperationError = 0xfe,  // experimental, error class: payload is the SES return code
};

// 16 bytes.
struct Nack {
  bool is_marked = false;
  bool is_retransmit = false;
  std::uint8_t code = 0;
  std::uint8_t vendor_code = 0;
  std::uint32_t psn = 0;
  std::uint16_t spdcid = 0;
  std::uint16_t dpdcid = 0;
  std::uint32_t payload = 0;
  bool operator==(const Nack&) const = default;
};

enum class ControlType : std::uint8_t {
  kNoop = 0,
  kAckRequest = 1,
  kClearCommand = 2,
  kClearRequest = 3,
  kCloseCommand = 4,
  kCloseRequest = 5,
  kProbe = 6,
  kCredit = 7,
  kCreditRequest = 8,
  kNegotiation = 9,
};

// 16 bytes. kProbe and kAckRequest name a PSN without consuming it; kNoop, kCloseCommand and
// kCloseRequest consume one.
struct Control {
  ControlType type = ControlType::kNoop;
  bool is_retransmit = false;
  bool wants_ack = false;
  bool is_syn = false;
  std::uint16_t probe_opaque = 0;
  std::uint32_t psn = 0;
  std::uint16_t spdcid = 0;
  std::uint16_t dpdcid = 0;  // the PSN offset when is_syn
  std::uint32_t payload = 0;
  bool operator==(const Control&) const = default;
};

struct Pds {
  std::variant<RudRequest, Ack, Nack, Control> header;
  std::size_t bytes = 0;  // of the header; the rest of the packet follows
};

// `out` is meaningful on kOk only. Reserved bits are ignored. Values of any size are possible in
// psn, mpr and offsets: whether they make sense is for the connection to judge.
[[nodiscard]] ParseError parse_pds(std::span<const std::byte> packet, Pds& out);

// Each writes a prefix of `out`, which must be long enough (16 bytes for NACK and CP, 32 for
// ACK_CC), and returns its length. That of RudRequest is in request_codec.h.
std::size_t encode(const Ack& header, std::span<std::byte> out);
std::size_t encode(const Nack& header, std::span<std::byte> out);
std::size_t encode(const Control& header, std::span<std::byte> out);

}  // namespace spindrift::wire
