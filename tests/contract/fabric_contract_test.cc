// What every MessageFabric must do.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "spindrift/message_fabric.h"

#include "tests/contract/fabric_world.h"

namespace spindrift {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kLanes = 8;

struct FabricEnd {
  MessageFabric& fabric;
  FabricPeer peer;
};

Bytes pattern(std::size_t size, std::size_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 131 + seed * 17 + (i >> 8U));
  return bytes;
}

Bytes text(std::string_view words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

class FabricContract : public testing::TestWithParam<FabricWorld> {
 protected:
  // Looks at both sides until `side` has an event; false: none came.
  bool next_event(MessageFabric& side, FabricEvent& out) {
    for (int turn = 0; turn < 100000; ++turn) {
      MessageFabric& other = &side == a ? *b : *a;
      FabricCompletion ignored[1];
      if (side.poll_events({&out, 1}) == 1) return true;
      static_cast<void>(other.poll(std::span(ignored).first(0)));
      pair->pass_time();
    }
    return false;
  }
  void open() {
    ASSERT_TRUE(b->add_address(pair->address).ok());
    const auto called = a->connect(b->addresses()[0], text("who"), kLanes);
    ASSERT_TRUE(called.ok()) << called.error().message();
    to_b = called.value();
    FabricEvent event;
    ASSERT_TRUE(next_event(*b, event));
    ASSERT_EQ(event.kind, FabricEvent::Kind::kRequest);
    EXPECT_EQ(event.hello, text("who"));
    to_a = event.peer;
    ASSERT_TRUE(b->accept(to_a, text("me"), kLanes).ok());
    ASSERT_TRUE(next_event(*a, event));
    ASSERT_EQ(event.kind, FabricEvent::Kind::kAccepted);
    EXPECT_EQ(event.hello, text("me"));
    ASSERT_TRUE(next_event(*b, event));
    ASSERT_EQ(event.kind, FabricEvent::Kind::kOpened);
    for (const FabricEnd& end : {FabricEnd{*a, to_b}, FabricEnd{*b, to_a}}) {
      EXPECT_GE(end.fabric.reach(end.peer).lanes, 1);
      EXPECT_LE(end.fabric.reach(end.peer).lanes, kLanes);
      EXPECT_NE(end.fabric.describe_lane(end.peer, 0), "");
    }
  }
  std::size_t send(MessageFabric& from, FabricPeer peer, const Bytes& header,
                   const Bytes& payload) {
    Sge pieces[2] = {{.data = const_cast<std::byte*>(payload.data()),
                      .bytes = static_cast<std::uint32_t>(payload.size() / 3)},
                     {}};
    pieces[1] = {.data = pieces[0].data + pieces[0].bytes,
                 .bytes = static_cast<std::uint32_t>(payload.size()) - pieces[0].bytes};
    FabricOp op{.lane = 3, .peer = peer};
    op.header = header;
    op.local = pieces;
    return from.post({&op, 1});
  }
  // ... and waits for room, where the news of it take time.
  bool sends(MessageFabric& from, FabricPeer peer, const Bytes& header, const Bytes& payload) {
    for (int turn = 0; turn < 2000; ++turn) {
      if (send(from, peer, header, payload) == 1) return true;
      pair->pass_time();
    }
    return false;
  }
  // The next message or read; status news are passed over.
  bool next(MessageFabric& side, FabricCompletion& out) {
    for (int turn = 0; turn < 2000; ++turn) {
      if (side.poll({&out, 1}) == 1 && out.kind != FabricCompletion::Kind::kStatus) return true;
      pair->pass_time();
    }
    return false;
  }

  static RemoteSpan cut(const RemoteSpan& from, std::uint32_t at, std::uint32_t bytes) {
    return {.address = from.address + at, .key = from.key, .bytes = bytes};
  }
  // One piece of b's memory into one of a's.
  void read(const Sge& into, const RemoteSpan& remote) {
    FabricOp op{.kind = FabricOp::Kind::kRead, .peer = to_b, .tag = 17};
    op.local = {&into, 1};
    op.remote = {&remote, 1};
    ASSERT_EQ(a->post({&op, 1}), 1U);
    FabricCompletion got;
    ASSERT_TRUE(next(*a, got));
    EXPECT_EQ(got.kind, FabricCompletion::Kind::kRead);
    EXPECT_EQ(got.tag, 17U);
    EXPECT_TRUE(got.is_ok) << a->last_error(to_b);
  }

  std::unique_ptr<FabricPair> pair = GetParam().make();
  MessageFabric* a = pair->a.get();
  MessageFabric* b = pair->b.get();
  FabricPeer to_a{};
  FabricPeer to_b{};
};

TEST_P(FabricContract, MessagesOfEverySizeArriveWholeAndInOrder) {
  open();
  const std::uint32_t most = a->caps().max_payload_bytes;
  std::size_t seed = 0;
  for (int round = 0; round < 20; ++round)
    for (const std::uint32_t bytes :
         {0U, 1U, 40U, 64U, 79U, 80U, 81U, 112U, 500U, most - 1, most}) {
      const Bytes header = pattern(1 + seed % kFabricHeaderBytes, seed);
      const Bytes payload = pattern(bytes, ++seed);
      ASSERT_TRUE(sends(*a, to_b, header, payload)) << bytes;
      FabricCompletion got;
      ASSERT_TRUE(next(*b, got)) << bytes;
      ASSERT_EQ(got.kind, FabricCompletion::Kind::kMessage);
      EXPECT_EQ(got.peer, to_a);
      EXPECT_TRUE(got.lane == 3 || !a->caps().sprays_messages);
      EXPECT_EQ(std::memcmp(got.header.data(), header.data(), header.size()), 0);
      EXPECT_TRUE(
          std::equal(payload.begin(), payload.end(), got.payload.begin(), got.payload.end()))
          << bytes;
      b->release(got);
    }
}

TEST_P(FabricContract, AFullFabricTakesFewerAndNothingIsLost) {
  open();
  std::size_t sent = 0;
  while (send(*a, to_b, text("h"), pattern(3000, sent)) == 1)
    ++sent;
  EXPECT_GT(sent, 4U);
  std::size_t seen = 0;
  for (std::size_t total = sent; seen < total + 50;) {
    FabricCompletion got;
    ASSERT_TRUE(next(*b, got)) << seen;
    const Bytes expected = pattern(3000, seen++);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got.payload.begin()));
    b->release(got);
    if (sent < total + 50 && send(*a, to_b, text("h"), pattern(3000, sent)) == 1) ++sent;
  }
}

