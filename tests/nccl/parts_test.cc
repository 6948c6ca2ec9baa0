#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "plugins/nccl/devices.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/memory.h"
#include "plugins/nccl/name_filter.h"

namespace spindrift::nccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NetAddress address(std::string_view text) {
  return parse_net_address(text, 0).value();
}

Interface interface(std::string name, std::string pci, std::string_view ip) {
  Interface one;
  one.name = std::move(name);
  one.pci_path = std::move(pci);
  one.mac = "02:fc:00:00:00:0" + std::to_string(one.name.size() % 10);
  one.addresses = {address(ip)};
  one.speed_mbps = 100000;
  return one;
}

std::vector<std::string> names(const std::vector<Device>& devices) {
  std::vector<std::string> out;
  for (const Device& device : devices)
    out.push_back(device.name);
  return out;
}

TEST(NameFilter, ListsArePrefixesUnlessTheyBeginWithAnEqualsSign) {
  EXPECT_TRUE(NameFilter("eth,ib0").passes("eth1"));
  EXPECT_FALSE(NameFilter("=eth").passes("eth1"));
  EXPECT_TRUE(NameFilter("=eth1").passes("eth1"));
  EXPECT_FALSE(NameFilter("^eth").passes("eth1"));
  EXPECT_TRUE(NameFilter("^=eth").passes("eth1"));
  EXPECT_TRUE(NameFilter("mlx5_0:1").passes("mlx5_0"));
  EXPECT_TRUE(NameFilter("mlx5_0:1").passes("mlx5_0", 1));
  EXPECT_FALSE(NameFilter("mlx5_0:1").passes("mlx5_0", 2));
  EXPECT_TRUE(NameFilter("^mlx5_0:1").passes("mlx5_0", 2));
  EXPECT_TRUE(NameFilter("").passes("anything"));
}

TEST(Devices, ComeInPciOrderWhateverTheirNames) {
  const std::vector<Interface> found = {
      interface("eth0", "/sys/devices/pci0000:c0/0000:c1:00.0", "10.0.0.1"),
      interface("veth", "", "10.9.0.1"),
      interface("eth7", "/sys/devices/pci0000:00/0000:17:00.0", "10.0.1.1"),
      interface("ens9", "", "10.0.2.1")};
  EXPECT_THAT(names(choose_devices(found, {})), ElementsAre("eth7", "eth0", "ens9"));
}

TEST(Devices, LoopbackAndBridgesAreUsedOnlyWhenNamedOrAlone) {
  Interface loopback = interface("lo", "", "127.0.0.1");
  loopback.is_loopback = true;
  const Interface bridge = interface("docker0", "", "172.17.0.1");
  const Interface real = interface("eth0", "", "10.0.0.1");
  EXPECT_THAT(names(choose_devices({loopback, bridge, real}, {})), ElementsAre("eth0"));
  EXPECT_THAT(names(choose_devices({loopback, bridge}, {})), ElementsAre("docker0"));
  EXPECT_THAT(names(choose_devices({loopback}, {})), ElementsAre("lo"));
  EXPECT_THAT(names(choose_devices({loopback, bridge, real}, {.interfaces = "lo,eth"})),
              ElementsAre("eth0", "lo"));
  EXPECT_THAT(names(choose_devices({loopback, bridge, real}, {.interfaces = "^eth0"})),
              ElementsAre("docker0"));
}

TEST(Devices, AdaptersChooseTheInterfacesOnThem) {
  Interface rail = interface("eth1", "", "10.0.1.1");
  rail.adapters = {"mlx5_1"};
  Interface other = interface("eth2", "", "10.0.2.1");
  other.adapters = {"mlx5_2"};
  const Interface plain = interface("eth0", "", "10.0.0.1");
  EXPECT_THAT(names(choose_devices({plain, rail, other}, {.adapters = "mlx5_1:1"})),
              ElementsAre("eth1"));
  EXPECT_THAT(names(choose_devices({plain, rail, other}, {.adapters = "^mlx5_1"})),
              ElementsAre("eth0", "eth2"));
}

TEST(Devices, TheFamilyOfAddressesCanBeChosen) {
  Interface both = interface("eth0", "", "10.0.0.1");
  both.addresses = {address("fe80::1"), address("2001:db8::1"), address("10.0.0.1")};
  EXPECT_EQ(choose_devices({both}, {}).front().rails.front(), address("10.0.0.1"));
  EXPECT_EQ(choose_devices({both}, {.family = 6}).front().rails.front(), address("2001:db8::1"));
  EXPECT_TRUE(choose_devices({interface("eth0", "", "10.0.0.1")}, {.family = 6}).empty());
}

