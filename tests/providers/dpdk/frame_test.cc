// Frames built by frame_build are what frame_parse reads, and what others read.
#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "providers/dpdk/checksum.h"
#include "providers/dpdk/frame_build.h"
#include "providers/dpdk/frame_parse.h"

namespace spindrift {
namespace {

using Bytes = std::vector<std::byte>;

NetAddress address(const char* text) {
  return parse_net_address(text, 0).value();
}

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

struct Case {
  bool is_v6 = false;
  std::uint16_t vlan = 0;
  std::size_t payload_bytes = 0;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << (one.is_v6 ? "IPv6" : "IPv4") << ", VLAN " << one.vlan << ", " << one.payload_bytes
       << " bytes";
}

FrameWay way_of(const Case& one) {
  return {.source_mac = MacAddress{{2, 0, 0, 0, 0, 1}},
          .destination_mac = MacAddress{{2, 0, 0, 0, 0, 2}},
          .source = address(one.is_v6 ? "[fd00::1]:0" : "10.0.0.1:0"),
          .destination = address(one.is_v6 ? "[fd00::2]:4793" : "10.0.0.2:4793"),
          .vlan = one.vlan};
}

Bytes build(const Case& one, UdpChecksum checksum) {
  const FrameHeaders headers(way_of(one));
  const Bytes payload = pattern(one.payload_bytes);
  Bytes frame(headers.bytes());
  headers.write(frame.data(),
                {.payload_bytes = static_cast<std::uint32_t>(payload.size()),
                 .source_port = 50001,
                 .dscp = 46,
                 .ecn = Ecn::kEct0},
                checksum, sum_words(payload));
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

class Frames : public ::testing::TestWithParam<Case> {};

TEST_P(Frames, AreReadAsTheyWereWritten) {
  const Case& one = GetParam();
  const Bytes frame = build(one, UdpChecksum::kFull);
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), FrameVerdict::kUdp);
  EXPECT_TRUE(is_udp_checksum_right(parsed));
  NetAddress source = way_of(one).source;
  source.port = 50001;
  EXPECT_EQ(parsed.source(), source);
  EXPECT_EQ(parsed.destination(), way_of(one).destination);
  EXPECT_EQ(parsed.source_mac(), way_of(one).source_mac);
  EXPECT_EQ(parsed.destination_mac(), way_of(one).destination_mac);
  EXPECT_EQ(parsed.vlan, one.vlan);
  EXPECT_EQ(parsed.traffic_class, (46U << 2U) | 2U);
  EXPECT_EQ(parsed.hop_limit, 64);
  EXPECT_EQ(Bytes(parsed.payload.begin(), parsed.payload.end()), pattern(one.payload_bytes));
}

TEST_P(Frames, AreReadWithoutTheirPadding) {
  Bytes frame = build(GetParam(), UdpChecksum::kFull);
  frame.resize(frame.size() + 40, std::byte{0xee});
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), FrameVerdict::kUdp);
  EXPECT_EQ(parsed.payload.size(), GetParam().payload_bytes);
  EXPECT_TRUE(is_udp_checksum_right(parsed));
}

TEST_P(Frames, AreMalformedWhenCutShort) {
  const Bytes frame = build(GetParam(), UdpChecksum::kFull);
  for (std::size_t size = 0; size < frame.size(); ++size) {
    ParsedFrame parsed;
    EXPECT_EQ(parse_frame(std::span(frame).first(size), parsed), FrameVerdict::kMalformed) << size;
  }
}

TEST_P(Frames, HaveAChecksumThatOneFlippedBitSpoils) {
  Bytes frame = build(GetParam(), UdpChecksum::kFull);
  if (GetParam().payload_bytes == 0) return;
  frame.back() ^= std::byte{0x10};
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), FrameVerdict::kUdp);
  EXPECT_FALSE(is_udp_checksum_right(parsed));
}

// RFC 768: zero means none; RFC 8200, 8.1: not over IPv6.
TEST_P(Frames, MayBeWithoutChecksumOverIpv4Only) {
  const Bytes frame = build(GetParam(), UdpChecksum::kNone);
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), FrameVerdict::kUdp);
  EXPECT_EQ(is_udp_checksum_right(parsed), !GetParam().is_v6);
}

