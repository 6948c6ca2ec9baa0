#include "providers/udp/udp_sender.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <netinet/udp.h>

#include "transport/base/check.h"

namespace spindrift {
namespace {

bool is_same_path(const TxPacket& a, const TxPacket& b) {
  return a.rail == b.rail && a.entropy == b.entropy && a.ecn == b.ecn && a.dscp == b.dscp &&
         (a.to == b.to || *a.to == *b.to);
}

struct ControlValue {
  int level = 0;
  int type = 0;
  const void* bytes = nullptr;
  std::size_t size = 0;
};

// Writes one control message at `offset` of the header's control buffer; returns the next offset.
std::size_t write_control(msghdr& header, std::size_t offset, const ControlValue& value) {
  auto* one = reinterpret_cast<cmsghdr*>(static_cast<char*>(header.msg_control) + offset);
  one->cmsg_level = value.level;
  one->cmsg_type = value.type;
  one->cmsg_len = CMSG_LEN(value.size);
  std::memcpy(CMSG_DATA(one), value.bytes, value.size);
  return offset + CMSG_SPACE(value.size);
}

// Errors by which kernels and drivers refuse a super-packet that they might take apart.
bool may_refuse_gso(int error) {
  return error == EIO || error == EINVAL || error == ENOPROTOOPT || error == EOPNOTSUPP ||
         error == EMSGSIZE;
}

}  // namespace

UdpSender::UdpSender()
    : headers_(kMaxPackets * kMaxHeaderBytes),
      packets_(kMaxPackets),
      pieces_(kMaxPackets * kPiecesPerPacket) {}

std::size_t UdpSender::reserve(std::span<UdpRail> rails, std::span<TxPacket> out) {
  reserved_ = 0;
  if (has_unsent()) flush(rails);
  if (has_unsent()) return 0;  // the headers are still in use
  const std::size_t count = std::min(out.size(), kMaxPackets);
  for (std::size_t i = 0; i < count; ++i) {
    TxPacket& packet = out[i];
    packet.header = std::span(headers_).subspan(i * kMaxHeaderBytes, kMaxHeaderBytes);
    packet.to = nullptr;
    packet.rail = 0;
    packet.entropy = 0;
    packet.payload_pieces = 0;
    packet.trailer_bytes = 0;
    packet.ecn = Ecn::kEct0;
    packet.dscp = 0;
  }
  reserved_ = count;
  return count;
}

void UdpSender::send(std::span<UdpRail> rails, std::span<const TxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= reserved_);
  reserved_ = 0;
  count_ = 0;
  next_ = 0;
  piece_count_ = 0;
  const TxPacket* previous = nullptr;
  for (const TxPacket& packet : packets) {
    SPINDRIFT_CHECK(packet.rail < rails.size());
    SPINDRIFT_CHECK(packet.entropy < rails[packet.rail].send.size());
    add(packet, previous);
    previous = &packet;
  }
  flush(rails);
}

void UdpSender::add(const TxPacket& packet, const TxPacket* previous) {
  Packet& added = packets_[count_];
  added.is_same_path = previous != nullptr && is_same_path(*previous, packet);
  if (added.is_same_path) {
    added.to = packets_[count_ - 1].to;
  } else {
    added.to = to_socket_address(*packet.to);
  }
  added.bytes = static_cast<std::uint32_t>(packet.total_bytes());
  added.first_piece = static_cast<std::uint32_t>(piece_count_);
  added.pieces = 0;
  added.rail = packet.rail;
  added.entropy = packet.entropy;
  added.traffic_class = static_cast<std::uint8_t>((static_cast<unsigned>(packet.dscp) << 2U) |
                                                  static_cast<unsigned>(packet.ecn));
  added.trailer = packet.trailer;
  add_piece(added, packet.header.data(), packet.header.size());
  for (std::size_t i = 0; i < packet.payload_pieces; ++i) {
    add_piece(added, packet.payload[i].data(), packet.payload[i].size());
  }
  add_piece(added, added.trailer.data(), packet.trailer_bytes);
  ++count_;
}

void UdpSender::add_piece(Packet& packet, const void* bytes, std::size_t size) {
  if (size == 0) return;
  pieces_[piece_count_++] = iovec{const_cast<void*>(bytes), size};
  ++packet.pieces;
}

void UdpSender::flush(std::span<UdpRail> rails) {
  while (has_unsent() && send_some(rails)) {
  }
}

// How many packets from `first` leave as one super-packet: equal in path and size, the last one
// may be shorter.
std::size_t UdpSender::group_at(std::size_t first, bool has_gso) const {
  const std::uint32_t segment_bytes = packets_[first].bytes;
  if (!has_gso || segment_bytes == 0) return 1;
  std::size_t total_bytes = segment_bytes;
  std::size_t pieces = packets_[first].pieces;
  std::size_t packets = 1;
  while (packets < kMaxSegments && first + packets < count_) {
    const Packet& next = packets_[first + packets];
    if (!next.is_same_path || next.bytes == 0 || next.bytes > segment_bytes) break;
    total_bytes += next.bytes;
    pieces += next.pieces;
    if (total_bytes > kMaxSuperPacketBytes || pieces > IOV_MAX) break;
    ++packets;
    if (next.bytes < segment_bytes) break;
  }
  return packets;
}

