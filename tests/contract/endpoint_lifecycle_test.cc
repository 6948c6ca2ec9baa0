// The endpoint contract: close, abort, release, listeners, many connections, threads, waiting.
#include <cstdio>
#include <thread>

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

TEST_P(EndpointContract, CloseLetsPostedWorkFinishAndTellsBothSides) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  constexpr std::size_t kBytes = 2000000;
  Buffer from(*pair.a, kBytes);
  Buffer to(*pair.b, kBytes);
  Buffer back(*pair.a, kBytes);
  from.fill(1);
  const Sge source = from.all();
  const Sge target = back.all();
  ASSERT_TRUE(pair.post_a({.user_data = 7, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_b({.user_data = 8, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.post_a(
      {.user_data = 1, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.post_a({.user_data = 2,
                           .kind = OpKind::kRead,
                           .has_fence = true,
                           .local = {&target, 1},
                           .remote_key = to.key()}));
  pair.a->close(pair.ab);
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kDraining);
  EXPECT_FALSE(pair.post_a({.kind = OpKind::kWrite, .remote_key = to.key()}));
  EXPECT_FALSE(pair.post_a({.kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab) &&
           has_event(pair.b_events, ConnEvent::Kind::kClosed, pair.ba);
  })) << pair.a->last_error(pair.ab)
      << pair.b->last_error(pair.ba);
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(1, 2, 7));
  EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kOk, OpStatus::kOk, OpStatus::kFlushed));
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(8));
  EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kFlushed));
  EXPECT_TRUE(to.matches(1, 0, kBytes));
  EXPECT_TRUE(back.matches(1, 0, kBytes));
  EXPECT_EQ(pair.b->post({}).status, PostStatus::kOk);
  const WorkRequest late{.conn = pair.ba, .kind = OpKind::kWrite};
  EXPECT_EQ(pair.b->post({&late, 1}).status, PostStatus::kNotConnected);
}

TEST_P(EndpointContract, BothSidesMayCloseAtOnce) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  pair.a->close(pair.ab);
  pair.b->close(pair.ba);
  const Time start = world->now();
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab) &&
           has_event(pair.b_events, ConnEvent::Kind::kClosed, pair.ba);
  }));
  EXPECT_LT(world->now() - start, 500ms);  // not by running into close_timeout
}

// Neither will ever post another RECEIVE.
TEST_P(EndpointContract, BothSidesMayCloseThoughTheirSendsMeetNoReceive) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_a({.user_data = 9, .kind = OpKind::kReceive}));  // of one of two
  for (const std::uint64_t id : {1, 2})
    ASSERT_TRUE(pair.post_b({.user_data = id, .kind = OpKind::kSend}));
  for (const std::uint64_t id : {3, 4})
    ASSERT_TRUE(pair.post_a({.user_data = id, .kind = OpKind::kSend}));
  pair.run_until([] { return false; }, 5ms);
  const Time start = world->now();
  pair.a->close(pair.ab);
  pair.b->close(pair.ba);
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab) &&
           has_event(pair.b_events, ConnEvent::Kind::kClosed, pair.ba);
  }));
  EXPECT_LT(world->now() - start, 500ms);  // not by running into close_timeout
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(9, 3, 4));
  EXPECT_THAT(statuses(pair.a_done),
              ElementsAre(OpStatus::kOk, OpStatus::kFlushed, OpStatus::kFlushed));
  EXPECT_THAT(user_data(pair.b_done), ElementsAre(1, 2));
  EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kOk, OpStatus::kFlushed));
}

TEST_P(EndpointContract, SendsTowardsAClosingPeerEndWhenNoReceiveIsLeft) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_b({.user_data = 1, .kind = OpKind::kSend}));  // keeps b from its end
  pair.b->close(pair.ba);
  Buffer from(*pair.a, 64);
  Buffer to(*pair.b, 64);
  from.fill(1);
  const Sge source = from.all();
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.post_a(
      {.user_data = 4, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kFlushed, OpStatus::kOk));
  EXPECT_TRUE(to.matches(1, 0, 64));
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("posts no more RECEIVEs"));
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kOpen);
  // What the peer has posted already still works, and then its end comes.
  ASSERT_TRUE(pair.post_a({.user_data = 3, .kind = OpKind::kReceive}));
  ASSERT_TRUE(
      pair.run_until([&] { return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab); }));
  EXPECT_THAT(user_data(pair.a_done), ElementsAre(2, 4, 3));
  EXPECT_EQ(pair.a_done.back().status, OpStatus::kOk);
  EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kOk));
}

