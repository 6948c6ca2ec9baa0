// The endpoint contract: rights, keys, bounds, alignment, epochs; what a violation does to whom.
#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Violation {
  std::string name;
  OpKind kind = OpKind::kWrite;
  Access access = kAllAccess;
  std::uint64_t offset = 0;
  std::uint64_t key_error = 0;  // xored into the key
  OpStatus expected = OpStatus::kOk;
};

constexpr std::uint64_t kRegionBytes = 40000;
constexpr std::uint64_t kOperationBytes = 20000;

std::vector<Violation> violations() {
  std::vector<Violation> out;
  for (const OpKind kind : {OpKind::kWrite, OpKind::kWriteImm, OpKind::kRead, OpKind::kFetchAdd,
                            OpKind::kCompareSwap}) {
    const std::string name(to_string(kind));
    const bool is_write = kind == OpKind::kWrite || kind == OpKind::kWriteImm;
    const bool is_atomic = kind == OpKind::kFetchAdd || kind == OpKind::kCompareSwap;
    const Access needed = is_write    ? Access::kRemoteWrite
                          : is_atomic ? Access::kRemoteAtomic
                                      : Access::kRemoteRead;
    const auto others = static_cast<Access>(static_cast<std::uint8_t>(kAllAccess) &
                                            ~static_cast<std::uint8_t>(needed));
    const std::uint64_t bytes = is_atomic ? 8 : kOperationBytes;
    out.push_back({name + ": right", kind, others, 0, 0, OpStatus::kRemoteAccess});
    out.push_back(
        {name + ": local right only", kind, Access::kLocalWrite, 0, 0, OpStatus::kRemoteAccess});
    out.push_back({name + ": key", kind, kAllAccess, 0, 1ULL << 50, OpStatus::kRemoteKey});
    out.push_back({name + ": index", kind, kAllAccess, 0, 1ULL << 15, OpStatus::kRemoteKey});
    out.push_back({name + ": one beyond", kind, kAllAccess,
                   kRegionBytes - bytes + (is_atomic ? 8 : 1), 0, OpStatus::kRemoteBounds});
    out.push_back(
        {name + ": far beyond", kind, kAllAccess, ~std::uint64_t{7}, 0, OpStatus::kRemoteBounds});
    if (is_atomic)
      out.push_back({name + ": alignment", kind, kAllAccess, 4, 0, OpStatus::kRemoteAlignment});
  }
  return out;
}

// Good work, bad work, more work: completions of all three, in order.
TEST_P(EndpointContract, AViolationFailsItsOperationAndTheConnectionAndTouchesNothing) {
  for (const Violation& bad : violations()) {
    SCOPED_TRACE(bad.name);
    Pair pair(*world, {});
    ASSERT_OPENS(pair);
    Buffer guarded(*pair.b, kRegionBytes, bad.access);
    Buffer open_to_all(*pair.b, kOperationBytes);
    Buffer local(*pair.a, kOperationBytes);
    guarded.fill(1);
    local.fill(2);
    const bool has_cell = bad.kind == OpKind::kFetchAdd || bad.kind == OpKind::kCompareSwap;
    const Sge all = local.all();
    const Sge cell = local.piece(0, 8);
    ASSERT_TRUE(pair.post_b({.user_data = 90, .kind = OpKind::kReceive}));
    ASSERT_TRUE(pair.post_a({.user_data = 1,
                             .kind = OpKind::kWrite,
                             .local = {&all, 1},
                             .remote_key = open_to_all.key()}));
    ASSERT_TRUE(pair.post_a({.user_data = 2,
                             .kind = bad.kind,
                             .local = {has_cell ? &cell : &all, 1},
                             .remote_key = guarded.key() ^ bad.key_error,
                             .remote_offset = bad.offset}));
    ASSERT_TRUE(pair.post_a({.user_data = 3,
                             .kind = OpKind::kWrite,
                             .local = {&all, 1},
                             .remote_key = open_to_all.key()}));
    ASSERT_TRUE(pair.wait_completions(*pair.a, 3)) << pair.a->last_error(pair.ab);
    EXPECT_THAT(user_data(pair.a_done), ElementsAre(1, 2, 3));
    EXPECT_THAT(statuses(pair.a_done),
                ElementsAre(OpStatus::kOk, bad.expected, OpStatus::kFlushed));
    ASSERT_TRUE(pair.run_until([&] {
      return has_event(pair.a_events, ConnEvent::Kind::kFailed, pair.ab) &&
             has_event(pair.b_events, ConnEvent::Kind::kFailed, pair.ba);
    }));
    EXPECT_TRUE(guarded.matches(1, 0, kRegionBytes));
    EXPECT_TRUE(open_to_all.matches(2, 0, kOperationBytes));
    EXPECT_TRUE(local.matches(2, 0, kOperationBytes));
    EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr(std::string(to_string(bad.expected))));
    EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("refuse"));
    EXPECT_THAT(user_data(pair.b_done), ElementsAre(90));
    EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kFlushed));
  }
}

