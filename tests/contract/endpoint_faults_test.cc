// The endpoint contract under faults: a random mix of all operations, content checked byte by byte,
// every completion exactly once and in order, atomics summed.
#include <random>

#include "absl/strings/str_cat.h"
#include "providers/memory/memory_network.h"
#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSlotBytes = 70000;
constexpr std::size_t kSlots = 48;
constexpr std::size_t kCells = 4;

// One side's memory: slots that the peer's WRITEs and SENDs fill, slots that it READs, and cells.
struct Side {
  Side(Endpoint& e, std::uint64_t seed)
      : endpoint(e),
        source(e, kSlotBytes),
        written(e, kSlots * kSlotBytes),
        received(e, kSlots * kSlotBytes),
        fetched(e, kSlots * kSlotBytes),
        cells(e, kCells * 8),
        old_values(e, kSlots * 8),
        pattern_seed(seed) {
    source.fill(seed);
  }
  Endpoint& endpoint;
  Buffer source;
  Buffer written;
  Buffer received;
  Buffer fetched;
  Buffer cells;
  Buffer old_values;
  std::uint64_t pattern_seed;
  std::vector<WorkRequest> posted;    // requests, in order
  std::vector<std::size_t> lengths;   // of them
  std::vector<std::size_t> offsets;   // into the source of the pattern
  std::vector<std::size_t> messages;  // indices of those that consume a RECEIVE
  std::array<std::uint64_t, kCells> added{};
  std::uint32_t receives = 0;
};

// Both sides work on each other at once.
class Mix {
 public:
  Mix(Pair& pair, std::uint64_t seed)
      : pair_(pair), rng_(seed), a_(*pair.a, 2 * seed), b_(*pair.b, 2 * seed + 1) {}