// A message under way met a RECEIVE that was taken back at its deadline.
TEST_P(EndpointContract, BothSidesMayCloseThoughASendWasTurnedAway) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_b({.user_data = 1, .kind = OpKind::kReceive, .timeout = 1ms}));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
  ASSERT_EQ(pair.b_done[0].status, OpStatus::kTimedOut);
  ASSERT_TRUE(pair.post_a({.user_data = 2, .kind = OpKind::kSend}));
  ASSERT_TRUE(pair.post_b({.user_data = 3, .kind = OpKind::kSend}));  // keeps b from its end
  pair.run_until([] { return false; }, 20ms);
  pair.a->close(pair.ab);
  pair.b->close(pair.ba);
  ASSERT_TRUE(pair.run_until([&] {
    return pair.a->info(pair.ab).value().state != ConnState::kDraining &&
           pair.b->info(pair.ba).value().state != ConnState::kDraining;
  })) << to_string(pair.a->info(pair.ab).value().state);
  pair.run_until([] { return false; }, 5ms);
  EXPECT_THAT(statuses(pair.a_done), ElementsAre(OpStatus::kFlushed));
  EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kTimedOut, OpStatus::kFlushed));
}

// The peer holds the connection for open by then, and has nothing to send.
TEST_P(EndpointContract, WhatWasAcceptedMayBeClosedBeforeItIsOpen) {
  Pair pair(*world, {});
  const auto at_a = pair.a->connect(pair.address);
  ASSERT_TRUE(at_a.ok());
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  const ConnId at_b = pair.b_events[0].conn;
  ASSERT_TRUE(pair.b->accept(at_b).ok());
  pair.b->progress();  // the acceptance leaves
  pair.b->close(at_b);
  const Time start = world->now();
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kFailed, at_a.value()) &&
           has_event(pair.b_events, ConnEvent::Kind::kClosed, at_b);
  }));
  EXPECT_LT(world->now() - start, 500ms);
  EXPECT_THAT(pair.a->last_error(at_a.value()), HasSubstr("closed before it was open"));
}

TEST_P(EndpointContract, CloseNeedsNoHelpFromADeadPeer) {
  Pair::Options options;
  options.connect.close_timeout = 100ms;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  pair.b_is_frozen = true;
  const Time start = world->now();
  pair.a->close(pair.ab);
  ASSERT_TRUE(
      pair.run_until([&] { return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab); }));
  EXPECT_GE(world->now() - start, 99ms);
  EXPECT_LE(world->now() - start, 2s);
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("did not answer"));
}

TEST_P(EndpointContract, AbortFlushesEverythingAtOnceAndTellsThePeer) {
  for (const bool by_a : {true, false}) {
    Pair pair(*world, {});
    ASSERT_OPENS(pair);
    Buffer from(*pair.a, 4000000);
    Buffer to(*pair.b, 4000000);
    const Sge source = from.all();
    ASSERT_TRUE(pair.post_a({.user_data = 9, .kind = OpKind::kReceive}));
    ASSERT_TRUE(pair.post_b({.user_data = 9, .kind = OpKind::kReceive}));
    for (std::uint64_t i = 1; i <= 3; ++i)
      ASSERT_TRUE(pair.post_a(
          {.user_data = i, .kind = OpKind::kWrite, .local = {&source, 1}, .remote_key = to.key()}));
    pair.step();
    pair.step();
    Endpoint& aborter = by_a ? *pair.a : *pair.b;
    aborter.abort(by_a ? pair.ab : pair.ba);
    EXPECT_EQ(aborter.info(by_a ? pair.ab : pair.ba).value().state, ConnState::kClosed);
    ASSERT_TRUE(pair.run_until([&] {
      return has_event(pair.a_events, by_a ? ConnEvent::Kind::kClosed : ConnEvent::Kind::kFailed,
                       pair.ab) &&
             has_event(pair.b_events, by_a ? ConnEvent::Kind::kFailed : ConnEvent::Kind::kClosed,
                       pair.ba);
    })) << by_a;
    ASSERT_EQ(pair.a_done.size(), 4U);
    // A WRITE may be through already; the others and the RECEIVE are not.
    const OpStatus of_writes = by_a ? OpStatus::kFlushed : OpStatus::kPeerGone;
    for (const Completion& done : pair.a_done) {
      if (done.kind == OpKind::kReceive)
        EXPECT_EQ(done.status, OpStatus::kFlushed);
      else
        EXPECT_THAT(done.status, testing::AnyOf(OpStatus::kOk, of_writes));
    }
    EXPECT_THAT(statuses(pair.b_done), ElementsAre(OpStatus::kFlushed));
    EXPECT_THAT((by_a ? *pair.b : *pair.a).last_error(by_a ? pair.ba : pair.ab),
                HasSubstr("abort"));
  }
}

