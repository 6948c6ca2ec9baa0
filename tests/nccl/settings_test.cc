#include "plugins/nccl/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift::nccl {
namespace {

using testing::Contains;
using testing::HasSubstr;

PluginSettings settings(std::vector<std::string> environment) {
  const auto loaded =
      load_plugin_settings({.files = {}, .needs_files = false, .environment = environment});
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message());
  return loaded.value();
}

std::string refusal(const std::string& entry) {
  const auto loaded =
      load_plugin_settings({.files = {}, .needs_files = false, .environment = {entry}});
  return loaded.ok() ? "taken" : loaded.error().message();
}

TEST(PluginSettings, DefaultsNoticeADeadPeerWithinFiveSeconds) {
  const PluginSettings plain = settings({});
  EXPECT_LT(plain.connect.silence_limit + plain.connect.keepalive, std::chrono::seconds(5));
  EXPECT_TRUE(plain.open.endpoint.has_guardian);
  EXPECT_TRUE(plain.has_shm);
  EXPECT_TRUE(plain.keeps_ll128);
  EXPECT_EQ(plain.threads, 0U);
}

TEST(PluginSettings, TransportTunablesCountAsEverywhere) {
  const PluginSettings told = settings({"SPINDRIFT_PATH_COUNT=7", "SPINDRIFT_SILENCE_LIMIT=9s",
                                        "SPINDRIFT_CONGESTION_CONTROL=dcqcn"});
  EXPECT_EQ(told.connect.path_count, 7U);
  EXPECT_EQ(told.connect.silence_limit, std::chrono::seconds(9));
  EXPECT_EQ(told.connect.congestion_control, "dcqcn");
}

TEST(PluginSettings, MergedDevicesStripeByMeasurementUnlessTheUserChose) {
  EXPECT_EQ(settings({}).merged_path_selector, "least_rtt");
  EXPECT_EQ(settings({"SPINDRIFT_PATH_SELECTOR=bitmap"}).merged_path_selector, "bitmap");
}

TEST(PluginSettings, NcclsOwnVariablesCountWhereOursAreNotSet) {
  const PluginSettings told = settings({"NCCL_IB_TC=106", "NCCL_IB_QPS_PER_CONNECTION=4",
                                        "NCCL_IB_TIMEOUT=20", "NCCL_IB_RETRY_CNT=7"});
  EXPECT_EQ(told.connect.dscp, 26);
  EXPECT_EQ(told.connect.path_count, 4U);
  EXPECT_EQ(told.connect.silence_limit, Duration(std::int64_t{4096} * (1 << 20) * 7));
  const PluginSettings both = settings({"NCCL_IB_TC=106", "SPINDRIFT_DSCP=3",
                                        "NCCL_IB_QPS_PER_CONNECTION=4", "SPINDRIFT_PATH_COUNT=8"});
  EXPECT_EQ(both.connect.dscp, 3);
  EXPECT_EQ(both.connect.path_count, 8U);
}

TEST(PluginSettings, OurFilterStandsAboveNccls) {
  const PluginSettings told =
      settings({"NCCL_SOCKET_IFNAME=eth0", "NCCL_IB_HCA=mlx5", "SPINDRIFT_NCCL_IFNAME=eth1,eth2"});
  EXPECT_EQ(told.devices.interfaces, "eth1,eth2");
  EXPECT_EQ(told.devices.adapters, "");
  const PluginSettings nccl = settings({"NCCL_SOCKET_IFNAME=^lo", "NCCL_IB_HCA==mlx5_0"});
  EXPECT_EQ(nccl.devices.interfaces, "^lo");
  EXPECT_EQ(nccl.devices.adapters, "=mlx5_0");
  EXPECT_EQ(settings({"NCCL_SOCKET_FAMILY=AF_INET6"}).devices.family, 6);
}

TEST(PluginSettings, RdmaDevicesAreUsedUnlessTheUserSaysOtherwise) {
  EXPECT_TRUE(settings({}).devices.has_rdma);
  EXPECT_FALSE(settings({"SPINDRIFT_NCCL_RDMA=0"}).devices.has_rdma);
  EXPECT_FALSE(settings({"NCCL_IB_DISABLE=1"}).devices.has_rdma);
  EXPECT_TRUE(settings({"NCCL_IB_DISABLE=1", "SPINDRIFT_NCCL_RDMA=1"}).devices.has_rdma);
  EXPECT_EQ(settings({"SPINDRIFT_NCCL_RAILS=ofi://net@10.0.0.1"}).devices.rails,
            "ofi://net@10.0.0.1");
  EXPECT_EQ(settings({"SPINDRIFT_NCCL_IFNAME=mlx5_1"}).devices.own_names, "mlx5_1");
}

TEST(PluginSettings, SharedMemoryIsOffWhereNcclsIs) {
  EXPECT_FALSE(settings({"NCCL_SHM_DISABLE=1"}).has_shm);
  EXPECT_TRUE(settings({"NCCL_SHM_DISABLE=1", "SPINDRIFT_NCCL_SHM=1"}).has_shm);
  EXPECT_FALSE(settings({"SPINDRIFT_NCCL_SHM=0"}).has_shm);
}

TEST(PluginSettings, FaultsAreOfPacketsAndAreSaidAloud) {
  const PluginSettings told = settings({"SPINDRIFT_NCCL_FAULT=loss=2%"});
  EXPECT_FALSE(told.has_shm);
  EXPECT_EQ(told.open.faults, "loss=2%");
  EXPECT_THAT(told.notes, Contains(HasSubstr("on purpose")));
}

TEST(PluginSettings, RefusalsNameVariableValueAndBounds) {
  EXPECT_EQ(refusal("SPINDRIFT_NCCL_THREADS=65"),
            "SPINDRIFT_NCCL_THREADS=65 is not a number of 0..64");
  EXPECT_EQ(refusal("NCCL_IB_TIMEOUT=never"), "NCCL_IB_TIMEOUT=never is not a number of 1..31");
  EXPECT_THAT(refusal("NCCL_SOCKET_FAMILY=AF_IPX"), HasSubstr("AF_INET6"));
  EXPECT_THAT(refusal("SPINDRIFT_PATH_COUNT=1000"), HasSubstr("1000"));
}

TEST(PluginSettings, OwnNamesAreKnownToTheTableOfTunables) {
  for (const char* name : {"conf", "nccl_ifname", "nccl_rails", "nccl_rdma", "nccl_shm",
                           "nccl_threads", "nccl_ll128", "nccl_fault"})
    EXPECT_NE(find_tunable(name), nullptr) << name;
}

}  // namespace
}  // namespace spindrift::nccl
