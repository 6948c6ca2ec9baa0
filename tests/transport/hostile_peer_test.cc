// A peer that holds the nonces and lies in every field: packets with a good CRC and any content.
// Whatever it says, nothing is written outside what it was granted and nothing trips an assertion.
#include <random>

#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"
#include "transport/packet_builder.h"
#include "transport/wire/request_codec.h"

namespace spindrift::test {
namespace {

constexpr std::size_t kGuard = 4096;
constexpr std::size_t kGranted = 8192;

class Liar {
 public:
  Liar(EnginePair& pair, std::uint64_t seed, std::uint64_t key)
      : pair_(pair), rng_(seed), key_(key), payload_(4096, std::byte{0xee}) {}

  void send_one() {
    TxPacket packet;
    if (pair_.a.io().reserve({&packet, 1}) != 1) return;
    const NetAddress target = pair_.b.address();
    std::size_t bytes = 0;
    std::size_t payload = 0;
    switch (rng_() % 5) {
      case 0:
      case 1:
        bytes = request(packet.header, payload);
        break;
      case 2:
        bytes = ack(packet.header);
        break;
      case 3:
        bytes = nack(packet.header);
        break;
      default:
        bytes = control(packet.header);
    }
    packet.header = packet.header.first(bytes);
    if (payload != 0) packet.payload[0] = std::span<const std::byte>(payload_).first(payload);
    packet.payload_pieces = payload == 0 ? 0 : 1;
    packet.to = &target;
    if (pair_.at_a->has_crc) append_crc(pair_.at_a->crc_seed, packet);
    pair_.a.io().send({&packet, 1});
    ++pair_.a.context().transmissions;
  }

 private:
  std::uint32_t near(Psn psn) {
    const std::uint64_t any = rng_() % 8 == 0 ? rng_() : rng_() % 40;
    return static_cast<std::uint32_t>(psn.value + any - 10);
  }
  template <class T>
  T maybe(T likely) {
    return rng_() % 4 == 0 ? static_cast<T>(rng_()) : likely;
  }
  std::size_t request(std::span<std::byte> out, std::size_t& payload) {
    wire::RudRequest pds;
    pds.next =
        rng_() % 4 == 0 ? wire::NextHeader::kResponseData : wire::NextHeader::kRequestStandard;
    pds.psn = near(pair_.at_a->send->log.next());
    pds.is_retransmit = rng_() % 2 == 0;
    pds.wants_ack = rng_() % 2 == 0;
    pds.spdcid = pair_.at_a->pdcid;
    pds.dpdcid = pair_.at_b->pdcid;
    payload = rng_() % 3 == 0 ? 0 : rng_() % payload_.size();
    std::size_t bytes = wire::encode(pds, out);
    if (pds.next == wire::NextHeader::kResponseData) {
      wire::ResponseData ses;
      ses.read_message_id = static_cast<std::uint16_t>(rng_() % 4);
      ses.payload_length = maybe(static_cast<std::uint16_t>(payload));
      ses.modified_length = maybe(static_cast<std::uint32_t>(payload));
      ses.message_offset = maybe(0U);
      return bytes + wire::encode(ses, out.subspan(bytes));
    }
    wire::StandardRequest ses;
    const wire::Opcode opcodes[] = {wire::Opcode::kNoOp,  wire::Opcode::kWrite,
                                    wire::Opcode::kRead,  wire::Opcode::kAtomic,
                                    wire::Opcode::kSend,  wire::Opcode::kFetchingAtomic,
                                    wire::Opcode::kWrite, wire::Opcode::kSend};
    ses.opcode = opcodes[rng_() % 8];
    ses.has_header_data = rng_() % 3 == 0;
    ses.is_som = rng_() % 2 == 0;
    ses.is_eom = rng_() % 2 == 0;
    ses.initiator = maybe(static_cast<std::uint32_t>(rng_() % 4));
    ses.message_id = static_cast<std::uint16_t>(ses.initiator);
    ses.key = maybe(key_);
    ses.buffer_offset = maybe(rng_() % (2 * kGranted));
    ses.payload_length = static_cast<std::uint16_t>(maybe(payload) & 0x3fff);
    ses.message_offset = maybe(static_cast<std::uint32_t>(rng_() % kGranted));
    ses.request_length = maybe(static_cast<std::uint32_t>(payload + rng_() % 2 * kGranted));
    bytes += wire::encode(ses, out.subspan(bytes));
    if (ses.opcode != wire::Opcode::kFetchingAtomic || rng_() % 4 == 0) return bytes;
    wire::AtomicExtension atomic;
    atomic.opcode = rng_() % 2 == 0 ? wire::AtomicOpcode::kSum : wire::AtomicOpcode::kCompareSwap;
    return bytes + wire::encode(atomic, out.subspan(bytes));
  }
  std::size_t ack(std::span<std::byte> out) {
    wire::Ack ack;
    ack.has_cc = rng_() % 8 != 0;
    ack.next = rng_() % 2 == 0 ? wire::NextHeader::kResponse : wire::NextHeader::kNone;
    ack.is_marked = rng_() % 2 == 0;
    ack.is_probe = rng_() % 4 == 0;
    ack.probe_opaque = static_cast<std::uint16_t>(rng_() % 6);
    ack.cack_psn = near(pair_.at_b->send->log.next());
    ack.ack_psn_offset = static_cast<std::int16_t>(rng_());
    ack.sack_psn_offset = maybe(std::int16_t{1});
    ack.sack_bitmap = rng_();
    ack.mpr = static_cast<std::uint8_t>(rng_());
    ack.ack_cc_state = rng_();
    ack.spdcid = pair_.at_a->pdcid;
    ack.dpdcid = pair_.at_b->pdcid;
    std::size_t bytes = wire::encode(ack, out);
    if (ack.next != wire::NextHeader::kResponse) return bytes;
    wire::Response response;
    response.message_id = static_cast<std::uint16_t>(rng_());
    response.modified_length = static_cast<std::uint32_t>(rng_());
    return bytes + wire::encode(response, out.subspan(bytes));
  }
  std::size_t nack(std::span<std::byte> out) {
    const std::uint8_t codes[] = {1, 2, 4, 7, 9, 10, 0x0e, 0x17, 0xfe, 9, 9, 1};
    wire::Nack nack;
    nack.code = codes[rng_() % 12];
    nack.psn = near(pair_.at_b->send->log.next());
    nack.payload = static_cast<std::uint32_t>(rng_() % 64);
    nack.spdcid = pair_.at_a->pdcid;
    nack.dpdcid = pair_.at_b->pdcid;
    return wire::encode(nack, out);
  }
  std::size_t control(std::span<std::byte> out) {
    wire::Control control;
    control.type =
        rng_() % 2 == 0 ? wire::ControlType::kProbe : static_cast<wire::ControlType>(rng_() % 10);
    control.probe_opaque = static_cast<std::uint16_t>(rng_());
    control.psn = near(pair_.at_a->send->log.next());
    control.payload = maybe(near(pair_.at_a->send->log.next()));
    control.spdcid = pair_.at_a->pdcid;
    control.dpdcid = pair_.at_b->pdcid;
    return wire::encode(control, out);
  }