TEST_P(EndpointContract, IdsAreForgottenWithReleaseAndNeverNameANewConnection) {
  Pair::Options options;
  options.a.endpoint.max_connections = 1;
  options.b.endpoint.max_connections = 1;
  Pair pair(*world, options);
  ASSERT_OPENS(pair);
  const ConnId old = pair.ab;
  const auto full = pair.a->connect(pair.address);
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(full.error().message(), HasSubstr("max_connections"));
  pair.a->release(pair.ab);  // open: aborted first, and the peer told
  ASSERT_TRUE(
      pair.run_until([&] { return has_event(pair.b_events, ConnEvent::Kind::kFailed, pair.ba); }));
  pair.b->release(pair.ba);
  EXPECT_FALSE(pair.a->info(old).ok());
  EXPECT_EQ(pair.a->info(old).error().code(), ErrorCode::kNotFound);
  const WorkRequest work{.conn = old, .kind = OpKind::kWrite};
  EXPECT_EQ(pair.a->post({&work, 1}).status, PostStatus::kNotConnected);
  pair.a->close(old);
  pair.a->abort(old);
  pair.a->release(old);
  EXPECT_FALSE(pair.a->accept(old).ok());
  EXPECT_FALSE(pair.a->reject(old, "").ok());
  EXPECT_FALSE(pair.a->deny_path(old, PathId{0}, true).ok());
  EXPECT_TRUE(pair.a->paths(old).empty());
  ASSERT_OPENS(pair);
  EXPECT_NE(pair.ab, old);
  EXPECT_FALSE(pair.a->info(old).ok());
}

TEST_P(EndpointContract, EventsNobodyPolledNeverCostALaterOne) {
  Pair::Options options;
  options.a.endpoint.max_connections = 2;
  Pair pair(*world, options);
  for (int i = 0; i < 20; ++i) {
    // a never asks for its events.
    const auto conn = pair.a->connect(pair.address);
    ASSERT_TRUE(conn.ok()) << conn.error().message();
    ConnEvent event;
    ConnId at_b{};
    for (int turn = 0;
         turn < 200000 && pair.a->info(conn.value()).value().state != ConnState::kOpen; ++turn) {
      pair.a->progress();
      pair.b->progress();
      world->pass_time(world->now());
      while (pair.b->poll_events({&event, 1}) == 1)
        if (event.kind == ConnEvent::Kind::kRequest) {
          at_b = event.conn;
          ASSERT_TRUE(pair.b->accept(at_b).ok());
        }
    }
    pair.a->release(conn.value());
    pair.b->release(at_b);
  }
  ASSERT_TRUE(pair.a->listen(world->listen_address()).ok());
  const auto asked = pair.b->connect(pair.a->local_addresses().at(0));
  ASSERT_TRUE(asked.ok());
  for (int turn = 0; turn < 200000 && counter(*pair.a, "hellos_received") == 0; ++turn) {
    pair.a->progress();
    pair.b->progress();
    world->pass_time(world->now());
  }
  ConnEvent event;
  ASSERT_EQ(pair.a->poll_events({&event, 1}), 1U) << pair.b->last_error(asked.value());
  EXPECT_EQ(event.kind, ConnEvent::Kind::kRequest);
  EXPECT_EQ(pair.a->poll_events({&event, 1}), 0U);
}

TEST_P(EndpointContract, TheDestructorAbortsEveryConnection) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive}));
  pair.a.reset();
  const auto has_failed = [&] {
    for (int turn = 0; turn < 20000; ++turn) {
      pair.b->progress();
      world->pass_time(world->now());
      if (pair.b->info(pair.ba).value().state == ConnState::kFailed) return true;
    }
    return false;
  };
  // Where packets under way die with their sender, the peer learns of it when it asks.
  if (!has_failed()) {
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kSend}));
    EXPECT_TRUE(has_failed());
  }
  EXPECT_THAT(pair.b->last_error(pair.ba), Not(""));
}