TEST_P(Frames, HoldThePseudoHeadersSumForDevicesThatFinishIt) {
  const Bytes frame = build(GetParam(), UdpChecksum::kPseudoHeader);
  const FrameHeaders headers(way_of(GetParam()));
  const std::byte* udp = frame.data() + headers.bytes() - kUdpBytes;
  // A device sums from the UDP header on, the field included, and stores the complement.
  const std::uint16_t sum = sum_words({udp, frame.size() - headers.bytes() + kUdpBytes});
  const Bytes whole = build(GetParam(), UdpChecksum::kFull);
  const std::uint16_t expected = get_raw16(whole.data() + headers.bytes() - 2);
  EXPECT_EQ(static_cast<std::uint16_t>(~sum), expected);
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), FrameVerdict::kUdp);
  EXPECT_TRUE(is_udp_checksum_unfinished(parsed));
  ASSERT_EQ(parse_frame(whole, parsed), FrameVerdict::kUdp);
  EXPECT_FALSE(is_udp_checksum_unfinished(parsed));
}

INSTANTIATE_TEST_SUITE_P(All, Frames,
                         ::testing::Values(Case{false, 0, 0}, Case{false, 0, 1},
                                           Case{false, 0, 1408}, Case{false, 7, 100},
                                           Case{false, 4094, 8832}, Case{true, 0, 0},
                                           Case{true, 0, 3}, Case{true, 12, 1408},
                                           Case{true, 0, 8832}));

// Worked out by hand from RFC 791 and 768.
TEST(FrameBuild, GivesTheBytesOfTheStandards) {
  const Bytes frame = build({.payload_bytes = 4}, UdpChecksum::kFull);
  const std::array<unsigned, 46> expected{
      2,    0,    0,    0,    0,  2,  2,    0,    0,  0, 0, 1, 8, 0,  // Ethernet
      0x45, 0xba, 0,    32,   0,  0,  0x40, 0,                        // IPv4 ...
      64,   17,   0x26, 0x11, 10, 0,  0,    1,    10, 0, 0, 2,        // its checksum
      0xc3, 0x51, 0x12, 0xb9, 0,  12, 0x01, 0xa7,                     // UDP
      3,    10,   17,   24};
  ASSERT_EQ(frame.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(static_cast<unsigned>(frame[i]), expected[i]) << "byte " << i;
}

TEST(FrameParse, SetsFragmentsAndOthersApart) {
  ParsedFrame parsed;
  Bytes frame = build({.payload_bytes = 100}, UdpChecksum::kNone);
  const auto repair_sum = [&] {
    put_raw16(frame.data() + 24, 0);
    put_raw16(frame.data() + 24, static_cast<std::uint16_t>(~sum_words({frame.data() + 14, 20})));
  };
  put16(frame.data() + 20, 0x2000);  // more fragments
  repair_sum();
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kFragment);
  put16(frame.data() + 20, 0x0001);  // at an offset
  repair_sum();
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kFragment);
  put16(frame.data() + 20, 0);
  put8(frame.data() + 23, 6);  // TCP
  repair_sum();
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kOther);
  put16(frame.data() + 12, 0x88cc);  // LLDP
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kOther);
}

TEST(FrameParse, RefusesWhatContradictsItself) {
  const Bytes good = build({.payload_bytes = 100}, UdpChecksum::kNone);
  ParsedFrame parsed;
  Bytes frame = good;
  frame[24] ^= std::byte{1};  // the header's checksum
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kMalformed);
  frame = good;
  put16(frame.data() + 38, 200);  // UDP longer than IP
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kMalformed);
  put16(frame.data() + 38, 7);  // shorter than its header
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kMalformed);
  frame = good;
  frame[14] = std::byte{0x44};  // a header of 16 bytes
  EXPECT_EQ(parse_frame(frame, parsed), FrameVerdict::kMalformed);
}

TEST(Checksum, OfPiecesIsThatOfTheWhole) {
  const Bytes all = pattern(999);
  for (const std::size_t first : {0U, 1U, 2U, 33U, 500U, 998U})
    for (const std::size_t second : {0U, 1U, 7U, 300U}) {
      ChecksumOfPieces sum;
      const std::size_t cut = std::min(all.size(), first + second);
      sum.add(std::span(all).first(first));
      sum.add(std::span(all).subspan(first, cut - first));
      sum.add(std::span(all).subspan(cut));
      EXPECT_EQ(sum.sum(), sum_words(all)) << first << " " << second;
    }
}

// RFC 1071, section 3.
TEST(Checksum, IsThatOfTheStandardsExample) {
  const std::array<std::byte, 8> bytes{std::byte{0x00}, std::byte{0x01}, std::byte{0xf2},
                                       std::byte{0x03}, std::byte{0xf4}, std::byte{0xf5},
                                       std::byte{0xf6}, std::byte{0xf7}};
  const std::uint16_t sum = sum_words(bytes);
  EXPECT_EQ(__builtin_bswap16(sum), 0xddf2);
}

}  // namespace
}  // namespace spindrift
