#include "collectives/memory_pool.h"

#include <gtest/gtest.h>

#include "collectives/seating.h"
#include "collectives/wait_any.h"
#include "tests/collectives/fake_endpoint.h"

namespace spindrift::collectives {
namespace {

class BufferCacheTest : public testing::Test {
 protected:
  std::span<std::byte> piece(std::size_t offset, std::size_t bytes) {
    return std::span(memory_).subspan(offset, bytes);
  }
  FakeWorld world_{1};
  FakeEndpoint endpoint_{world_, "fake://0"};
  std::vector<std::byte> memory_{4096};
};

TEST_F(BufferCacheTest, RegistersABufferOnce) {
  BufferCache cache({&endpoint_});
  const RegionSet first = cache.use(piece(0, 100), Access::kLocalWrite).value();
  const RegionSet second = cache.use(piece(0, 100), Access::kLocalWrite).value();
  EXPECT_EQ(first.regions[0].local, second.regions[0].local);
  EXPECT_EQ(endpoint_.regions_registered, 1U);
}

TEST_F(BufferCacheTest, ABufferToReadServesNoWriting) {
  BufferCache cache({&endpoint_});
  const RegionSet to_read = cache.use(piece(0, 100), Access::kLocalRead).value();
  const RegionSet to_write = cache.use(piece(0, 100), Access::kLocalWrite).value();
  EXPECT_NE(to_read.regions[0].local, to_write.regions[0].local);
  EXPECT_EQ(to_write.regions[0].remote.rights, Access::kLocalWrite);
}

TEST_F(BufferCacheTest, GivesUpTheLeastRecentlyUsed) {
  BufferCache cache({&endpoint_});
  const auto touch = [&](std::size_t offset) {
    const RegionSet region = cache.use(piece(offset, 8), Access::kLocalRead).value();
    cache.release(region);
    return region.regions[0].local;
  };
  const LocalKey kept = touch(0);
  for (std::size_t i = 1; i < BufferCache::kMaxBuffers; ++i)
    touch(i * 8);
  ASSERT_EQ(touch(0), kept);
  touch(4000);
  EXPECT_EQ(endpoint_.regions_deregistered, 1U);
  EXPECT_EQ(touch(0), kept);
}

TEST_F(BufferCacheTest, NeverGivesUpWhatACallStillUses) {
  BufferCache cache({&endpoint_});
  const RegionSet used = cache.use(piece(0, 8), Access::kLocalWrite).value();
  for (std::size_t i = 1; i < 2 * BufferCache::kMaxBuffers; ++i)
    cache.release(cache.use(piece(i * 8, 8), Access::kLocalRead).value());
  cache.clear();
  EXPECT_EQ(cache.use(piece(0, 8), Access::kLocalWrite).value().regions[0].local,
            used.regions[0].local);
}

TEST_F(BufferCacheTest, APartOfARegisteredBufferNeedsNoRegistrationOfItsOwn) {
  BufferCache cache({&endpoint_});
  const RegionSet whole = cache.use(piece(0, 1000), Access::kLocalWrite).value();
  EXPECT_EQ(cache.use(piece(100, 50), Access::kLocalWrite).value().regions[0].local,
            whole.regions[0].local);
  EXPECT_EQ(cache.use(piece(990, 10), Access::kLocalRead).value().regions[0].local,
            whole.regions[0].local);
  EXPECT_NE(cache.use(piece(990, 11), Access::kLocalWrite).value().regions[0].local,
            whole.regions[0].local);
}

TEST_F(BufferCacheTest, GivesEverythingBackAtItsEnd) {
  {
    BufferCache cache({&endpoint_});
    cache.release(cache.use(piece(0, 8), Access::kLocalRead).value());
    cache.release(cache.use(piece(8, 8), Access::kLocalRead).value());
  }
  EXPECT_EQ(endpoint_.regions_deregistered, 2U);
}

TEST(MemoryPool, HandsOutWhatCameBackAndGrowsOnlyWhenNothingIsFree) {
  FakeWorld world(1);
  FakeEndpoint endpoint(world, "fake://0");
  {
    MemoryPool pool({&endpoint});
    const MemoryPool::Block first = pool.take(5000).value();
    EXPECT_GE(first.set.bytes.size(), 5000U);
    const MemoryPool::Block second = pool.take(6000).value();
    EXPECT_NE(first.data(), second.data());
    pool.give_back(first);
    EXPECT_EQ(pool.take(8192).value().data(), first.data());
    EXPECT_EQ(endpoint.regions_registered, 2U);
  }
  EXPECT_EQ(endpoint.regions_deregistered, 2U);
}

TEST(Seating, TellsWhereEachEndpointTakesCalls) {
  FakeWorld world(1);
  FakeEndpoint network(world, "udp://10.0.0.1:5");
  FakeEndpoint near(world, "shm://a");
  CommunicatorOptions options;
  options.host_id = "here";
  Seating alone;
  ASSERT_TRUE(alone.sit(network, options).ok());
  EXPECT_EQ(alone.seat().address, "udp://10.0.0.1:5");
  EXPECT_EQ(alone.seat().same_host_address, "");
  options.same_host = &near;
  Seating both;
  ASSERT_TRUE(both.sit(network, options).ok());
  EXPECT_EQ(both.seat().same_host_address, "shm://a");
  EXPECT_EQ(both.seat().host, alone.seat().host);
  EXPECT_EQ(both.take().size(), 2U);
}

TEST(WaitForAny, ReturnsAtOnceWhereThereIsSomethingToDo) {
  FakeWorld world(1);
  FakeEndpoint endpoint(world, "fake://0");
  wait_for_any({&endpoint}, std::chrono::hours(1));  // arm() says that there is
}

}  // namespace
}  // namespace spindrift::collectives
