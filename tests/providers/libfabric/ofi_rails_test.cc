// A connection over two rails, one of which is cut while messages and reads are under way. What it
// tries out is in ofi_lanes, ofi_polling and ofi_rails.
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/message_fabric.h"

#include "tests/providers/libfabric/ofi_rails_pair.h"

namespace spindrift {
namespace {

using testing::HasSubstr;

constexpr std::uint16_t kLanes = 16;
constexpr std::uint32_t kRegionBytes = 1U << 20U;
constexpr std::uint32_t kChunk = 32768;
constexpr int kTurns = 20000;

struct End {
  MessageFabric* fabric = nullptr;
  FabricPeer peer{};
  std::uint64_t sent = 0;
  std::uint64_t got = 0;
  bool is_told_down = false;
};

class OfiRails : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!may_make_networks()) GTEST_SKIP() << "NOT TESTED: networks to be cut need root";
    pair = std::make_unique<OfiRailsPair>(GetParam());
    a.fabric = pair->a.get();
    b.fabric = pair->b.get();
  }
  FabricEvent event_of(MessageFabric& side) {
    FabricEvent event{.kind = FabricEvent::Kind::kGone};
    for (int turn = 0; turn < kTurns; ++turn) {
      if (side.poll_events({&event, 1}) == 1) return event;
      pair->pass_time();
    }
    ADD_FAILURE() << "no event";
    return event;
  }
  void open(std::uint16_t lanes) {
    ASSERT_TRUE(b.fabric->add_address(pair->address).ok());
    const auto called = a.fabric->connect(b.fabric->addresses()[0], {}, kLanes);
    ASSERT_TRUE(called.ok()) << called.error().message();
    a.peer = called.value();
    b.peer = event_of(*b.fabric).peer;
    ASSERT_TRUE(b.fabric->accept(b.peer, {}, lanes).ok());
    ASSERT_EQ(event_of(*a.fabric).kind, FabricEvent::Kind::kAccepted);
    ASSERT_EQ(event_of(*b.fabric).kind, FabricEvent::Kind::kOpened);
  }
  // A numbered message, where there is room.
  static void send(End& end) {
    FabricOp op{.peer = end.peer};
    op.header = std::as_bytes(std::span(&end.sent, 1));
    end.sent += end.fabric->post({&op, 1});
  }
  // What has come; messages are the next in their order, each once.
  void take(End& end) {
    FabricCompletion got;
    while (end.fabric->poll({&got, 1}) == 1) {
      if (got.kind == FabricCompletion::Kind::kMessage) {
        std::uint64_t number = 0;
        std::memcpy(&number, got.header.data(), sizeof(number));
        ASSERT_EQ(number, end.got);
        ++end.got;
        end.fabric->release(got);
      } else if (got.kind == FabricCompletion::Kind::kLane) {
        end.is_told_down = !got.is_ok;
      } else if (got.kind == FabricCompletion::Kind::kRead) {
        if (got.is_ok) {
          ++reads_done;
          done[got.tag] = true;
        } else {
          ASSERT_EQ(got.fault, FabricCompletion::Fault::kLost) << end.fabric->last_error(end.peer);
          ++reads_lost;
        }
        under_way[got.tag] = false;
      }
    }
  }
  // Every chunk is read by one lane or the other, until it is there.
  void read_some(const RemoteSpan& remote, std::vector<std::byte>& mine) {
    for (std::uint32_t i = 0; i < kRegionBytes / kChunk; ++i) {
      if (done[i] || under_way[i]) continue;
      const Sge into{.data = mine.data() + i * kChunk, .bytes = kChunk, .region = LocalKey{8}};
      const RemoteSpan from{
          .address = remote.address + i * kChunk, .key = remote.key, .bytes = kChunk};
      FabricOp op{.kind = FabricOp::Kind::kRead, .peer = a.peer, .tag = i};
      op.lane = static_cast<std::uint16_t>(a.is_told_down ? kept_lane : i % 2);
      op.local = {&into, 1};
      op.remote = {&from, 1};
      if (a.fabric->post({&op, 1}) == 0) return;
      under_way[i] = true;
    }
  }

  std::unique_ptr<OfiRailsPair> pair;
  End a;
  End b;
  std::uint16_t kept_lane = 0;
  std::array<bool, kRegionBytes / kChunk> done{};
  std::array<bool, kRegionBytes / kChunk> under_way{};
  std::uint32_t reads_done = 0;
  std::uint32_t reads_lost = 0;
};