TEST_P(FabricContract, UnreleasedMessagesStayAndTheNextOnesWait) {
  open();
  const std::uint32_t held = b->caps().max_held;
  for (std::uint32_t i = 0; i < held + 5; ++i)
    ASSERT_EQ(send(*a, to_b, text("h"), pattern(100, i)), 1U);
  std::vector<FabricCompletion> got(held);
  for (FabricCompletion& one : got)
    ASSERT_TRUE(next(*b, one));
  FabricCompletion more;
  EXPECT_FALSE(next(*b, more));
  for (std::uint32_t i = 0; i < held; ++i) {
    const Bytes expected = pattern(100, i);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got[i].payload.begin()));
    b->release(got[i]);
  }
  EXPECT_TRUE(next(*b, more));
}

TEST_P(FabricContract, EachSideSeesWhatTheOtherShowsAndIsToldOfNews) {
  open();
  EXPECT_EQ(a->status(to_b).words, FabricStatus{}.words);
  b->set_status(to_a, {{1, 2, 3, 4}});
  pair->rest();
  EXPECT_EQ(a->status(to_b).words, (FabricStatus{{1, 2, 3, 4}}.words));
  FabricCompletion got;
  ASSERT_EQ(a->poll({&got, 1}), 1U);
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kStatus);
  EXPECT_EQ(got.peer, to_b);
  EXPECT_EQ(a->poll({&got, 1}), 0U);
}