  void post(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      post_one(a_, b_, pair_.ab, pair_.ba);
      post_one(b_, a_, pair_.ba, pair_.ab);
      if (rng_() % 4 == 0) pair_.step();
    }
  }
  void check(Duration limit) {
    const bool is_done = pair_.run_until(
        [&] {
          return pair_.a_done.size() == a_.posted.size() + a_.receives &&
                 pair_.b_done.size() == b_.posted.size() + b_.receives;
        },
        limit);
    ASSERT_TRUE(is_done) << pair_.a_done.size() << " of " << a_.posted.size() + a_.receives << ", "
                         << pair_.b_done.size() << " of " << b_.posted.size() + b_.receives << ": "
                         << pair_.a->last_error(pair_.ab) << pair_.b->last_error(pair_.ba);
    for (int i = 0; i < 50; ++i)
      pair_.step();  // nothing may come twice
    ASSERT_EQ(pair_.a->info(pair_.ab).value().state, ConnState::kOpen)
        << pair_.a->last_error(pair_.ab);
    ASSERT_EQ(pair_.b->info(pair_.ba).value().state, ConnState::kOpen)
        << pair_.b->last_error(pair_.ba);
    check_side(a_, b_, pair_.a_done);
    check_side(b_, a_, pair_.b_done);
  }

 private:
  void post_one(Side& me, Side& peer, ConnId mine, ConnId theirs) {
    const std::size_t i = me.posted.size();
    WorkRequest work{.user_data = i, .conn = mine};
    std::size_t length = rng_() % 3 == 0 ? rng_() % 300 : rng_() % kSlotBytes;
    const std::size_t offset = rng_() % (kSlotBytes - length);
    work.kind = static_cast<OpKind>(std::array{OpKind::kSend, OpKind::kWrite, OpKind::kWriteImm,
                                               OpKind::kRead, OpKind::kFetchAdd,
                                               OpKind::kCompareSwap}[rng_() % 6]);
    work.remote_offset = i * kSlotBytes;
    work.remote_key = peer.written.key();
    work.immediate = static_cast<std::uint32_t>(7 * i);
    Sge pieces[2] = {me.source.piece(offset, length / 3),
                     me.source.piece(offset + length / 3, length - length / 3)};
    work.local = pieces;
    if (work.kind == OpKind::kRead) {
      work.remote_key = peer.source.key();
      work.remote_offset = offset;
      pieces[0] = me.fetched.piece(i * kSlotBytes, length / 2);
      pieces[1] = me.fetched.piece(i * kSlotBytes + length / 2, length - length / 2);
    } else if (work.kind == OpKind::kFetchAdd || work.kind == OpKind::kCompareSwap) {
      const std::size_t cell = rng_() % kCells;
      length = 8;
      work.remote_key = peer.cells.key();
      work.remote_offset = cell * 8;
      pieces[0] = me.old_values.piece(i * 8, 8);
      work.local = {pieces, 1};
      work.operand = 1 + rng_() % 1000;
      work.compare = ~std::uint64_t{0};  // never met: the cell only counts
      if (work.kind == OpKind::kFetchAdd) me.added[cell] += work.operand;
    } else if (length <= kMaxInlineBytes && rng_() % 2 == 0) {
      work.is_inline = true;
    }
    work.has_fence = rng_() % 8 == 0;
    if (work.kind == OpKind::kSend || work.kind == OpKind::kWriteImm)
      post_receive(me, peer, theirs);
    ASSERT_EQ(me.endpoint.post({&work, 1}).accepted, 1U) << me.endpoint.last_error(mine);
    work.local = {};
    me.posted.push_back(work);
    me.lengths.push_back(length);
    me.offsets.push_back(offset);
  }
  void post_receive(Side& me, Side& peer, ConnId theirs) {
    const Sge target = peer.received.piece(peer.receives * kSlotBytes, kSlotBytes);
    const WorkRequest receive{.user_data = 1000U + peer.receives,
                              .conn = theirs,
                              .kind = OpKind::kReceive,
                              .local = {&target, 1}};
    ASSERT_EQ(peer.endpoint.post({&receive, 1}).accepted, 1U);
    me.messages.push_back(me.posted.size());
    ++peer.receives;
  }

  static void check_side(const Side& me, const Side& peer, const std::vector<Completion>& done) {
    std::size_t requests = 0;
    std::size_t receives = 0;
    for (const Completion& one : done) {
      EXPECT_EQ(one.status, OpStatus::kOk);
      if (one.kind != OpKind::kReceive) {
        EXPECT_EQ(one.user_data, requests);
        EXPECT_EQ(one.bytes, me.lengths.at(requests));
        ++requests;
        continue;
      }
      EXPECT_EQ(one.user_data, 1000 + receives);
      const std::size_t index = peer.messages.at(receives);
      EXPECT_EQ(one.bytes, peer.lengths[index]);
      EXPECT_EQ(one.has_immediate, peer.posted[index].kind == OpKind::kWriteImm);
      if (one.has_immediate) {
        EXPECT_EQ(one.immediate, 7 * index);
      }
      ++receives;
    }
    check_content(me, peer);
  }
  static void check_content(const Side& me, const Side& peer) {
    std::size_t message = 0;
    for (std::size_t i = 0; i < me.posted.size(); ++i) {
      const std::size_t length = me.lengths[i];
      const std::size_t offset = me.offsets[i];
      switch (me.posted[i].kind) {
        case OpKind::kSend:
          EXPECT_TRUE(
              peer.received.matches(me.pattern_seed, message++ * kSlotBytes, length, offset))
              << i;
          break;
        case OpKind::kWriteImm:
          ++message;
          [[fallthrough]];
        case OpKind::kWrite:
          EXPECT_TRUE(peer.written.matches(me.pattern_seed, i * kSlotBytes, length, offset)) << i;
          EXPECT_EQ(peer.written.bytes[i * kSlotBytes + length], std::byte{0}) << i;
          break;
        case OpKind::kRead:
          EXPECT_TRUE(me.fetched.matches(peer.pattern_seed, i * kSlotBytes, length, offset)) << i;
          break;
        default:
          break;
      }
    }
    for (std::size_t cell = 0; cell < kCells; ++cell)
      EXPECT_EQ(peer.cells.word(8 * cell), me.added[cell]);
  }

  Pair& pair_;
  std::mt19937_64 rng_;
  Side a_;
  Side b_;
};

Pair::Options options_for(const std::string& faults, std::uint64_t seed) {
  Pair::Options options;
  if (!faults.empty()) options.connect.crc = CrcChoice::kOn;
  options.connect.connect_timeout = 60s;
  options.accept.connect_timeout = 60s;
  options.connect.silence_limit_passive = 600s;
  options.accept.silence_limit_passive = 600s;
  options.a.endpoint.seed = seed + 1;
  options.b.endpoint.seed = seed + 100001;
  if (faults.empty()) return options;
  options.a.faults = absl::StrCat(faults, ",seed=", 2 * seed + 1);
  options.b.faults = absl::StrCat(faults, ",seed=", 2 * seed + 2);
  return options;
}

void run_mix(EndpointWorld& world, const std::string& faults, std::uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("faults ", faults, ", seed ", seed));
  Pair pair(world, options_for(faults, seed));
  ASSERT_OPENS(pair);
  Mix mix(pair, seed);
  mix.post(kSlots);
  if (!testing::Test::HasFatalFailure()) mix.check(600s);
}

TEST_P(ReliableEndpointContract, ExactlyOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    run_mix(*world, "", seed);
    if (HasFailure()) return;
  }
}

