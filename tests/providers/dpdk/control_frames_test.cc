// ARP, neighbour discovery, echo and network errors, as two stations exchange them.
#include "providers/dpdk/control_frames.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "providers/dpdk/checksum.h"
#include "providers/dpdk/frame_build.h"

namespace spindrift {
namespace {

using Bytes = std::vector<std::byte>;

NetAddress address(const std::string& text) {
  return parse_net_address(text, 0).value();
}

// Of both families and with a VLAN and without.
struct Case {
  bool is_v6 = false;
  std::uint16_t vlan = 0;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << (one.is_v6 ? "IPv6" : "IPv4") << ", VLAN " << one.vlan;
}

class ControlFrames : public ::testing::TestWithParam<Case> {
 protected:
  LocalStation station(std::uint8_t number) const {
    const std::string text = std::to_string(number);
    return {.mac = MacAddress{{2, 0, 0, 0, 0, number}},
            .address = address(GetParam().is_v6 ? "[fd00::" + text + "]:0" : "10.0.0." + text),
            .vlan = GetParam().vlan};
  }
  // What a station reads.
  NeighborMessage read(const ControlFrame& frame) {
    const FrameVerdict verdict = parse_frame(frame.span(), parsed_);
    EXPECT_EQ(parsed_.vlan, GetParam().vlan);
    EXPECT_GE(frame.size, kMinFrameBytes);
    const auto message = parse_neighbor_message(verdict, parsed_);
    EXPECT_TRUE(message.has_value());
    return message.value_or(NeighborMessage{});
  }
  // A UDP packet from one station to another.
  Bytes packet(std::uint8_t from, std::uint8_t to) const {
    FrameWay way{.source_mac = station(from).mac,
                 .destination_mac = station(to).mac,
                 .source = station(from).address,
                 .destination = station(to).address,
                 .vlan = GetParam().vlan};
    way.destination.port = 4793;
    const FrameHeaders headers(way);
    Bytes frame(headers.bytes() + 100);
    headers.write(frame.data(), {.payload_bytes = 100, .source_port = 49153}, UdpChecksum::kNone);
    return frame;
  }
  ParsedFrame parsed_;
};

TEST_P(ControlFrames, AskEverybodyAndAreAnsweredToTheAskerAlone) {
  const ControlFrame question = build_solicitation(station(1), station(2).address, nullptr);
  const NeighborMessage asked = read(question);
  EXPECT_TRUE(parsed_.destination_mac().is_group());
  EXPECT_TRUE(asked.is_question);
  EXPECT_TRUE(asked.sender.is_same_host(station(1).address));
  EXPECT_EQ(asked.sender_mac, station(1).mac);
  EXPECT_TRUE(asked.target.is_same_host(station(2).address));
  const NeighborMessage answer = read(build_answer(station(2), asked));
  EXPECT_EQ(parsed_.destination_mac(), station(1).mac);
  EXPECT_FALSE(answer.is_question);
  EXPECT_TRUE(answer.is_solicited);
  EXPECT_TRUE(answer.sender.is_same_host(station(2).address));
  EXPECT_EQ(answer.sender_mac, station(2).mac);
}

TEST_P(ControlFrames, AskOneStationWhoseAddressIsKnown) {
  const MacAddress mac = station(2).mac;
  read(build_solicitation(station(1), station(2).address, &mac));
  EXPECT_EQ(parsed_.destination_mac(), mac);
}

TEST_P(ControlFrames, AnnounceWithoutBeingAsked) {
  const NeighborMessage news = read(build_announcement(station(3)));
  EXPECT_TRUE(parsed_.destination_mac().is_group());
  EXPECT_TRUE(news.sender.is_same_host(station(3).address));
  EXPECT_EQ(news.sender_mac, station(3).mac);
  EXPECT_FALSE(news.is_solicited);
}

TEST_P(ControlFrames, AreNotBelievedWhenDamaged) {
  ControlFrame frame = build_solicitation(station(1), station(2).address, nullptr);
  const FrameVerdict whole = parse_frame(frame.span(), parsed_);
  ASSERT_TRUE(parse_neighbor_message(whole, parsed_).has_value());
  // ARP has no checksum: spoil what it says it speaks of.
  std::byte* at = frame.bytes.data() + (parsed_.payload.data() - frame.bytes.data());
  at[GetParam().is_v6 ? 20 : 4] ^= std::byte{1};
  const FrameVerdict damaged = parse_frame(frame.span(), parsed_);
  EXPECT_FALSE(parse_neighbor_message(damaged, parsed_).has_value());
}

TEST_P(ControlFrames, DiscoveryIsNotBelievedFromBehindARouter) {
  if (!GetParam().is_v6) return;
  ControlFrame frame = build_solicitation(station(1), station(2).address, nullptr);
  const std::size_t ip = GetParam().vlan == 0 ? 14 : 18;
  frame.bytes[ip + 7] = std::byte{254};
  EXPECT_FALSE(parse_neighbor_message(parse_frame(frame.span(), parsed_), parsed_).has_value());
}

TEST_P(ControlFrames, AnswerAnEchoWithItsBytes) {
  // An echo request is made of the reply to one: only the type differs.
  const bool is_v6 = GetParam().is_v6;
  ControlFrame request = build_port_unreachable(station(1), [&] {
    static Bytes frame;
    frame = packet(2, 1);
    ParsedFrame parsed;
    parse_frame(frame, parsed);
    return parsed;
  }());
  ASSERT_EQ(parse_frame(request.span(), parsed_), FrameVerdict::kIcmp);
  std::byte* icmp = request.bytes.data() + (parsed_.payload.data() - request.bytes.data());
  const std::uint16_t before = get_raw16(icmp);
  put8(icmp, is_v6 ? 128 : 8);
  put8(icmp + 1, 0);
  const std::uint16_t after = get_raw16(icmp);
  // RFC 1624: the checksum follows the change of a word.
  std::uint16_t sum = static_cast<std::uint16_t>(~get_raw16(icmp + 2));
  sum = add_sums(sum, static_cast<std::uint16_t>(~before));
  sum = add_sums(sum, after);
  put_raw16(icmp + 2, static_cast<std::uint16_t>(~sum));
  ASSERT_EQ(parse_frame(request.span(), parsed_), FrameVerdict::kIcmp);
  const Bytes asked(parsed_.payload.begin() + 4, parsed_.payload.end());
  const auto reply = build_echo_reply(station(2), parsed_);
  ASSERT_TRUE(reply.has_value());
  ASSERT_EQ(parse_frame(reply->span(), parsed_), FrameVerdict::kIcmp);
  EXPECT_EQ(get8(parsed_.payload.data()), is_v6 ? 129 : 0);
  EXPECT_EQ(Bytes(parsed_.payload.begin() + 4, parsed_.payload.end()), asked);
  EXPECT_TRUE(parsed_.destination().is_same_host(station(1).address));
  EXPECT_FALSE(build_echo_reply(station(1), parsed_).has_value()) << "a reply is not answered";
}

TEST_P(ControlFrames, SayWhichPacketMetNobody) {
  const Bytes sent = packet(1, 2);
  ASSERT_EQ(parse_frame(sent, parsed_), FrameVerdict::kUdp);
  const ControlFrame frame = build_port_unreachable(station(2), parsed_);
  ASSERT_EQ(parse_frame(frame.span(), parsed_), FrameVerdict::kIcmp);
  const auto error = parse_network_error(parsed_);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind, NetworkError::Kind::kPortUnreachable);
  EXPECT_TRUE(error->destination.is_same_host(station(2).address));
  EXPECT_EQ(error->destination.port, 4793);
  EXPECT_TRUE(error->source.is_same_host(station(1).address));
  EXPECT_EQ(error->source.port, 49153);
}

TEST_P(ControlFrames, SayHowWideTheLinkIs) {
  const Bytes sent = packet(1, 2);
  ASSERT_EQ(parse_frame(sent, parsed_), FrameVerdict::kUdp);
  ControlFrame frame = build_port_unreachable(station(2), parsed_);
  ASSERT_EQ(parse_frame(frame.span(), parsed_), FrameVerdict::kIcmp);
  std::byte* icmp = frame.bytes.data() + (parsed_.payload.data() - frame.bytes.data());
  std::uint16_t sum = static_cast<std::uint16_t>(~get_raw16(icmp + 2));
  sum = add_sums(sum, static_cast<std::uint16_t>(~get_raw16(icmp)));
  if (GetParam().is_v6) {
    put8(icmp, 2);
    put8(icmp + 1, 0);
  } else {
    put8(icmp + 1, 4);
  }
  put16(icmp + 6, 1400);
  sum = add_sums(sum, get_raw16(icmp));
  sum = add_sums(sum, get_raw16(icmp + 6));
  put_raw16(icmp + 2, static_cast<std::uint16_t>(~sum));
  ASSERT_EQ(parse_frame(frame.span(), parsed_), FrameVerdict::kIcmp);
  const auto error = parse_network_error(parsed_);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind, NetworkError::Kind::kTooBig);
  EXPECT_EQ(error->mtu, 1400U);
}

INSTANTIATE_TEST_SUITE_P(All, ControlFrames,
                         ::testing::Values(Case{false, 0}, Case{false, 100}, Case{true, 0},
                                           Case{true, 100}));

}  // namespace
}  // namespace spindrift
