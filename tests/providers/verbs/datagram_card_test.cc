// Questions and answers of datagrams, and the network header in front of what is received.
#include "providers/verbs/datagram_card.h"

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(DatagramCardTest, CardsSurviveTheWayAndOthersAreRefused) {
  const DatagramCard card{.is_answer = true,
                          .nonce = 0x1122334455667788,
                          .queue_pair = 77,
                          .key = 0x12345678,
                          .gid = {1, 2, 3},
                          .lid = 9,
                          .mtu = 5};
  const auto bytes = encode(card);
  const auto back = parse_datagram_card(bytes);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->is_answer);
  EXPECT_EQ(back->nonce, card.nonce);
  EXPECT_EQ(back->queue_pair, card.queue_pair);
  EXPECT_EQ(back->key, card.key);
  EXPECT_EQ(back->gid, card.gid);
  EXPECT_EQ(back->lid, card.lid);
  EXPECT_EQ(back->mtu, card.mtu);
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(parse_datagram_card(std::span(bytes).first(count)));
  for (const std::size_t at : {0U, 5U, 6U, 7U}) {  // the magic, the version, the kind, the MTU
    auto spoilt = bytes;
    spoilt[at] = std::byte{0x77};
    EXPECT_FALSE(parse_datagram_card(spoilt)) << at;
  }
}

TEST(DatagramCardTest, LanesOfConnectedQueuePairsAreNamedOneByOne) {
  DatagramCard card{.nonce = 1, .mtu = 5};
  EXPECT_FALSE(parse_datagram_card(encode(card))) << "neither a queue pair nor lanes";
  for (std::uint32_t i = 0; i < kMaxVerbsLanes; ++i)
    card.lanes.push_back(100 + i);
  auto bytes = encode(card);
  EXPECT_EQ(bytes.size(), kMaxDatagramCardBytes);
  const auto back = parse_datagram_card(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->lanes, card.lanes);
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(parse_datagram_card(std::span(bytes).first(count)));
  card.lanes.push_back(7);
  EXPECT_FALSE(parse_datagram_card(encode(card))) << "more than there may be";
  card.lanes = {100, 0};
  EXPECT_FALSE(parse_datagram_card(encode(card))) << "no queue pair has that number";
}

TEST(DatagramCardTest, TheSourceAndTheClassAreReadFromEitherHeader) {
  std::array<std::byte, kDatagramHeaderBytes> v4{};
  v4[20] = std::byte{0x45};
  v4[21] = std::byte{0xb9};  // DSCP 46, ECT(1)
  v4[32] = std::byte{10};
  v4[35] = std::byte{7};
  const DatagramHeader four = parse_datagram_header(v4, true);
  EXPECT_EQ(four.source, gid_of(parse_net_address("10.0.0.7", 0).value()));
  EXPECT_EQ(four.traffic_class, 0xb9);
  std::array<std::byte, kDatagramHeaderBytes> v6{};
  v6[0] = std::byte{0x6b};
  v6[1] = std::byte{0x9f};
  v6[8] = std::byte{0xfd};
  v6[23] = std::byte{7};
  const DatagramHeader six = parse_datagram_header(v6, false);
  EXPECT_EQ(six.source, gid_of(parse_net_address("[fd00::7]", 0).value()));
  EXPECT_EQ(six.traffic_class, 0xb9);
}

}  // namespace
}  // namespace spindrift
