// The endpoint contract: sizes, scatter/gather, order, visibility.
#include <sys/mman.h>

#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST_P(EndpointContract, ZeroLengthWorksForEveryOperation) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 64);
  Buffer local(*pair.a, 64);
  remote.fill(1);
  const Sge empty = local.piece(64, 0);
  ASSERT_TRUE(pair.post_b({.user_data = 50, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_b({.user_data = 51, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kSend, .local = {&empty, 1}}));
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kWrite, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 3,
                           .kind = OpKind::kWriteImm,
                           .immediate = 0xabcd,
                           .remote_key = remote.key(),
                           .remote_offset = 64}));
  ASSERT_TRUE(pair.post_a({.user_data = 4, .kind = OpKind::kRead, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 5,
                           .kind = OpKind::kRead,
                           .local = {&empty, 1},
                           .remote_key = remote.key(),
                           .remote_offset = 64}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 5)) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.b, 2));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(50, 51));
  EXPECT_THAT(statuses(pair.b_done), Each(OpStatus::kOk));
  EXPECT_FALSE(pair.b_done[0].has_immediate);
  EXPECT_TRUE(pair.b_done[1].has_immediate);
  EXPECT_EQ(pair.b_done[1].immediate, 0xabcdU);
  EXPECT_EQ(pair.b_done[1].bytes, 0U);
  EXPECT_TRUE(remote.matches(1, 0, 64));
}

// Pieces of odd lengths at odd addresses, another cut on the other side.
TEST_P(EndpointContract, ListsOfTheMaximumNumberOfPiecesGatherAndScatter) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 200000);
  Buffer to(*pair.b, 200000);
  from.fill(5);
  std::vector<Sge> source;
  std::vector<Sge> target;
  std::vector<std::byte> expected;
  for (std::size_t i = 0; i < kMaxSge; ++i) {
    const std::size_t count = i == 3 ? 0 : 1 + 2711 * i;
    const std::size_t at = 199000 - 21001 * i;
    source.push_back(from.piece(at, count));
    expected.insert(expected.end(), from.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    from.bytes.begin() + static_cast<std::ptrdiff_t>(at + count));
    target.push_back(to.piece(3 + 20000 * i, i + 1 == kMaxSge ? 59000 : 1999 * (i + 1)));
  }
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = target}));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = source}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(pair.b_done[0].status, OpStatus::kOk);
  EXPECT_EQ(pair.b_done[0].bytes, expected.size());
  std::vector<std::byte> got;
  for (const Sge& piece : target)
    got.insert(got.end(), piece.data, piece.data + piece.bytes);
  got.resize(expected.size());
  EXPECT_TRUE(got == expected);

  const std::vector<Sge> too_many(kMaxSge + 1, from.piece(0, 1));
  EXPECT_FALSE(pair.post_a({.kind = OpKind::kSend, .local = too_many}));
  EXPECT_THAT(pair.a->last_error(pair.ab), testing::HasSubstr("9"));
}

TEST_P(EndpointContract, ReadsScatterIntoLists) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 100001);
  Buffer local(*pair.a, 120000);
  remote.fill(9);
  const Sge list[] = {local.piece(1, 7), local.piece(100, 65001),
                      local.piece(70001, 30003 - 101 - 7)};
  ASSERT_TRUE(pair.post_a(
      {.kind = OpKind::kRead, .local = list, .remote_key = remote.key(), .remote_offset = 101}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kOk);
  EXPECT_TRUE(local.matches(9, 1, 7, 101));
  EXPECT_TRUE(local.matches(9, 100, 65001, 108));
  EXPECT_TRUE(local.matches(9, 70001, 30003 - 101 - 7, 65109));
}

TEST_P(EndpointContract, SizesAroundThePayloadMtuArriveWhole) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  const std::size_t mtu = pair.a->info(pair.ab).value().payload_mtu;
  Buffer from(*pair.a, 4 * mtu + 64);
  Buffer to(*pair.b, 4 * mtu + 64);
  Buffer back(*pair.a, 4 * mtu + 64);
  std::uint64_t seed = 1;
  for (const std::size_t multiple : {std::size_t{0}, mtu, 2 * mtu, 3 * mtu})
    for (const std::size_t extra : {std::size_t{1}, mtu - 1, mtu}) {
      const std::size_t count = multiple + extra;
      const std::size_t at = seed % 13;
      from.fill(++seed);
      to.clear();
      back.clear();
      pair.a_done.clear();
      const Sge source = from.piece(at, count);
      const Sge target = back.piece(at + 1, count);
      ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite,
                               .local = {&source, 1},
                               .remote_key = to.key(),
                               .remote_offset = at + 3}));
      ASSERT_TRUE(pair.post_a({.kind = OpKind::kRead,
                               .local = {&target, 1},
                               .remote_key = to.key(),
                               .remote_offset = at + 3}));
      ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
      EXPECT_TRUE(to.matches(seed, at + 3, count, at)) << count;
      EXPECT_TRUE(back.matches(seed, at + 1, count, at)) << count;
      EXPECT_EQ(to.bytes[at + 2], std::byte{0});
      EXPECT_EQ(to.bytes[at + 3 + count], std::byte{0});
    }
}

