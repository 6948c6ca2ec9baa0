// The message engine over many lanes (message_arrivals, message_reads, message_lanes): spraying,
// limits, lanes that fail and return.
#include <cstring>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/scripted_world.h"
#include "transport/base/rng.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kMiB = 1U << 20U;
// Where time is measured: it passes a step beyond what ends the waiting.
constexpr Duration kShortStep = 10us;

ConnectOptions lanes(std::uint32_t count) {
  ConnectOptions options;
  options.path_count = count;
  return options;
}

Pair::Options both(const ConnectOptions& options) {
  Pair::Options out;
  out.connect = options;
  out.accept = options;
  return out;
}

// WRITEs of a whole buffer, so many at once; how long they take in the world's time.
Duration write_all(Pair& pair, Buffer& from, Buffer& to, std::size_t count) {
  const Time began = pair.world.now();
  const Sge piece = from.all();
  const std::size_t before = pair.a_done.size();
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_TRUE(
        pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  EXPECT_TRUE(pair.wait_completions(*pair.a, before + count)) << pair.a->last_error(pair.ab);
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk)) << pair.b->last_error(pair.ba);
  return pair.world.now() - began;
}

TEST(MessageLanes, AMessageIsFetchedByAllLanesAtOnce) {
  ScriptedWorld world({.lanes = 8});
  Pair pair(world, both(lanes(8)));
  ASSERT_TRUE(pair.open());
  EXPECT_EQ(pair.a->info(pair.ab).value().path_count, 8U);
  Buffer from(*pair.a, 8 * kMiB);
  Buffer to(*pair.b, 8 * kMiB);
  from.fill(1);
  write_all(pair, from, to, 1);
  EXPECT_TRUE(to.matches(1, 0, from.bytes.size()));
  EXPECT_THAT(world.net().lane_bytes(), Each(testing::Gt(kMiB / 2)));
  EXPECT_EQ(counter(*pair.b, pair.ba, "chunks_fetched"), 128U);
  std::uint64_t reported = 0;
  for (const PathReport& lane : pair.b->paths(pair.ba))
    reported += lane.bytes_sent;
  EXPECT_EQ(reported, 8 * kMiB);
}

TEST(MessageLanes, FewerLanesThanPathsAreTold) {
  ScriptedWorld world({.lanes = 4});
  Pair pair(world, {});
  pair.options.accept.path_count = 3;
  ASSERT_TRUE(pair.open());
  EXPECT_EQ(pair.a->info(pair.ab).value().path_count, 3U);
  EXPECT_EQ(pair.b->info(pair.ba).value().path_count, 3U);
}

// A read takes 100 us here, whatever its length.
TEST(MessageLanes, ManyMessagesAreFetchedSideBySideAndEndInOrder) {
  ScriptedWorld world({.lanes = 8, .read_least = 100us, .read_most = 100us});
  world.longest_step = kShortStep;
  Pair pair(world, both(lanes(8)));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 65536);
  Buffer to(*pair.b, 65536);
  EXPECT_LT(write_all(pair, from, to, 32), 8 * 100us);
}

// Short messages between long ones go their own way, and end in their place.
TEST(MessageLanes, ShortMessagesKeepTheirPlaceBehindLongOnes) {
  ScriptedWorld world({.lanes = 8, .read_least = 100us, .read_most = 100us});
  world.longest_step = kShortStep;
  Pair pair(world, both(lanes(8)));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 200000);
  Buffer to(*pair.b, 200000);
  from.fill(5);
  const Time began = world.now();
  for (std::uint64_t i = 0; i < 16; ++i) {
    const Sge target = to.piece(0, i % 2 == 0 ? 100000 : 100);
    const Sge piece = from.piece(0, target.bytes);
    ASSERT_TRUE(pair.post_b({.user_data = i, .kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_a({.user_data = i, .kind = OpKind::kSend, .local = {&piece, 1}}));
  }
  ASSERT_TRUE(pair.wait_completions(*pair.b, 16));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 16));
  EXPECT_LT(world.now() - began, 4 * 100us);
  for (std::uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(pair.b_done[i].user_data, i);
    EXPECT_EQ(pair.b_done[i].bytes, i % 2 == 0 ? 100000U : 100U);
    EXPECT_EQ(pair.a_done[i].user_data, i);
  }
}

