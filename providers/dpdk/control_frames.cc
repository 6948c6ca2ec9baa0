#include "providers/dpdk/control_frames.h"

#include <algorithm>
#include <cstring>

#include "providers/dpdk/checksum.h"

namespace spindrift {
namespace {

constexpr std::uint16_t kArpRequest = 1;
constexpr std::uint16_t kArpReply = 2;
constexpr std::uint8_t kEchoReply4 = 0;
constexpr std::uint8_t kUnreachable4 = 3;
constexpr std::uint8_t kEchoRequest4 = 8;
constexpr std::uint8_t kUnreachable6 = 1;
constexpr std::uint8_t kTooBig6 = 2;
constexpr std::uint8_t kEchoRequest6 = 128;
constexpr std::uint8_t kEchoReply6 = 129;
constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;
constexpr std::uint8_t kPortUnreachable4 = 3;
constexpr std::uint8_t kTooBigCode4 = 4;
constexpr std::uint8_t kPortUnreachable6 = 4;
constexpr std::uint8_t kSourceLinkOption = 1;
constexpr std::uint8_t kTargetLinkOption = 2;
constexpr std::size_t kIcmpBytes = 8;
// Solicitation and advertisement with one link-layer address option.
constexpr std::size_t kDiscoveryBytes = 32;
constexpr std::size_t kMaxQuotedBytes = 548;

class Writer {
 public:
  explicit Writer(ControlFrame& frame) : frame_(frame) {}
  std::byte* take(std::size_t bytes) {
    std::byte* at = frame_.bytes.data() + frame_.size;
    frame_.size += bytes;
    return at;
  }
  void ethernet(const MacAddress& to, const LocalStation& from, std::uint16_t type) {
    std::byte* at = take(12);
    std::memcpy(at, to.bytes.data(), 6);
    std::memcpy(at + 6, from.mac.bytes.data(), 6);
    if (from.vlan != 0) {
      at = take(kVlanTagBytes);
      put16(at, kTypeVlan);
      put16(at + 2, from.vlan);
    }
    put16(take(2), type);
  }
  void pad() { frame_.size = std::max(frame_.size, kMinFrameBytes); }

