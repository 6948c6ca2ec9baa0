#include "transport/wire/ses.h"

#include <gtest/gtest.h>

#include "tests/wire/generate.h"
#include "tests/wire/hex.h"

namespace spindrift::wire {
namespace {

template <class Header>
void expect_vector(const Header& header, std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  EXPECT_EQ(to_hex(encoded(header)), to_hex(bytes));
  Header parsed;
  std::size_t length = 0;
  ASSERT_EQ(parse(bytes, parsed, length), ParseError::kOk);
  EXPECT_EQ(length, bytes.size());
  EXPECT_EQ(parsed, header);
}

template <class Header>
void expect_round_trip(const Header& header) {
  const std::vector<std::byte> bytes = encoded(header);
  Header parsed;
  std::size_t length = 0;
  ASSERT_EQ(parse(bytes, parsed, length), ParseError::kOk);
  ASSERT_EQ(length, bytes.size());
  ASSERT_EQ(parsed, header);
}

template <class Header>
ParseError error_of(std::string_view hex) {
  Header parsed;
  std::size_t length = 0;
  return parse(from_hex(hex), parsed, length);
}

TEST(Ses, StandardRequestMatchesTheByteExample) {
  expect_vector(StandardRequest{.opcode = Opcode::kWrite,
                                .has_header_data = true,
                                .is_som = true,
                                .message_id = 0x1234,
                                .job_id = 0xabcd,
                                .pid_on_fep = 5,
                                .resource_index = 3,
                                .buffer_offset = 0x1000,
                                .initiator = 0x77,
                                .key = 0xdead,
                                .header_data = 0x55aa,
                                .request_length = 8192},
                "01051234 0000abcd 0005 0003 0000000000001000 00000077 000000000000dead "
                "00000000000055aa 00002000");
}

TEST(Ses, LaterPacketsOfAMessageCarryLengthAndOffsetInstead) {
  expect_vector(StandardRequest{.opcode = Opcode::kSend,
                                .is_eom = true,
                                .message_id = 0x1234,
                                .initiator = 0x77,
                                .payload_length = 0x3f80,
                                .message_offset = 0x01020304,
                                .request_length = 0x01024284},
                "05021234 00000000 0000 0000 0000000000000000 00000077 0000000000000000 "
                "00003f80 01020304 01024284");
}

TEST(Ses, SmallRequestIsTheCommonPartAndAnOffset) {
  expect_vector(SmallRequest{.opcode = Opcode::kRead,
                             .delivery_complete = true,
                             .initiator_error = true,
                             .is_relative = true,
                             .is_som = true,
                             .request_length = 0x3fff,
                             .ri_generation = 0x12,
                             .job_id = 0x345678,
                             .pid_on_fep = 0xfff,
                             .resource_index = 0xabc,
                             .buffer_offset = 0x0102030405060708},
                "02393fff 12345678 0fff 0abc 0102030405060708");
}

TEST(Ses, AtomicExtensionsCarry64BitsAtTheEndOf16Bytes) {
  expect_vector(AtomicExtension{.opcode = AtomicOpcode::kSum}, "02070000");
  expect_vector(AtomicExtension{.opcode = AtomicOpcode::kCompareSwap,
                                .compare = 0x0102030405060708,
                                .swap = 0x1112131415161718},
                "0d070000 0000000000000000 0102030405060708 0000000000000000 1112131415161718");
}

TEST(Ses, ResponsesHaveTheirPublishedLayout) {
  expect_vector(Response{.list = 1,
                         .opcode = ResponseOpcode::kResponse,
                         .return_code = static_cast<std::uint8_t>(ReturnCode::kTooLong),
                         .message_id = 0x1234,
                         .ri_generation = 0x56,
                         .job_id = 0x789abc,
                         .modified_length = 0xdef01234},
                "41221234 56789abc def01234");
  expect_vector(ResponseData{.message_id = 0x1234,
                             .ri_generation = 0x56,
                             .job_id = 0x789abc,
                             .read_message_id = 0x4321,
                             .payload_length = 0x3f80,
                             .modified_length = 0x01020304,
                             .message_offset = 0x05060708},
                "02011234 56789abc 4321 3f80 01020304 05060708");
  expect_vector(
      ResponseDataSmall{.payload_length = 8, .job_id = 0x789abc, .request_psn = 0x01020304},
      "02010008 00789abc 01020304");
}

TEST(Ses, EveryHeaderSurvivesARoundTrip) {
  Generator generate(2);
  for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) {
    expect_round_trip(generate.standard_request());
    expect_round_trip(generate.small_request());
    expect_round_trip(generate.atomic_extension());
    expect_round_trip(generate.response());
    expect_round_trip(generate.response_data());
    expect_round_trip(generate.response_data_small());
  }
}

TEST(Ses, RefusesOtherVersions) {
  const std::string zeros(100, '0');
  for (const char* version : {"40", "80", "c0"}) {
    const std::string hex = std::string("01") + version + zeros;
    EXPECT_EQ(error_of<StandardRequest>(hex), ParseError::kBadVersion);
    EXPECT_EQ(error_of<SmallRequest>(hex), ParseError::kBadVersion);
    EXPECT_EQ(error_of<Response>(hex), ParseError::kBadVersion);
    EXPECT_EQ(error_of<ResponseData>(hex), ParseError::kBadVersion);
    EXPECT_EQ(error_of<ResponseDataSmall>(hex), ParseError::kBadVersion);
  }
}

TEST(Ses, RefusesOpcodesItDoesNotKnow) {
  const std::string zeros(100, '0');
  for (unsigned opcode = 0; opcode < 64; ++opcode) {
    const std::byte byte{static_cast<unsigned char>(opcode)};
    const std::string hex = to_hex({&byte, 1}) + zeros;
    const ParseError request = opcode <= 5 ? ParseError::kOk : ParseError::kUnknownOpcode;
    EXPECT_EQ(error_of<StandardRequest>(hex), request) << opcode;
    EXPECT_EQ(error_of<SmallRequest>(hex), request) << opcode;
    const ParseError response = opcode <= 3 ? ParseError::kOk : ParseError::kUnknownOpcode;
    EXPECT_EQ(error_of<Response>(hex), response) << opcode;
    EXPECT_EQ(error_of<ResponseData>(hex), response) << opcode;
    EXPECT_EQ(error_of<ResponseDataSmall>(hex), response) << opcode;
    const bool is_atomic = opcode == 2 || opcode == 0x0d;
    EXPECT_EQ(error_of<AtomicExtension>(hex),
              is_atomic ? ParseError::kOk : ParseError::kUnknownOpcode)
        << opcode;
  }
}

TEST(Ses, RefusesAtomicOperandsWiderThan64Bits) {
  const std::string zeros16(32, '0');
  EXPECT_EQ(error_of<AtomicExtension>("0d070000" + zeros16 + zeros16), ParseError::kOk);
  EXPECT_EQ(error_of<AtomicExtension>("0d070000 01" + zeros16 + zeros16), ParseError::kBadField);
  EXPECT_EQ(error_of<AtomicExtension>("0d070000" + zeros16 + "0000000000000001" + zeros16),
            ParseError::kBadField);
}

TEST(Ses, ValuesTooWideForTheirFieldAreCutAndSpoilNoOther) {
  const StandardRequest wide{.is_eom = true,
                             .ri_generation = 0,
                             .job_id = 0xff000001,
                             .pid_on_fep = 0xf002,
                             .resource_index = 0xf003,
                             .payload_length = 0xc004};
  StandardRequest parsed;
  std::size_t length = 0;
  ASSERT_EQ(parse(encoded(wide), parsed, length), ParseError::kOk);
  const StandardRequest expected{
      .is_eom = true, .job_id = 1, .pid_on_fep = 2, .resource_index = 3, .payload_length = 4};
  EXPECT_EQ(parsed, expected);
}

}  // namespace
}  // namespace spindrift::wire
