// What two sides of a connection say over TCP, byte for byte, and what is no such thing.
#include "providers/verbs/verbs_greeting.h"

#include <gtest/gtest.h>

#include "providers/verbs/verbs_page.h"

namespace spindrift {
namespace {

VerbsCard full_card() {
  VerbsCard card{.nonce = 0x1122334455667788, .peer_nonce = 9, .transport = 1};
  card.reads_answered = 16;
  card.buffers = 64;
  card.buffer_bytes = 16448;
  card.page = 0x7f0000001000;
  card.ports = {{.gid = {1, 2, 3}, .lid = 7, .is_infiniband = 1, .mtu = 5, .page_key = 77},
                {.gid = {4}, .mtu = 3, .page_key = 78}};
  card.messages = {.number = 100, .first_packet = 5};
  for (std::uint32_t i = 0; i < kMaxVerbsLanes; ++i)
    card.lanes.push_back({.number = 200 + i, .first_packet = 0xffffff - i});
  card.device = "mlx5_0 port 1";
  card.hello.assign(kFabricHelloBytes, std::byte{0x5a});
  return card;
}

// The body of a frame.
std::vector<std::byte> body(const std::vector<std::byte>& frame) {
  return {frame.begin() + kVerbsHeadBytes, frame.end()};
}

TEST(VerbsGreetingTest, TheLargestCardSurvivesTheWay) {
  const VerbsCard card = full_card();
  const auto frame = encode(VerbsFrameKind::kCall, card);
  EXPECT_LE(frame.size(), kMaxVerbsFrame);
  const auto back = parse_card(body(frame));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->nonce, card.nonce);
  EXPECT_EQ(back->peer_nonce, card.peer_nonce);
  EXPECT_EQ(back->transport, card.transport);
  EXPECT_EQ(back->reads_answered, card.reads_answered);
  EXPECT_EQ(back->buffers, card.buffers);
  EXPECT_EQ(back->buffer_bytes, card.buffer_bytes);
  EXPECT_EQ(back->page, card.page);
  ASSERT_EQ(back->ports.size(), 2U);
  EXPECT_EQ(back->ports[0].gid, card.ports[0].gid);
  EXPECT_EQ(back->ports[0].lid, 7);
  EXPECT_EQ(back->ports[0].is_infiniband, 1);
  EXPECT_EQ(back->ports[1].mtu, 3);
  EXPECT_EQ(back->ports[1].page_key, 78U);
  EXPECT_EQ(back->messages.number, 100U);
  ASSERT_EQ(back->lanes.size(), kMaxVerbsLanes);
  EXPECT_EQ(back->lanes[63].number, 263U);
  EXPECT_EQ(back->lanes[63].first_packet, 0xffffffU - 63);
  EXPECT_EQ(back->device, card.device);
  EXPECT_EQ(back->hello, card.hello);
}

TEST(VerbsGreetingTest, EveryCutAndEverySurplusIsRefused) {
  const auto whole = body(encode(VerbsFrameKind::kAnswer, full_card()));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(parse_card(std::span(whole).first(bytes))) << bytes;
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_card(longer));
}

TEST(VerbsGreetingTest, CardsThatMakeNoSenseAreRefused) {
  const auto is_taken = [](void (*spoil)(VerbsCard&)) {
    VerbsCard card = full_card();
    spoil(card);
    return parse_card(body(encode(VerbsFrameKind::kCall, card))).has_value();
  };
  EXPECT_TRUE(is_taken([](VerbsCard&) {}));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.lanes.clear(); }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.ports.clear(); }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.ports[0].mtu = 0; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.ports[1].mtu = 6; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.messages.number = 0xffffff; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.lanes[5].number = 1; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.lanes[5].first_packet = 1U << 24; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.transport = 3; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.buffers = 1; }));
  EXPECT_FALSE(is_taken([](VerbsCard& card) { card.lanes.emplace_back(card.messages); }));
}

