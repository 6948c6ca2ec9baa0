// The endpoint contract: full queues, shared receive queues, deadlines.
#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST_P(EndpointContract, AFullSendQueueAcceptsAPrefixAndTheRestLater) {
  Pair::Options options;
  options.a.endpoint.send_queue = 5;
  options.a.endpoint.inline_buffers = 2;
  options.b.endpoint.receive_queue = 3;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 8);
  std::vector<WorkRequest> work(8);
  for (std::size_t i = 0; i < work.size(); ++i)
    work[i] = {.user_data = i, .conn = pair.ab, .kind = OpKind::kWrite, .remote_key = remote.key()};
  PostResult result = pair.a->post(work);
  EXPECT_EQ(result.accepted, 5U);
  EXPECT_EQ(result.status, PostStatus::kQueueFull);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 5)) << pair.a->last_error(pair.ab);
  result = pair.a->post(std::span(work).subspan(5));
  EXPECT_EQ(result.accepted, 3U);
  EXPECT_EQ(result.status, PostStatus::kOk);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 8));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));

  for (WorkRequest& one : work)
    one.is_inline = true;
  result = pair.a->post(work);
  EXPECT_EQ(result.accepted, 2U);
  EXPECT_EQ(result.status, PostStatus::kQueueFull);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 10));
  EXPECT_EQ(pair.a->post(work).accepted, 2U);

  for (WorkRequest& one : work)
    one = {.conn = pair.ba, .kind = OpKind::kReceive};
  result = pair.b->post(work);
  EXPECT_EQ(result.accepted, 3U);
  EXPECT_EQ(result.status, PostStatus::kQueueFull);
}

TEST_P(EndpointContract, CompletionQueueOverflowFailsTheConnectionAndLosesNothing) {
  Pair::Options options;
  options.b.endpoint.completion_queue = 4;
  options.b.endpoint.receive_queue = 16;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 1600);
  Buffer to(*pair.b, 1600);
  from.fill(3);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Sge target = to.piece(100 * i, 100);
    const Sge source = from.piece(100 * i, 100);
    ASSERT_TRUE(pair.post_b({.user_data = i, .kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_a({.user_data = i, .kind = OpKind::kSend, .local = {&source, 1}}));
  }
  // b progresses without polling.
  pair.b_is_frozen = true;
  ASSERT_TRUE(pair.run_until([&] {
    pair.b->progress();
    return pair.b->info(pair.ba).value().state == ConnState::kFailed;
  }));
  EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("completion queue overflow"));
  EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("completion_queue"));
  pair.b_is_frozen = false;
  ASSERT_TRUE(pair.wait_completions(*pair.b, 10));
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  // The four that fitted and the one that did not: their messages were complete.
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pair.b_done[i].status, OpStatus::kOk) << i;
    EXPECT_TRUE(to.matches(3, 100 * i, 100, 100 * i));
  }
  // A message is reported as arrived exactly if it was, and what follows the first flushed one is
  // flushed too.
  EXPECT_TRUE(std::is_sorted(pair.b_done.begin(), pair.b_done.end(),
                             [](const Completion& x, const Completion& y) {
                               return (x.status != OpStatus::kOk) < (y.status != OpStatus::kOk);
                             }));
  ASSERT_TRUE(
      pair.run_until([&] { return has_event(pair.b_events, ConnEvent::Kind::kFailed, pair.ba); }));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 10));
  EXPECT_EQ(counter(*pair.b, "completion_queue_overflows"), 1U);
}

TEST_P(EndpointContract, RequesterCompletionsSurviveAnOverflowToo) {
  Pair::Options options;
  options.a.endpoint.completion_queue = 2;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 8);
  for (std::uint64_t i = 0; i < 6; ++i)
    ASSERT_TRUE(pair.post_a({.user_data = i, .kind = OpKind::kWrite, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.run_until(  // poll() takes what is there; progress() alone overflows
      [&] {
        for (int i = 0; i < 100; ++i) {
          pair.a->progress();
          pair.b->progress();
          world->pass_time(world->now());
        }
        return pair.a->info(pair.ab).value().state == ConnState::kFailed || pair.a_done.size() == 6;
      }));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 6));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("completion queue overflow"));
}

