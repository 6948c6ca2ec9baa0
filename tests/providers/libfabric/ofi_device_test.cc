// Which of libfabric's offers is taken, and what it means.
#include "providers/libfabric/ofi_device.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include "providers/libfabric/ofi_memory.h"

namespace spindrift {
namespace {

using testing::HasSubstr;

NetAddress loopback() {
  return parse_net_address("127.0.0.1:0", 0).value();
}

TEST(OfiDevice, IsTheProviderThatWasAskedForAtTheAddressThatWasGiven) {
  const auto device = OfiDevice::open({.provider = "net", .source = loopback()});
  ASSERT_TRUE(device.ok()) << device.error().message();
  EXPECT_EQ(device.value()->provider(), "net");
  EXPECT_TRUE(device.value()->own_address().is_loopback());
  EXPECT_TRUE(device.value()->traits().can_read);
  const auto name = device.value()->name();
  EXPECT_TRUE(device.value()->may_be_name(name));
  EXPECT_FALSE(device.value()->may_be_name(name.first(name.size() - 1)));
  // The same peer twice is one.
  const auto once = device.value()->add_peer(name);
  const auto twice = device.value()->add_peer(name);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(once.value(), twice.value());
}

TEST(OfiDevice, WhatIsNotOfferedIsSaidWithWhatIs) {
  const auto offer = find_offer({.provider = "nosuch"});
  ASSERT_FALSE(offer.ok());
  EXPECT_EQ(offer.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(offer.error().message(), HasSubstr("no provider nosuch"));
  EXPECT_THAT(offer.error().message(), HasSubstr("net (lo)"));
  const auto domain = find_offer({.provider = "net", .domain = "nosuch0"});
  ASSERT_FALSE(domain.ok());
  EXPECT_THAT(domain.error().message(), HasSubstr("domain nosuch0"));
}

TEST(OfiDevice, ErrorsHaveLibfabricsWords) {
  const Error error = fi_refused("fi_domain", -FI_EAGAIN);
  EXPECT_EQ(error.message(), "fi_domain: " + std::string(fi_strerror(FI_EAGAIN)));
  EXPECT_EQ(fi_refused("fi_mr_reg", -FI_ENOMEM).code(), ErrorCode::kNoMemory);
}

TEST(OfiDevice, SaysWhatAKilledProcessOfItsNumberLeftBehind) {
  std::vector<std::string> left;
  for (int i = 0; i < 8; ++i) {
    left.push_back("/dev/shm/" + std::to_string(getpid()) + ":" + std::to_string(getuid()) + ":" +
                   std::to_string(i));
    std::ofstream(left.back()) << "left";
  }
  const auto device = OfiDevice::open({.provider = "shm", .source = loopback()});
  for (const std::string& file : left)
    std::filesystem::remove(file);
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message(),
              HasSubstr("rm /dev/shm/" + std::to_string(getpid()) + ":*"));
}

// What EFA says of itself, by its documentation; there is none here.
TEST(OfiTraits, FollowWhatIsOffered) {
  const FiInfo info(fi_allocinfo());
  info->caps = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
  info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  info->domain_attr->mr_key_size = 4;
  info->tx_attr->iov_limit = 4;
  info->tx_attr->rma_iov_limit = 1;
  const OfiTraits traits = traits_of(*info);
  EXPECT_TRUE(traits.can_read);
  EXPECT_FALSE(traits.reads_in_order);
  EXPECT_TRUE(traits.needs_local_keys);
  EXPECT_TRUE(traits.names_by_address);
  EXPECT_TRUE(traits.chooses_keys);
  EXPECT_FALSE(traits.binds_to_endpoint);
  EXPECT_EQ(traits.largest_key, 0xffffffffU);
  EXPECT_EQ(traits.max_local, 4U);
  EXPECT_EQ(traits.max_remote, 1U);
  info->caps = FI_MSG;
  EXPECT_FALSE(traits_of(*info).can_read);
  info->caps = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
  info->domain_attr->mr_key_size = 64;  // keys that fit no RemoteSpan
  EXPECT_FALSE(traits_of(*info).can_read);
}

TEST(OfiMemory, OffersWhatIsRegisteredAndNothingElse) {
  OfiMemory memory;
  std::vector<std::byte> bytes(1000);
  const Sge piece{.data = bytes.data() + 10, .bytes = 20, .region = LocalKey{5}};
  EXPECT_EQ(memory.offer(piece).bytes, 0U);
  ASSERT_TRUE(memory.add_region(LocalKey{5}, bytes).ok());  // before there is a device
  OfiRails rails;
  for (int i = 0; i < 2; ++i) {
    auto device = OfiDevice::open({.provider = "net", .source = loopback()});
    ASSERT_TRUE(device.ok()) << device.error().message();
    rails.push_back({.device = std::move(device).value()});
  }
  ASSERT_TRUE(memory.attach(rails).ok());
  const RemoteSpan offered = memory.offer(piece);
  EXPECT_EQ(offered.bytes, 20U);
  const OfiMemory::Region* const region = memory.find(LocalKey{5});
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(offered.address, region->registration.remote(0).address + 10);
  EXPECT_EQ(offered.key, region->registration.remote(0).key);
  EXPECT_NE(region->registration.remote(1).key, offered.key);  // each rail has its own
  memory.remove_region(LocalKey{5});
  EXPECT_EQ(memory.offer(piece).bytes, 0U);
}

TEST(OfiMemory, NamesOfRegionsAreNeverTheSameAgain) {
  OfiMemory memory;
  std::vector<std::byte> bytes(10);
  ASSERT_TRUE(memory.add_region(LocalKey{1}, bytes).ok());
  const std::uint32_t slot = memory.find(LocalKey{1})->slot;
  const std::uint32_t generation = memory.find(LocalKey{1})->generation;
  ASSERT_TRUE(memory.add_region(LocalKey{2}, bytes).ok());
  EXPECT_NE(memory.find(LocalKey{2})->slot, slot);
  memory.remove_region(LocalKey{1});
  ASSERT_TRUE(memory.add_region(LocalKey{3}, bytes).ok());
  EXPECT_EQ(memory.find(LocalKey{3})->slot, slot);  // what is kept of them stays small
  EXPECT_NE(memory.find(LocalKey{3})->generation, generation);
}

}  // namespace
}  // namespace spindrift
