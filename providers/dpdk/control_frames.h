#pragma once
// The frames by which hosts find each other and tell each other of trouble: ARP (RFC 826),
// neighbour discovery (RFC 4861), echo, destination unreachable and packet too big (RFC 792, 1191,
// 4443). Pure functions. Internal to providers/dpdk.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "spindrift/address.h"

#include "providers/dpdk/frame_parse.h"
#include "providers/dpdk/mac_address.h"

namespace spindrift {

// A frame built here, padded to the shortest there is.
struct ControlFrame {
  static constexpr std::size_t kCapacity = 1514 + kVlanTagBytes;
  std::array<std::byte, kCapacity> bytes{};
  std::size_t size = 0;
  std::span<const std::byte> span() const { return std::span(bytes).first(size); }
};

// Us, and in which VLAN.
struct LocalStation {
  MacAddress mac{};
  NetAddress address{};
  std::uint16_t vlan = 0;
};

// "Who has `target`?", to everybody, or only to `whom` when that is known.
ControlFrame build_solicitation(const LocalStation& from, const NetAddress& target,
                                const MacAddress* whom);
// "I am here", to everybody, unasked.
ControlFrame build_announcement(const LocalStation& from);

// What a frame of ARP or neighbour discovery says.
struct NeighborMessage {
  bool is_question = false;
  // An answer that somebody asked for.
  bool is_solicited = false;
  NetAddress sender{};  // unset: its sender has no address yet
  MacAddress sender_mac{};
  NetAddress target{};  // of a question: who is looked for; of an answer: who has been found
};
// Nothing: it is none, or one that must not be believed.
std::optional<NeighborMessage> parse_neighbor_message(FrameVerdict verdict,
                                                      const ParsedFrame& frame);
// To who asked; `from.address` is what was looked for.
ControlFrame build_answer(const LocalStation& from, const NeighborMessage& question);

// The answer to an echo request; nothing when it is none, or does not fit.
std::optional<ControlFrame> build_echo_reply(const LocalStation& from, const ParsedFrame& request);
// "Port unreachable", quoting the head of `packet`.
ControlFrame build_port_unreachable(const LocalStation& from, const ParsedFrame& packet);

// What an ICMP error says about a UDP packet of ours.
struct NetworkError {
  enum class Kind : std::uint8_t { kPortUnreachable, kHostUnreachable, kTooBig };
  Kind kind = Kind::kPortUnreachable;
  NetAddress source{};       // as we sent it, with ports
  NetAddress destination{};  // ...
  std::uint32_t mtu = 0;     // kTooBig: of the link that was too narrow; 0: it does not say
};
std::optional<NetworkError> parse_network_error(const ParsedFrame& frame);

}  // namespace spindrift
