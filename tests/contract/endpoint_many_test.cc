// A hundred thousand operations of random kinds and lengths over one connection, each checked byte
// by byte when it completes.
#include <cstring>
#include <random>

#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kOperations = 100000;
constexpr std::size_t kUnderWay = 64;
constexpr std::size_t kSlotBytes = 40000;

class Many {
 public:
  Many(Pair& pair, std::uint64_t seed)
      : pair_(pair),
        random_(seed),
        source_(*pair.a, 2 * kSlotBytes),
        fetched_(*pair.a, kUnderWay * kSlotBytes),
        old_values_(*pair.a, kUnderWay * 8),
        theirs_(*pair.b, 2 * kSlotBytes),
        written_(*pair.b, kUnderWay * kSlotBytes),
        received_(*pair.b, kUnderWay * kSlotBytes),
        cell_(*pair.b, 8) {
    source_.fill(1);
    theirs_.fill(2);
  }

  void run() {
    while (completed_ < kOperations && !testing::Test::HasFailure()) {
      while (posted_ < kOperations && posted_ - completed_ < kUnderWay)
        post();
      pair_.step();
      check_received();
      check_completed();
      ASSERT_EQ(pair_.a->info(pair_.ab).value().state, ConnState::kOpen)
          << pair_.a->last_error(pair_.ab);
    }
    EXPECT_EQ(cell_.word(0), added_);
  }

 private:
  struct Operation {
    OpKind kind = OpKind::kWrite;
    std::size_t length = 0;
    std::size_t offset = 0;     // in the source
    std::uint64_t before = 0;   // of the cell
    std::uint64_t message = 0;  // which RECEIVE
  };

  void post() {
    constexpr OpKind kKinds[] = {OpKind::kSend, OpKind::kWrite, OpKind::kWriteImm, OpKind::kRead,
                                 OpKind::kFetchAdd};
    const std::size_t slot = posted_ % kUnderWay;
    Operation& one = operations_[slot];
    one.kind = kKinds[random_() % 5];
    one.length = random_() % 8 == 0 ? random_() % kSlotBytes : random_() % 200;
    one.offset = random_() % kSlotBytes;
    Sge piece = source_.piece(one.offset, one.length);
    WorkRequest work{.user_data = posted_, .kind = one.kind, .remote_key = written_.key()};
    work.remote_offset = slot * kSlotBytes;
    work.immediate = static_cast<std::uint32_t>(posted_);
    work.local = {&piece, 1};
    if (one.kind == OpKind::kRead) {
      piece = fetched_.piece(slot * kSlotBytes, one.length);
      work.remote_key = theirs_.key();
      work.remote_offset = one.offset;
    } else if (one.kind == OpKind::kFetchAdd) {
      one.before = added_;
      piece = old_values_.piece(slot * 8, 8);
      work.remote_key = cell_.key();
      work.remote_offset = 0;
      work.operand = random_() % 1000;
      added_ += work.operand;
    } else if (one.length <= kMaxInlineBytes) {
      work.is_inline = random_() % 2 == 0;
    }
    if (one.kind == OpKind::kSend || one.kind == OpKind::kWriteImm) {
      one.message = receives_;
      const Sge target = received_.piece(receives_ % kUnderWay * kSlotBytes, kSlotBytes);
      ASSERT_TRUE(pair_.post_b(
          {.user_data = receives_++, .kind = OpKind::kReceive, .local = {&target, 1}}));
      expected_.push_back(posted_);
    }
    ASSERT_TRUE(pair_.post_a(work)) << pair_.a->last_error(pair_.ab);
    ++posted_;
  }

  // Before the slot is used again: b has it no later than a.
  void check_received() {
    for (const Completion& done : pair_.b_done) {
      ASSERT_EQ(done.status, OpStatus::kOk);
      ASSERT_EQ(done.user_data, received_count_);
      const Operation& one = operations_[expected_[received_count_] % kUnderWay];
      ASSERT_EQ(done.bytes, one.length);
      ASSERT_EQ(done.has_immediate, one.kind == OpKind::kWriteImm);
      if (one.kind == OpKind::kSend) {
        const std::byte* at = received_.bytes.data() + received_count_ % kUnderWay * kSlotBytes;
        ASSERT_EQ(std::memcmp(at, source_.bytes.data() + one.offset, one.length), 0);
      }
      ++received_count_;
    }
    pair_.b_done.clear();
  }
  void check_completed() {
    for (const Completion& done : pair_.a_done) {
      ASSERT_EQ(done.status, OpStatus::kOk);
      ASSERT_EQ(done.user_data, completed_);
      const std::size_t slot = completed_++ % kUnderWay;
      const Operation& one = operations_[slot];
      const std::byte* at = written_.bytes.data() + slot * kSlotBytes;
      const std::byte* from = source_.bytes.data() + one.offset;
      if (one.kind == OpKind::kRead) {
        at = fetched_.bytes.data() + slot * kSlotBytes;
        from = theirs_.bytes.data() + one.offset;
      }
      if (one.kind == OpKind::kFetchAdd) {
        ASSERT_EQ(old_values_.word(slot * 8), one.before);
      } else if (one.kind != OpKind::kSend) {
        ASSERT_EQ(std::memcmp(at, from, one.length), 0);
      }
    }
    pair_.a_done.clear();
  }

  Pair& pair_;
  std::mt19937_64 random_;
  Buffer source_;
  Buffer fetched_;
  Buffer old_values_;
  Buffer theirs_;
  Buffer written_;
  Buffer received_;
  Buffer cell_;
  std::array<Operation, kUnderWay> operations_{};
  std::vector<std::uint64_t> expected_;  // the operation that each RECEIVE meets
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t receives_ = 0;
  std::uint64_t received_count_ = 0;
  std::uint64_t added_ = 0;
};

TEST_P(ReliableEndpointContract, AHundredThousandRandomOperationsAreEachDoneOnceAndRight) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Many many(pair, 1);
  many.run();
}

}  // namespace
}  // namespace spindrift