 private:
  ControlFrame& frame_;
};

// The IP header for `message_bytes` of ICMP; where the message goes.
struct IpPart {
  std::byte* header = nullptr;
  std::byte* message = nullptr;
};

struct IcmpWay {
  MacAddress to_mac{};
  NetAddress to{};
  std::uint8_t hop_limit = kHopLimit;
};

IpPart begin_icmp(Writer& writer, const LocalStation& from, const IcmpWay& way,
                  std::size_t message_bytes) {
  const bool is_v6 = from.address.family == 6;
  writer.ethernet(way.to_mac, from, is_v6 ? kTypeIpv6 : kTypeIpv4);
  std::byte* ip = writer.take(is_v6 ? kIpv6Bytes : kIpv4Bytes);
  if (is_v6) {
    put8(ip, 0x60);
    put16(ip + 4, message_bytes);
    put8(ip + 6, kProtocolIcmp6);
    put8(ip + 7, way.hop_limit);
    put_address(ip + 8, from.address);
    put_address(ip + 24, way.to);
  } else {
    put8(ip, 0x45);
    put16(ip + 2, kIpv4Bytes + message_bytes);
    put8(ip + 8, way.hop_limit);
    put8(ip + 9, kProtocolIcmp);
    put_address(ip + 12, from.address);
    put_address(ip + 16, way.to);
    put_raw16(ip + 10, static_cast<std::uint16_t>(~sum_words({ip, kIpv4Bytes})));
  }
  return {ip, writer.take(message_bytes)};
}

std::uint16_t icmp_sum(const std::byte* ip, bool is_v6, std::span<const std::byte> message) {
  std::uint16_t sum = sum_words(message);
  if (!is_v6) return sum;
  sum = add_sums(sum, sum_words({ip + 8, 32}));
  sum = add_sums(sum, __builtin_bswap16(kProtocolIcmp6));
  return add_sums(sum, __builtin_bswap16(static_cast<std::uint16_t>(message.size())));
}

void finish_icmp(Writer& writer, const IpPart& part, bool is_v6, std::size_t message_bytes) {
  const std::uint16_t sum = icmp_sum(part.header, is_v6, {part.message, message_bytes});
  put_raw16(part.message + 2, static_cast<std::uint16_t>(~sum));
  writer.pad();
}

struct ArpFields {
  std::uint16_t operation = kArpRequest;
  NetAddress target{};
  MacAddress target_mac{};
  MacAddress to{};
};

ControlFrame build_arp(const LocalStation& from, const ArpFields& fields) {
  ControlFrame frame;
  Writer writer(frame);
  writer.ethernet(fields.to, from, kTypeArp);
  std::byte* at = writer.take(28);
  put16(at, 1);  // Ethernet
  put16(at + 2, kTypeIpv4);
  put8(at + 4, 6);
  put8(at + 5, 4);
  put16(at + 6, fields.operation);
  std::memcpy(at + 8, from.mac.bytes.data(), 6);
  put_address(at + 14, from.address);
  std::memcpy(at + 18, fields.target_mac.bytes.data(), 6);
  put_address(at + 24, fields.target);
  writer.pad();
  return frame;
}

// ff02::1, and its group address.
NetAddress all_nodes() {
  NetAddress address{.family = 6};
  address.ip = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address;
}
// ff02::1:ffXX:XXXX of the last three bytes (RFC 4291, 2.7.1).
NetAddress solicited_node(const NetAddress& target) {
  NetAddress address{.family = 6};
  address.ip = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy(target.ip.begin() + 13, target.ip.end(), address.ip.begin() + 13);
  return address;
}
// RFC 2464, 7.
MacAddress group_mac(const NetAddress& group) {
  MacAddress mac{{0x33, 0x33}};
  std::copy(group.ip.begin() + 12, group.ip.end(), mac.bytes.begin() + 2);
  return mac;
}

struct Discovery {
  std::uint8_t type = kSolicitation;
  std::uint32_t flags = 0;
  NetAddress target{};
  std::uint8_t option = kSourceLinkOption;
};

ControlFrame build_discovery(const LocalStation& from, const IcmpWay& way,
                             const Discovery& discovery) {
  ControlFrame frame;
  Writer writer(frame);
  const IpPart part = begin_icmp(writer, from, way, kDiscoveryBytes);
  put8(part.message, discovery.type);
  put32(part.message + 4, discovery.flags);
  put_address(part.message + 8, discovery.target);
  put8(part.message + 24, discovery.option);
  put8(part.message + 25, 1);  // in units of 8 bytes
  std::memcpy(part.message + 26, from.mac.bytes.data(), 6);
  finish_icmp(writer, part, true, kDiscoveryBytes);
  return frame;
}

constexpr std::uint32_t kSolicitedFlag = 1U << 30U;
constexpr std::uint32_t kOverrideFlag = 1U << 29U;

std::optional<NeighborMessage> parse_arp(const ParsedFrame& frame) {
  const std::byte* at = frame.payload.data();
  if (get16(at) != 1 || get16(at + 2) != kTypeIpv4 || get8(at + 4) != 6 || get8(at + 5) != 4)
    return std::nullopt;
  const std::uint16_t operation = get16(at + 6);
  if (operation != kArpRequest && operation != kArpReply) return std::nullopt;
  NeighborMessage message;
  message.is_question = operation == kArpRequest;
  message.is_solicited = operation == kArpReply;
  std::memcpy(message.sender_mac.bytes.data(), at + 8, 6);
  if (message.sender_mac.is_group() || message.sender_mac.is_zero()) return std::nullopt;
  const NetAddress sender = get_address(at + 14, 4);
  if (!sender.is_wildcard()) message.sender = sender;
  message.target = message.is_question ? get_address(at + 24, 4) : sender;
  return message;
}

// The link-layer address in the options of a discovery message.
std::optional<MacAddress> find_link_option(std::span<const std::byte> options, std::uint8_t kind) {
  while (options.size() >= 8) {
    const std::size_t bytes = get8(options.data() + 1) * std::size_t{8};
    if (bytes == 0 || bytes > options.size()) return std::nullopt;
    if (get8(options.data()) == kind) {
      MacAddress mac;
      std::memcpy(mac.bytes.data(), options.data() + 2, 6);
      if (mac.is_group() || mac.is_zero()) return std::nullopt;
      return mac;
    }
    options = options.subspan(bytes);
  }
  return std::nullopt;
}

bool is_icmp_sum_right(const ParsedFrame& frame) {
  return icmp_sum(frame.ip.data(), frame.family == 6, frame.payload) == 0xffff;
}

std::optional<NeighborMessage> parse_discovery(const ParsedFrame& frame) {
  const auto& bytes = frame.payload;
  if (frame.family != 6 || bytes.size() < 24 || frame.hop_limit != kMaxHopLimit)
    return std::nullopt;
  const std::uint8_t type = get8(bytes.data());
  if (type != kSolicitation && type != kAdvertisement) return std::nullopt;
  if (get8(bytes.data() + 1) != 0 || !is_icmp_sum_right(frame)) return std::nullopt;
  NeighborMessage message;
  message.is_question = type == kSolicitation;
  message.target = get_address(bytes.data() + 8, 6);
  if (message.target.ip[0] == 0xff) return std::nullopt;
  message.is_solicited = !message.is_question && (get32(bytes.data() + 4) & kSolicitedFlag) != 0;
  const NetAddress source = frame.source();
  const auto mac = find_link_option(bytes.subspan(24),
                                    message.is_question ? kSourceLinkOption : kTargetLinkOption);
  message.sender_mac = mac.value_or(frame.source_mac());
  if (message.sender_mac.is_group()) return std::nullopt;
  if (!message.is_question)
    message.sender = message.target;
  else if (!source.is_wildcard())
    message.sender = source;
  return message;
}

}  // namespace

ControlFrame build_solicitation(const LocalStation& from, const NetAddress& target,
                                const MacAddress* whom) {
  if (target.family == 4) {
    ArpFields fields{.operation = kArpRequest, .target = target};
    fields.to = whom == nullptr ? kBroadcastMac : *whom;
    return build_arp(from, fields);
  }
  const NetAddress group = solicited_node(target);
  const IcmpWay way{.to_mac = whom == nullptr ? group_mac(group) : *whom,
                    .to = whom == nullptr ? group : target,
                    .hop_limit = kMaxHopLimit};
  return build_discovery(from, way,
                         {.type = kSolicitation, .target = target, .option = kSourceLinkOption});
}

ControlFrame build_announcement(const LocalStation& from) {
  if (from.address.family == 4)
    return build_arp(from, {.operation = kArpRequest, .target = from.address, .to = kBroadcastMac});
  const NetAddress group = all_nodes();
  return build_discovery(from, {.to_mac = group_mac(group), .to = group, .hop_limit = kMaxHopLimit},
                         {.type = kAdvertisement,
                          .flags = kOverrideFlag,
                          .target = from.address,
                          .option = kTargetLinkOption});
}

ControlFrame build_answer(const LocalStation& from, const NeighborMessage& question) {
  if (from.address.family == 4)
    return build_arp(from, {.operation = kArpReply,
                            .target = question.sender,
                            .target_mac = question.sender_mac,
                            .to = question.sender_mac});
  // Who has no address yet is answered where everybody hears it.
  const bool is_known = question.sender.is_set();
  const NetAddress to = is_known ? question.sender : all_nodes();
  return build_discovery(from,
                         {.to_mac = is_known ? question.sender_mac : group_mac(to),
                          .to = to,
                          .hop_limit = kMaxHopLimit},
                         {.type = kAdvertisement,
                          .flags = kOverrideFlag | (is_known ? kSolicitedFlag : 0U),
                          .target = from.address,
                          .option = kTargetLinkOption});
}

std::optional<NeighborMessage> parse_neighbor_message(FrameVerdict verdict,
                                                      const ParsedFrame& frame) {
  if (verdict == FrameVerdict::kArp) return parse_arp(frame);
  if (verdict == FrameVerdict::kIcmp) return parse_discovery(frame);
  return std::nullopt;
}

std::optional<ControlFrame> build_echo_reply(const LocalStation& from, const ParsedFrame& request) {
  const bool is_v6 = request.family == 6;
  if (get8(request.payload.data()) != (is_v6 ? kEchoRequest6 : kEchoRequest4) ||
      !is_icmp_sum_right(request) || request.source_mac().is_group())
    return std::nullopt;
  const std::size_t bytes = request.payload.size();
  if (bytes + kMaxFrameHeaders > ControlFrame::kCapacity) return std::nullopt;
  ControlFrame frame;
  Writer writer(frame);
  const IpPart part =
      begin_icmp(writer, from, {.to_mac = request.source_mac(), .to = request.source()}, bytes);
  std::memcpy(part.message, request.payload.data(), bytes);
  put8(part.message, is_v6 ? kEchoReply6 : kEchoReply4);
  put16(part.message + 2, 0);
  finish_icmp(writer, part, is_v6, bytes);
  return frame;
}

ControlFrame build_port_unreachable(const LocalStation& from, const ParsedFrame& packet) {
  const bool is_v6 = packet.family == 6;
  const std::size_t quoted = std::min(packet.ip.size(), kMaxQuotedBytes);
  ControlFrame frame;
  Writer writer(frame);
  const IpPart part = begin_icmp(
      writer, from, {.to_mac = packet.source_mac(), .to = packet.source()}, kIcmpBytes + quoted);
  put8(part.message, is_v6 ? kUnreachable6 : kUnreachable4);
  put8(part.message + 1, is_v6 ? kPortUnreachable6 : kPortUnreachable4);
  std::memcpy(part.message + kIcmpBytes, packet.ip.data(), quoted);
  finish_icmp(writer, part, is_v6, kIcmpBytes + quoted);
  return frame;
}

std::optional<NetworkError> parse_network_error(const ParsedFrame& frame) {
  const std::byte* icmp = frame.payload.data();
  const std::uint8_t type = get8(icmp);
  const std::uint8_t code = get8(icmp + 1);
  NetworkError error;
  if (frame.family == 4) {
    if (type != kUnreachable4) return std::nullopt;
    error.kind = code == kPortUnreachable4 ? NetworkError::Kind::kPortUnreachable
                 : code == kTooBigCode4    ? NetworkError::Kind::kTooBig
                                           : NetworkError::Kind::kHostUnreachable;
    error.mtu = get16(icmp + 6);
  } else {
    if (type != kUnreachable6 && type != kTooBig6) return std::nullopt;
    error.kind = type == kTooBig6            ? NetworkError::Kind::kTooBig
                 : code == kPortUnreachable6 ? NetworkError::Kind::kPortUnreachable
                                             : NetworkError::Kind::kHostUnreachable;
    error.mtu = get32(icmp + 4);
  }
  if (!is_icmp_sum_right(frame)) return std::nullopt;
  // The packet it is about: only its head is there, so its lengths are not looked at.
  const auto quoted = frame.payload.subspan(kIcmpBytes);
  std::size_t header_bytes = kIpv6Bytes;
  std::uint8_t protocol = 0;
  if (quoted.size() < kIpv4Bytes || get8(quoted.data()) >> 4U != frame.family) return std::nullopt;
  if (frame.family == 4) {
    header_bytes = (get8(quoted.data()) & 15U) * std::size_t{4};
    protocol = get8(quoted.data() + 9);
  } else if (quoted.size() >= kIpv6Bytes) {
    protocol = get8(quoted.data() + 6);
  }
  if (protocol != kProtocolUdp || header_bytes < kIpv4Bytes || quoted.size() < header_bytes + 4)
    return std::nullopt;
  const bool is_v6 = frame.family == 6;
  error.source = get_address(quoted.data() + (is_v6 ? 8 : 12), frame.family);
  error.destination = get_address(quoted.data() + (is_v6 ? 24 : 16), frame.family);
  error.source.port = get16(quoted.data() + header_bytes);
  error.destination.port = get16(quoted.data() + header_bytes + 2);
  return error;
}

}  // namespace spindrift