TEST_P(EndpointContract, AnEndpointThatStopsListeningRefusesButKeepsItsConnections) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  const auto second = pair.b->listen(world->listen_address());
  ASSERT_TRUE(second.ok());
  pair.b->stop_listening(second.value());
  pair.b->stop_listening(ListenerId{1});
  const auto conn = pair.a->connect(pair.address);
  ASSERT_TRUE(conn.ok());
  ASSERT_TRUE(pair.run_until(
      [&] { return has_event(pair.a_events, ConnEvent::Kind::kFailed, conn.value()); }));
  EXPECT_THAT(pair.a->last_error(conn.value()), HasSubstr("does not listen"));
  Buffer remote(*pair.b, 8);
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kWrite, .remote_key = remote.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_EQ(pair.a_done[0].status, OpStatus::kOk);
}

TEST_P(EndpointContract, ReceivesMayBePostedBeforeAcceptAndBeforeEstablishment) {
  Pair pair(*world, {});
  const auto conn = pair.a->connect(pair.address);
  ASSERT_TRUE(conn.ok());
  pair.ab = conn.value();
  ASSERT_TRUE(pair.post_a({.user_data = 1, .kind = OpKind::kReceive}));
  const WorkRequest early{.conn = pair.ab, .kind = OpKind::kSend};
  EXPECT_EQ(pair.a->post({&early, 1}).status, PostStatus::kNotConnected);
  ASSERT_TRUE(pair.run_until([&] { return !pair.b_events.empty(); }));
  pair.ba = pair.b_events[0].conn;
  ASSERT_TRUE(pair.post_b({.user_data = 2, .kind = OpKind::kReceive}));
  ASSERT_TRUE(pair.b->accept(pair.ba).ok());
  ASSERT_TRUE(pair.run_until([&] {
    return has_event(pair.a_events, ConnEvent::Kind::kEstablished, pair.ab) &&
           has_event(pair.b_events, ConnEvent::Kind::kEstablished, pair.ba);
  }));
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend}));
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kSend}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 2));
  ASSERT_TRUE(pair.wait_completions(*pair.b, 2));
}

TEST_P(EndpointContract, TwoHundredConnectionsCarryTrafficAtOnce) {
  Pair pair(*world, {});
  constexpr std::size_t kConnections = 200;
  constexpr std::size_t kBytes = 20000;
  Buffer from(*pair.a, kBytes);
  Buffer to(*pair.b, kBytes * kConnections);
  from.fill(9);
  const Sge source = from.all();
  ConnectOptions options;
  options.path_count = 4;
  std::vector<Pair::Ends> ends;
  for (std::size_t i = 0; i < kConnections; ++i) {
    ends.push_back(pair.open_another(options, options));
    ASSERT_NE(ends.back().ba.value, 0U) << i;
  }
  for (std::size_t i = 0; i < kConnections; ++i) {
    const Sge target = to.piece(i * kBytes, kBytes);
    ASSERT_TRUE(pair.post_b(
        {.user_data = i, .conn = ends[i].ba, .kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_TRUE(pair.post_a(
        {.user_data = i, .conn = ends[i].ab, .kind = OpKind::kSend, .local = {&source, 1}}));
  }
  ASSERT_TRUE(pair.wait_completions(*pair.a, kConnections));
  ASSERT_TRUE(pair.wait_completions(*pair.b, kConnections));
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kOk));
  for (const Completion& done : pair.b_done)
    EXPECT_EQ(done.conn, ends[done.user_data].ba);
  for (std::size_t i = 0; i < kConnections; ++i)
    EXPECT_TRUE(to.matches(9, i * kBytes, kBytes));
}

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kMayGrowBytes = 512U << 20U;  // it keeps freed memory back
#else
constexpr std::size_t kMayGrowBytes = 4U << 20U;
#endif

std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  const int fields = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

TEST_P(EndpointContract, ManyConnectionsOneAfterAnotherLeaveNothingBehind) {
  Pair::Options options;
  options.a.endpoint.max_connections = 8;
  options.b.endpoint.max_connections = 8;
  Pair pair(*world, options);
  const int rounds = world->network() != nullptr ? 2000 : 200;
  std::size_t before = 0;
  for (int i = 0; i < rounds; ++i) {
    if (i == rounds / 4) before = resident_bytes();
    pair.a_done.clear();
    pair.a_events.clear();
    ASSERT_OPENS(pair) << i;
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kSend}));
    ASSERT_TRUE(pair.wait_completions(*pair.a, 1)) << i;
    pair.a->close(pair.ab);
    ASSERT_TRUE(pair.run_until([&] {
      return has_event(pair.a_events, ConnEvent::Kind::kClosed, pair.ab) &&
             has_event(pair.b_events, ConnEvent::Kind::kClosed, pair.ba);
    })) << i;
    pair.a->release(pair.ab);
    pair.b->release(pair.ba);
  }
  EXPECT_LT(resident_bytes(), before + kMayGrowBytes);
  EXPECT_EQ(counter(*pair.a, "connections_failed"), 0U);
  EXPECT_EQ(counter(*pair.b, "connections_failed"), 0U);
}