TEST(Devices, AnUnknownSpeedIsTenGigabits) {
  Interface one = interface("eth0", "", "10.0.0.1");
  one.speed_mbps = 0;
  EXPECT_EQ(choose_devices({one}, {}).front().speed_mbps, 10000);
}

TEST(Devices, LoopbackHasAnIdentityWithoutAnAddressOfItsOwn) {
  Interface loopback = interface("lo", "", "127.0.0.1");
  loopback.mac = "00:00:00:00:00:00";
  EXPECT_NE(choose_devices({loopback}, {}).front().guid, 0U);
}

Adapter adapter(std::string name, std::string pci, int port = 1) {
  return {.name = std::move(name),
          .pci_path = std::move(pci),
          .guid = 7,
          .port = port,
          .speed_mbps = 400000,
          .is_active = true};
}

TEST(Devices, RdmaPortsStandBeforeInterfacesInPciOrder) {
  const Interface plain = interface("eth0", "/sys/devices/pci0000:00/0000:03:00.0", "10.0.0.1");
  const std::vector<Adapter> adapters = {adapter("mlx5_0", "/sys/devices/0000:c1:00.0"),
                                         adapter("mlx5_1", "/sys/devices/0000:17:00.0")};
  const auto devices = join_devices(adapter_devices(adapters, {}), {plain}, {});
  EXPECT_THAT(names(devices), ElementsAre("mlx5_1", "mlx5_0"));
  EXPECT_EQ(devices[0].address, "verbs://mlx5_1:1");
  EXPECT_EQ(devices[0].provider, "verbs");
  EXPECT_EQ(devices[0].speed_mbps, 400000);
  EXPECT_THAT(devices[1].parts, ElementsAre(1));
  EXPECT_THAT(names(join_devices({}, {plain}, {})), ElementsAre("eth0"));
}

TEST(Devices, RdmaPortsPassTheFiltersOfAdapters) {
  std::vector<Adapter> adapters = {adapter("mlx5_0", ""), adapter("mlx5_1", ""),
                                   adapter("mlx5_1", "", 2)};
  EXPECT_THAT(names(adapter_devices(adapters, {.adapters = "=mlx5_0"})), ElementsAre("mlx5_0"));
  EXPECT_THAT(names(adapter_devices(adapters, {.adapters = "^mlx5_0"})),
              ElementsAre("mlx5_1:1", "mlx5_1:2"));
  EXPECT_THAT(names(adapter_devices(adapters, {.adapters = "mlx5_0,mlx5_1:2"})),
              ElementsAre("mlx5_0", "mlx5_1:2"));
  // NCCL_SOCKET_IFNAME is about sockets; ours is about everything.
  EXPECT_THAT(names(adapter_devices(adapters, {.interfaces = "eth0"})),
              ElementsAre("mlx5_0", "mlx5_1:1", "mlx5_1:2"));
  EXPECT_TRUE(adapter_devices(adapters, {.own_names = "eth0"}).empty());
  adapters[0].is_active = false;
  EXPECT_THAT(names(adapter_devices(adapters, {.adapters = "mlx5_0"})), ElementsAre());
}

TEST(Devices, EfaIsReachedByLibfabric) {
  Adapter efa = adapter("rdmap16s27", "/sys/devices/0000:10:1b.0");
  efa.is_efa = true;
  const auto devices = adapter_devices({efa}, {});
  EXPECT_EQ(devices.at(0).provider, "ofi");
  EXPECT_EQ(devices.at(0).address, "ofi://efa?domain=rdmap16s27-rdm");
}