TEST_P(FabricContract, MemoryThatIsReachableIsReadIntoLists) {
  open();
  if (a->caps().max_read_bytes == 0) {
    EXPECT_FALSE(a->reach(to_b).reads_peer);
    EXPECT_FALSE(b->reach(to_a).is_read_by_peer);
    return;
  }
  if (!a->reach(to_b).reads_peer) GTEST_SKIP() << "the kernel does not let this process";
  EXPECT_TRUE(b->reach(to_a).is_read_by_peer);
  Bytes theirs = pattern(200000, 7);
  Bytes mine(200000);
  const LocalKey region{7};
  ASSERT_TRUE(b->add_region(region, theirs).ok());
  ASSERT_TRUE(a->add_region(region, mine).ok());
  const Sge from[] = {{.data = theirs.data() + 10, .bytes = 70000, .region = region},
                      {.data = theirs.data() + 100000, .bytes = 50000, .region = region}};
  const RemoteSpan remote[] = {b->offer(to_a, from[0]), b->offer(to_a, from[1])};
  pair->rest();  // what it told of the region goes in front of the message that carries this
  const Sge into[] = {{.data = mine.data(), .bytes = 1, .region = region},
                      {.data = mine.data() + 1000, .bytes = 119999, .region = region}};
  FabricOp op{.kind = FabricOp::Kind::kRead, .peer = to_b, .tag = 42};
  op.local = into;
  op.remote = remote;
  if (a->caps().max_read_local < 2 || a->caps().max_read_remote < 2) {
    ASSERT_NO_FATAL_FAILURE(read(into[0], cut(remote[0], 0, 1)));
    ASSERT_NO_FATAL_FAILURE(
        read({.data = into[1].data, .bytes = 69999, .region = region}, cut(remote[0], 1, 69999)));
    ASSERT_NO_FATAL_FAILURE(
        read({.data = into[1].data + 69999, .bytes = 50000, .region = region}, remote[1]));
  } else {
    ASSERT_EQ(a->post({&op, 1}), 1U);
    FabricCompletion got;
    ASSERT_TRUE(next(*a, got));
    EXPECT_EQ(got.kind, FabricCompletion::Kind::kRead);
    EXPECT_EQ(got.tag, 42U);
    ASSERT_TRUE(got.is_ok) << a->last_error(to_b);
  }
  EXPECT_EQ(mine[0], theirs[10]);
  EXPECT_EQ(std::memcmp(mine.data() + 1000, theirs.data() + 11, 69999), 0);
  EXPECT_EQ(std::memcmp(mine.data() + 1000 + 69999, theirs.data() + 100000, 50000), 0);
}

TEST_P(FabricContract, MemoryThatIsNotThereIsAnErrorWithACause) {
  open();
  if (!a->reach(to_b).reads_peer) GTEST_SKIP() << "nothing can be read here";
  Bytes mine(100);
  ASSERT_TRUE(a->add_region(LocalKey{9}, mine).ok());
  const Sge into{.data = mine.data(), .bytes = 100, .region = LocalKey{9}};
  const RemoteSpan nowhere{.address = 16, .bytes = 100};
  FabricOp op{.kind = FabricOp::Kind::kRead, .peer = to_b};
  op.local = {&into, 1};
  op.remote = {&nowhere, 1};
  ASSERT_EQ(a->post({&op, 1}), 1U);
  FabricCompletion got;
  ASSERT_TRUE(next(*a, got));
  EXPECT_FALSE(got.is_ok);
  EXPECT_THAT(a->last_error(to_b), HasSubstr(a->describe_peer(to_b)));
}

// What a lane that is cut had under way is lost, which is told once, and so is its return; the
// other lanes and the messages do not care.
TEST_P(FabricContract, ALaneThatIsCutLosesItsReadsAndWorksAgainWhenMended) {
  open();
  if (!a->reach(to_b).reads_peer || !pair->set_lane(1, true)) GTEST_SKIP() << "no lane to cut";
  Bytes theirs = pattern(64000, 7);
  Bytes mine(64000);
  ASSERT_TRUE(b->add_region(LocalKey{7}, theirs).ok());
  ASSERT_TRUE(a->add_region(LocalKey{8}, mine).ok());
  const RemoteSpan remote =
      b->offer(to_a, {.data = theirs.data(), .bytes = 64000, .region = LocalKey{7}});
  pair->rest();
  const Sge into{.data = mine.data(), .bytes = 64000, .region = LocalKey{8}};
  const auto read_by = [&](std::uint16_t lane) {
    FabricOp op{.kind = FabricOp::Kind::kRead, .lane = lane, .peer = to_b, .tag = lane};
    op.local = {&into, 1};
    op.remote = {&remote, 1};
    ASSERT_EQ(a->post({&op, 1}), 1U);
  };
  read_by(1);
  ASSERT_TRUE(pair->set_lane(1, false));
  bool is_lost = false;
  bool is_told = false;
  FabricCompletion got;
  while (!(is_lost && is_told)) {
    ASSERT_TRUE(next(*a, got));
    EXPECT_EQ(got.lane, 1);
    EXPECT_FALSE(got.is_ok);
    if (got.kind == FabricCompletion::Kind::kLane) {
      EXPECT_FALSE(std::exchange(is_told, true));
      EXPECT_THAT(a->describe_lane(to_b, 1), HasSubstr("down"));
      EXPECT_NE(a->last_error(to_b), "");
    } else {
      ASSERT_EQ(got.kind, FabricCompletion::Kind::kRead);
      EXPECT_FALSE(std::exchange(is_lost, true));
      EXPECT_EQ(got.tag, 1U);
      EXPECT_EQ(got.fault, FabricCompletion::Fault::kLost);
    }
  }
  read_by(1);  // while it is down: lost as well
  ASSERT_TRUE(next(*a, got));
  EXPECT_EQ(got.fault, FabricCompletion::Fault::kLost);
  pair->rest();
  EXPECT_EQ(mine, Bytes(64000)) << "nothing lands of what was lost";
  read_by(0);
  ASSERT_TRUE(next(*a, got));
  EXPECT_TRUE(got.is_ok);
  EXPECT_EQ(mine, theirs);
  ASSERT_EQ(send(*a, to_b, text("h"), text("by another way")), 1U);
  do {
    ASSERT_TRUE(next(*b, got));
  } while (got.kind != FabricCompletion::Kind::kMessage);
  b->release(got);
  mine.assign(64000, std::byte{0});
  ASSERT_TRUE(pair->set_lane(1, true));
  ASSERT_TRUE(next(*a, got));
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kLane);
  EXPECT_EQ(got.lane, 1);
  EXPECT_TRUE(got.is_ok);
  read_by(1);
  ASSERT_TRUE(next(*a, got));
  EXPECT_TRUE(got.is_ok);
  EXPECT_EQ(mine, theirs);
}