TEST(MessageLanes, WhatIsUnderWayKeepsToTheWindowAndToEachLanesShare) {
  ScriptedWorld world({.lanes = 8, .reads_per_lane = 64, .read_least = 50us, .read_most = 100us});
  ConnectOptions options = lanes(8);
  options.congestion_control = "fixed_window:window_bytes=400000";
  options.lane_bytes = 131072;
  Pair pair(world, both(options));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 4 * kMiB);
  Buffer to(*pair.b, 4 * kMiB);
  write_all(pair, from, to, 4);
  EXPECT_LE(world.net().most_bytes(), 400000U);
  EXPECT_GT(world.net().most_bytes(), 300000U);
  EXPECT_LE(world.net().most_lane_bytes(), 131072U);
}

TEST(MessageLanes, WithoutAWindowTheLanesShareIsTheLimit) {
  ScriptedWorld world({.lanes = 4, .reads_per_lane = 64, .read_least = 50us, .read_most = 100us});
  ConnectOptions options = lanes(4);
  options.congestion_control = "fixed_window:window_bytes=100000000";
  Pair pair(world, both(options));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 8 * kMiB);
  Buffer to(*pair.b, 8 * kMiB);
  write_all(pair, from, to, 1);
  EXPECT_EQ(world.net().most_lane_bytes(), options.lane_bytes);
  EXPECT_EQ(world.net().most_bytes(), 4 * options.lane_bytes);
}

// DCQCN begins at the rate of the link: 4 MiB at 2 Gb/s are 16.8 ms.
TEST(MessageLanes, ReadsArePaced) {
  ScriptedWorld world({.lanes = 4});
  world.longest_step = kShortStep;
  ConnectOptions options = lanes(4);
  options.congestion_control = "dcqcn";
  options.link_rate = Rate::gbps(2);
  Pair pair(world, both(options));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 4 * kMiB);
  Buffer to(*pair.b, 4 * kMiB);
  const Duration took = write_all(pair, from, to, 1);
  EXPECT_GT(took, 16ms);
  EXPECT_LT(took, 20ms);
}

TEST(MessageLanes, EveryCongestionControlAndPathPolicyWillDo) {
  for (const std::string policy : {"single", "round_robin", "bitmap", "reps", "mixed", "least_rtt"})
    for (const std::string control :
         {"fixed_window", "dcqcn", "nscc", "swift", "timely", "dctcp"}) {
      ScriptedWorld world({.lanes = 8, .loss = 0.02});
      ConnectOptions options = lanes(8);
      options.congestion_control = control;
      options.path_selector = policy;
      Pair pair(world, both(options));
      ASSERT_TRUE(pair.open());
      Buffer from(*pair.a, 3 * kMiB);
      Buffer to(*pair.b, 3 * kMiB);
      from.fill(2);
      write_all(pair, from, to, 3);
      EXPECT_TRUE(to.matches(2, 0, from.bytes.size())) << policy << " " << control;
    }
}

TEST(MessageLanes, ADeniedLaneCarriesNothingWhicheverSideDeniesIt) {
  for (const bool by_reader : {false, true}) {
    ScriptedWorld world({.lanes = 4});
    ConnectOptions options = lanes(4);
    options.path_selector = "round_robin";
    Pair pair(world, both(options));
    ASSERT_TRUE(pair.open());
    Endpoint& end = by_reader ? *pair.b : *pair.a;
    const ConnId conn = by_reader ? pair.ba : pair.ab;
    ASSERT_TRUE(end.deny_path(conn, PathId{2}, true).ok());
    Buffer from(*pair.a, 2 * kMiB);
    Buffer to(*pair.b, 2 * kMiB);
    write_all(pair, from, to, 1);
    EXPECT_EQ(world.net().lane_bytes()[2], 0U);
    EXPECT_GT(world.net().lane_bytes()[1], 0U);
    ASSERT_TRUE(end.deny_path(conn, PathId{2}, false).ok());
    write_all(pair, from, to, 1);
    EXPECT_GT(world.net().lane_bytes()[2], 0U);
  }
}

