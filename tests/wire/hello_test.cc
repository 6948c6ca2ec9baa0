#include "transport/wire/hello.h"

#include <gtest/gtest.h>

#include "tests/wire/generate.h"
#include "tests/wire/hex.h"

namespace spindrift::wire {
namespace {

Hello sample_hello() {
  Hello hello;
  hello.kind = HelloKind::kConnect;
  hello.version_min = 1;
  hello.version_max = 2;
  hello.nonce = 0x0102030405060708;
  hello.payload_mtu = 4096;
  hello.path_count = 16;
  hello.window_packets = 4096;
  hello.max_reads = 64;
  return hello;
}

ParseError error_of(const Hello& hello) {
  Hello parsed;
  return parse(encoded(hello), parsed);
}

ParseError error_of(const std::vector<std::byte>& bytes) {
  Hello parsed;
  return parse(bytes, parsed);
}

// The fields of `hello` with these bytes before the end field.
std::vector<std::byte> with_field(const Hello& hello, std::string_view hex) {
  std::vector<std::byte> bytes = encoded(hello);
  const std::vector<std::byte> field = from_hex(hex);
  bytes.insert(bytes.end() - 4, field.begin(), field.end());
  return bytes;
}

// Without the field of this type.
std::vector<std::byte> without_field(const Hello& hello, unsigned type) {
  const std::vector<std::byte> bytes = encoded(hello);
  std::size_t at = 4;
  const auto u16 = [&](std::size_t offset) {
    return std::to_integer<unsigned>(bytes[offset]) << 8 |
           std::to_integer<unsigned>(bytes[offset + 1]);
  };
  std::vector<std::byte> kept(bytes.begin(), bytes.begin() + 4);
  while (at < bytes.size()) {
    const std::size_t end = at + 4 + u16(at + 2);
    if (u16(at) != type) {
      for (std::size_t i = at; i < end; ++i)
        kept.push_back(bytes[i]);
    }
    at = end;
  }
  return kept;
}

TEST(Hello, HasTheLayoutOfTheTable) {
  EXPECT_EQ(to_hex(encoded(sample_hello())),
            "53504401"
            "0001000101"                // kind
            "000200020001"              // lowest version
            "000300020002"              // highest version
            "000400080102030405060708"  // nonce
            "0006000400000000"          // partition key
            "0007000400001000"          // payload MTU
            "000800020010"              // paths
            "0009000100"                // congestion-control family
            "000a000100"                // CRC
            "000b00080000000000000000"  // host
            "000c00080000000000000000"  // receive buffer
            "000d000400000000"          // receive credits
            "000e000400001000"          // window
            "000f00020040"              // reads
            "001000080000000000000000"  // link rate
            "0011000100"                // progresses alone
            "00000000");
}

TEST(Hello, RailsAreFamilyPortAddressScope) {
  Hello hello = sample_hello();
  hello.rail_count = 1;
  hello.rails[0].family = 6;
  hello.rails[0].port = 0x12b9;
  hello.rails[0].ip[0] = 0xfe;
  hello.rails[0].ip[15] = 0x01;
  hello.rails[0].scope = 2;
  EXPECT_NE(to_hex(encoded(hello))
                .find("00120018"
                      "060012b9fe0000000000000000000000000000010000000200000000"),
            std::string::npos);
}

TEST(Hello, SurvivesARoundTrip) {
  Generator generate(3);
  for (int i = 0; i < 5000; ++i) {
    const Hello hello = generate.hello();
    const std::vector<std::byte> bytes = encoded(hello);
    ASSERT_LE(bytes.size(), kMaxHelloBytes);
    Hello parsed;
    ASSERT_EQ(parse(bytes, parsed), ParseError::kOk);
    ASSERT_EQ(parsed, hello);
  }
}

TEST(Hello, TheLargestOneFits) {
  Hello hello = sample_hello();
  hello.kind = HelloKind::kRefuse;
  hello.rail_count = kMaxHelloRails;
  hello.private_bytes = kMaxPrivateBytes;
  hello.set_reason(std::string(kMaxReasonBytes, 'r'));
  EXPECT_LE(encoded(hello).size(), kMaxHelloBytes);
}

TEST(Hello, IgnoresPaddingAfterTheEndField) {
  const Hello hello = sample_hello();
  std::vector<std::byte> bytes = encoded(hello);
  bytes.resize(4096);
  Hello parsed;
  ASSERT_EQ(parse(bytes, parsed), ParseError::kOk);
  EXPECT_EQ(parsed, hello);
}

TEST(Hello, SkipsUnknownFieldsEvenTwice) {
  const Hello hello = sample_hello();
  Hello parsed;
  ASSERT_EQ(parse(with_field(hello, "0017000401020304 00170000 ffff0001aa"), parsed),
            ParseError::kOk);
  EXPECT_EQ(parsed, hello);
}

TEST(Hello, RefusesDuplicatesAndWrongLengths) {
  const Hello hello = sample_hello();
  EXPECT_EQ(error_of(with_field(hello, "0001000101")), ParseError::kBadLength) << "twice";
  EXPECT_EQ(error_of(with_field(hello, "00120000 00120000")), ParseError::kBadLength);
  EXPECT_EQ(error_of(with_field(hello, "0005000101")), ParseError::kBadLength) << "too short";
  EXPECT_EQ(error_of(with_field(hello, "0005000901020304050607080900")), ParseError::kBadLength);
  EXPECT_EQ(error_of(with_field(hello, "0012000101")), ParseError::kBadLength) << "part of a rail";
  const std::string private_193 = "001300c1" + std::string(2 * 193, '0');
  EXPECT_EQ(error_of(with_field(hello, private_193)), ParseError::kBadLength);
  const std::string rails_17 = "00120198" + std::string(2 * 17 * 24, '0');
  EXPECT_EQ(error_of(with_field(hello, rails_17)), ParseError::kBadLength);
  EXPECT_EQ(error_of(with_field(hello, "0000000101")), ParseError::kBadLength)
      << "end with a value";
  EXPECT_EQ(error_of(with_field(hello, "0099ffff")), ParseError::kBadLength) << "past the packet";
}

TEST(Hello, RefusesAMissingEndOrARequiredField) {
  std::vector<std::byte> without_end = encoded(sample_hello());
  without_end.resize(without_end.size() - 4);
  EXPECT_EQ(error_of(without_end), ParseError::kTooShort);
  Hello accept = sample_hello();
  accept.kind = HelloKind::kAccept;
  accept.crc = 1;
  ASSERT_EQ(error_of(accept), ParseError::kOk);
  for (unsigned type = 1; type <= 17; ++type) {
    EXPECT_EQ(error_of(without_field(accept, type)), ParseError::kBadField) << "field " << type;
  }
}

TEST(Hello, RefusesAnotherMagicOrFormat) {
  std::vector<std::byte> bytes = encoded(sample_hello());
  bytes[1] = std::byte{'x'};
  EXPECT_EQ(error_of(bytes), ParseError::kBadField);
  bytes = encoded(sample_hello());
  bytes[3] = std::byte{2};
  EXPECT_EQ(error_of(bytes), ParseError::kBadVersion);
}

TEST(Hello, RefusesVersionsOutOfOrder) {
  Hello hello = sample_hello();
  hello.version_min = 3;
  EXPECT_EQ(error_of(hello), ParseError::kBadVersion);
  hello.version_min = 0;
  EXPECT_EQ(error_of(hello), ParseError::kBadVersion);
}

TEST(Hello, RefusesEveryValueOutsideItsBounds) {
  const auto error_with = [](auto change) {
    Hello hello = sample_hello();
    change(hello);
    return error_of(hello);
  };
  ASSERT_EQ(error_with([](Hello&) {}), ParseError::kOk);
  constexpr ParseError kBad = ParseError::kBadField;
  EXPECT_EQ(error_with([](Hello& h) { h.kind = static_cast<HelloKind>(0); }), kBad);
  EXPECT_EQ(error_with([](Hello& h) { h.kind = static_cast<HelloKind>(4); }), kBad);
  for (const std::uint32_t mtu : {0U, 384U, 513U, 1400U, 16257U, 16384U, 0xffffff80U}) {
    EXPECT_EQ(error_with([mtu](Hello& h) { h.payload_mtu = mtu; }), kBad) << mtu;
  }
  for (const unsigned paths : {0U, 257U, 0xffffU}) {
    EXPECT_EQ(error_with([paths](Hello& h) { h.path_count = static_cast<std::uint16_t>(paths); }),
              kBad)
        << paths;
  }
  for (const std::uint32_t window : {0U, 127U, 129U, 32768U, 0xffffff80U}) {
    EXPECT_EQ(error_with([window](Hello& h) { h.window_packets = window; }), kBad) << window;
  }
  EXPECT_EQ(error_with([](Hello& h) { h.max_reads = 1025; }), kBad);
  EXPECT_EQ(error_with([](Hello& h) { h.cc_family = static_cast<CcFamily>(2); }), kBad);
  EXPECT_EQ(error_with([](Hello& h) { h.crc = 3; }), kBad);
  EXPECT_EQ(error_of(with_field(sample_hello(), "000500080000000000000001")), kBad)
      << "an echo in a first HELLO";
  std::vector<std::byte> bytes = encoded(sample_hello());
  bytes[bytes.size() - 5] = std::byte{2};
  EXPECT_EQ(error_of(bytes), kBad) << "a boolean of 2";
}

TEST(Hello, AnAcceptMustDecideOnTheCrc) {
  Hello hello = sample_hello();
  hello.kind = HelloKind::kAccept;
  hello.crc = 0;
  EXPECT_EQ(error_of(hello), ParseError::kBadField);
  hello.crc = 2;
  EXPECT_EQ(error_of(hello), ParseError::kOk);
}

TEST(Hello, RefusesRailsThatAreNoAddress) {
  const auto error_with = [](auto change) {
    Hello hello = sample_hello();
    hello.rail_count = 1;
    hello.rails[0].family = 4;
    hello.rails[0].ip[0] = 10;
    hello.rails[0].port = 4793;
    change(hello.rails[0]);
    return error_of(hello);
  };
  ASSERT_EQ(error_with([](NetAddress&) {}), ParseError::kOk);
  EXPECT_EQ(error_with([](NetAddress& rail) { rail.family = 5; }), ParseError::kBadField);
  EXPECT_EQ(error_with([](NetAddress& rail) { rail.port = 0; }), ParseError::kBadField);
  EXPECT_EQ(error_with([](NetAddress& rail) { rail.ip[0] = 0; }), ParseError::kBadField);
  EXPECT_EQ(error_with([](NetAddress& rail) { rail.ip[4] = 1; }), ParseError::kBadField);
  EXPECT_EQ(error_with([](NetAddress& rail) { rail.scope = 1; }), ParseError::kBadField);
}

TEST(Hello, ARefusalMayHaveReasonsWeDoNotKnow) {
  Hello hello = sample_hello();
  hello.kind = HelloKind::kRefuse;
  hello.payload_mtu = 0;
  hello.refuse_code = static_cast<RefuseCode>(200);
  hello.set_reason("out of luck");
  Hello parsed;
  ASSERT_EQ(parse(encoded(hello), parsed), ParseError::kOk);
  EXPECT_EQ(parsed.refuse_code, RefuseCode::kOther);
  EXPECT_EQ(parsed.reason_text(), "out of luck");
}

TEST(Hello, CutsReasonsBetweenCharacters) {
  Hello hello;
  hello.set_reason(std::string(199, 'a') + "\u00e4 and more");
  EXPECT_EQ(hello.reason_text(), std::string(199, 'a'));
  hello.set_reason(std::string(198, 'a') + "\u00e4 and more");
  EXPECT_EQ(hello.reason_text(), std::string(198, 'a') + "\u00e4");
  hello.set_reason("short");
  EXPECT_EQ(hello.reason_text(), "short");
  EXPECT_EQ(hello.reason[5], '\0') << "nothing is left of the longer one";
}

}  // namespace
}  // namespace spindrift::wire
