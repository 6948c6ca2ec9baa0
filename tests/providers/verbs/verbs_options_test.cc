// What verbs:// addresses and NCCL's variables say.
#include "providers/verbs/verbs_options.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<VerbsOptions> parse(const std::string& url, const Variables& variables = {}) {
  return parse_verbs_options(parse_url(url).value(), [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const std::string& url, const Variables& variables = {}) {
  const auto parsed = parse(url, variables);
  return parsed.ok() ? "" : parsed.error().message();
}

TEST(VerbsOptionsTest, DevicesAndOptionsAreRead) {
  const auto parsed = parse(
      "verbs://mlx5_0:1,mlx5_1?gid=3&port=4793&lanes=16&transport=ud&mtu=1024&tc=104&sl=3&pkey=1&"
      "timeout=18&retry=7&buffers=128&read_from=4096&reads=4&relaxed=on");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const VerbsOptions& options = parsed.value();
  ASSERT_EQ(options.devices.size(), 2U);
  EXPECT_EQ(options.devices[0].to_string(), "mlx5_0:1");
  EXPECT_EQ(options.devices[1].to_string(), "mlx5_1");
  EXPECT_EQ(options.gid_index, 3U);
  EXPECT_EQ(options.gid_origin, "gid=3");
  EXPECT_EQ(options.port, 4793U);
  EXPECT_EQ(options.lanes, 16U);
  EXPECT_EQ(options.transport, VerbsTransport::kUd);
  EXPECT_EQ(options.mtu, 1024U);
  EXPECT_EQ(options.traffic_class, 104U);
  EXPECT_EQ(options.service_level, 3U);
  EXPECT_EQ(options.pkey_index, 1U);
  EXPECT_EQ(options.timeout, 18U);
  EXPECT_EQ(options.retries, 7U);
  EXPECT_EQ(options.buffers, 128U);
  EXPECT_EQ(options.read_from, 4096U);
  EXPECT_EQ(options.reads, 4U);
  EXPECT_EQ(options.relaxed_ordering, RelaxedOrdering::kOn);
}

TEST(VerbsOptionsTest, DefaultsAreThoseOfTheTable) {
  const VerbsOptions options = parse("verbs://auto").value();
  EXPECT_TRUE(options.devices.empty());
  EXPECT_FALSE(options.gid_index);
  for (const VerbsOptionInfo& info : verbs_option_infos()) {
    if (info.max == 0) continue;
    std::string url = "verbs://auto?";
    url.append(info.name).append("=").append(info.default_value);
    EXPECT_TRUE(parse(url).ok()) << url;
  }
}

TEST(VerbsOptionsTest, AGidIsAnIndexAnAddressOrLeftToTheLibrary) {
  EXPECT_FALSE(parse("verbs://auto?gid=auto").value().gid_index);
  const auto by_address = parse("verbs://auto?gid=10.0.0.1").value();
  ASSERT_TRUE(by_address.gid_address);
  EXPECT_EQ(by_address.gid_address->to_string(), "10.0.0.1:0");
  EXPECT_EQ(parse("verbs://auto?gid=fd00::1").value().gid_address->to_string(), "[fd00::1]:0");
  EXPECT_THAT(refusal("verbs://auto?gid=eth0"), HasSubstr("an index as in 3"));
}

TEST(VerbsOptionsTest, VariablesOfNcclMeanTheSameAndGiveWayToTheAddress) {
  const Variables variables = {{"NCCL_IB_GID_INDEX", "3"},
                               {"NCCL_IB_TC", "106"},
                               {"NCCL_IB_SL", "2"},
                               {"NCCL_IB_TIMEOUT", "20"},
                               {"NCCL_IB_RETRY_CNT", "5"},
                               {"NCCL_IB_HCA", "=mlx5_1:1"},
                               {"NCCL_IB_PCI_RELAXED_ORDERING", "0"}};
  const VerbsOptions options = parse("verbs://auto?tc=8", variables).value();
  EXPECT_EQ(options.gid_index, 3U);
  EXPECT_EQ(options.gid_origin, "NCCL_IB_GID_INDEX=3");
  EXPECT_EQ(options.traffic_class, 8U);
  EXPECT_EQ(options.service_level, 2U);
  EXPECT_EQ(options.timeout, 20U);
  EXPECT_EQ(options.retries, 5U);
  EXPECT_EQ(options.relaxed_ordering, RelaxedOrdering::kOff);
  EXPECT_TRUE(options.filter.lets("mlx5_1", 1));
  EXPECT_FALSE(options.filter.lets("mlx5_10", 1));
  // NCCL's way to leave it to the library.
  EXPECT_FALSE(parse("verbs://auto", {{"NCCL_IB_GID_INDEX", "-1"}}).value().gid_index);
  EXPECT_THAT(refusal("verbs://auto", {{"NCCL_IB_TC", "300"}}),
              HasSubstr("NCCL_IB_TC=300: it is a number of 0..255"));
}

TEST(VerbsOptionsTest, FiltersOfDevicesAreNccls) {
  const HcaFilter begins = parse_hca_filter("mlx5_1,mlx5_3:2");
  EXPECT_TRUE(begins.lets("mlx5_1", 1));
  EXPECT_TRUE(begins.lets("mlx5_10", 1));
  EXPECT_TRUE(begins.lets("mlx5_3", 2));
  EXPECT_FALSE(begins.lets("mlx5_3", 1));
  EXPECT_FALSE(begins.lets("mlx5_0", 1));
  const HcaFilter all_but = parse_hca_filter("^=mlx5_1");
  EXPECT_FALSE(all_but.lets("mlx5_1", 1));
  EXPECT_TRUE(all_but.lets("mlx5_10", 1));
  EXPECT_TRUE(parse_hca_filter("").lets("anything", 1));
}

TEST(VerbsOptionsTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("verbs://auto?lane=3"),
              HasSubstr("no option 'lane'; it knows transport, gid"));
  EXPECT_THAT(refusal("verbs://auto?lanes=65"), HasSubstr("lanes=65: it is a number of 1..64"));
  EXPECT_THAT(refusal("verbs://auto?transport=xrc"), HasSubstr("it is rc, uc or ud"));
  EXPECT_EQ(parse("verbs://auto?cm=rdma").value().meeting, VerbsMeeting::kRdmaCm);
  EXPECT_THAT(refusal("verbs://auto?cm=udp"), HasSubstr("it is tcp or rdma"));
  EXPECT_THAT(refusal("verbs://auto?cm=rdma&transport=uc"), HasSubstr("goes with transport=rc"));
  EXPECT_THAT(refusal("verbs://auto?relaxed=maybe"), HasSubstr("off (0), on (1) or auto (2)"));
  EXPECT_THAT(refusal("verbs://mlx5_0:0"), HasSubstr("as in verbs://mlx5_0:1"));
  EXPECT_THAT(refusal("verbs://mlx5_0,mlx5_0"), HasSubstr("named twice"));
}

}  // namespace
}  // namespace spindrift