TEST(MessageLanes, WhatAFailedLaneHadGoesByTheOthersAndItIsUsedAgainWhenItReturns) {
  ScriptedWorld world({.lanes = 4, .read_least = 20us, .read_most = 60us});
  Pair pair(world, both(lanes(4)));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 16 * kMiB);
  Buffer to(*pair.b, 16 * kMiB);
  from.fill(9);
  const Sge piece = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.run_until([&] { return world.net().lane_bytes()[1] > kMiB; }));
  world.net().set_lane(1, false);
  const std::uint64_t then = world.net().lane_bytes()[1];
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kOk);
  EXPECT_TRUE(to.matches(9, 0, from.bytes.size()));
  EXPECT_EQ(world.net().lane_bytes()[1], then);
  EXPECT_GT(counter(*pair.b, pair.ba, "chunks_lost"), 0U);
  for (const auto& [end, conn] : {std::pair{pair.a.get(), pair.ab}, {pair.b.get(), pair.ba}}) {
    EXPECT_EQ(end->paths(conn).at(1).state, "bad");
    EXPECT_EQ(end->paths(conn).at(0).state, "good");
    EXPECT_EQ(counter(*end, conn, "paths_went_bad"), 1U);
    EXPECT_EQ(state(*end, conn, "bad_paths"), 1);
  }
  world.net().set_lane(1, true);
  write_all(pair, from, to, 1);
  EXPECT_GT(world.net().lane_bytes()[1], then);
  EXPECT_EQ(pair.b->paths(pair.ba).at(1).state, "good");
  EXPECT_EQ(counter(*pair.b, pair.ba, "paths_restored"), 1U);
}

// A device that fails says nothing about the network.
TEST(MessageLanes, ALaneThatFailsDoesNotShrinkTheWindow) {
  ScriptedWorld world({.lanes = 8, .read_least = 20us, .read_most = 20us});
  Pair pair(world, both(lanes(8)));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 16 * kMiB);
  Buffer to(*pair.b, 16 * kMiB);
  const Sge piece = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.run_until([&] { return world.net().lane_bytes()[3] > kMiB; }));
  const double before = state(*pair.b, pair.ba, "fetch_limit_bytes");
  world.net().set_lane(3, false);
  for (int i = 0; i < 3; ++i)
    pair.step();
  EXPECT_GE(state(*pair.b, pair.ba, "fetch_limit_bytes"), before);
}

TEST(MessageLanes, WithTheLastLaneGoneWorkEndsInTimeAndSaysWhichLanesAndWhy) {
  ScriptedWorld world({.lanes = 2});
  world.longest_step = kShortStep;
  ConnectOptions options = lanes(2);
  options.silence_limit = 50ms;
  Pair pair(world, both(options));
  ASSERT_TRUE(pair.open());
  Buffer from(*pair.a, 4 * kMiB);
  Buffer to(*pair.b, 4 * kMiB);
  const Sge piece = from.all();
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.run_until([&] { return world.net().lane_bytes()[1] != 0; }));
  for (const std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}})
    world.net().set_lane(lane, false);
  const Time began = world.now();
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_NE(pair.a_done[0].status, OpStatus::kOk);
  EXPECT_GE(world.now() - began, 49ms);
  EXPECT_LT(world.now() - began, 75ms);
  EXPECT_EQ(pair.b->info(pair.ba).value().state, ConnState::kFailed);
  EXPECT_THAT(pair.b->last_error(pair.ba),
              AllOf(HasSubstr("host 0"), HasSubstr("2 of 2 lanes are down"),
                    HasSubstr("lane 1 (port 1, down: its cable was pulled)"),
                    HasSubstr("nothing of what")));
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("last_error() says why"));
}