TEST_P(EndpointContract, LargeMessagesArriveWhole) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 64U << 20U;
  Buffer from(*pair.a, kBytes);
  Buffer to(*pair.b, kBytes);
  from.fill(11);
  const Sge source = from.all();
  const Sge target = to.all();
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&source, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(pair.b_done[0].bytes, kBytes);
  EXPECT_TRUE(from.bytes == to.bytes);
}

TEST_P(EndpointContract, MessagesOfTwoToThe31ArePostedAndLongerOnesRefused) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = (1U << 28U) + 1;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto region =
      pair.a->register_memory({static_cast<std::byte*>(memory), kBytes}, Access::kLocalRead);
  ASSERT_TRUE(region.ok());
  std::vector<Sge> list(kMaxSge, sge_of(region.value(), 0, 1U << 28U));
  EXPECT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = list}));
  list.back().bytes += 1;
  EXPECT_FALSE(pair.post_a({.kind = OpKind::kSend, .local = list}));
  EXPECT_THAT(pair.a->last_error(pair.ab), testing::HasSubstr("2147483648"));
  pair.a->abort(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kFlushed);
  ::munmap(memory, kBytes);
}

TEST_P(EndpointContract, InlineDataMayBeOverwrittenWhenPostReturns) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer to(*pair.b, kMaxInlineBytes);
  Buffer other(*pair.b, 100);
  std::vector<std::byte> mine(kMaxInlineBytes);
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = pattern(4, i);
  const Sge halves[] = {{.data = mine.data(), .bytes = 100},
                        {.data = mine.data() + 100, .bytes = kMaxInlineBytes - 100}};
  const Sge target = to.all();
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .is_inline = true, .local = halves}));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite,
                           .is_inline = true,
                           .local = {halves, 1},
                           .remote_key = other.key()}));
  std::fill(mine.begin(), mine.end(), std::byte{0xee});
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  EXPECT_TRUE(to.matches(4, 0, kMaxInlineBytes));
  EXPECT_TRUE(other.matches(4, 0, 100));

  std::vector<std::byte> long_bytes(kMaxInlineBytes + 1);
  const Sge too_long{.data = long_bytes.data(), .bytes = kMaxInlineBytes + 1};
  EXPECT_FALSE(pair.post_a({.kind = OpKind::kSend, .is_inline = true, .local = {&too_long, 1}}));
  EXPECT_THAT(pair.a->last_error(pair.ab), testing::HasSubstr("257"));
}

