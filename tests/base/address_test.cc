#include "spindrift/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::uint16_t kPort = 99;

std::string round_trip(std::string_view text) {
  const Result<NetAddress> address = parse_net_address(text, kPort);
  return address.ok() ? address.value().to_string() : "refused: " + address.error().message();
}

std::string refusal_of(std::string_view text) {
  const Result<NetAddress> address = parse_net_address(text, kPort);
  if (address.ok()) return "accepted as " + address.value().to_string();
  EXPECT_EQ(address.error().code(), ErrorCode::kInvalidArgument);
  return address.error().message();
}

std::string url_refusal_of(std::string_view text) {
  const Result<Url> url = parse_url(text);
  return url.ok() ? "accepted" : url.error().message();
}

TEST(NetAddress, ReadsIpv4WithAndWithoutPort) {
  EXPECT_EQ(round_trip("10.0.0.1"), "10.0.0.1:99");
  EXPECT_EQ(round_trip("10.0.0.1:4793"), "10.0.0.1:4793");
  EXPECT_EQ(round_trip("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(round_trip("255.255.255.255:65535"), "255.255.255.255:65535");
}

TEST(NetAddress, ReadsIpv6WithAndWithoutPort) {
  EXPECT_EQ(round_trip("::1"), "[::1]:99");
  EXPECT_EQ(round_trip("[::1]"), "[::1]:99");
  EXPECT_EQ(round_trip("[fd00::12]:4793"), "[fd00::12]:4793");
  EXPECT_EQ(round_trip("::"), "[::]:99");
}

TEST(NetAddress, KeepsTheScopeOfLinkLocalAddresses) {
  const Result<NetAddress> by_name = parse_net_address("[fe80::1%lo]:7", kPort);
  ASSERT_TRUE(by_name.ok()) << by_name.error().message();
  EXPECT_NE(by_name.value().scope, 0U);
  const std::string text = by_name.value().to_string();
  EXPECT_EQ(text, "[fe80::1%" + std::to_string(by_name.value().scope) + "]:7");
  const Result<NetAddress> by_number = parse_net_address(text, kPort);
  ASSERT_TRUE(by_number.ok()) << by_number.error().message();
  EXPECT_EQ(by_number.value(), by_name.value());
}

TEST(NetAddress, PutsIpv4IntoTheFirstFourBytes) {
  const Result<NetAddress> address = parse_net_address("1.2.3.4:258", kPort);
  ASSERT_TRUE(address.ok());
  const std::array<std::uint8_t, 16> expected{1, 2, 3, 4};
  EXPECT_EQ(address.value().ip, expected);
  EXPECT_EQ(address.value().port, 258);
  EXPECT_EQ(address.value().family, 4);
}

TEST(NetAddress, LooksUpHostNames) {
  const Result<NetAddress> address = parse_net_address("localhost:4793", kPort);
  ASSERT_TRUE(address.ok()) << address.error().message();
  EXPECT_TRUE(address.value().is_loopback());
  EXPECT_EQ(address.value().port, 4793);
}

TEST(NetAddress, RefusesWithTheTextAndTheRemedy) {
  EXPECT_THAT(refusal_of(""), HasSubstr("names no host"));
  EXPECT_THAT(refusal_of(":4793"), AllOf(HasSubstr("':4793'"), HasSubstr("names no host")));
  EXPECT_THAT(refusal_of("[]:1"), HasSubstr("names no host"));
  EXPECT_THAT(refusal_of("10.0.0.1:"), HasSubstr("0..65535"));
  EXPECT_THAT(refusal_of("10.0.0.1:65536"), AllOf(HasSubstr("'65536'"), HasSubstr("0..65535")));
  EXPECT_THAT(refusal_of("10.0.0.1:-1"), HasSubstr("0..65535"));
  EXPECT_THAT(refusal_of("10.0.0.1:47x"), HasSubstr("'47x'"));
  EXPECT_THAT(refusal_of("[::1"), HasSubstr("closing bracket"));
  EXPECT_THAT(refusal_of("[::1]4793"), HasSubstr("'4793' after the bracket"));
  EXPECT_THAT(refusal_of("fe80::zz"), AllOf(HasSubstr("'fe80::zz'"), HasSubstr("IPv6")));
  EXPECT_THAT(refusal_of("fe80::1%nosuchport"), HasSubstr("IPv6"));
  EXPECT_THAT(refusal_of(std::string_view("local\0host", 10)), HasSubstr("zero byte"));
}

TEST(NetAddress, NeverLooksUpWhatLooksLikeANumber) {
  EXPECT_THAT(refusal_of("10.0.0.256"), HasSubstr("four numbers"));
  EXPECT_THAT(refusal_of("10.1"), HasSubstr("four numbers"));
  EXPECT_THAT(refusal_of("127"), HasSubstr("four numbers"));
}

TEST(NetAddress, KnowsLoopback) {
  const auto is_loopback = [](std::string_view text) {
    const Result<NetAddress> address = parse_net_address(text, kPort);
    return address.ok() && address.value().is_loopback();
  };
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.9.9.9"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_TRUE(is_loopback("::ffff:127.0.0.1"));
  EXPECT_FALSE(is_loopback("128.0.0.1"));
  EXPECT_FALSE(is_loopback("::2"));
  EXPECT_FALSE(is_loopback("::ffff:10.0.0.1"));
  EXPECT_FALSE(NetAddress{}.is_loopback());
}

TEST(NetAddress, PrintsAnUnsetAddressAsSuch) {
  EXPECT_EQ(NetAddress{}.to_string(), "(no address)");
}

TEST(Url, SplitsProviderRailsAndOptions) {
  const Result<Url> url = parse_url("udp://10.0.0.1:4793,[::1]:5?burst=32768&mode=a=b");
  ASSERT_TRUE(url.ok()) << url.error().message();
  EXPECT_EQ(url.value().scheme, "udp");
  EXPECT_THAT(url.value().hosts, ElementsAre("10.0.0.1:4793", "[::1]:5"));
  EXPECT_THAT(url.value().options, ElementsAre(Pair("burst", "32768"), Pair("mode", "a=b")));
}

TEST(Url, MayNameNoHost) {
  const Result<Url> url = parse_url("udp://");
  ASSERT_TRUE(url.ok());
  EXPECT_THAT(url.value().hosts, IsEmpty());
  const Result<Url> with_option = parse_url("udp://?burst=");
  ASSERT_TRUE(with_option.ok());
  EXPECT_THAT(with_option.value().hosts, IsEmpty());
  EXPECT_THAT(with_option.value().options, ElementsAre(Pair("burst", "")));
}

TEST(Url, RefusesWithTheTextAndTheRemedy) {
  EXPECT_THAT(url_refusal_of("10.0.0.1:4793"),
              AllOf(HasSubstr("'10.0.0.1:4793'"), HasSubstr("udp://10.0.0.1:4793")));
  EXPECT_THAT(url_refusal_of("://10.0.0.1"), HasSubstr("begin with a provider"));
  EXPECT_THAT(url_refusal_of("udp://a,,b"), HasSubstr("empty address"));
  EXPECT_THAT(url_refusal_of("udp://a,"), HasSubstr("empty address"));
  EXPECT_THAT(url_refusal_of("udp://a?"), HasSubstr("name=value"));
  EXPECT_THAT(url_refusal_of("udp://a?burst"), HasSubstr("'burst'"));
  EXPECT_THAT(url_refusal_of("udp://a?=3"), HasSubstr("name=value"));
  EXPECT_THAT(url_refusal_of("udp://a?b=1&b=2"), HasSubstr("'b' twice"));
}

}  // namespace
}  // namespace spindrift