TEST(Devices, NamedByAddressComeInTheOrderOfTheirNames) {
  Interface loopback = interface("lo", "", "127.0.0.1");
  const auto made = named_devices(
      {.rails = "ofi://net@127.0.0.1 verbs://mlx5_0:1  ofi://net@127.0.0.1?poll_us=50"}, {loopback},
      {adapter("mlx5_0", "/sys/devices/0000:17:00.0")});
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_THAT(names(made.value()), ElementsAre("ofi-net-lo", "mlx5_0", "ofi-net-lo#2"));
  EXPECT_EQ(made.value()[0].address, "ofi://net@127.0.0.1:0");
  EXPECT_EQ(made.value()[1].pci_path, "/sys/devices/0000:17:00.0");
  EXPECT_EQ(made.value()[2].address, "ofi://net@127.0.0.1:0?poll_us=50");
  const auto refused = named_devices({.rails = "udp://10.0.0.1"}, {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("SPINDRIFT_NCCL_IFNAME"));
}

TEST(Adapters, AreReadAsTheKernelWritesThem) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("adapters" + std::to_string(::getpid()));
  const auto port = folder / "mlx5_0" / "ports" / "1";
  std::filesystem::create_directories(port);
  std::ofstream(port / "rate") << "100 Gb/sec (4X EDR)\n";
  std::ofstream(port / "state") << "4: ACTIVE\n";
  std::ofstream(folder / "mlx5_0" / "node_guid") << "ec0d:9a03:00ca:fe01\n";
  const std::vector<Adapter> found = scan_adapters(folder.string());
  std::filesystem::remove_all(folder);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "mlx5_0");
  EXPECT_EQ(found[0].speed_mbps, 100000);
  EXPECT_EQ(found[0].guid, 0xec0d9a0300cafe01ULL);
  EXPECT_TRUE(found[0].is_active);
  EXPECT_FALSE(found[0].is_efa);
  EXPECT_TRUE(scan_adapters("/nowhere").empty());
}

TEST(DeviceTable, MergesRdmaDevicesIntoOneEndpoint) {
  std::vector<Device> devices =
      adapter_devices({adapter("mlx5_0", ""), adapter("mlx5_1", ""), adapter("mlx5_2", "")}, {});
  for (int i = 0; i < 3; ++i)
    devices[static_cast<std::size_t>(i)].parts = {i};
  DeviceTable table(std::move(devices));
  const auto merged = table.merge({0, 1});
  ASSERT_TRUE(merged.ok()) << merged.error().message();
  EXPECT_EQ(table.find(merged.value())->address, "verbs://mlx5_0:1,mlx5_1:1");
  EXPECT_EQ(table.find(merged.value())->speed_mbps, 800000);
  const auto three = table.merge({0, 1, 2});
  ASSERT_FALSE(three.ok());
  EXPECT_THAT(three.error().message(), HasSubstr("at most 2 RDMA ports"));
}

TEST(DeviceTable, MergesWhatOneEndpointCanHoldAlone) {
  const std::vector<Adapter> adapters = {adapter("mlx5_0", ""), adapter("mlx5_1", "")};
  const auto refusal = [&](const std::string& rails) {
    DeviceTable table(named_devices({.rails = rails}, {}, adapters).value());
    EXPECT_TRUE(table.merge({1}).ok());
    const auto merged = table.merge({0, 1});
    return merged.ok() ? table.find(merged.value())->address : merged.error().message();
  };
  EXPECT_THAT(refusal("ofi://net@10.0.0.1 ofi://net@10.0.0.2"), HasSubstr("these use ofi"));
  EXPECT_THAT(refusal("verbs://mlx5_0:1 ofi://net@10.0.0.2"), HasSubstr("the other ofi"));
  EXPECT_THAT(refusal("verbs://mlx5_0:1?lanes=4 verbs://mlx5_1:1"), HasSubstr("differ in options"));
  EXPECT_EQ(refusal("verbs://mlx5_0:1?lanes=4 verbs://mlx5_1:1?lanes=4"),
            "verbs://mlx5_0:1,mlx5_1:1?lanes=4");
}

TEST(DeviceTable, MergesDevicesOnce) {
  DeviceTable table(choose_devices(
      {interface("eth0", "", "10.0.0.1"), interface("ethernet1", "", "10.0.1.1")}, {}));
  const auto merged = table.merge({0, 1});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged.value(), 2);
  EXPECT_EQ(table.find(2)->name, "eth0+ethernet1");
  EXPECT_EQ(table.find(2)->speed_mbps, 200000);
  EXPECT_EQ(table.find(2)->rails.size(), 2U);
  EXPECT_THAT(table.find(2)->parts, ElementsAre(0, 1));
  EXPECT_EQ(table.merge({0, 1}).value(), 2);
  EXPECT_EQ(table.merge({1}).value(), 1);
}

