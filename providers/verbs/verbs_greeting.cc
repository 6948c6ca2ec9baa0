#include "providers/verbs/verbs_greeting.h"

#include "transport/base/bytes.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kMagic = 0x53445642;
constexpr std::size_t kMaxDeviceName = 100;
constexpr std::uint32_t kMaxQueuePairNumber = 0xffffff;

void put(ByteWriter& out, const QueuePairCard& card) {
  out.u32(card.number);
  out.u32(card.first_packet);
}

QueuePairCard take_queue_pair(ByteReader& in) {
  QueuePairCard out;
  out.number = in.u32();
  out.first_packet = in.u32();
  return out;
}

void put(ByteWriter& out, const GidBytes& gid) {
  out.put(std::as_bytes(std::span(gid)));
}

GidBytes take_gid(ByteReader& in) {
  GidBytes out{};
  const auto bytes = in.take(out.size());
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

std::span<std::byte> body_of(std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kVerbsHeadBytes);
}

bool is_sound(const QueuePairCard& card) {
  return card.number > 1 && card.number < kMaxQueuePairNumber &&
         card.first_packet <= kMaxQueuePairNumber;
}

bool is_sound(const VerbsCard& card) {
  if (!is_sound(card.messages) || card.transport > 2 || card.lanes.empty() || card.ports.empty() ||
      card.buffers < 8)
    return false;
  for (const QueuePairCard& lane : card.lanes)
    if (!is_sound(lane)) return false;
  for (const PortCard& port : card.ports)
    if (port.mtu < 1 || port.mtu > 5) return false;
  return true;
}

std::vector<std::byte> finish(std::vector<std::byte> frame, VerbsFrameKind kind,
                              const ByteWriter& body) {
  SPINDRIFT_CHECK(!body.has_failed());
  frame.resize(kVerbsHeadBytes + body.written());
  ByteWriter head(frame);
  head.u32(kMagic);
  head.u16(kVerbsVersion);
  head.u16(static_cast<std::uint16_t>(kind));
  head.u32(static_cast<std::uint32_t>(body.written()));
  return frame;
}

}  // namespace

void VerbsFrameReader::append(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

VerbsFrameReader::Got VerbsFrameReader::next(VerbsFrame& out) {
  if (bytes_.size() < kVerbsHeadBytes) return Got::kNothing;
  ByteReader head(bytes_);
  const std::uint32_t magic = head.u32();
  const std::uint16_t version = head.u16();
  const std::uint16_t kind = head.u16();
  const std::uint32_t count = head.u32();
  if (magic != kMagic) return Got::kNonsense;
  if (version != kVerbsVersion) {
    other_version_ = version;
    return Got::kOtherVersion;
  }
  if (kind < static_cast<std::uint16_t>(VerbsFrameKind::kCall) ||
      kind > static_cast<std::uint16_t>(VerbsFrameKind::kReady) ||
      count > kMaxVerbsFrame - kVerbsHeadBytes)
    return Got::kNonsense;
  if (bytes_.size() < kVerbsHeadBytes + count) return Got::kNothing;
  out.kind = static_cast<VerbsFrameKind>(kind);
  const auto begin = bytes_.begin() + kVerbsHeadBytes;
  out.body.assign(begin, begin + count);
  bytes_.erase(bytes_.begin(), begin + count);
  return Got::kFrame;
}

std::vector<std::byte> encode(VerbsFrameKind kind, std::span<const std::byte> body) {
  std::vector<std::byte> frame(kMaxVerbsFrame);
  ByteWriter out(body_of(frame));
  out.put(body);
  return finish(std::move(frame), kind, out);
}

std::vector<std::byte> encode(VerbsFrameKind kind, const VerbsCard& card) {
  std::vector<std::byte> frame(kMaxVerbsFrame);
  ByteWriter out(body_of(frame));
  out.u64(card.nonce);
  out.u64(card.peer_nonce);
  out.u8(card.transport);
  out.u8(card.reads_answered);
  out.u16(card.buffers);
  out.u32(card.buffer_bytes);
  out.u64(card.page);
  out.u8(static_cast<std::uint8_t>(card.ports.size()));
  for (const PortCard& port : card.ports) {
    put(out, port.gid);
    out.u16(port.lid);
    out.u8(port.is_infiniband);
    out.u8(port.mtu);
    out.u32(port.page_key);
  }
  put(out, card.messages);
  out.u8(static_cast<std::uint8_t>(card.lanes.size()));
  for (const QueuePairCard& lane : card.lanes)
    put(out, lane);
  const std::string_view device = std::string_view(card.device).substr(0, kMaxDeviceName);
  out.u8(static_cast<std::uint8_t>(device.size()));
  out.put(std::as_bytes(std::span(device)));
  out.u16(static_cast<std::uint16_t>(card.hello.size()));
  out.put(card.hello);
  return finish(std::move(frame), kind, out);
}

std::vector<std::byte> encode(VerbsFrameKind kind, const LaneCard& card) {
  std::vector<std::byte> frame(kMaxVerbsFrame);
  ByteWriter out(body_of(frame));
  out.u16(card.lane);
  out.u32(card.generation);
  put(out, card.queue_pair);
  put(out, card.gid);
  out.u32(card.room);
  return finish(std::move(frame), kind, out);
}

std::optional<VerbsCard> parse_card(std::span<const std::byte> body) {
  ByteReader in(body);
  VerbsCard card;
  card.nonce = in.u64();
  card.peer_nonce = in.u64();
  card.transport = in.u8();
  card.reads_answered = in.u8();
  card.buffers = in.u16();
  card.buffer_bytes = in.u32();
  card.page = in.u64();
  const std::size_t ports = in.u8();
  if (ports > kMaxVerbsPorts) return std::nullopt;
  for (std::size_t i = 0; i < ports; ++i) {
    PortCard port{.gid = take_gid(in)};
    port.lid = in.u16();
    port.is_infiniband = in.u8();
    port.mtu = in.u8();
    port.page_key = in.u32();
    card.ports.push_back(port);
  }
  card.messages = take_queue_pair(in);
  const std::size_t lanes = in.u8();
  if (lanes > kMaxVerbsLanes) return std::nullopt;
  for (std::size_t i = 0; i < lanes; ++i)
    card.lanes.push_back(take_queue_pair(in));
  const auto device = in.take(in.u8());
  card.device.assign(reinterpret_cast<const char*>(device.data()), device.size());
  const std::size_t hello_bytes = in.u16();
  if (hello_bytes > kFabricHelloBytes) return std::nullopt;
  const auto hello = in.take(hello_bytes);
  card.hello.assign(hello.begin(), hello.end());
  if (in.has_failed() || !in.rest().empty() || !is_sound(card)) return std::nullopt;
  return card;
}

std::optional<LaneCard> parse_lane_card(std::span<const std::byte> body) {
  ByteReader in(body);
  LaneCard card;
  card.lane = in.u16();
  card.generation = in.u32();
  card.queue_pair = take_queue_pair(in);
  card.gid = take_gid(in);
  card.room = in.u32();
  const bool is_a_lane = card.lane < kMaxVerbsLanes || card.lane == kVerbsMessageLane;
  if (in.has_failed() || !in.rest().empty() || !is_a_lane) return std::nullopt;
  return card;
}

}  // namespace spindrift
