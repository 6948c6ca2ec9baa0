// The message engine over media of every kind: what it costs, and what must hold beyond the
// contract.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/endpoint_world.h"
#include "tests/paths/allocation_count.h"

namespace spindrift {
namespace {

std::unique_ptr<EndpointWorld> reliable_world(std::string_view name) {
  for (const WorldFactory& one : reliable_worlds())
    if (one.name == name) return one.make();
  return nullptr;
}

void move_some(Pair& pair, Buffer& from, Buffer& to, Buffer& cell, std::size_t bytes) {
  const Sge piece = from.piece(0, bytes);
  const Sge old = cell.piece(0, 8);
  const Sge target = to.piece(0, bytes);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&piece, 1}}));
    ASSERT_TRUE(
        pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = to.key()}));
    ASSERT_TRUE(pair.post_a(
        {.kind = OpKind::kFetchAdd, .local = {&old, 1}, .remote_key = to.key(), .operand = 1}));
  }
  ASSERT_TRUE(pair.run_until([&] { return pair.a_done.size() == 32 && pair.b_done.size() == 8; }));
  pair.a_done.clear();
  pair.b_done.clear();
}

TEST(MessageEngine, AllocatesNothingOnceItRuns) {
  for (const char* name : {"shm", "shm_copying", "scripted"})
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{64}, std::size_t{100000}}) {
      const auto world = reliable_world(name);
      Pair pair(*world, {});
      ASSERT_TRUE(pair.open());
      Buffer from(*pair.a, bytes);
      Buffer to(*pair.b, bytes);
      Buffer cell(*pair.a, 8);
      pair.a_done.reserve(64);
      pair.b_done.reserve(64);
      for (int i = 0; i < 3; ++i)
        move_some(pair, from, to, cell, bytes);
      const std::uint64_t before = test::allocation_count();
      for (int i = 0; i < 100; ++i)
        move_some(pair, from, to, cell, bytes);
      // run_until() takes a function, which may be allocated: once each time.
      EXPECT_LE(test::allocation_count() - before, 100U) << name << " " << bytes;
    }
}

// What a line-ordered region promises holds whichever way the bytes come.
TEST(MessageEngine, LineOrderedRegionsAreFilledWholeByEveryWay) {
  for (const char* name : {"shm", "shm_copying", "scripted"}) {
    const auto world = reliable_world(name);
    Pair pair(*world, {});
    ASSERT_TRUE(pair.open());
    constexpr std::size_t kBytes = 3000000;
    Buffer from(*pair.a, kBytes);
    from.fill(1);
    std::vector<std::byte> memory(kBytes + 128);
    const auto region =
        pair.b->register_memory(memory, kAllAccess, {.is_line_ordered = true}).value();
    const Sge piece = from.all();
    const Sge target = sge_of(region, 13, kBytes);
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite,
                             .local = {&piece, 1},
                             .remote_key = region.remote.key,
                             .remote_offset = 7}));
    ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
    EXPECT_TRUE(std::equal(from.bytes.begin(), from.bytes.end(), memory.begin() + 7));
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&piece, 1}}));
    ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
    EXPECT_TRUE(std::equal(from.bytes.begin(), from.bytes.end(), memory.begin() + 13));
  }
}

TEST(MessageEngine, ReceiverDrivenCongestionControlIsRefusedWithTheReason) {
  const auto world = reliable_world("shm");
  Pair pair(*world, {});
  const auto conn = pair.a->connect(pair.address, {.congestion_control = "receiver_credit"});
  ASSERT_FALSE(conn.ok());
  EXPECT_THAT(conn.error().message(), testing::HasSubstr("credit"));
}

TEST(MessageEngine, WithCrcEveryByteGoesThroughTheRings) {
  const auto world = reliable_world("shm");
  Pair::Options options;
  options.connect.crc = CrcChoice::kOn;
  Pair pair(*world, options);
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 1000000);
  Buffer to(*pair.b, 1000000);
  from.fill(3);
  const Sge piece = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_TRUE(to.matches(3, 0, 1000000));
  EXPECT_EQ(counter(*pair.b, "shm_reads"), 0U);
}

}  // namespace
}  // namespace spindrift
