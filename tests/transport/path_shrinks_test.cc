// Tails below holes, and paths whose MTU shrinks under an open connection: every operation ends.
#include <gtest/gtest.h>

#include "tests/transport/engine_host.h"
#include "transport/ack_output.h"
#include "transport/wire/pds.h"

namespace spindrift {
namespace {

using test::EnginePair;

// A long WRITE from a to b, under way.
struct Transfer {
  explicit Transfer(const MemoryNetworkConfig& config)
      : pair(config), from(20000000), to(20000000) {
    ConnectOptions options;
    options.silence_limit_passive = std::chrono::milliseconds(500);
    EXPECT_TRUE(pair.open(options));
    const auto source = pair.a.context().memory.add(from, kAllAccess, {}, 1);
    const auto target = pair.b.context().memory.add(to, kAllAccess, {}, 2);
    const Sge sge = sge_of(source.value(), 0, static_cast<std::uint32_t>(from.size()));
    EXPECT_TRUE(pair.a.post({.conn = pair.at_a->id,
                             .kind = OpKind::kWrite,
                             .local = {&sge, 1},
                             .remote_key = target.value().remote.key}));
    for (int i = 0; i < 20; ++i)
      pair.step();
    EXPECT_EQ(pair.at_a->phase, Phase::kOpen);
  }
  bool fails_within(Duration limit) {
    const Time end = pair.network.now() + limit;
    while (pair.at_a->phase == Phase::kOpen && pair.network.now() < end)
      pair.step();
    return pair.at_a->phase == Phase::kFailed;
  }
  EnginePair pair;
  std::vector<std::byte> from;
  std::vector<std::byte> to;
};

TEST(PathShrinks, TheNetworksWordEndsTheConnectionWithItsCause) {
  Transfer transfer({.reports_too_big = true});
  transfer.pair.network.set_path_max_packet_bytes(1472);
  ASSERT_TRUE(transfer.fails_within(std::chrono::milliseconds(100)));
  EXPECT_NE(transfer.pair.at_a->error.find("carries packets of 1472 bytes now"), std::string::npos)
      << transfer.pair.at_a->error;
}

TEST(PathShrinks, ASilentlyShrunkPathEndsItThoughProbesAreAnswered) {
  Transfer transfer({});
  transfer.pair.network.set_path_max_packet_bytes(1472);
  ASSERT_TRUE(transfer.fails_within(std::chrono::seconds(3)));
  EXPECT_NE(transfer.pair.at_a->error.find("though it answers probes"), std::string::npos)
      << transfer.pair.at_a->error;
}

// With one packet of window and a hole far below, only this answer frees the tail.
TEST(PathShrinks, AProbeAboveTheNewestArrivalIsAnsweredThere) {
  EnginePair pair;
  ASSERT_TRUE(pair.open({}));
  Connection& c = *pair.at_b;
  const Psn edge = c.receive->log.cumulative();
  for (std::uint64_t i = 2; i <= 130; ++i)
    c.receive->log.mark(Psn{edge.value + i});
  const Psn asked{edge.value + 140};
  c.receive->ack.probes[0] = {.base = asked, .opaque = 7};
  c.receive->ack.probe_count = 1;
  std::array<std::byte, kMaxHeaderBytes> header{};
  TxPacket packet;
  packet.header = header;
  ASSERT_EQ(send_owed(pair.b.context(), c, {&packet, 1}, pair.network.now()), 1U);
  wire::Pds pds;
  ASSERT_EQ(wire::parse_pds(packet.header, pds), wire::ParseError::kOk);
  const auto& ack = std::get<wire::Ack>(pds.header);
  EXPECT_TRUE(ack.is_probe);
  EXPECT_EQ(ack.probe_opaque, 7U);
  EXPECT_EQ(ack.sack_psn_offset, 140);
  EXPECT_EQ(ack.sack_bitmap, 0U);
}

}  // namespace
}  // namespace spindrift