// The peer tells of its RECEIVEs on its own and with what it sends, and what was told first may be
// read last.
TEST_P(EndpointContract, AnOldTaleOfReceivesDoesNotHideANewOne) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_a({.user_data = 9, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive}));
  pair.run_until([] { return false; }, 5ms);
  ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kSend}));
  pair.a->progress();
  pair.a_is_frozen = true;
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  pair.run_until([] { return false; }, 5ms);  // tells of one, used up
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kSend}));  // tells of two
  pair.run_until([] { return false; }, 5ms);
  pair.a_is_frozen = false;
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  ASSERT_TRUE(pair.post_a({.user_data = 3, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 3)) << "its RECEIVE was forgotten";
}

TEST_P(EndpointContract, ConnectionsShareAReceiveQueue) {
  Pair::Options options;
  Pair pair(*world, options);
  const auto queue = pair.b->create_shared_receive_queue(64);
  ASSERT_TRUE(queue.ok());
  pair.options.accept.shared_receive_queue = queue.value();
  ASSERT_OPENS(pair);
  const Pair::Ends other = pair.open_another({}, pair.options.accept);
  ASSERT_NE(other.ba.value, 0U);
  Buffer from(*pair.a, 1000);
  Buffer to(*pair.b, 64000);
  from.fill(2);
  for (std::uint64_t i = 0; i < 64; ++i) {
    const Sge target = to.piece(i * 1000, 1000);
    const WorkRequest receive{.user_data = i, .kind = OpKind::kReceive, .local = {&target, 1}};
    ASSERT_EQ(pair.b->post_shared(queue.value(), {&receive, 1}).accepted, 1U);
  }
  const WorkRequest one_more{.kind = OpKind::kReceive};
  EXPECT_EQ(pair.b->post_shared(queue.value(), {&one_more, 1}).status, PostStatus::kQueueFull);
  const Sge source = from.all();
  for (std::uint64_t i = 0; i < 32; ++i)
    for (const ConnId conn : {pair.ab, other.ab})
      ASSERT_TRUE(pair.post_a(
          {.user_data = i, .conn = conn, .kind = OpKind::kSend, .local = {&source, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 64)) << pair.b->last_error(pair.ba);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 64)) << pair.a->last_error(pair.ab);
  std::vector<std::uint64_t> used = user_data(pair.b_done);
  std::sort(used.begin(), used.end());
  EXPECT_EQ(std::unique(used.begin(), used.end()), used.end());
  std::size_t first = 0;
  for (const Completion& done : pair.b_done) {
    EXPECT_TRUE(done.is_shared);
    EXPECT_EQ(done.status, OpStatus::kOk);
    EXPECT_EQ(done.bytes, 1000U);
    EXPECT_TRUE(to.matches(2, done.user_data * 1000, 1000));
    if (done.conn == pair.ba) ++first;
  }
  EXPECT_EQ(first, 32U);
}

// Whoever shares the queue may go on and fill it: it is too late for what was flushed, and nothing
// may come behind that as if it had not been.
TEST_P(EndpointContract, NothingOvertakesASendThatAClosingPeerHadNoReceiveFor) {
  Pair pair(*world, {});
  const auto queue = pair.b->create_shared_receive_queue(4);
  ASSERT_TRUE(queue.ok());
  pair.options.accept.shared_receive_queue = queue.value();
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_b({.user_data = 1, .kind = OpKind::kSend}));  // keeps b from its end
  pair.b->close(pair.ba);
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  const WorkRequest receive{.user_data = 7, .kind = OpKind::kReceive};
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(pair.b->post_shared(queue.value(), {&receive, 1}).accepted, 1U);
  Buffer from(*pair.a, 64);
  Buffer to(*pair.b, 64);
  const Sge source = from.all();
  ASSERT_TRUE(pair.post_a(  // its acknowledgement would tell of the new RECEIVEs
      {.user_data = 3, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  ASSERT_TRUE(pair.post_a({.user_data = 4, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 3));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(2, 3, 4));
  EXPECT_THAT(statuses(pair.a_done),
              ElementsAre(OpStatus::kFlushed, OpStatus::kOk, OpStatus::kFlushed));
  ASSERT_TRUE(pair.post_a({.user_data = 5, .kind = OpKind::kReceive}));
  ASSERT_TRUE(
      pair.run_until([&] { return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab); }));
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(1));
}