TEST(VerbsGreetingTest, LaneCardsSurviveAndOtherLanesAreRefused) {
  LaneCard card{.lane = 3, .generation = 2, .queue_pair = {.number = 55, .first_packet = 66}};
  card.gid = {9, 8, 7};
  card.room = 64;
  const auto back = parse_lane_card(body(encode(VerbsFrameKind::kRenew, card)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->lane, 3);
  EXPECT_EQ(back->generation, 2U);
  EXPECT_EQ(back->queue_pair.number, 55U);
  EXPECT_EQ(back->queue_pair.first_packet, 66U);
  EXPECT_EQ(back->gid, card.gid);
  EXPECT_EQ(back->room, 64U);
  card.lane = kVerbsMessageLane;
  EXPECT_TRUE(parse_lane_card(body(encode(VerbsFrameKind::kRenew, card))));
  card.lane = kMaxVerbsLanes;
  EXPECT_FALSE(parse_lane_card(body(encode(VerbsFrameKind::kRenew, card))));
  EXPECT_FALSE(parse_lane_card({}));
}

TEST(VerbsGreetingTest, AStreamIsTakenApartWhereverItIsCut) {
  const std::vector<std::byte> words(10, std::byte{'x'});
  auto stream = encode(VerbsFrameKind::kRefuse, words);
  const auto second = encode(VerbsFrameKind::kConfirm, std::span<const std::byte>());
  stream.insert(stream.end(), second.begin(), second.end());
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    VerbsFrameReader reader;
    std::vector<VerbsFrame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.append(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      VerbsFrame frame;
      while (reader.next(frame) == VerbsFrameReader::Got::kFrame)
        frames.push_back(frame);
    }
    ASSERT_EQ(frames.size(), 2U) << piece;
    EXPECT_EQ(frames[0].kind, VerbsFrameKind::kRefuse);
    EXPECT_EQ(frames[0].body, words);
    EXPECT_EQ(frames[1].kind, VerbsFrameKind::kConfirm);
    EXPECT_TRUE(frames[1].body.empty());
  }
}

TEST(VerbsGreetingTest, StrangersAndOtherVersionsAreToldApart) {
  VerbsFrame frame;
  VerbsFrameReader stranger;
  stranger.append(std::as_bytes(std::span("GET / HTTP/1.1\r\n")));
  EXPECT_EQ(stranger.next(frame), VerbsFrameReader::Got::kNonsense);
  auto other = encode(VerbsFrameKind::kConfirm, std::span<const std::byte>());
  other[5] = std::byte{9};
  VerbsFrameReader newer;
  newer.append(other);
  EXPECT_EQ(newer.next(frame), VerbsFrameReader::Got::kOtherVersion);
  EXPECT_EQ(newer.other_version(), 9);
  auto huge = encode(VerbsFrameKind::kConfirm, std::span<const std::byte>());
  huge[9] = std::byte{0xff};
  VerbsFrameReader greedy;
  greedy.append(huge);
  EXPECT_EQ(greedy.next(frame), VerbsFrameReader::Got::kNonsense);
}

TEST(VerbsGreetingTest, MtusAreRoundedDown) {
  EXPECT_EQ(mtu_bytes(1), 256U);
  EXPECT_EQ(mtu_bytes(5), 4096U);
  EXPECT_EQ(mtu_code(4096), 5);
  EXPECT_EQ(mtu_code(4095), 4);
  EXPECT_EQ(mtu_code(1024), 3);
  EXPECT_EQ(mtu_code(100), 1);
}

TEST(VerbsPageTest, AHalfWrittenRecordIsNotTaken) {
  VerbsRecord written{.words = {1, 2, 3, 4}, .room = 64, .generation = 1, .serial = 5};
  VerbsRecord read;
  EXPECT_FALSE(read_record(written, read));
  written.sum = written.right_sum();
  ASSERT_TRUE(read_record(written, read));
  EXPECT_EQ(read.words, written.words);
  EXPECT_EQ(read.room, 64U);
  written.words[2] = 7;
  EXPECT_FALSE(read_record(written, read));
  EXPECT_FALSE(read_record(VerbsRecord{}, read)) << "of a page that nobody has written";
}

}  // namespace
}  // namespace spindrift
