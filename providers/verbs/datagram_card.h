#pragma once
// How the queue pairs that packets travel by find each other: a question and an answer over UDP,
// between the addresses that users know. Big-endian. Pure. Internal to providers/verbs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "providers/verbs/gid_choice.h"
#include "providers/verbs/verbs_greeting.h"

namespace spindrift {

struct DatagramCard {
  bool is_answer = false;
  std::uint64_t nonce = 0;       // of the question
  std::uint32_t queue_pair = 0;  // UD: of the sender of this; UC: 0
  std::uint32_t key = 0;         // UD: that packets to it must carry
  GidBytes gid{};
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;  // as mtu_code() says it
  // UC: queue pairs for the receiver of this, each for the one at its place among the receiver's.
  std::vector<std::uint32_t> lanes{};
};

inline constexpr std::size_t kDatagramCardBytes = 48;  // and 4 for each lane
inline constexpr std::size_t kMaxDatagramCardBytes = kDatagramCardBytes + 4 * kMaxVerbsLanes;
std::vector<std::byte> encode(const DatagramCard& card);
// Nothing: no version of this library says that.
std::optional<DatagramCard> parse_datagram_card(std::span<const std::byte> bytes);

// What the network header in front of a received datagram says: 40 bytes, of which an IPv4 header
// takes the last 20.
struct DatagramHeader {
  GidBytes source{};
  std::uint8_t traffic_class = 0;
};
inline constexpr std::size_t kDatagramHeaderBytes = 40;
DatagramHeader parse_datagram_header(std::span<const std::byte> bytes, bool is_ipv4);

}  // namespace spindrift
