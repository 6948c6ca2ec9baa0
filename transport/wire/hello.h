#pragma once
// HELLO: what the two sides of a connection tell each other before user data, as the payload of a
// SES SEND to a reserved resource index. Type-length-value fields; unknown types are skipped, so
// that later versions can add some. docs/WIRE.md has the table.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "spindrift/address.h"

#include "transport/wire/pds.h"

namespace spindrift::wire {

inline constexpr std::uint16_t kHelloResourceIndex = 0xffe;  // 12 bits; user data uses 0
inline constexpr std::size_t kMaxHelloBytes = 1024;          // without padding
inline constexpr std::size_t kMaxHelloRails = 16;
inline constexpr std::size_t kMaxPrivateBytes = 192;
inline constexpr std::size_t kMaxReasonBytes = 200;
inline constexpr std::uint16_t kMaxReads = 1024;
// Bytes of payload per packet: multiples of 128, so that a 128-byte line never straddles packets.
inline constexpr std::uint32_t kMinPayloadMtu = 512;
inline constexpr std::uint32_t kMaxPayloadMtu = 16256;
inline constexpr std::uint32_t kPayloadMtuStep = 128;

enum class HelloKind : std::uint8_t { kConnect = 1, kAccept = 2, kRefuse = 3 };
enum class CcFamily : std::uint8_t { kSenderDriven = 0, kCredit = 1 };
enum class RefuseCode : std::uint8_t {
  kOther = 0,
  kVersion = 1,
  kPartition = 2,
  kNobodyListens = 3,
  kNoRoom = 4,
  kRejected = 5,
  kCcFamily = 6,
  kCrc = 7,
  kPayloadMtu = 8,
};

struct Hello {
  HelloKind kind = HelloKind::kConnect;
  std::uint16_t version_min = 0;
  std::uint16_t version_max = 0;
  std::uint64_t nonce = 0;           // the sender's
  std::uint64_t peer_nonce = 0;      // echoed in kAccept and kRefuse; 0 in kConnect
  std::uint32_t peer_start_psn = 0;  // kAccept: the Start_PSN that the target took for the peer's
  std::uint32_t partition_key = 0;
  std::uint32_t payload_mtu = 0;  // bytes; proposal, then what holds
  std::uint16_t path_count = 0;   // EVs this side will use
  CcFamily cc_family = CcFamily::kSenderDriven;
  std::uint8_t crc = 0;       // CrcChoice proposed; in kAccept: 1 on, 2 off
  std::uint64_t host_id = 0;  // equal on one host (see CrcChoice::kAuto)
  std::uint64_t receive_buffer_bytes = 0;
  std::uint32_t receive_credits = 0;  // RECEIVEs posted so far
  std::uint32_t window_packets = 0;   // PSNs this side can track
  std::uint16_t max_reads = 0;
  std::uint64_t link_rate_bps = 0;  // 0: unknown
  bool progresses_alone = false;
  std::uint8_t rail_count = 0;
  std::array<NetAddress, kMaxHelloRails> rails{};
  std::uint16_t private_bytes = 0;
  std::array<std::byte, kMaxPrivateBytes> private_data{};
  RefuseCode refuse_code = RefuseCode::kOther;  // kRefuse
  std::uint16_t reason_bytes = 0;               // kRefuse, UTF-8
  std::array<char, kMaxReasonBytes> reason{};

  std::string_view reason_text() const { return {reason.data(), reason_bytes}; }
  void set_reason(std::string_view text_utf8);  // cut to kMaxReasonBytes, between characters
  bool operator==(const Hello&) const = default;
};

// Writes at most kMaxHelloBytes and returns the length; `out` must be long enough. Padding to the
// probed MTU is the caller's: bytes after the end field are ignored.
std::size_t encode(const Hello& hello, std::span<std::byte> out);
// On kOk every field lies within its bounds, kinds and families are known ones, and every rail is
// an address with a port. An unknown RefuseCode becomes kOther. Otherwise `out` is unspecified.
[[nodiscard]] ParseError parse(std::span<const std::byte> in, Hello& out);

}  // namespace spindrift::wire
