#include <gtest/gtest.h>

#include "collectives/communicator.h"
#include "tests/collectives/fake_endpoint.h"

namespace spindrift::collectives {
namespace {

class BufferCacheTest : public testing::Test {
 protected:
  std::span<std::byte> piece(std::size_t offset, std::size_t bytes) {
    return std::span(memory_).subspan(offset, bytes);
  }
  FakeWorld world_{1};
  FakeEndpoint endpoint_{world_};
  std::vector<std::byte> memory_{4096};
};

TEST_F(BufferCacheTest, RegistersABufferOnce) {
  BufferCache cache(endpoint_);
  const MemoryRegion first = cache.find(piece(0, 100), Access::kLocalWrite).value();
  const MemoryRegion second = cache.find(piece(0, 100), Access::kLocalWrite).value();
  EXPECT_EQ(first.local, second.local);
  EXPECT_EQ(endpoint_.regions_registered, 1U);
}

TEST_F(BufferCacheTest, ABufferToReadServesNoWriting) {
  BufferCache cache(endpoint_);
  const MemoryRegion to_read = cache.find(piece(0, 100), Access::kLocalRead).value();
  const MemoryRegion to_write = cache.find(piece(0, 100), Access::kLocalWrite).value();
  EXPECT_NE(to_read.local, to_write.local);
  EXPECT_EQ(to_write.remote.rights, Access::kLocalWrite);
}

TEST_F(BufferCacheTest, GivesUpTheLeastRecentlyUsed) {
  BufferCache cache(endpoint_);
  const LocalKey kept = cache.find(piece(0, 8), Access::kLocalRead).value().local;
  for (std::size_t i = 1; i < BufferCache::kMaxBuffers; ++i) {
    ASSERT_TRUE(cache.find(piece(i * 8, 8), Access::kLocalRead).ok());
  }
  ASSERT_EQ(cache.find(piece(0, 8), Access::kLocalRead).value().local, kept);
  ASSERT_TRUE(cache.find(piece(4000, 8), Access::kLocalRead).ok());
  EXPECT_EQ(endpoint_.regions_deregistered, 1U);
  EXPECT_EQ(cache.find(piece(0, 8), Access::kLocalRead).value().local, kept);
}

TEST_F(BufferCacheTest, GivesEverythingBackAtItsEnd) {
  {
    BufferCache cache(endpoint_);
    ASSERT_TRUE(cache.find(piece(0, 8), Access::kLocalRead).ok());
    ASSERT_TRUE(cache.find(piece(8, 8), Access::kLocalRead).ok());
  }
  EXPECT_EQ(endpoint_.regions_deregistered, 2U);
}

}  // namespace
}  // namespace spindrift::collectives