TEST_P(OfiRails, BothSidesUseAsManyLanesAsBothHave) {
  ASSERT_NO_FATAL_FAILURE(open(kLanes));
  EXPECT_EQ(a.fabric->reach(a.peer).lanes, 2);
  EXPECT_EQ(b.fabric->reach(b.peer).lanes, 2);
  EXPECT_THAT(a.fabric->describe_lane(a.peer, 0), HasSubstr("domain rail0"));
  EXPECT_THAT(a.fabric->describe_lane(a.peer, 1), HasSubstr("domain rail1"));
}

TEST_P(OfiRails, OneLaneIsEnoughWhereOneSideWantsNoMore) {
  ASSERT_NO_FATAL_FAILURE(open(1));
  EXPECT_EQ(a.fabric->reach(a.peer).lanes, 1);
  EXPECT_EQ(b.fabric->reach(b.peer).lanes, 1);
  for (int turn = 0; turn < kTurns && b.got < 100; ++turn) {
    send(a);
    ASSERT_NO_FATAL_FAILURE(take(b));
    ASSERT_NO_FATAL_FAILURE(take(a));
  }
  EXPECT_EQ(b.got, a.sent);
}

// The rail that carries the messages, then the other one, then both in turn: every message comes
// once and in order, and every read ends, whichever is cut in the middle.
TEST_P(OfiRails, WhatACutRailHadUnderWayGoesByTheOther) {
  ASSERT_NO_FATAL_FAILURE(open(kLanes));
  std::vector<std::byte> theirs(kRegionBytes);
  std::vector<std::byte> mine(kRegionBytes);
  for (std::size_t i = 0; i < theirs.size(); ++i)
    theirs[i] = static_cast<std::byte>(i * 131 + (i >> 12U));
  ASSERT_TRUE(b.fabric->add_region(LocalKey{7}, theirs).ok());
  ASSERT_TRUE(a.fabric->add_region(LocalKey{8}, mine).ok());
  for (const std::uint16_t cut : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{0}}) {
    SCOPED_TRACE(cut);
    kept_lane = static_cast<std::uint16_t>(1 - cut);
    done.fill(false);
    std::fill(mine.begin(), mine.end(), std::byte{});
    const RemoteSpan remote = b.fabric->offer(
        b.peer, {.data = theirs.data(), .bytes = kRegionBytes, .region = LocalKey{7}});
    ASSERT_EQ(remote.bytes, kRegionBytes);
    const std::uint64_t enough_a = a.got + 2000;
    const std::uint64_t enough_b = b.got + 2000;
    const std::uint32_t all = reads_done + kRegionBytes / kChunk;
    bool is_cut = false;
    for (int turn = 0; turn < kTurns; ++turn) {
      send(a);
      send(b);
      // Not before the region is known: it is told in front of a message.
      if (a.got + 1000 > enough_a) {
        read_some(remote, mine);
        if (!std::exchange(is_cut, true)) {
          ASSERT_TRUE(pair->set_lane(cut, false));
        }
      }
      ASSERT_NO_FATAL_FAILURE(take(a));
      ASSERT_NO_FATAL_FAILURE(take(b));
      pair->pass_time();
      if (a.got >= enough_a && b.got >= enough_b && reads_done == all && a.is_told_down) break;
    }
    EXPECT_GE(a.got, enough_a);
    EXPECT_GE(b.got, enough_b);
    EXPECT_EQ(reads_done, all);
    EXPECT_EQ(mine, theirs);
    EXPECT_TRUE(a.is_told_down);
    EXPECT_THAT(a.fabric->describe_lane(a.peer, cut), HasSubstr("down: "));
    ASSERT_TRUE(pair->set_lane(cut, true));
    for (int turn = 0; turn < kTurns && (a.is_told_down || b.is_told_down); ++turn) {
      ASSERT_NO_FATAL_FAILURE(take(a));
      ASSERT_NO_FATAL_FAILURE(take(b));
      pair->pass_time();
    }
    EXPECT_FALSE(a.is_told_down);
  }
  EXPECT_GT(reads_lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiRails, testing::Values("net", "tcp;ofi_rxm"),
                         [](const testing::TestParamInfo<const char*>& named) {
                           return std::string(named.param) == "net" ? "net" : "tcp_rxm";
                         });

}  // namespace
}  // namespace spindrift
