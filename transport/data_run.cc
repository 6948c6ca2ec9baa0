#include "transport/data_run.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/destination.h"
#include "transport/packet_builder.h"
#include "transport/receiver.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

constexpr std::size_t kSes = wire::kRudRequestBytes;
constexpr std::size_t kHeaders = kSes + wire::StandardRequest::kBytes;

template <class T>
T load(std::span<const std::byte> from, std::size_t offset) {
  T value = 0;
  std::memcpy(&value, from.data() + offset, sizeof(T));
  return value;
}

// What the headers of a run's packets have in common: all but the PSN, the place in the message,
// the Clear PSN (which means nothing here) and whether an acknowledgement is asked for. Words as
// they lie in memory: they are only compared.
class Pattern {
 public:
  // `packet` has both headers.
  explicit Pattern(std::span<const std::byte> packet)
      : flags_(load<std::uint16_t>(packet, 0) & kFlags),
        ids_(load<std::uint32_t>(packet, kIds)),
        length_(load<std::uint32_t>(packet, kLength)) {
    for (std::size_t i = 0; i < ses_.size(); ++i)
      ses_[i] = load<std::uint64_t>(packet, kSes + 8 * i);
    ses_[0] &= ~std::uint64_t{internal::big_endian(kBothEnds)};
  }
  // `place`: payload length and message offset, as on the wire.
  bool fits(std::span<const std::byte> packet, std::uint32_t psn, std::uint64_t place) const {
    std::uint64_t difference = (load<std::uint16_t>(packet, 0) & kFlags) ^ flags_;
    difference |= load_be<std::uint32_t>(packet, kPsn) ^ psn;
    difference |= load<std::uint32_t>(packet, kIds) ^ ids_;
    for (std::size_t i = 0; i < ses_.size(); ++i)
      difference |= load<std::uint64_t>(packet, kSes + 8 * i) ^ ses_[i];
    difference |= load_be<std::uint64_t>(packet, kPlace) ^ place;
    difference |= load<std::uint32_t>(packet, kLength) ^ length_;
    return difference == 0;
  }

 private:
  static constexpr std::size_t kPsn = 4;
  static constexpr std::size_t kIds = 8;
  static constexpr std::size_t kPlace = kSes + 32;
  static constexpr std::size_t kLength = kSes + 40;
  static constexpr unsigned kFlags =
      0xffffU & ~unsigned{internal::big_endian(wire::internal::kRequestFlagAckRequest)};
  static constexpr std::uint64_t kBothEnds =
      std::uint64_t{wire::internal::kSesSom | wire::internal::kSesEom} << 48;

  unsigned flags_;
  std::uint32_t ids_;
  std::uint32_t length_;
  std::array<std::uint64_t, 4> ses_{};  // up to the place
};

struct Run {
  Psn next{};                // of the packet that comes next
  std::uint64_t offset = 0;  // of its payload in the message
  std::size_t payload = 0;   // of every packet
  std::uint32_t packets = 0;
  std::uint32_t most = 0;  // packets that can follow the first
};

bool wants_ack(const RxPacket& packet) {
  return (load_be<std::uint16_t>(packet.bytes, 0) & wire::internal::kRequestFlagAckRequest) != 0;
}

struct RunTaker {
  EngineContext& ctx;
  Connection& c;
  const RxPacket& first;
  Pattern pattern;
  Run run;

  // Says nothing but "more of the same".
  bool fits(const RxPacket& packet) const {
    if (run.packets == run.most || packet.bytes.size() != first.bytes.size() ||
        packet.ecn == Ecn::kCe)
      return false;
    if (!packet.ends_burst && ctx.bursting != c.id) return false;  // a super-packet begins
    const std::uint64_t place = std::uint64_t{run.payload} << 32 | run.offset;
    return pattern.fits(packet.bytes, static_cast<std::uint32_t>(run.next.value), place) &&
           packet.source.is_same_host(first.source) &&
           (!c.has_crc || !strip_crc(packet.bytes, c.crc_seed).empty());
  }
  void take(const Destination& to, const RxPacket& packet) {
    to.put(run.offset, packet.bytes.subspan(kHeaders, run.payload));
    run.offset += run.payload;
    ++run.next.value;
    ++run.packets;
  }
  // Whether `packet`, taken last, is to be acknowledged.
  bool is_due(const RxPacket& packet) const {
    return packet.ends_burst &&
           (ctx.bursting != ConnId{} ||
            is_ack_due(c.receive->ack, wants_ack(packet), run.packets * packet.bytes.size()));
  }
};

}  // namespace

std::size_t take_run(EngineContext& ctx, std::span<const RxPacket> packets) {
  const RxPacket& first = packets[0];
  if (packets.size() < 2 || packets[1].bytes.size() != first.bytes.size() ||
      (first.ends_burst && ctx.bursting != ConnId{}))
    return 0;
  wire::RudRequest pds;
  wire::StandardRequest ses;
  std::size_t ses_bytes = 0;
  if (wire::parse_request(first.bytes, false, pds) != wire::ParseError::kOk ||
      pds.next != wire::NextHeader::kRequestStandard || pds.is_retransmit ||
      wire::parse(first.bytes.subspan(kSes), ses, ses_bytes) != wire::ParseError::kOk ||
      (ses.opcode != wire::Opcode::kWrite && ses.opcode != wire::Opcode::kSend))
    return 0;
  Connection* c = ctx.find_pdcid(pds.dpdcid);
  const std::size_t around = kHeaders + (c != nullptr && c->has_crc ? kCrcBytes : 0);
  if (c == nullptr || c->phase != Phase::kOpen || c->receive->has_fault ||
      first.bytes.size() <= around || !is_consistent(ses, first.bytes.size() - around))
    return 0;
  const std::size_t payload = first.bytes.size() - around;
  if (payload > wire::internal::kMask14) return 0;
  const Psn first_psn{c->receive->log.extend(pds.psn).value + 1};
  const std::uint64_t offset = (ses.is_som ? 0 : ses.message_offset) + payload;
  // The message's last packet is no part of a run.
  const std::uint64_t behind = ses.is_eom ? 0 : (ses.request_length - offset - 1) / payload;
  const auto most = static_cast<std::uint32_t>(std::min(behind, packets.size() - 1));
  RunTaker taker{.ctx = ctx,
                 .c = *c,
                 .first = first,
                 .pattern = Pattern(first.bytes),
                 .run = {.next = first_psn,
                         .offset = offset,
                         .payload = payload,
                         .most = c->receive->log.missing_from(first_psn, most)}};
  if (!taker.fits(packets[1])) return 0;
  const Destination to = find_destination(ctx, *c, ses);
  if (to.code != wire::ReturnCode::kOk) return 0;
  std::size_t at = 1;
  do {
    taker.take(to, packets[at++]);
  } while (!taker.is_due(packets[at - 1]) && at < packets.size() && taker.fits(packets[at]));
  const std::uint32_t taken = taker.run.packets;
  if (to.slot != nullptr) to.slot->received_bytes += taken * payload;
  on_arrived(ctx, *c,
             {.first = first_psn, .packets = taken, .wants_ack = wants_ack(packets[at - 1])},
             packets[at - 1]);
  return taken;
}

}  // namespace spindrift