TEST_P(EndpointContract, TheLastBytesOfARegionMayBeReached) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 100);
  Buffer local(*pair.a, 100);
  local.fill(3);
  const Sge tail = local.piece(90, 10);
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite,
                           .local = {&tail, 1},
                           .remote_key = remote.key(),
                           .remote_offset = 90}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kOk);
  EXPECT_TRUE(remote.matches(3, 90, 10, 90));
}

TEST_P(EndpointContract, AKeyIsDeadWhenDeregisterReturnsAndItsSlotGetsAnother) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer local(*pair.a, 64);
  const Sge source = local.all();
  std::vector<std::byte> memory(64);
  auto first = pair.b->register_memory(memory, kAllAccess);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(pair.b->deregister_memory(first.value()).ok());
  EXPECT_FALSE(pair.b->deregister_memory(first.value()).ok());
  auto second = pair.b->register_memory(memory, kAllAccess);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first.value().remote.key, second.value().remote.key);
  EXPECT_NE(first.value().local, second.value().local);
  ASSERT_TRUE(pair.post_a({.user_data = 1,
                           .kind = OpKind::kWrite,
                           .local = {&source, 1},
                           .remote_key = second.value().remote.key}));
  ASSERT_TRUE(pair.post_a({.user_data = 2,
                           .kind = OpKind::kWrite,
                           .local = {&source, 1},
                           .remote_key = first.value().remote.key}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kOk, OpStatus::kRemoteKey));
}

TEST_P(EndpointContract, ARegionThatDiesInTheMiddleOfAReadEndsTheRead) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 16U << 20U;
  Buffer remote(*pair.b, kBytes);
  Buffer local(*pair.a, kBytes);
  remote.fill(4);
  const Sge target = local.all();
  ASSERT_TRUE(pair.post_a(
      {.user_data = 1, .kind = OpKind::kRead, .local = {&target, 1}, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kRead, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.run_until([&] { return local.matches(4, 0, 1000); }));
  ASSERT_TRUE(pair.b->deregister_memory(remote.region).ok()) << pair.b->last_error({});
  remote.clear();  // nobody may send from it any more
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(1, 2));
  EXPECT_NE(pair.a_done[0].status, OpStatus::kOk);
  EXPECT_NE(pair.a_done[1].status, OpStatus::kOk);
  EXPECT_THAT(pair.a->last_error(pair.ab), Not(""));
  EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("deregistered"));
}

TEST_P(EndpointContract, ARegionThatDiesInTheMiddleOfAWriteIsNotWrittenAnyMore) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 16U << 20U;
  Buffer remote(*pair.b, kBytes);
  Buffer local(*pair.a, kBytes);
  local.fill(4);
  const Sge source = local.all();
  ASSERT_TRUE(
      pair.post_a({.kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.run_until([&] { return remote.bytes[0] == local.bytes[0]; }));
  ASSERT_TRUE(pair.b->deregister_memory(remote.region).ok());
  const std::vector<std::byte> then = remote.bytes;
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kRemoteKey);
  EXPECT_TRUE(remote.bytes == then);
}

TEST_P(EndpointContract, ARegionNamedByLocalWorkCannotBeDeregistered) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 100000);
  Buffer to(*pair.b, 100000);
  const Sge source = from.all();
  const Sge target = to.all();
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&source, 1}}));
  const Status busy = pair.a->deregister_memory(from.region);
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.error().code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(pair.b->deregister_memory(to.region).ok());
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  EXPECT_TRUE(pair.a->deregister_memory(from.region).ok());
  EXPECT_TRUE(pair.b->deregister_memory(to.region).ok());
}

