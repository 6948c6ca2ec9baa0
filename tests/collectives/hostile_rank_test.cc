// Messages as no rank sends them: every call ends, or waits until its group is given up, and no
// byte outside its buffers changes. Seeded; the sanitizers see what the checks here do not.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/collectives/fake_group.h"

namespace spindrift::collectives {
namespace {

constexpr std::size_t kMargin = 4096;
#ifdef __SANITIZE_THREAD__  // there is one thread only, and its heap gives every page back
constexpr std::uint64_t kSeeds = 50;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 200;
#else
constexpr std::uint64_t kSeeds = 1500;
#endif
constexpr std::byte kUntouched{0xA5};

// A buffer between two margins that nobody may write to.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : memory_(2 * kMargin + bytes, kUntouched), bytes_(bytes) {
    std::memset(data(), 0, bytes_);
  }
  std::byte* data() { return memory_.data() + kMargin; }
  void expect_untouched() const {
    for (std::size_t i = 0; i < kMargin; ++i) {
      ASSERT_EQ(memory_[i], kUntouched) << i - kMargin;
      ASSERT_EQ(memory_[kMargin + bytes_ + i], kUntouched) << bytes_ + i;
    }
  }

 private:
  std::vector<std::byte> memory_;
  const std::size_t bytes_;
};

std::uint32_t odd_number(Rng& rng) {
  const std::array<std::uint32_t, 8> odd{0, 1, 2, 7, 255, 4096, 0x7FFFFFFF, UINT32_MAX};
  return rng.below(3) == 0 ? static_cast<std::uint32_t>(rng.next()) : odd[rng.below(odd.size())];
}

// A field of the header or what follows it, the length, or any bytes.
void spoil(Rng& rng, std::vector<std::byte>& bytes, std::uint32_t& immediate) {
  const std::uint64_t how = rng.below(6);
  if (how == 0) immediate = odd_number(rng);
  if (how == 1) immediate ^= 1U << rng.below(32);
  if (how == 2) bytes.resize(rng.below(bytes.size() + 1));
  if (how == 3) bytes.resize(std::min<std::size_t>(bytes.size() + rng.below(64), 4112));
  if (bytes.empty()) return;
  if (how == 4) {
    const std::size_t at = rng.below(std::min<std::size_t>(bytes.size(), 48)) / 4 * 4;
    const std::uint32_t value = odd_number(rng);
    std::memcpy(bytes.data() + at, &value, std::min<std::size_t>(4, bytes.size() - at));
  }
  if (how == 5) bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
}

// The heads of the slots, mostly, or any bytes of what a rank shows the others.
void spoil_shared(Rng& rng, std::span<std::byte> segment) {
  const bool is_head = rng.below(4) != 0;
  const std::size_t at = rng.below(is_head ? 320 : SharedArea::kBytes) / 4 * 4;
  const std::uint32_t value = odd_number(rng);
  std::memcpy(segment.data() + at, &value, sizeof(value));
}

struct Call {
  CollectiveCall call{};
  std::unique_ptr<Guarded> input;
  std::unique_ptr<Guarded> output;
};

Call start_one(FakeGroup& group, std::uint32_t rank, const CollectiveAlgorithm& algorithm,
               std::uint64_t count) {
  const std::size_t bytes = count * sizeof(float) * group.ranks();
  Call one;
  one.input = std::make_unique<Guarded>(bytes);
  one.output = std::make_unique<Guarded>(bytes);
  one.call = {.collective = algorithm.collective,
              .input = one.input->data(),
              .output = one.output->data(),
              .count = count};
  one.call.algorithm = algorithm.name;
  const Result<WorkId> started = group[rank].start(one.call);
  // Not begun where another rank has given up and left before.
  EXPECT_TRUE(started.ok() || group[rank].failure() ||
              started.error().code() == ErrorCode::kUnavailable);
  return one;
}

void run_against_liars(std::uint64_t seed) {
  Rng rng(seed * 7919);
  const auto ranks = static_cast<std::uint32_t>(2 + rng.below(4));
  const bool shares_memory = seed % 2 == 0;
  FakeGroup group({.ranks = ranks,
                   .seed = seed,
                   .full_percent = seed % 4 == 0 ? 30U : 0U,
                   .shares_memory = shares_memory});
  const std::uint64_t every = 2 + rng.below(30);
  group.world().meddle = [&](std::vector<std::byte>& bytes, std::uint32_t& immediate) {
    if (rng.below(every) == 0) spoil(rng, bytes, immediate);
  };
  std::vector<Call> calls;
  for (int i = 0; i < 4; ++i) {
    const CollectiveAlgorithm& algorithm =
        *collective_algorithms()[rng.below(collective_algorithms().size())];
    if (algorithm.collective == Collective::kBarrier ||
        algorithm.collective == Collective::kAllToAllV || algorithm.why_not != nullptr ||
        (algorithm.is_shared && !shares_memory)) {
      continue;
    }
    const std::uint64_t count = rng.below(2) == 0 ? 1 + rng.below(300) : 1000 + rng.below(4000);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      calls.push_back(start_one(group, rank, algorithm, count));
  }
  for (std::uint32_t turn = 0; turn < 3000; ++turn) {
    (void)group[static_cast<std::uint32_t>(rng.below(ranks))].progress();
    if (shares_memory && rng.below(every * 10) == 0) {
      spoil_shared(rng, group.segment(static_cast<std::uint32_t>(rng.below(ranks))));
    }
  }
  for (const Call& call : calls) {
    call.input->expect_untouched();
    call.output->expect_untouched();
  }
  // Whoever waits still, for what was lost, gives up.
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    group[rank].abort("the end of the test");
}

TEST(HostileRank, NeverWritesOutsideABufferNorStopsAProcess) {
  // Thousands of groups come and go: a heap that shrinks each time spends all of it on page faults.
  (void)::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  (void)::mallopt(M_MMAP_THRESHOLD, 1 << 25);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    run_against_liars(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(HostileRank, ThatSendsAStepTwiceIsNamed) {
  FakeGroup group({.ranks = 2, .algorithm = "direct"});
  bool has_seen = false;
  // The second call's message claims to be of the first.
  group.world().meddle = [&](std::vector<std::byte>& bytes, std::uint32_t&) {
    MessageHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.kind != MessageKind::kData) return;
    if (std::exchange(has_seen, true)) header.operation = 0;
    std::memcpy(bytes.data(), &header, sizeof(header));
  };
  std::array<float, 2> own{};
  for (float& value : own) {
    const CollectiveCall call{
        .collective = Collective::kAllReduce, .input = &value, .output = &value, .count = 1};
    ASSERT_TRUE(group[1].start(call).ok());
  }
  Status status = ok_status();
  float value = 0;
  for (std::uint32_t turn = 0; turn < 2000 && status.ok(); ++turn) {
    status = group[0].progress();
    (void)group[1].progress();
    if (turn == 1000) {
      const CollectiveCall call{.input = &value, .output = &value, .count = 1};
      (void)group[0].start(call);
      status = group[0].progress();
    }
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(group[0].failure()->rank, 1U) << status.error().message();
}

}  // namespace
}  // namespace spindrift::collectives