TEST(DeviceTable, RefusesDevicesThatAreNotThere) {
  DeviceTable table(choose_devices({interface("eth0", "", "10.0.0.1")}, {}));
  const auto merged = table.merge({0, 5});
  ASSERT_FALSE(merged.ok());
  EXPECT_THAT(merged.error().message(), HasSubstr("device 5"));
  EXPECT_EQ(table.find(-1), nullptr);
  EXPECT_EQ(table.find(1), nullptr);
}

TEST(DeviceTable, RefusesMoreAddressesThanAHandleHolds) {
  std::vector<Interface> found;
  for (int i = 0; i < 6; ++i)
    found.push_back(interface("eth" + std::to_string(i), "", "2001:db8::" + std::to_string(i + 1)));
  DeviceTable table(choose_devices(found, {}));
  EXPECT_TRUE(table.merge({0, 1, 2, 3}).ok());
  EXPECT_FALSE(table.merge({0, 1, 2, 3, 4, 5}).ok());
}

TEST(Handle, CarriesRailsOfBothFamilies) {
  Handle handle{.nonce = 7, .host = 8, .shm_id = 9, .rails = {}};
  handle.rails = {address("10.0.0.1:4793"), address("[2001:db8::1]:4794")};
  handle.provider = "ofi";
  std::array<char, kHandleBytes> buffer{};
  write_handle(handle, buffer.data());
  const auto read = read_handle(buffer.data());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().nonce, 7U);
  EXPECT_EQ(read.value().host, 8U);
  EXPECT_EQ(read.value().shm_id, 9U);
  EXPECT_EQ(read.value().rails, handle.rails);
  EXPECT_EQ(read.value().provider, "ofi");
}

TEST(Handle, KeepsTheAttemptOfItsCopyApart) {
  std::array<char, kHandleBytes> buffer{};
  write_handle({.nonce = 7, .host = 0, .shm_id = 0, .rails = {}}, buffer.data());
  EXPECT_EQ(attempt_of(buffer.data()), 0U);
  set_attempt(buffer.data(), 42);
  EXPECT_EQ(attempt_of(buffer.data()), 42U);
  EXPECT_EQ(read_handle(buffer.data()).value().nonce, 7U);
}

TEST(Handle, NoDamageIsTakenForAnAddress) {
  std::array<char, kHandleBytes> buffer{};
  write_handle({.nonce = 7, .host = 0, .shm_id = 0, .rails = {address("10.0.0.1:1")}},
               buffer.data());
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    auto damaged = buffer;
    damaged[i] = static_cast<char>(0xff);
    const auto read = read_handle(damaged.data());
    if (!read.ok()) continue;
    EXPECT_LE(read.value().rails.size(), 16U);
  }
  std::array<char, kHandleBytes> foreign;
  foreign.fill(0x55);
  const auto read = read_handle(foreign.data());
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message(), HasSubstr("NCCL_NET=spindrift"));
}

TEST(Greeting, IsReadBackAndRefusesStrangers) {
  const std::vector<std::byte> mailbox(32, std::byte{3});
  const auto wire = write_greeting({.nonce = 11, .mailbox = mailbox});
  const auto read = read_greeting(wire);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().nonce, 11U);
  EXPECT_EQ(read.value().mailbox, mailbox);
  EXPECT_FALSE(read_greeting({}).ok());
  for (std::size_t length = 0; length < wire.size(); ++length)
    static_cast<void>(read_greeting(std::span(wire).first(length)));
  EXPECT_FALSE(read_greeting(std::span(wire).first(30)).ok());
}

TEST(Registrations, SharePagesAndForgetThemWithTheLastUser) {
  Registrations table;
  std::vector<std::byte> memory(8192);
  const std::span<std::byte> all(memory);
  Registration* const whole = table.take(all);
  Registration* const part = table.take(all.subspan(100, 200));
  EXPECT_EQ(whole, part);
  Registration* const other = table.take({memory.data(), memory.size() + 1});
  EXPECT_NE(other, whole);
  EXPECT_NE(other->number, whole->number);
  EXPECT_EQ(table.give_back(part), nullptr);
  const std::uint32_t number = whole->number;
  EXPECT_EQ(table.give_back(whole), whole);
  table.retire(whole);
  EXPECT_EQ(table.take(all.first(10)), other);
  std::vector<std::byte> elsewhere(16);
  EXPECT_EQ(table.take(elsewhere)->number, number);
}

}  // namespace
}  // namespace spindrift::nccl