// One buffer, two peers that both believe it is theirs: one message waits without harm.
TEST_P(EndpointContract, TwoConnectionsRaceForOneSharedBuffer) {
  Pair pair(*world, {});
  const auto queue = pair.b->create_shared_receive_queue(4);
  ASSERT_TRUE(queue.ok());
  pair.options.accept.shared_receive_queue = queue.value();
  ASSERT_OPENS(pair);
  const Pair::Ends other = pair.open_another({}, pair.options.accept);
  ASSERT_NE(other.ba.value, 0U);
  Buffer from(*pair.a, 100000);
  Buffer to(*pair.b, 100000);
  from.fill(2);
  const Sge source = from.all();
  const Sge target = to.all();
  const WorkRequest receive{.user_data = 7, .kind = OpKind::kReceive, .local = {&target, 1}};
  for (int round = 0; round < 10; ++round) {
    pair.a_done.clear();
    pair.b_done.clear();
    ASSERT_EQ(pair.b->post_shared(queue.value(), {&receive, 1}).accepted, 1U);
    pair.run_until([] { return false; }, 5ms);  // both peers hear of the buffer
    for (const ConnId conn : {pair.ab, other.ab})
      ASSERT_TRUE(pair.post_a({.conn = conn, .kind = OpKind::kSend, .local = {&source, 1}}));
    ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << pair.a->last_error(pair.ab);
    EXPECT_FALSE(pair.wait_completions(*pair.a, 2, 20ms));
    ASSERT_EQ(pair.b->post_shared(queue.value(), {&receive, 1}).accepted, 1U);
    ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
    ASSERT_TRUE(pair.wait_completions(*pair.b, 2));
    EXPECT_THAT(statuses(pair.b_done), Each(OpStatus::kOk));
    EXPECT_NE(pair.b_done[0].conn, pair.b_done[1].conn);
    EXPECT_TRUE(to.matches(2, 0, 100000));
  }
  EXPECT_GT(counter(*pair.b, "receiver_not_ready"), 0U);
  if (world->network() != nullptr) {  // a host may hold a process up for longer than any timeout
    EXPECT_EQ(counter(*pair.a, "retransmits_timeout"), 0U);
  }
}

TEST_P(EndpointContract, SharedQueuesTakeReceivesOnlyAndTheirConnectionsNoOwnOnes) {
  Pair pair(*world, {});
  const auto queue = pair.b->create_shared_receive_queue(4);
  ASSERT_TRUE(queue.ok());
  pair.options.accept.shared_receive_queue = queue.value();
  ASSERT_OPENS(pair);
  EXPECT_FALSE(pair.post_b({.kind = OpKind::kReceive}));
  EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("shared"));
  const WorkRequest send{.kind = OpKind::kSend};
  EXPECT_EQ(pair.b->post_shared(queue.value(), {&send, 1}).status, PostStatus::kInvalid);
  const WorkRequest receive{.kind = OpKind::kReceive};
  EXPECT_EQ(pair.b->post_shared(SharedQueueId{9}, {&receive, 1}).status, PostStatus::kInvalid);
  EXPECT_FALSE(pair.b->create_shared_receive_queue(0).ok());
  ConnectOptions unknown;
  unknown.shared_receive_queue = SharedQueueId{9};
  EXPECT_FALSE(pair.a->connect(pair.address, unknown).ok());
}

TEST_P(EndpointContract, AnUnsentOperationTimesOutAndTheConnectionLives) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 5000);
  Buffer to(*pair.b, 5000);
  const Sge source = from.all();
  ASSERT_TRUE(
      pair.post_a({.user_data = 1, .kind = OpKind::kSend, .local = {&source, 1}, .timeout = 20ms}));
  ASSERT_TRUE(pair.post_a(
      {.user_data = 2, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  const Time start = world->now();
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2)) << pair.a->last_error(pair.ab);
  EXPECT_GE(world->now() - start, 20ms);
  EXPECT_LE(world->now() - start, 2s);
  EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kTimedOut, OpStatus::kOk));
  const Sge target = to.all();
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
  ASSERT_TRUE(pair.post_a({.user_data = 3, .kind = OpKind::kSend, .local = {&source, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 3)) << pair.a->last_error(pair.ab);
  EXPECT_EQ(pair.a_done[2].status, OpStatus::kOk);
}

TEST_P(EndpointContract, TheConnectionsDefaultTimeoutHolds) {
  Pair::Options options;
  options.connect.default_timeout = 10ms;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  const Time start = world->now();
  ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend, .timeout = 60ms}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_GE(world->now() - start, 10ms);
  if (world->network() != nullptr) {
    EXPECT_LE(world->now() - start, 50ms);
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_GE(world->now() - start, 60ms);
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kTimedOut));
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kOpen);
}

