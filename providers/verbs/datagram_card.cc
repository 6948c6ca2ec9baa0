#include "providers/verbs/datagram_card.h"

#include <algorithm>
#include <cstring>

#include "transport/base/bytes.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMagic = 0x53445644;
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kIpv4At = 20;
constexpr std::size_t kIpv4Source = kIpv4At + 12;
constexpr std::size_t kIpv4Class = kIpv4At + 1;
constexpr std::size_t kIpv6Source = 8;

bool is_queue_pair(std::uint32_t number) {
  return number > 1 && number < 0xffffff;
}

}  // namespace

std::vector<std::byte> encode(const DatagramCard& card) {
  std::vector<std::byte> out(kDatagramCardBytes + 4 * card.lanes.size());
  ByteWriter to(out);
  to.u32(kMagic);
  to.u16(kVersion);
  to.u8(card.is_answer ? 1 : 0);
  to.u8(card.mtu);
  to.u64(card.nonce);
  to.u32(card.queue_pair);
  to.u32(card.key);
  to.put(std::as_bytes(std::span(card.gid)));
  to.u16(card.lid);
  to.u16(static_cast<std::uint16_t>(card.lanes.size()));
  to.u32(0);
  for (const std::uint32_t lane : card.lanes)
    to.u32(lane);
  return out;
}

std::optional<DatagramCard> parse_datagram_card(std::span<const std::byte> bytes) {
  if (bytes.size() < kDatagramCardBytes) return std::nullopt;
  ByteReader from(bytes);
  if (from.u32() != kMagic || from.u16() != kVersion) return std::nullopt;
  DatagramCard card;
  const std::uint8_t is_answer = from.u8();
  card.is_answer = is_answer != 0;
  card.mtu = from.u8();
  card.nonce = from.u64();
  card.queue_pair = from.u32();
  card.key = from.u32();
  const auto gid = from.take(card.gid.size());
  std::memcpy(card.gid.data(), gid.data(), gid.size());
  card.lid = from.u16();
  const std::size_t lanes = from.u16();
  static_cast<void>(from.u32());
  if (lanes > kMaxVerbsLanes || bytes.size() != kDatagramCardBytes + 4 * lanes) return std::nullopt;
  for (std::size_t i = 0; i < lanes; ++i)
    card.lanes.push_back(from.u32());
  const bool has_pairs = lanes == 0
                             ? is_queue_pair(card.queue_pair)
                             : std::all_of(card.lanes.begin(), card.lanes.end(), is_queue_pair);
  if (is_answer > 1 || card.mtu < 1 || card.mtu > 5 || !has_pairs) return std::nullopt;
  return card;
}

DatagramHeader parse_datagram_header(std::span<const std::byte> bytes, bool is_ipv4) {
  DatagramHeader out;
  const auto at = [bytes](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  if (is_ipv4) {
    out.source[10] = out.source[11] = 0xff;
    for (std::size_t i = 0; i < 4; ++i)
      out.source[12 + i] = at(kIpv4Source + i);
    out.traffic_class = at(kIpv4Class);
  } else {
    for (std::size_t i = 0; i < out.source.size(); ++i)
      out.source[i] = at(kIpv6Source + i);
    out.traffic_class = static_cast<std::uint8_t>(((at(0) & 0x0f) << 4) | (at(1) >> 4));
  }
  return out;
}

}  // namespace spindrift
