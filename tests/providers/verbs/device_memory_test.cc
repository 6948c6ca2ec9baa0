// Device memory, which soft-RoCE does not take: how its dma-buf is registered, with a device that
// remembers it.
#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/verbs/registered_memory.h"
#include "tests/providers/verbs/fake_verbs.h"

namespace spindrift {
namespace {

using test::fake_dma_buf;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kDescriptor = 42;
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

class VerbsDeviceMemoryTest : public testing::Test {
 protected:
  VerbsDeviceMemoryTest() {
    fake_dma_buf() = {};
    ports.push_back(std::move(VerbsPort::open({}, {}).value()));
  }
  Status add(int descriptor) {
    return regions.add(ports, LocalKey{7}, {device_address(), 4096}, kAccess, descriptor);
  }
  // Nobody may look there.
  static std::byte* device_address() {
    return reinterpret_cast<std::byte*>(0x7f0000000000);  // NOLINT(performance-no-int-to-ptr)
  }

  VerbsPorts ports;
  RegionTable regions;
};

TEST_F(VerbsDeviceMemoryTest, IsRegisteredFromTheBeginningOfTheDmaBufAtItsOwnAddress) {
  ASSERT_TRUE(add(kDescriptor).ok());
  EXPECT_EQ(fake_dma_buf().descriptor, kDescriptor);
  EXPECT_EQ(fake_dma_buf().offset, 0U);
  EXPECT_EQ(fake_dma_buf().bytes, 4096U);
  EXPECT_EQ(fake_dma_buf().address, 0x7f0000000000U);
  EXPECT_EQ(fake_dma_buf().access, static_cast<int>(kAccess));
  const auto* const region =
      regions.find({.data = device_address() + 96, .bytes = 4000, .region = {7}});
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->registrations.local_key(0), 11U);
  EXPECT_EQ(regions.offered_key(*region, 1), 12U);
  regions.remove(LocalKey{7});
  EXPECT_EQ(fake_dma_buf().registered, 0);
}

TEST_F(VerbsDeviceMemoryTest, ADriverThatTakesNoneIsNamed) {
  fake_dma_buf().refusal = EOPNOTSUPP;
  const Status added = add(kDescriptor);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(added.error().message(),
              AllOf(HasSubstr("4096 bytes of a dma-buf"), HasSubstr("fake0 port 1"),
                    HasSubstr("takes no device memory")));
}

TEST_F(VerbsDeviceMemoryTest, ADescriptorOfSomethingElseIsTold) {
  fake_dma_buf().refusal = EBADF;
  const Status added = add(3);
  ASSERT_FALSE(added.ok());
  EXPECT_THAT(added.error().message(), HasSubstr("none of a dma-buf"));
}

}  // namespace
}  // namespace spindrift