TEST_P(EndpointContract, UnsignaledWorkCompletesOnlyWithAnError) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 1000);
  Buffer to(*pair.b, 1000);
  const Sge source = from.all();
  for (std::uint64_t i = 0; i < 10; ++i)
    ASSERT_TRUE(pair.post_a({.user_data = i,
                             .kind = OpKind::kWrite,
                             .is_unsignaled = i != 9,
                             .local = {&source, 1},
                             .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(9));
  ASSERT_TRUE(pair.post_a({.user_data = 20,
                           .kind = OpKind::kWrite,
                           .is_unsignaled = true,
                           .local = {&source, 1},
                           .remote_key = to.key() + (1ULL << 40)}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_EQ(pair.a_done[1].user_data, 20U);
  EXPECT_EQ(pair.a_done[1].status, OpStatus::kRemoteKey);
}

TEST_P(EndpointContract, AFencedWriteStartsAfterEarlierReadsCompleted) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 300000;
  Buffer remote(*pair.b, kBytes);
  Buffer fresh(*pair.a, kBytes);
  Buffer got(*pair.a, kBytes);
  remote.fill(1);
  fresh.fill(2);
  const Sge target = got.all();
  const Sge source = fresh.all();
  ASSERT_TRUE(pair.post_a(
      {.user_data = 1, .kind = OpKind::kRead, .local = {&target, 1}, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 2,
                           .kind = OpKind::kWrite,
                           .has_fence = true,
                           .local = {&source, 1},
                           .remote_key = remote.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
  EXPECT_TRUE(got.matches(1, 0, kBytes));
  EXPECT_TRUE(remote.matches(2, 0, kBytes));
}

// READs take a round trip and more; what is posted behind them may finish first but completes
// later.
TEST_P(EndpointContract, RequesterCompletionsComeInPostingOrder) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 100000;
  Buffer remote(*pair.b, kBytes);
  Buffer local(*pair.a, kBytes);
  Buffer old(*pair.a, 8);
  const Sge all = local.all();
  const Sge tiny = local.piece(0, 8);
  const Sge cell = old.all();
  std::vector<std::uint64_t> posted;
  for (std::uint64_t i = 0; i < 60; ++i) {
    WorkRequest work{.user_data = i, .local = {&tiny, 1}, .remote_key = remote.key()};
    switch (i % 5) {
      case 0:
        work.kind = OpKind::kRead;
        work.local = {&all, 1};
        break;
      case 1:
        work.kind = OpKind::kFetchAdd;
        work.local = {&cell, 1};
        break;
      case 2:
        work.kind = OpKind::kSend;
        ASSERT_TRUE(pair.post_b({.user_data = i, .kind = OpKind::kReceive, .local = {}}));
        work.local = {};
        break;
      default:
        work.kind = OpKind::kWrite;
        work.remote_offset = 64;
    }
    ASSERT_TRUE(pair.post_a(work)) << pair.a->last_error(pair.ab);
    posted.push_back(i);
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, 60)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(user_data(pair.a_done), posted);
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
}

TEST_P(EndpointContract, AnImmediateArrivesWhenItsBytesAndAllEarlierOnesAreInPlace) {
  Pair::Options options;
  options.a.faults = "reorder=20%,loss=2%,seed=5";
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 100000;
  constexpr std::uint32_t kRounds = 20;
  Buffer from(*pair.a, kBytes);
  Buffer to(*pair.b, 2 * kBytes * kRounds);
  from.fill(6);
  const Sge source = from.all();
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(pair.post_b({.user_data = i, .kind = OpKind::kReceive}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite,
                             .local = {&source, 1},
                             .remote_key = to.key(),
                             .remote_offset = 2 * kBytes * i}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kWriteImm,
                             .immediate = 1000 + i,
                             .local = {&source, 1},
                             .remote_key = to.key(),
                             .remote_offset = 2 * kBytes * i + kBytes}));
  }
  std::size_t seen = 0;
  ASSERT_TRUE(pair.run_until([&] {
    for (; seen < pair.b_done.size(); ++seen) {
      EXPECT_EQ(pair.b_done[seen].user_data, seen);
      EXPECT_EQ(pair.b_done[seen].immediate, 1000 + seen);
      EXPECT_EQ(pair.b_done[seen].bytes, kBytes);
      EXPECT_TRUE(to.matches(6, 2 * kBytes * seen, kBytes));
      EXPECT_TRUE(to.matches(6, 2 * kBytes * seen + kBytes, kBytes));
    }
    return seen == kRounds;
  })) << pair.a->last_error(pair.ab);
}

TEST_P(EndpointContract, ASendWaitsForItsReceive) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 50000);
  Buffer to(*pair.b, 50000);
  from.fill(8);
  const Sge source = from.all();
  const Sge target = to.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&source, 1}}));
  EXPECT_FALSE(pair.wait_completions(*pair.a, 1, std::chrono::milliseconds(50)));
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  EXPECT_TRUE(to.matches(8, 0, 50000));
}

TEST_P(EndpointContract, AtomicsOfBothSidesSumExactly) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer at_a(*pair.a, 16);
  Buffer at_b(*pair.b, 16);
  const Sge old_a = at_a.piece(8, 8);
  const Sge old_b = at_b.piece(8, 8);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(pair.post_a(
        {.kind = OpKind::kFetchAdd, .local = {&old_a, 1}, .remote_key = at_b.key(), .operand = i}));
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kFetchAdd,
                             .local = {&old_b, 1},
                             .remote_key = at_a.key(),
                             .operand = 2 * i}));
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, 100)) << pair.a->last_error(pair.ab);
  ASSERT_TRUE(pair.wait_completions(*pair.b, 100)) << pair.b->last_error(pair.ba);
  EXPECT_EQ(at_b.word(0), 5050U);
  EXPECT_EQ(at_a.word(0), 10100U);
  EXPECT_EQ(at_a.word(8), 5050U - 100U);
}

TEST_P(EndpointContract, ACompareSwapThatFailsLeavesTheCell) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 16);
  Buffer old(*pair.a, 8);
  const Sge cell = old.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kCompareSwap,
                           .local = {&cell, 1},
                           .remote_key = remote.key(),
                           .remote_offset = 8,
                           .operand = 77,
                           .compare = 1}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(remote.word(8), 0U);
  EXPECT_EQ(old.word(0), 0U);
}

}  // namespace
}  // namespace spindrift