TEST_P(EndpointContract, AnOperationPartlySentWhoseDeadlinePassesFailsTheConnection) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 5000);
  Buffer to(*pair.b, 5000);
  const Sge source = from.all();
  pair.b_is_frozen = true;
  const Time start = world->now();
  ASSERT_TRUE(pair.post_a(
      {.user_data = 1, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 2,
                           .kind = OpKind::kWrite,
                           .local = {&source, 1},
                           .remote_key = to.key(),
                           .timeout = 30ms}));
  ASSERT_TRUE(pair.post_a(
      {.user_data = 3, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 3));
  EXPECT_GE(world->now() - start, 30ms);
  EXPECT_LE(world->now() - start, 2s);
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(1, 2, 3));
  // The reason goes to the operation whose deadline it was.
  EXPECT_THAT(statuses(pair.a_done),
              ElementsAre(OpStatus::kFlushed, OpStatus::kTimedOut, OpStatus::kFlushed));
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kFailed);
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("deadline"));
}

TEST_P(EndpointContract, AReceiveThatTimesOutIsTakenBackAndTheNextTakesItsPlace) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 2000);
  Buffer to(*pair.b, 3000);
  from.fill(4);
  const Sge first = to.piece(0, 1000);
  const Sge second = to.piece(1000, 1000);
  const Sge third = to.piece(2000, 1000);
  ASSERT_TRUE(pair.post_b(
      {.user_data = 1, .kind = OpKind::kReceive, .local = {&first, 1}, .timeout = 10ms}));
  ASSERT_TRUE(pair.post_b({.user_data = 2, .kind = OpKind::kReceive, .local = {&second, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  EXPECT_EQ(pair.b_done[0].user_data, 1U);
  EXPECT_EQ(pair.b_done[0].status, OpStatus::kTimedOut);
  const Sge one = from.piece(0, 1000);
  const Sge two = from.piece(1000, 1000);
  ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kSend, .local = {&one, 1}}));
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend, .local = {&two, 1}}));
  EXPECT_FALSE(pair.wait_completions(*pair.b, 2, 20ms));
  ASSERT_TRUE(pair.post_b({.user_data = 3, .kind = OpKind::kReceive, .local = {&third, 1}}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 3)) << pair.a->last_error(pair.ab);
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(1, 3, 2));
  EXPECT_TRUE(to.matches(4, 2000, 1000, 0));
  EXPECT_TRUE(to.matches(4, 1000, 1000, 1000));
  EXPECT_EQ(to.bytes[0], std::byte{0});
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
}

TEST_P(EndpointContract, AWaitingSendEndsAtItsDeadlineEvenWhenTheReceiverWasNotReady) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  Buffer from(*pair.a, 2000);
  const Sge source = from.all();
  // The credit is known to the peer, the RECEIVE is gone: the message is sent and turned away.
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .timeout = 5ms}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend, .local = {&source, 1}, .timeout = 50ms}));
  const Time start = world->now();
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kTimedOut);
  EXPECT_LE(world->now() - start, 2s);
}

TEST_P(EndpointContract, MoreReadsThanThePeerAllowsWaitTheirTurn) {
  Pair::Options options;
  options.b.endpoint.max_reads = 1;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  Buffer remote(*pair.b, 30000);
  Buffer local(*pair.a, 600000);
  remote.fill(1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Sge target = local.piece(i * 30000, 30000);
    ASSERT_TRUE(pair.post_a({.user_data = i,
                             .kind = OpKind::kRead,
                             .local = {&target, 1},
                             .remote_key = remote.key()}));
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, 20)) << pair.a->last_error(pair.ab);
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_TRUE(local.matches(1, i * 30000, 30000));
  EXPECT_EQ(counter(*pair.b, "receiver_not_ready"), 0U);
}

}  // namespace
}  // namespace spindrift