TEST_P(FabricContract, ARefusalCarriesItsWordsAndNobodyIsAnError) {
  ASSERT_TRUE(b->add_address(pair->address).ok());
  const auto called = a->connect(b->addresses()[0], text("who"), kLanes);
  ASSERT_TRUE(called.ok());
  FabricEvent event;
  ASSERT_TRUE(next_event(*b, event));
  b->refuse(event.peer, text("no"));
  ASSERT_TRUE(next_event(*a, event));
  EXPECT_EQ(event.kind, FabricEvent::Kind::kRefused);
  EXPECT_EQ(event.hello, text("no"));
  const auto nobody = a->connect("no-such-peer-anywhere", {}, kLanes);
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(nobody.error().message(), HasSubstr("no-such-peer-anywhere"));
  EXPECT_FALSE(a->check_address(std::string(200, 'x')).ok());
  EXPECT_FALSE(a->check_address("").ok());
}

TEST_P(FabricContract, WhoIsDroppedReadsWhatWasSentBeforeItHearsOfIt) {
  open();
  for (std::size_t i = 0; i < 10; ++i)
    ASSERT_EQ(send(*a, to_b, text("h"), pattern(100, i)), 1U);
  a->drop(to_b);
  FabricEvent event;
  for (int turn = 0; turn < 2000; ++turn) {
    ASSERT_EQ(b->poll_events({&event, 1}), 0U);
    pair->pass_time();
  }
  for (std::size_t i = 0; i < 10; ++i) {
    FabricCompletion got;
    ASSERT_TRUE(next(*b, got));
    b->release(got);
  }
  ASSERT_TRUE(next_event(*b, event));
  EXPECT_EQ(event.kind, FabricEvent::Kind::kGone);
  EXPECT_EQ(event.peer, to_a);
  EXPECT_NE(event.cause, "");
  b->drop(to_a);
}

TEST_P(FabricContract, ASleeperIsWokenByTheNextMessageAndByAStatus) {
  open();
  std::vector<int> fds;
  b->append_wait_fds(fds);
  if (fds.empty()) GTEST_SKIP() << "nobody sleeps in virtual time";
  ASSERT_EQ(fds.size(), 1U);
  pollfd waiting{.fd = fds[0], .events = POLLIN, .revents = 0};
  for (const bool by_status : {false, true}) {
    // Some wake up now and then for nothing.
    bool sleeps = false;
    for (int attempt = 0; attempt < 100 && !sleeps; ++attempt) {
      while (!b->arm()) {
        FabricCompletion got;
        while (b->poll({&got, 1}) == 1)
          if (got.kind == FabricCompletion::Kind::kMessage) b->release(got);
      }
      sleeps = ::poll(&waiting, 1, 0) == 0;
    }
    EXPECT_TRUE(sleeps);
    if (by_status)
      a->set_status(to_b, {{1}});
    else
      ASSERT_EQ(send(*a, to_b, text("h"), {}), 1U);
    EXPECT_EQ(::poll(&waiting, 1, 2000), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricContract, testing::ValuesIn(fabric_worlds()),
                         [](const testing::TestParamInfo<FabricWorld>& named) {
                           return named.param.name;
                         });

}  // namespace
}  // namespace spindrift