TEST(MessageLanes, ADeadlineThatPassesWithoutLanesNamesThem) {
  ScriptedWorld world({.lanes = 2});
  world.longest_step = kShortStep;
  Pair pair(world, both(lanes(2)));
  ASSERT_TRUE(pair.open());
  for (const std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}})
    world.net().set_lane(lane, false);
  Buffer from(*pair.b, kMiB);
  Buffer to(*pair.a, kMiB);
  const Sge piece = to.all();
  const Time began = world.now();
  ASSERT_TRUE(pair.post_a(
      {.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = from.key(), .timeout = 5ms}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kTimedOut);
  EXPECT_LT(world.now() - began, 6ms);
  EXPECT_THAT(pair.a->last_error(pair.ab),
              AllOf(HasSubstr("deadline of a read"), HasSubstr("2 of 2 lanes are down"),
                    HasSubstr("its cable was pulled")));
}

// Lanes fail and return, reads are lost, offers find no room, while both sides work at random.
class RandomWork {
 public:
  explicit RandomWork(std::uint64_t seed)
      : rng_(seed),
        world_({.lanes = kLanes,
                .offer_refusals = 7,
                .loss = 0.02,
                .read_least = 3us,
                .read_most = 40us,
                .seed = seed}),
        pair_(world_, options(rng_)) {}

  void run() {
    ASSERT_TRUE(pair_.open());
    sides_[0].emplace(*pair_.a, kMemory);
    sides_[1].emplace(*pair_.b, kMemory);
    for (auto& side : sides_)
      side->fill(1);
    for (int i = 0; i < kOperations; ++i)
      post_one();
    for (int turn = 0; !is_done(); ++turn) {
      ASSERT_LT(turn, 400000) << pair_.a_done.size() << " " << pair_.b_done.size();
      if (turn % 8 == 0) shake_lanes();
      pair_.step();
      if (failed()) return;
    }
    check();
  }

 private:
  static constexpr std::uint16_t kLanes = 5;
  static constexpr int kOperations = 60;
  static constexpr std::size_t kSlot = 150000;  // every piece of work has one of its own
  static constexpr std::size_t kCell = 2 * kOperations * kSlot;
  static constexpr std::size_t kMemory = kCell + 8;

  struct Expected {
    int side = 0;  // whose memory changes
    std::size_t at = 0;
    std::size_t bytes = 0;
    std::size_t source = 0;  // where the same bytes lie on the other side
  };