TEST_P(EndpointContract, AWaitingEndpointUsesNoProcessorAndWakesForPackets) {
  Pair pair(*world, {});
  ASSERT_OPENS(pair);
  if (pair.a->wait_fd() < 0) {
    pair.a->wait(1s);  // returns at once where there is nothing to sleep on
    return;
  }
  pair.run_until([] { return false; }, 50ms);
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &before);
  const Time start = world->now();
  while (world->now() - start < 200ms) {
    pair.a->progress();
    pair.b->progress();
    pair.a->wait(start + 200ms - world->now());
  }
  ::getrusage(RUSAGE_THREAD, &after);
  const auto used_us = [](const rusage& r) {
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000L + r.ru_utime.tv_usec +
           r.ru_stime.tv_usec;
  };
  EXPECT_LT(used_us(after) - used_us(before), 20000);

  // arm, then poll on the descriptor as a program with its own event loop does.
  for (int i = 0; i < 10 && !pair.a->arm(); ++i)
    pair.a->progress();
  ASSERT_TRUE(pair.a->arm());
  pollfd waiting{.fd = pair.a->wait_fd(), .events = POLLIN, .revents = 0};
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kReceive}));
  pair.a->progress();
  ASSERT_TRUE(pair.post_b({.kind = OpKind::kSend}));
  for (int i = 0; i < 10; ++i)
    pair.b->progress();
  EXPECT_EQ(::poll(&waiting, 1, 2000), 1);
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_FALSE(pair.a->arm() && pair.a_done.empty());
}

void run_echo(Endpoint& endpoint, bool is_server, const std::string& address, int rounds) {
  ConnectOptions options;
  const auto conn =
      is_server ? accept_one(endpoint, 10s, options) : connect_and_wait(endpoint, address, options);
  ASSERT_TRUE(conn.ok()) << conn.error().message();
  std::vector<std::byte> memory(100000);
  const auto region = endpoint.register_memory(memory, kAllAccess);
  ASSERT_TRUE(region.ok());
  const Sge all = sge_of(region.value(), 0, 100000);
  for (int i = 0; i < rounds; ++i) {
    const WorkRequest work[] = {
        {.conn = conn.value(), .kind = OpKind::kReceive, .local = {&all, 1}},
        {.conn = conn.value(), .kind = OpKind::kSend, .local = {&all, 1}}};
    ASSERT_EQ(endpoint.post(work).accepted, 2U);
    for (int k = 0; k < 2; ++k) {
      const auto done = wait_completion(endpoint, 10s);
      ASSERT_TRUE(done.ok()) << done.error().message() << endpoint.last_error(conn.value());
      ASSERT_EQ(done.value().status, OpStatus::kOk) << endpoint.last_error(conn.value());
    }
  }
  endpoint.close(conn.value());
  for (;;) {
    const auto event = wait_event(endpoint, 10s);
    ASSERT_TRUE(event.ok());
    if (event.value().kind == ConnEvent::Kind::kClosed) break;
  }
}

TEST_P(EndpointContract, TwoEndpointsRunInTwoThreads) {
  if (world->is_virtual()) GTEST_SKIP() << "virtual time belongs to one thread";
  Pair pair(*world, {});
  std::thread server([&] { run_echo(*pair.b, true, "", 100); });
  run_echo(*pair.a, false, pair.address, 100);
  server.join();
}

}  // namespace
}  // namespace spindrift
