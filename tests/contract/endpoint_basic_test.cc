// The endpoint contract, first half: opening, the operations, their order.
#include <gtest/gtest.h>

#include "tests/contract/endpoint_contract.h"

namespace spindrift {

namespace {

TEST_P(EndpointContract, OpensAndTellsBothSidesWhatWasNegotiated) {
  Pair::Options options;
  options.connect.private_data = {std::byte{1}, std::byte{2}};
  options.accept.private_data = {std::byte{3}};
  Pair pair(*world, options);
  ASSERT_TRUE(pair.open()) << pair.a->last_error(pair.ab) << pair.b->last_error(pair.ba);
  const ConnInfo at_a = pair.a->info(pair.ab).value();
  const ConnInfo at_b = pair.b->info(pair.ba).value();
  EXPECT_EQ(at_a.private_data, options.accept.private_data);
  EXPECT_EQ(at_b.private_data, options.connect.private_data);
  EXPECT_EQ(at_a.payload_mtu, at_b.payload_mtu);
  EXPECT_EQ(at_a.path_count, world->paths(16));
}

TEST_P(EndpointContract, SendsMeetReceivesInPostingOrder) {
  Pair pair(*world, {});
  ASSERT_TRUE(pair.open()) << pair.a->last_error(pair.ab) << pair.b->last_error(pair.ba);
  constexpr std::size_t kMessages = 40;
  constexpr std::uint32_t kBytes = 50000;
  Buffer from(*pair.a, kMessages * kBytes);
  Buffer to(*pair.b, kMessages * kBytes);
  from.fill(7);
  for (std::size_t i = 0; i < kMessages; ++i) {
    const Sge sge = sge_of(to.region, i * kBytes, kBytes);
    const WorkRequest receive{
        .user_data = i, .conn = pair.ba, .kind = OpKind::kReceive, .local = {&sge, 1}};
    ASSERT_EQ(pair.b->post({&receive, 1}).accepted, 1U);
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    const Sge sge = sge_of(from.region, i * kBytes, kBytes - static_cast<std::uint32_t>(i));
    const WorkRequest send{
        .user_data = 100 + i, .conn = pair.ab, .kind = OpKind::kSend, .local = {&sge, 1}};
    ASSERT_EQ(pair.a->post({&send, 1}).accepted, 1U);
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, kMessages)) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.b, kMessages)) << pair.b->last_error(pair.ba);
  for (std::size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(pair.a_done[i].user_data, 100 + i);
    EXPECT_EQ(pair.a_done[i].status, OpStatus::kOk);
    EXPECT_EQ(pair.b_done[i].user_data, i);
    EXPECT_EQ(pair.b_done[i].status, OpStatus::kOk);
    EXPECT_EQ(pair.b_done[i].bytes, kBytes - i);
    EXPECT_TRUE(to.matches(7, i * kBytes, kBytes - i, i * kBytes));
  }
}

TEST_P(EndpointContract, WritesReadsAndAtomicsReachRemoteMemory) {
  Pair pair(*world, {});
  ASSERT_TRUE(pair.open()) << pair.a->last_error(pair.ab) << pair.b->last_error(pair.ba);
  constexpr std::uint32_t kBytes = 1000000;
  Buffer local(*pair.a, kBytes);
  Buffer back(*pair.a, kBytes);
  Buffer remote(*pair.b, kBytes);
  Buffer old(*pair.a, 16);
  local.fill(3);
  const Sge source = sge_of(local.region, 0, kBytes);
  const Sge target = sge_of(back.region, 0, kBytes);
  const Sge first = sge_of(old.region, 0, 8);
  const Sge second = sge_of(old.region, 8, 8);
  const std::uint64_t key = remote.region.remote.key;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < 8; ++i)
    before |= std::to_integer<std::uint64_t>(pattern(3, i)) << (8 * i);
  const WorkRequest work[] = {
      {.user_data = 1,
       .conn = pair.ab,
       .kind = OpKind::kWrite,
       .local = {&source, 1},
       .remote_key = key},
      {.user_data = 2,
       .conn = pair.ab,
       .kind = OpKind::kRead,
       .local = {&target, 1},
       .remote_key = key},
      {.user_data = 3,
       .conn = pair.ab,
       .kind = OpKind::kFetchAdd,
       .has_fence = true,
       .local = {&first, 1},
       .remote_key = key,
       .operand = 5},
      {.user_data = 4,
       .conn = pair.ab,
       .kind = OpKind::kCompareSwap,
       .local = {&second, 1},
       .remote_key = key,
       .operand = 77,
       .compare = before + 5},
  };
  ASSERT_EQ(pair.a->post(work).accepted, 4U) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 4)) << pair.a->last_error(pair.ab);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pair.a_done[i].user_data, i + 1);
    EXPECT_EQ(pair.a_done[i].status, OpStatus::kOk) << to_string(pair.a_done[i].status);
  }
  EXPECT_TRUE(remote.matches(3, 8, kBytes - 8, 8));
  EXPECT_TRUE(back.matches(3, 0, kBytes));
  std::uint64_t values[2] = {};
  std::copy_n(old.bytes.data(), 16, reinterpret_cast<std::byte*>(values));
  EXPECT_EQ(values[0], before);
  EXPECT_EQ(values[1], before + 5);
  std::uint64_t now = 0;
  std::copy_n(remote.bytes.data(), 8, reinterpret_cast<std::byte*>(&now));
  EXPECT_EQ(now, 77U);
}

}  // namespace
}  // namespace spindrift