TEST_P(EndpointContract, LocalMistakesAreRefusedWithASentence) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer mine(*pair.a, 1000, Access::kLocalRead);
  Buffer gone(*pair.a, 1000);
  ASSERT_TRUE(pair.a->deregister_memory(gone.region).ok());
  Sge beyond = mine.all();
  ++beyond.bytes;
  Sge before = mine.all();
  --before.data;
  const Sge dead = gone.all();
  const Sge read_only = mine.all();
  const Sge seven = mine.piece(0, 7);
  const WorkRequest mistakes[] = {
      {.kind = OpKind::kSend, .local = {&beyond, 1}},
      {.kind = OpKind::kWrite, .local = {&before, 1}},
      {.kind = OpKind::kSend, .local = {&dead, 1}},
      {.kind = OpKind::kReceive, .local = {&read_only, 1}},
      {.kind = OpKind::kRead, .local = {&read_only, 1}},
      {.kind = OpKind::kFetchAdd, .local = {&read_only, 1}},
      {.kind = OpKind::kFetchAdd, .local = {&seven, 1}},
      {.kind = OpKind::kCompareSwap, .local = {}},
      {.kind = OpKind::kRead, .is_inline = true, .local = {&read_only, 1}},
      {.kind = OpKind::kReceive, .is_inline = true, .local = {&read_only, 1}},
      {.kind = OpKind::kSend, .local = {&read_only, 1}, .timeout = Duration(-1)},
  };
  std::string last;
  for (const WorkRequest& mistake : mistakes) {
    WorkRequest work = mistake;
    work.conn = pair.ab;
    const PostResult result = pair.a->post({&work, 1});
    EXPECT_EQ(result.accepted, 0U);
    EXPECT_EQ(result.status, PostStatus::kInvalid);
    EXPECT_THAT(pair.a->last_error(pair.ab), Not(""));
  }
  // The connection lives on, and a good prefix is accepted.
  const WorkRequest work[] = {{.conn = pair.ab, .kind = OpKind::kWrite, .remote_key = 0},
                              {.conn = pair.ab, .kind = OpKind::kSend, .local = {&beyond, 1}}};
  EXPECT_EQ(pair.a->post(work).accepted, 1U);
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kOpen);
}

TEST_P(EndpointContract, RegistrationNamesItsLimitsAndRefusesDeviceMemory) {
  Pair::Options options;
  options.a.endpoint.max_regions = 2;
  Pair pair(*world, options);
  std::vector<std::byte> memory(64);
  ASSERT_TRUE(pair.a->register_memory(memory, kAllAccess).ok());
  ASSERT_TRUE(pair.a->register_memory(memory, kAllAccess).ok());
  const auto third = pair.a->register_memory(memory, kAllAccess);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kNoMemory);
  EXPECT_THAT(third.error().message(), HasSubstr("max_regions"));
  EXPECT_EQ(pair.a->last_error(ConnId{}), third.error().message());
  const auto device =
      pair.b->register_memory(memory, kAllAccess, {.type = MemoryType::kDmaBuf, .dmabuf_fd = 3});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code(), ErrorCode::kUnsupported);
}

TEST_P(EndpointContract, ASendLongerThanItsReceiveTellsBothSides) {
  for (const std::size_t bytes : {std::size_t{11}, std::size_t{100000}}) {
    Pair pair(*world, {});
    ASSERT_OPENS(pair);
    Buffer from(*pair.a, bytes);
    Buffer to(*pair.b, bytes);
    const Sge source = from.all();
    const Sge target = to.piece(0, bytes - 1);
    const Sge more = to.all();
    from.fill(5);
    ASSERT_TRUE(pair.post_b({.user_data = 1, .kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_b({.user_data = 2, .kind = OpKind::kReceive, .local = {&more, 1}}));
    ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kSend, .local = {&source, 1}}));
    ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend, .local = {&source, 1}}));
    ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
    ASSERT_TRUE(pair.wait_completions(*pair.b, 2)) << pair.b->last_error(pair.ba);
    EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kRemoteLength, OpStatus::kFlushed));
    EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kLocalLength, OpStatus::kFlushed));
    EXPECT_EQ(to.bytes[bytes - 1], std::byte{0});
  }
}

}  // namespace
}  // namespace spindrift