  EnginePair& pair_;
  std::mt19937_64 rng_;
  std::uint64_t key_;
  std::vector<std::byte> payload_;
};

TEST(HostilePeer, CannotCrashItsPeerNorReachOutsideItsGrant) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    EndpointConfig config;
    config.max_connections = 4;
    config.window_packets = 128;
    config.receive_queue = 8;
    config.send_queue = 16;
    config.inline_buffers = 4;
    config.completion_queue = 64;
    config.max_reads = 2;
    EnginePair pair({}, config);
    ConnectOptions options;
    options.crc = seed % 2 == 0 ? CrcChoice::kOn : CrcChoice::kOff;
    options.path_count = 4;
    ASSERT_TRUE(pair.open(options));
    std::vector<std::byte> memory(2 * kGuard + kGranted);
    const std::span<std::byte> granted = std::span(memory).subspan(kGuard, kGranted);
    const MemoryRegion region = pair.b.context().memory.add(granted, kAllAccess, {}, 77).value();
    const Sge all = sge_of(region, 0, kGranted);
    for (std::uint64_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(pair.b.post(
          {.user_data = i, .conn = pair.at_b->id, .kind = OpKind::kReceive, .local = {&all, 1}}));
      ASSERT_TRUE(pair.b.post({.user_data = 10 + i,
                               .conn = pair.at_b->id,
                               .kind = i == 1 ? OpKind::kRead : OpKind::kSend,
                               .local = {&all, 1},
                               .remote_key = 5}));
    }
    Liar liar(pair, seed, region.remote.key);
    for (int i = 0; i < 60; ++i) {
      liar.send_one();
      pair.step();
    }
    for (int i = 0; i < 200; ++i)
      pair.step();
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(memory[i], std::byte{0});
      ASSERT_EQ(memory[kGuard + kGranted + i], std::byte{0});
    }
    // Every operation still ends, once.
    if (!is_over(pair.at_b->phase)) end_connection(pair.b.context(), *pair.at_b, Phase::kClosed);
    for (int i = 0; i < 10; ++i)
      pair.b.turn();
    pair.b.take_completions(pair.b_done);
    EXPECT_EQ(pair.b_done.size(), 6U);
  }
}

}  // namespace
}  // namespace spindrift::test
