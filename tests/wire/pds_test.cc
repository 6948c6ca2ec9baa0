#include "transport/wire/pds.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/wire/generate.h"
#include "tests/wire/hex.h"

namespace spindrift::wire {
namespace {

template <class Header>
void expect_vector(const Header& header, std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  EXPECT_EQ(to_hex(encoded(header)), to_hex(bytes));
  Pds parsed;
  ASSERT_EQ(parse_pds(bytes, parsed), ParseError::kOk);
  EXPECT_EQ(parsed.bytes, bytes.size());
  ASSERT_TRUE(std::holds_alternative<Header>(parsed.header));
  EXPECT_EQ(std::get<Header>(parsed.header), header);
}

ParseError error_of(std::string_view hex) {
  Pds parsed;
  return parse_pds(from_hex(hex), parsed);
}

TEST(Pds, RequestsMatchTheByteExamples) {
  RudRequest request{.next = NextHeader::kRequestStandard,
                     .wants_ack = true,
                     .is_syn = true,
                     .clear_psn_offset = -1,
                     .psn = 0x12345,
                     .spdcid = 7};
  expect_vector(request, "118cffff 00012345 0007 0000");
  request = {.next = NextHeader::kRequestStandard,
             .is_retransmit = true,
             .wants_ack = true,
             .clear_psn_offset = -6,
             .psn = 0x1234a,
             .spdcid = 7,
             .dpdcid = 9};
  expect_vector(request, "1198fffa 0001234a 0007 0009");
  request.is_retransmit = false;
  request.has_cc_state = true;
  request.ccc_id = 0x5a;
  request.credit_target = 0x1234;
  expect_vector(request, "6988fffa 0001234a 0007 0009 5a001234");
}

TEST(Pds, CreditsMatchTheByteExamples) {
  expect_vector(Control{.type = ControlType::kCredit, .spdcid = 9, .dpdcid = 7, .payload = 0x1234},
                "5b800000 00000000 0009 0007 00001234");
  expect_vector(
      Control{.type = ControlType::kCreditRequest, .spdcid = 7, .dpdcid = 9, .payload = 0x2000},
      "5c000000 00000000 0007 0009 00002000");
}

TEST(Pds, AcknowledgementsMatchTheByteExamples) {
  expect_vector(Ack{.next = NextHeader::kResponse,
                    .is_marked = true,
                    .ack_psn_offset = 2,
                    .cack_psn = 0x12348,
                    .spdcid = 9,
                    .dpdcid = 7},
                "3a200002 00012348 0009 0007");
  const NsccState state{.service_time = 40,
                        .restores_window = true,
                        .window_penalty = 64,
                        .received_quanta = 0x102,
                        .out_of_order = 3};
  expect_vector(Ack{.next = NextHeader::kResponse,
                    .has_cc = true,
                    .mpr = 8,
                    .ack_psn_offset = 2,
                    .cack_psn = 0x12348,
                    .spdcid = 9,
                    .dpdcid = 7,
                    .sack_psn_offset = 2,
                    .sack_bitmap = 0b1011,
                    .ack_cc_state = pack(state)},
                "42000002 00012348 0009 0007 00 08 0002 000000000000000b 0028 c0 000102 0003");
}

TEST(Pds, NacksAndControlsMatchTheByteExamples) {
  expect_vector(Nack{.is_marked = true,
                     .is_retransmit = true,
                     .code = static_cast<std::uint8_t>(NackCode::kTrimmed),
                     .psn = 0x1234a,
                     .spdcid = 9,
                     .dpdcid = 7},
                "5030 01 00 0001234a 0009 0007 00000000");
  expect_vector(Control{.type = ControlType::kProbe,
                        .wants_ack = true,
                        .probe_opaque = 0xbeef,
                        .spdcid = 7,
                        .dpdcid = 9,
                        .payload = 0x12349},
                "5b08beef 00000000 0007 0009 00012349");
  expect_vector(Control{.type = ControlType::kCloseCommand,
                        .wants_ack = true,
                        .psn = 0x12360,
                        .spdcid = 7,
                        .dpdcid = 9},
                "5a080000 00012360 0007 0009 00000000");
}

TEST(Pds, EveryHeaderSurvivesARoundTrip) {
  Generator generate(1);
  for (int i = 0; i < 20000; ++i) {
    Pds parsed;
    const RudRequest request = generate.rud_request();
    ASSERT_EQ(parse_pds(encoded(request), parsed), ParseError::kOk);
    ASSERT_EQ(std::get<RudRequest>(parsed.header), request);
    const Ack ack = generate.ack();
    ASSERT_EQ(parse_pds(encoded(ack), parsed), ParseError::kOk);
    ASSERT_EQ(std::get<Ack>(parsed.header), ack);
    const Nack nack = generate.nack();
    ASSERT_EQ(parse_pds(encoded(nack), parsed), ParseError::kOk);
    ASSERT_EQ(std::get<Nack>(parsed.header), nack);
    const Control control = generate.control();
    ASSERT_EQ(parse_pds(encoded(control), parsed), ParseError::kOk);
    ASSERT_EQ(std::get<Control>(parsed.header), control);
    const NsccState state = generate.nscc_state();
    ASSERT_EQ(unpack_nscc(pack(state)), state);
  }
}

TEST(Pds, AnUsedObjectKeepsNothingOfTheLastPacket) {
  Pds parsed;
  const RudRequest syn{.is_syn = true, .has_cc_state = true, .credit_target = 5, .psn_offset = 9};
  ASSERT_EQ(parse_pds(encoded(syn), parsed), ParseError::kOk);
  const RudRequest plain{.psn = 3, .dpdcid = 4};
  ASSERT_EQ(parse_pds(encoded(plain), parsed), ParseError::kOk);
  EXPECT_EQ(std::get<RudRequest>(parsed.header), plain);
}

TEST(Pds, ValuesTooWideForTheirFieldAreCutAndSpoilNoOther) {
  const RudRequest wide{
      .is_syn = true, .has_cc_state = true, .credit_target = 0xff000001, .psn_offset = 0xf002};
  Pds parsed;
  ASSERT_EQ(parse_pds(encoded(wide), parsed), ParseError::kOk);
  EXPECT_EQ(std::get<RudRequest>(parsed.header).credit_target, 1U);
  EXPECT_EQ(std::get<RudRequest>(parsed.header).ccc_id, 0U);
  EXPECT_EQ(std::get<RudRequest>(parsed.header).psn_offset, 2U);
  const NsccState state =
      unpack_nscc(pack({.window_penalty = 0xff, .received_quanta = 0xff000001}));
  EXPECT_FALSE(state.restores_window);
  EXPECT_EQ(state.window_penalty, 0x7f);
  EXPECT_EQ(state.received_quanta, 1U);
}

TEST(Pds, RefusesTypesThatAreNeverSent) {
  // 0 reserved, 1 TSS, 3 ROD, 4 and 5 RUDI, 6 UUD, 9 ACK_CCX, 12 NACK_CCX, 14 ROD_CC, 15..31.
  const std::set<unsigned> known{2, 7, 8, 10, 11, 13};
  for (unsigned type = 0; type < 32; ++type) {
    std::vector<std::byte> packet(64);
    packet[0] = static_cast<std::byte>(type << 3);
    Pds parsed;
    const ParseError expected = known.contains(type) ? ParseError::kOk : ParseError::kUnknownType;
    EXPECT_EQ(parse_pds(packet, parsed), expected) << type;
  }
}

TEST(Pds, RefusesFlagsThatWouldChangeTheMeaningOfTheRest) {
  EXPECT_EQ(error_of("38400000 00000000 0000 0000 00000000"), ParseError::kBadField) << "EPSN";
  EXPECT_EQ(error_of("38060000 00000000 0000 0000"), ParseError::kBadField) << "REQ 3";
  EXPECT_EQ(error_of("50080000 00000000 0000 0000 00000000"), ParseError::kBadField) << "RUDI";
  EXPECT_EQ(error_of("58200000 00000000 0000 0000 00000000"), ParseError::kBadField) << "ROD";
  const std::string tail(40, '0');
  EXPECT_EQ(error_of("40000000 00000000 0000 0000 20" + tail), ParseError::kBadField) << "cc_type";
}

TEST(Pds, IgnoresReservedBits) {
  Pds parsed;
  ASSERT_EQ(parse_pds(from_hex("1063ffff 00012345 0007 0009"), parsed), ParseError::kOk);
  const RudRequest expected{.clear_psn_offset = -1, .psn = 0x12345, .spdcid = 7, .dpdcid = 9};
  EXPECT_EQ(std::get<RudRequest>(parsed.header), expected);
  // pdc_info of a SYN.
  ASSERT_EQ(parse_pds(from_hex("1004ffff 00012345 0007 f009"), parsed), ParseError::kOk);
  EXPECT_EQ(std::get<RudRequest>(parsed.header).psn_offset, 9U);
}

TEST(Pds, RefusesUnknownNextHeadersAndControls) {
  for (unsigned next = 0; next < 16; ++next) {
    const auto with_next = [next](unsigned type) {
      std::vector<std::byte> packet(64);
      const unsigned word = type << 11 | next << 7;
      packet[0] = static_cast<std::byte>(word >> 8);
      packet[1] = static_cast<std::byte>(word & 0xff);
      Pds parsed;
      return parse_pds(packet, parsed);
    };
    const auto expected = [](bool is_known, ParseError error) {
      return is_known ? ParseError::kOk : error;
    };
    constexpr ParseError kNext = ParseError::kUnknownNextHeader;
    EXPECT_EQ(with_next(2), expected(next <= 6, kNext)) << next;
    EXPECT_EQ(with_next(13), expected(next <= 6, kNext)) << next;
    EXPECT_EQ(with_next(7), expected(next == 0 || (next >= 4 && next <= 6), kNext)) << next;
    EXPECT_EQ(with_next(8), expected(next == 0 || (next >= 4 && next <= 6), kNext)) << next;
    EXPECT_EQ(with_next(10), expected(next == 0, kNext)) << next;
    EXPECT_EQ(with_next(11), expected(next <= 9, ParseError::kUnknownControl)) << next;
  }
}

TEST(Pds, ErrorsHaveDistinctNames) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ParseError::kBadField); ++i) {
    names.insert(to_string(static_cast<ParseError>(i)));
  }
  EXPECT_EQ(names.size(), 9U);
}

}  // namespace
}  // namespace spindrift::wire
