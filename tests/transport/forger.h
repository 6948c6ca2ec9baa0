#pragma once
// Packets with any content and a good CRC, sent to host b of an EnginePair as if by its peer.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"
#include "transport/hello_packet.h"
#include "transport/packet_builder.h"
#include "transport/wire/request_codec.h"

namespace spindrift::test {

class Forger {
 public:
  explicit Forger(EnginePair& pair) : pair_(pair) {}

  // Headers that refer to the connection as its peer would.
  wire::RudRequest request(std::uint64_t psn) const {
    auto pds = between<wire::RudRequest>();
    pds.next = wire::NextHeader::kRequestStandard;
    pds.psn = static_cast<std::uint32_t>(psn);
    return pds;
  }
  wire::Ack ack() const {
    auto out = between<wire::Ack>();
    out.has_cc = true;
    out.cack_psn = static_cast<std::uint32_t>(pair_.at_b->send->log.oldest().value - 1);
    return out;
  }
  wire::Nack nack(std::uint8_t code, std::uint64_t psn) const {
    auto out = between<wire::Nack>();
    out.code = code;
    out.psn = static_cast<std::uint32_t>(psn);
    return out;
  }
  wire::Control control(wire::ControlType type, std::uint64_t psn) const {
    auto out = between<wire::Control>();
    out.type = type;
    out.psn = static_cast<std::uint32_t>(psn);
    return out;
  }
  // The PSN that the peer would use next.
  std::uint64_t next_psn() const { return pair_.at_a->send->log.next().value; }

  // A packet of these headers and `payload_bytes` bytes of 0xee.
  template <class... Headers>
  std::vector<std::byte> packet(std::size_t payload_bytes, const Headers&... headers) const {
    std::array<std::byte, kMaxHeaderBytes> bytes{};
    std::size_t size = 0;
    ((size += wire::encode(headers, std::span(bytes).subspan(size))), ...);
    std::vector<std::byte> out(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    out.insert(out.end(), payload_bytes, std::byte{0xee});
    return out;
  }
  // Sent by `from`, with a CRC of this seed (none: without CRC); then some time passes.
  void send(EngineHost& from, std::span<const std::byte> bytes, std::optional<std::uint32_t> seed) {
    TxPacket out;
    ASSERT_EQ(from.io().reserve({&out, 1}), 1U);
    const NetAddress to = pair_.b.address();
    out.header = out.header.first(0);
    out.payload[0] = bytes;
    out.payload_pieces = 1;
    out.to = &to;
    if (seed) append_crc(*seed, out);
    from.io().send({&out, 1});
    ++from.context().transmissions;
    settle();
  }
  // From the peer itself.
  void send(std::span<const std::byte> bytes) {
    if (pair_.at_a->has_crc)
      send(pair_.a, bytes, pair_.at_a->crc_seed);
    else
      send(pair_.a, bytes, std::nullopt);
  }
  void settle() {
    for (int i = 0; i < 20; ++i)
      pair_.step();
  }

 private:
  template <class Header>
  Header between() const {
    Header out;
    out.spdcid = pair_.at_a->pdcid;
    out.dpdcid = pair_.at_b->pdcid;
    return out;
  }

  EnginePair& pair_;
};

inline wire::StandardRequest write_of(std::uint64_t key, std::uint32_t bytes) {
  wire::StandardRequest ses;
  ses.opcode = wire::Opcode::kWrite;
  ses.is_som = true;
  ses.is_eom = true;
  ses.key = key;
  ses.request_length = bytes;
  return ses;
}

// A whole HELLO packet without its CRC; answers are wanted at `from`.
inline std::vector<std::byte> hello_packet(const NetAddress& from, std::uint64_t nonce) {
  wire::Hello hello;
  hello.version_min = 1;
  hello.version_max = 1;
  hello.nonce = nonce;
  hello.payload_mtu = 512;
  hello.path_count = 1;
  hello.window_packets = 128;
  hello.rail_count = 1;
  hello.rails[0] = from;
  wire::RudRequest pds;
  pds.next = wire::NextHeader::kRequestStandard;
  pds.is_syn = true;
  pds.psn = 70000;
  pds.spdcid = 7;
  wire::StandardRequest ses;
  ses.opcode = wire::Opcode::kSend;
  ses.is_som = true;
  ses.is_eom = true;
  ses.resource_index = wire::kHelloResourceIndex;
  ses.request_length = hello.payload_mtu;
  std::vector<std::byte> out(kMaxHeaderBytes + wire::kMaxHelloBytes);
  std::size_t size = wire::encode(pds, out);
  size += wire::encode(ses, std::span(out).subspan(size));
  static_cast<void>(wire::encode(hello, std::span(out).subspan(size)));
  out.resize(size + hello.payload_mtu);
  return out;
}

}  // namespace spindrift::test