TEST_P(EndpointContract, ExactlyOnceAndInOrderUnderEachFaultAlone) {
  const bool is_real = world->network() == nullptr;
  for (const char* fault : {"loss", "duplicate", "reorder", "corrupt"})
    for (const int percent : {0, 1, 5, 30})
      for (std::uint64_t seed = 1; seed <= (is_real ? 1U : 4U); ++seed) {
        if (percent == 0 && fault != std::string("loss")) continue;
        run_mix(*world, absl::StrCat(fault, "=", percent, "%"), seed);
        if (HasFailure()) return;
      }
}

TEST_P(EndpointContract, ExactlyOnceAndInOrderUnderAllFaultsTogether) {
  const bool is_real = world->network() == nullptr;
  for (const int percent : {1, 5, 10, 20, 30})
    for (std::uint64_t seed = 1; seed <= (is_real ? 1U : 6U); ++seed) {
      run_mix(*world,
              absl::StrCat("loss=", percent, "%,duplicate=", percent, "%,reorder=", percent,
                           "%,corrupt=", percent, "%"),
              seed);
      if (HasFailure()) return;
    }
}

TEST_P(EndpointContract, ExactlyOnceOnASinglePathAndWithEveryPolicyUnderLoss) {
  for (const char* policy : {"single", "round_robin", "bitmap", "reps", "mixed", "least_rtt"})
    for (const char* algorithm : {"nscc", "dcqcn", "fixed_window", "dctcp", "swift", "timely",
                                  "receiver_credit", "nscc+receiver_credit"}) {
      SCOPED_TRACE(absl::StrCat(policy, " ", algorithm));
      Pair::Options options = options_for("loss=3%,reorder=5%,jitter=20us", 5);
      options.connect.path_selector = policy;
      options.connect.congestion_control = algorithm;
      options.accept.path_selector = policy;
      options.accept.congestion_control = algorithm;
      if (policy == std::string("single")) options.connect.path_count = 1;
      Pair pair(*world, options);
      ASSERT_OPENS(pair);
      Mix mix(pair, 5);
      mix.post(kSlots / 2);
      ASSERT_FALSE(HasFatalFailure());
      mix.check(600s);
      ASSERT_FALSE(HasFailure());
    }
}

// One dark path costs what was in flight on it, and it is used again when it returns.
// Long enough to be met by a process that shares its processor with many.
TEST_P(EndpointContract, ABlackholeOfOnePathIsLeftAndRestored) {
  Pair::Options options = options_for("blackhole=ev3@0s+500ms", 3);
  options.connect.path_selector = "round_robin";
  options.connect.burst_bytes = 0;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 100000);
  Buffer to(*pair.b, 100000);
  const Sge source = from.all();
  std::size_t posted = 0;
  bool was_bad = false;
  bool is_restored = false;
  ASSERT_TRUE(pair.run_until(
      [&] {
        const bool is_bad = pair.a->paths(pair.ab).at(3).state == "bad";
        was_bad = was_bad || is_bad;
        is_restored = was_bad && !is_bad;
        if (pair.a_done.size() == posted && !is_restored) {
          ++posted;
          EXPECT_TRUE(
              pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
        }
        return is_restored && pair.a_done.size() == posted;
      },
      60s));
  EXPECT_THAT(statuses(pair.a_done), testing::Each(OpStatus::kOk));
  EXPECT_GT(counter(*pair.a, pair.ab, "paths_restored"), 0U);
}

TEST_P(EndpointContract, ABlackholeOfAllPathsIsSurvivedWhileSilenceIsAllowed) {
  Pair::Options options = options_for("blackhole=ev0-255@20ms+300ms", 4);
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Mix mix(pair, 4);
  const Time start = world->now();
  mix.post(kSlots / 2);
  ASSERT_TRUE(pair.run_until([&] { return world->now() - start > 40ms; }));
  mix.post(kSlots / 2);
  mix.check(60s);
  EXPECT_LT(world->now() - start, 5s);
}

TEST_P(EndpointContract, TotalSilenceFailsTheConnectionWithItsCause) {
  Pair::Options options = options_for("blackhole=ev0-255@50ms+9s", 5);
  options.connect.silence_limit_passive = 300ms;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 100000);
  Buffer to(*pair.b, 100000);
  const Sge source = from.all();
  pair.run_until([] { return false; }, 60ms);
  const Time start = world->now();
  for (std::uint64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(pair.post_a(
        {.user_data = i, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 3));
  EXPECT_GE(world->now() - start, 290ms);
  EXPECT_LT(world->now() - start, 2s);
  EXPECT_THAT(statuses(pair.a_done), testing::Each(OpStatus::kPeerGone));
  EXPECT_THAT(pair.a->last_error(pair.ab), testing::HasSubstr("silent"));
  EXPECT_THAT(pair.a->last_error(pair.ab), testing::HasSubstr("paths"));
}

}  // namespace
}  // namespace spindrift
