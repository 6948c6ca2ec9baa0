// What DPDK is started with, and how trouble is explained.
#include "providers/dpdk/eal.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "providers/dpdk/device_trouble.h"

namespace spindrift {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> arguments(const char* device, const char* said, bool has_hugepages) {
  return eal_arguments(device, said,
                       {.has_hugepages = has_hugepages, .process = 77, .cpus = "0,1"});
}

TEST(EalArguments, DoWithoutHugepagesWhereThereAreNone) {
  const auto given = arguments("net_memif0", "", false);
  EXPECT_THAT(given, Contains("--no-huge"));
  EXPECT_THAT(given, Not(Contains("--in-memory")));
  EXPECT_THAT(given, Contains("--no-pci"));
  EXPECT_THAT(given, Contains("--file-prefix=spindrift-77"));
  EXPECT_THAT(given, Contains("0@(0,1)"));
}

TEST(EalArguments, UseHugepagesWhereTheyAreFree) {
  const auto given = arguments("net_memif0", "", true);
  EXPECT_THAT(given, Contains("--in-memory"));
  EXPECT_THAT(given, Not(Contains("--no-huge")));
}

TEST(EalArguments, LookForTheDeviceAskedForOnly) {
  const auto given = arguments("0000:3b:00.0", "", true);
  const auto at = std::find(given.begin(), given.end(), "-a");
  ASSERT_NE(at, given.end());
  EXPECT_EQ(*(at + 1), "0000:3b:00.0");
  EXPECT_THAT(given, Not(Contains("--no-pci")));
}

TEST(EalArguments, LeaveToTheUserWhatTheUserSays) {
  const auto given =
      arguments("0000:3b:00.0", " --huge-dir=/huge  -m 1024 -l 3 -a 0000:5e:00.0", false);
  EXPECT_EQ(given[0], "--huge-dir=/huge");
  EXPECT_EQ(std::count(given.begin(), given.end(), "-m"), 1);
  EXPECT_EQ(std::count(given.begin(), given.end(), "-a"), 1);
  EXPECT_THAT(given, Not(Contains("--no-huge")));
  EXPECT_THAT(given, Not(Contains("--lcores")));
}

TEST(PciAddress, IsToldFromTheNameOfAVirtualDevice) {
  EXPECT_TRUE(is_pci_address("0000:3b:00.0"));
  EXPECT_TRUE(is_pci_address("3b:00.1"));
  EXPECT_FALSE(is_pci_address("net_memif0"));
  EXPECT_FALSE(is_pci_address("eth_a"));
}

TEST(PciTrouble, IsExplainedWithItsRemedy) {
  PciState state;
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("no PCI device"));
  state.exists = true;
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("intel_iommu=on"));
  state.has_iommu_group = true;
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("-b vfio-pci 0000:3b:00.0"));
  state.driver = "ixgbe";
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("ixgbe"));
  state.driver = "mlx5_core";
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("ibverbs"));
  state.driver = "vfio-pci";
  state.can_open_group = false;
  EXPECT_THAT(explain_pci("0000:3b:00.0", state), HasSubstr("/dev/vfio"));
}

TEST(DeviceTrouble, OfAMemoryLinkSaysWhoMustComeFirst) {
  const DeviceOptions client{.device = "net_memif0", .arguments = "role=client,socket=x"};
  EXPECT_THAT(explain_device_trouble(client, "does not start", -1), HasSubstr("role=server"));
  const DeviceOptions guest{.device = "net_virtio_user0"};
  EXPECT_THAT(explain_device_trouble(guest, "cannot be opened", -1), HasSubstr("net_vhost"));
}

// In the order in which the kernel lists them: this thread is the first.
std::vector<int> real_time_priorities() {
  std::vector<int> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    sched_param param{};
    const auto id = static_cast<pid_t>(std::stol(task.path().filename().string()));
    if (sched_getparam(id, &param) == 0) out.push_back(param.sched_priority);
  }
  return out;
}

// A thread that polls never leaves its processor, here the only one, to others of its priority.
TEST(Eal, ItsThreadsGoBeforeOneThatPollsInRealTime) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  sched_param param{};
  param.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &param) != 0)
    GTEST_SKIP() << "NOT TESTED: this user may not have real-time priorities";
  const Status started = start_eal("net_null0");
  param.sched_priority = 0;
  const std::vector<int> priorities = real_time_priorities();
  ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &param), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  ASSERT_TRUE(started.ok()) << started.error().message();
  ASSERT_GE(priorities.size(), 2U);
  EXPECT_EQ(priorities[0], 1);
  for (std::size_t i = 1; i < priorities.size(); ++i)
    EXPECT_EQ(priorities[i], 2);
}

}  // namespace
}  // namespace spindrift