  static Pair::Options options(Rng& rng) {
    ConnectOptions out = lanes(kLanes);
    out.congestion_control = rng.below(2) == 0 ? "nscc" : "swift";
    out.path_selector = rng.below(2) == 0 ? "reps" : "least_rtt";
    out.chunk_bytes = rng.below(2) == 0 ? 16384 : 65536;
    return both(out);
  }
  std::size_t length() {
    switch (rng_.below(4)) {
      case 0:
        return rng_.below(3);
      case 1:
        return rng_.below(16384);
      default:
        return 16384 + rng_.below(kSlot - 16384);
    }
  }
  void post_one() {
    const int side = static_cast<int>(rng_.below(2));
    Buffer& own = *sides_[side];
    Buffer& other = *sides_[1 - side];
    const std::size_t at = slot_++ * kSlot;
    const std::size_t source = slot_++ * kSlot;
    const std::size_t bytes = length();
    const std::size_t half = bytes / 3;
    const Sge pieces[] = {own.piece(source, half), own.piece(source + half, bytes - half)};
    const Sge target = other.piece(at, bytes);
    WorkRequest work{.user_data = next_++, .local = pieces};
    switch (rng_.below(5)) {
      case 0:
      case 1:
        ASSERT_TRUE(post(1 - side, {.kind = OpKind::kReceive, .local = {&target, 1}}));
        work.kind = OpKind::kSend;
        expected_.push_back({1 - side, at, bytes, source});
        ++receives_[1 - side];
        break;
      case 2:
        work.kind = OpKind::kWrite;
        work.remote_key = other.key();
        work.remote_offset = at;
        expected_.push_back({1 - side, at, bytes, source});
        break;
      case 3:
        work.kind = OpKind::kRead;
        work.remote_key = other.key();
        work.remote_offset = at;
        expected_.push_back({side, source, bytes, at});
        break;
      default:
        add(side, own.piece(source, 8));
        return;
    }
    ASSERT_TRUE(post(side, work));
    ++posted_[side];
  }
  void add(int side, const Sge& old) {
    ASSERT_TRUE(post(side, {.user_data = next_++,
                            .kind = OpKind::kFetchAdd,
                            .local = {&old, 1},
                            .remote_key = sides_[1 - side]->key(),
                            .remote_offset = kCell,
                            .operand = 1}));
    ++added_[1 - side];
    ++posted_[side];
  }
  bool post(int side, const WorkRequest& work) {
    return side == 0 ? pair_.post_a(work) : pair_.post_b(work);
  }
  void shake_lanes() {
    const auto lane = static_cast<std::uint16_t>(rng_.below(kLanes));
    const bool is_up = world_.net().is_up(lane);
    if (rng_.below(is_up ? 12 : 4) == 0) world_.net().set_lane(lane, !is_up);
  }
  bool is_done() const {
    return pair_.a_done.size() == posted_[0] + receives_[0] &&
           pair_.b_done.size() == posted_[1] + receives_[1];
  }
  bool failed() {
    for (const auto* done : {&pair_.a_done, &pair_.b_done})
      if (!done->empty() && done->back().status != OpStatus::kOk) {
        ADD_FAILURE() << to_string(done->back().status) << " a: " << pair_.a->last_error(pair_.ab)
                      << " b: " << pair_.b->last_error(pair_.ba);
        return true;
      }
    return false;
  }
  void check() {
    for (const auto* done : {&pair_.a_done, &pair_.b_done}) {
      EXPECT_THAT(statuses(*done), Each(OpStatus::kOk));
      std::uint64_t last = 0;
      for (const Completion& one : *done) {
        if (one.kind == OpKind::kReceive) continue;
        EXPECT_GT(one.user_data, last) << "completions in the order of posting";
        last = one.user_data;
      }
    }
    for (const Expected& one : expected_) {
      const std::byte* got = sides_[one.side]->bytes.data() + one.at;
      const std::byte* want = sides_[1 - one.side]->bytes.data() + one.source;
      EXPECT_EQ(std::memcmp(got, want, one.bytes), 0) << one.bytes;
      EXPECT_TRUE(sides_[1 - one.side]->matches(1, one.source, one.bytes, one.source));
      // And not a byte beyond.
      EXPECT_TRUE(sides_[one.side]->matches(1, one.at + one.bytes, 1, one.at + one.bytes));
    }
    for (const int side : {0, 1}) {
      std::uint64_t start = 0;
      for (std::size_t i = 0; i < 8; ++i)
        start |= static_cast<std::uint64_t>(pattern(1, kCell + i)) << (8 * i);
      EXPECT_EQ(sides_[side]->word(kCell), start + added_[side]);
    }
  }

  Rng rng_;
  ScriptedWorld world_;
  Pair pair_;
  std::optional<Buffer> sides_[2];
  std::vector<Expected> expected_;
  std::size_t slot_ = 0;
  std::uint64_t next_ = 1;
  std::size_t posted_[2] = {0, 0};
  std::size_t receives_[2] = {0, 0};
  std::uint64_t added_[2] = {0, 0};
};

class MessageLanesAtRandom : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MessageLanesAtRandom, EveryByteComesOnceAndAllWorkEnds) {
  RandomWork(GetParam()).run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, MessageLanesAtRandom,
                         testing::Range(std::uint64_t{1}, std::uint64_t{41}));

}  // namespace
}  // namespace spindrift