void UdpSender::fill_message(std::size_t slot, std::size_t first, std::size_t packets) {
  Packet& packet = packets_[first];
  const Packet& last = packets_[first + packets - 1];
  msghdr& header = messages_[slot].msg_hdr;
  header.msg_name = &packet.to.any;
  header.msg_namelen = packet.to.length;
  header.msg_iov = pieces_.data() + packet.first_piece;
  header.msg_iovlen = last.first_piece + last.pieces - packet.first_piece;
  header.msg_control = controls_[slot].bytes.data();
  header.msg_flags = 0;
  std::size_t control_bytes = 0;
  if (const int traffic_class = packet.traffic_class; traffic_class != kUsualTrafficClass) {
    const bool is_v4 = packet.to.any.sa_family == AF_INET;
    control_bytes =
        write_control(header, 0,
                      ControlValue{is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_TOS : IPV6_TCLASS,
                                   &traffic_class, sizeof traffic_class});
  }
  if (packets > 1) {
    const auto segment_bytes = static_cast<std::uint16_t>(packet.bytes);
    control_bytes =
        write_control(header, control_bytes,
                      ControlValue{IPPROTO_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes});
  }
  header.msg_controllen = control_bytes;
  message_packets_[slot] = packets;
}

// One alone goes by the shorter call.
int UdpSender::send_messages(int fd, std::size_t slots) {
  if (slots > 1) return sendmmsg(fd, messages_.data(), static_cast<unsigned>(slots), MSG_DONTWAIT);
  const ssize_t bytes = sendmsg(fd, &messages_[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return -1;
  messages_[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

bool UdpSender::send_some(std::span<UdpRail> rails) {
  const Packet& head = packets_[next_];
  UdpRail& rail = rails[head.rail];
  std::size_t slots = 0;
  std::size_t first = next_;
  while (slots < kMaxMessages && first < count_ && packets_[first].rail == head.rail &&
         packets_[first].entropy == head.entropy) {
    const std::size_t packets = group_at(first, rail.has_gso);
    fill_message(slots++, first, packets);
    first += packets;
  }
  const int fd = rail.send[head.entropy].get();
  const int sent = send_messages(fd, slots);
  ++calls_;
  if (sent <= 0) return on_error(rail, sent < 0 ? errno : EAGAIN);
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(sent); ++slot) {
    ++tx_messages_;
    tx_bytes_ += messages_[slot].msg_len;
    tx_packets_ += message_packets_[slot];
    advance(message_packets_[slot]);
  }
  return true;
}

bool UdpSender::on_error(UdpRail& rail, int error) {
  if (error == EINTR) return true;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    ++would_block_;
    return false;
  }
  has_failed_ = true;
  ++errors_;
  // An ICMP message about an earlier packet fails one call that has nothing to do with it.
  if (!is_second_try_) {
    is_second_try_ = true;
    return true;
  }
  if (message_packets_[0] > 1 && may_refuse_gso(error)) return send_first_alone(rail);
  lose(message_packets_[0]);
  return true;
}

// If one packet passes where several as one did not, super-packets are what was refused.
bool UdpSender::send_first_alone(UdpRail& rail) {
  fill_message(0, next_, 1);
  const int fd = rail.send[packets_[next_].entropy].get();
  ++calls_;
  if (sendmsg(fd, &messages_[0].msg_hdr, MSG_DONTWAIT) >= 0) {
    rail.has_gso = false;
    ++gso_refused_;
    ++tx_messages_;
    ++tx_packets_;
    tx_bytes_ += packets_[next_].bytes;
    advance(1);
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return errno == EINTR;
  lose(1);
  return true;
}

void UdpSender::lose(std::size_t packets) {
  lost_packets_ += packets;
  advance(packets);
}

void UdpSender::advance(std::size_t packets) {
  next_ += packets;
  released_ += packets;
  is_second_try_ = false;
}

bool UdpSender::take_has_failed() {
  const bool had_failed = has_failed_;
  has_failed_ = false;
  return had_failed;
}

void UdpSender::counters(CounterWriter& out) const {
  out.counter("tx_packets", tx_packets_);
  out.counter("tx_bytes", tx_bytes_);
  out.counter("tx_messages", tx_messages_);
  out.counter("tx_calls", calls_);
  out.counter("tx_would_block", would_block_);
  out.counter("tx_errors", errors_);
  out.counter("tx_lost_packets", lost_packets_);
  out.counter("gso_refused", gso_refused_);
}

}  // namespace spindrift
