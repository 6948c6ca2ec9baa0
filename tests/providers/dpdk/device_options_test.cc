#include "providers/dpdk/device_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

Result<std::vector<DeviceOptions>> parse(const std::string& text) {
  return parse_device_options(parse_url(text).value());
}

std::string refusal(const std::string& text) {
  const auto parsed = parse(text);
  EXPECT_FALSE(parsed.ok()) << text;
  if (parsed.ok()) return {};
  EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidArgument);
  return parsed.error().message();
}

TEST(DeviceOptions, AreReadAsDocumented) {
  const auto parsed = parse(
      "dpdk://0000:3b:00.0?ip=10.0.0.1/24,fd00::1/64&gateway=10.0.0.254,fd00::fe&vlan=7&mtu=9000"
      "&queues=4&ring=2048&mbufs=9999&port=4793&mac=02:00:00:00:00:0a&neighbor=10.0.0.2@02:00:00:"
      "00:00:02"
      "&neighbor_ms=500&checksum=on&payload=copy");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const DeviceOptions& one = parsed.value().at(0);
  EXPECT_EQ(one.device, "0000:3b:00.0");
  ASSERT_EQ(one.nets.size(), 2U);
  EXPECT_EQ(one.nets[0].address.to_string(), "10.0.0.1:0");
  EXPECT_EQ(one.nets[1].prefix_bits, 64);
  ASSERT_EQ(one.gateways.size(), 2U);
  EXPECT_EQ(one.gateways[1].to_string(), "[fd00::fe]:0");
  EXPECT_EQ(one.port, 4793U);
  EXPECT_EQ(one.vlan, 7U);
  EXPECT_EQ(one.mtu, 9000U);
  EXPECT_EQ(one.queues, 4U);
  EXPECT_EQ(one.ring, 2048U);
  EXPECT_EQ(one.mbufs, 9999U);
  EXPECT_EQ(to_string(one.mac), "02:00:00:00:00:0a");
  EXPECT_EQ(to_string(one.neighbors.at(0).mac), "02:00:00:00:00:02");
  EXPECT_EQ(one.neighbor_ms, 500U);
  EXPECT_EQ(one.checksum, ChecksumChoice::kOn);
  EXPECT_EQ(one.payload, PayloadChoice::kCopy);
}

TEST(DeviceOptions, BelongToDevicesInTheirOrder) {
  const auto parsed = parse(
      "dpdk://net_a,net_b?ip=10.0.0.1/24|10.1.0.1/24&args=role=server,x=1|role=client&mtu=4096");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  ASSERT_EQ(parsed.value().size(), 2U);
  EXPECT_EQ(parsed.value()[0].arguments, "role=server,x=1");
  EXPECT_EQ(parsed.value()[1].arguments, "role=client");
  EXPECT_EQ(parsed.value()[1].nets.at(0).address.to_string(), "10.1.0.1:0");
  EXPECT_EQ(parsed.value()[1].mtu, 4096U);
}

TEST(DeviceOptions, NameWhatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&color=red"), HasSubstr("'color'"));
  EXPECT_THAT(refusal("dpdk://"), HasSubstr("names a device"));
  EXPECT_THAT(refusal("dpdk://net_a"), HasSubstr("?ip="));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1"), HasSubstr("prefix"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/33"), HasSubstr("0..32"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=localhost/8"), HasSubstr("numeric"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=224.0.0.1/8"), HasSubstr("no address of one host"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24,10.0.0.1/8"), HasSubstr("twice"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&mtu=100"), HasSubstr("mtu=100"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&mtu=9k"), HasSubstr("1280..65000"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&vlan=4095"), HasSubstr("0..4094"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&mac=01:00:5e:00:00:01"), HasSubstr("mac="));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&neighbor=10.0.0.2"), HasSubstr("IP@MAC"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&checksum=yes"), HasSubstr("auto, on or off"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&payload=no"), HasSubstr("copy or in_place"));
  EXPECT_THAT(refusal("dpdk://net_a?ip=10.0.0.1/24&gateway=10.9.0.1"), HasSubstr("gateway"));
  EXPECT_THAT(refusal("dpdk://net_a,net_b?ip=10.0.0.1/24"), HasSubstr("same address"));
  EXPECT_THAT(refusal("dpdk://net_a,net_b?ip=1.0.0.1/24|2.0.0.1/24|3.0.0.1/24"),
              HasSubstr("2 devices"));
  EXPECT_THAT(refusal("dpdk://net_a,net_a?ip=1.0.0.1/24|2.0.0.1/24"), HasSubstr("twice"));
}

TEST(DeviceOptions, EveryOptionSaysWhatItIs) {
  for (const DeviceOptionInfo& info : device_option_infos()) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_LE(info.min, info.max) << info.name;
  }
}

TEST(LocalNet, ContainsWhatSharesItsPrefix) {
  const auto net = [](const std::string& text) {
    return parse("dpdk://net_a?ip=" + text).value().at(0).nets.at(0);
  };
  const auto ip = [](const std::string& text) { return parse_net_address(text, 0).value(); };
  EXPECT_TRUE(net("10.0.1.1/23").contains(ip("10.0.0.7")));
  EXPECT_FALSE(net("10.0.1.1/24").contains(ip("10.0.0.7")));
  EXPECT_TRUE(net("10.0.1.1/0").contains(ip("192.168.0.7")));
  EXPECT_FALSE(net("10.0.1.1/32").contains(ip("10.0.1.2")));
  EXPECT_TRUE(net("fd00::1/64").contains(ip("[fd00::ffff]:0")));
  EXPECT_FALSE(net("fd00::1/64").contains(ip("[fd00:0:0:1::1]:0")));
  EXPECT_FALSE(net("10.0.1.1/0").contains(ip("[fd00::1]:0")));
}

}  // namespace
}  // namespace spindrift
