// What is special about queue pairs: they fail one by one and come back, ports go down, MTUs
// differ. Needs two soft-RoCE devices, rxe0 and rxe1; the virtual machine has them.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/providers/verbs/verbs_pair.h"

namespace spindrift {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Kind = FabricCompletion::Kind;

constexpr std::uint16_t kLanes = 4;
constexpr LocalKey kRegion{7};

VerbsOptions patient() {
  VerbsOptions options;
  options.lanes = kLanes;
  options.timeout = 15;  // 134 ms: emulated processors stand still now and then
  options.retries = 3;
  return options;
}

bool run(const char* command) {
  return std::system(command) == 0;  // NOLINT(concurrency-mt-unsafe): nobody else looks at it
}

// Two fabrics, connected, each of which polls what comes and keeps it.
class VerbsFabricTest : public testing::Test {
 protected:
  struct Side {
    std::unique_ptr<VerbsFabric> fabric;
    FabricPeer peer{};
    std::vector<std::string> messages;
    std::map<std::uint64_t, FabricCompletion> reads;  // by tag
    std::vector<std::pair<std::uint16_t, bool>> lanes;
    std::vector<FabricEvent> events;
    FabricStatus status;
  };

  void spoil_cable(const char* command) {
    is_cable_spoilt = true;
    ASSERT_TRUE(run(command));
  }
  void mend_cable() {
    if (!is_cable_spoilt) return;
    is_cable_spoilt = false;
    EXPECT_TRUE(run("ip link set veth1 mtu 4200 && $VM_CABLE"));
  }
  void TearDown() override { mend_cable(); }

  void open(const VerbsOptions& options_a, const VerbsOptions& options_b) {
    a.fabric = open_verbs_device("rxe0", options_a);
    b.fabric = open_verbs_device("rxe1", options_b);
    ASSERT_TRUE(b.fabric->add_address("").ok());
    const auto called = a.fabric->connect(b.fabric->addresses()[0], {}, kLanes);
    ASSERT_TRUE(called.ok()) << called.error().message();
    a.peer = called.value();
    ASSERT_TRUE(until([&] { return !b.events.empty(); }));
    ASSERT_EQ(b.events[0].kind, FabricEvent::Kind::kRequest);
    b.peer = b.events[0].peer;
    ASSERT_TRUE(b.fabric->accept(b.peer, {}, kLanes).ok());
    ASSERT_TRUE(until([&] { return !a.events.empty() && b.events.size() == 2; }))
        << (a.events.empty() ? "" : a.events[0].cause);
    ASSERT_EQ(a.events[0].kind, FabricEvent::Kind::kAccepted) << a.events[0].cause;
    ASSERT_EQ(b.events[1].kind, FabricEvent::Kind::kOpened);
  }
  void open() { open(patient(), patient()); }

  static void turn(Side& side) {
    FabricCompletion done[16];
    const std::size_t count = side.fabric->poll(done);
    for (std::size_t i = 0; i < count; ++i) {
      const FabricCompletion& one = done[i];
      switch (one.kind) {
        case Kind::kMessage:
          side.messages.emplace_back(reinterpret_cast<const char*>(one.payload.data()),
                                     one.payload.size());
          side.fabric->release(one);
          break;
        case Kind::kRead:
          side.reads[one.tag] = one;
          break;
        case Kind::kLane:
          side.lanes.emplace_back(one.lane, one.is_ok);
          break;
        case Kind::kStatus:
          side.status = side.fabric->status(side.peer);
          break;
      }
    }
    FabricEvent events[4];
    const std::size_t news = side.fabric->poll_events(events);
    side.events.insert(side.events.end(), events, events + news);
  }
  bool until(const std::function<bool()>& is_done, Duration limit = std::chrono::seconds(30)) {
    const Time end = a.fabric->now() + limit;
    while (!is_done()) {
      if (a.fabric->now() > end) return false;
      turn(a);
      turn(b);
    }
    return true;
  }
  static bool send(Side& side, const std::string& text) {
    const Sge piece{.data = reinterpret_cast<std::byte*>(const_cast<char*>(text.data())),
                    .bytes = static_cast<std::uint32_t>(text.size())};
    FabricOp op{.peer = side.peer};
    const std::byte header{1};
    op.header = {&header, 1};
    op.local = {&piece, 1};
    return side.fabric->post({&op, 1}) == 1;
  }
  // a reads all of b's memory, one piece by each lane; tags from `first` on.
  void offer_memory(std::size_t bytes) {
    theirs.resize(bytes);
    mine.assign(bytes, std::byte{0});
    for (std::size_t i = 0; i < bytes; ++i)
      theirs[i] = static_cast<std::byte>(i * 131 + (i >> 8U));
    ASSERT_TRUE(a.fabric->add_region(kRegion, mine).ok());
    ASSERT_TRUE(b.fabric->add_region(kRegion, theirs).ok());
  }
  std::size_t read(std::uint16_t lane, std::size_t offset, std::uint32_t bytes, std::uint64_t tag) {
    const Sge from{.data = theirs.data() + offset, .bytes = bytes, .region = kRegion};
    const RemoteSpan remote = b.fabric->offer(b.peer, from);
    const Sge into{.data = mine.data() + offset, .bytes = bytes, .region = kRegion};
    FabricOp op{.kind = FabricOp::Kind::kRead, .lane = lane, .peer = a.peer, .tag = tag};
    op.local = {&into, 1};
    op.remote = {&remote, 1};
    return a.fabric->post({&op, 1});
  }
  std::uint64_t counter(const Side& side, const std::string& name) {
    struct Writer final : public CounterWriter {
      void counter(std::string_view key, std::uint64_t value) override {
        values[std::string(key)] = value;
      }
      std::map<std::string, std::uint64_t> values;
    } writer;
    side.fabric->counters(writer);
    return writer.values.at(name);
  }

  Side a;
  Side b;
  bool is_cable_spoilt = false;
  Bytes theirs;
  Bytes mine;
};

TEST_F(VerbsFabricTest, LanesAreDifferentFlowsAndSaySo) {
  open();
  ASSERT_EQ(a.fabric->reach(a.peer).lanes, kLanes);
  std::set<std::string> ports;
  for (std::uint16_t lane = 0; lane < kLanes; ++lane) {
    const std::string text = a.fabric->describe_lane(a.peer, lane);
    EXPECT_THAT(text, HasSubstr("rxe0 port 1, queue pair"));
    EXPECT_THAT(text, HasSubstr("10.77.0.1 to 10.77.0.2"));
    ports.insert(text.substr(text.find("UDP source port")));
  }
  EXPECT_EQ(ports.size(), kLanes);
  EXPECT_THAT(a.fabric->describe_peer(a.peer), HasSubstr("(rxe1 port 1)"));
}

TEST_F(VerbsFabricTest, ReadsByAllLanesBringTheRightBytes) {
  open();
  offer_memory(kLanes * 100000);
  for (std::uint16_t lane = 0; lane < kLanes; ++lane)
    ASSERT_EQ(read(lane, lane * 100000U, 100000, lane), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == kLanes; }));
  for (const auto& [tag, done] : a.reads)
    EXPECT_TRUE(done.is_ok) << tag << a.fabric->last_error(a.peer);
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, ALaneThatFailsLosesItsReadsAndComesBack) {
  open();
  offer_memory(400000);
  ASSERT_EQ(read(2, 0, 200000, 1), 1U);
  a.fabric->break_lane(a.peer, 2);
  ASSERT_EQ(read(2, 0, 1000, 2), 1U) << "a lane that is down takes reads, and loses them";
  ASSERT_EQ(read(1, 200000, 200000, 3), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == 3; }));
  // The first may have been over already.
  EXPECT_TRUE(a.reads[1].is_ok || a.reads[1].fault == FabricCompletion::Fault::kLost);
  EXPECT_EQ(a.reads[2].fault, FabricCompletion::Fault::kLost);
  EXPECT_TRUE(a.reads[3].is_ok);
  EXPECT_THAT(a.fabric->last_error(a.peer), HasSubstr("a test broke it"));
  const auto is_back = [](const Side& side) {
    return side.lanes.size() == 2 && side.lanes[0] == std::pair<std::uint16_t, bool>(2, false) &&
           side.lanes[1] == std::pair<std::uint16_t, bool>(2, true);
  };
  ASSERT_TRUE(until([&] { return is_back(a) && is_back(b); })) << a.lanes.size() << b.lanes.size();
  ASSERT_EQ(read(2, 0, 200000, 4), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == 4; }));
  EXPECT_TRUE(a.reads[4].is_ok);
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, TheSideThatWasCalledMendsItsLanesToo) {
  open();
  offer_memory(1000);
  b.fabric->break_lane(b.peer, 0);
  ASSERT_TRUE(until([&] { return a.lanes.size() == 2 && b.lanes.size() == 2; }));
  ASSERT_EQ(read(0, 0, 1000, 1), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == 1; }));
  EXPECT_TRUE(a.reads[1].is_ok) << a.fabric->last_error(a.peer);
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, MessagesSurviveTheirQueuePairExactlyOnceAndInOrder) {
  open();
  constexpr std::size_t kMessages = 600;
  std::size_t from_a = 0;
  std::size_t from_b = 0;
  std::size_t breaks = 0;
  const auto is_done = [&] {
    while (from_a < kMessages && send(a, "a" + std::to_string(from_a)))
      ++from_a;
    while (from_b < kMessages && send(b, std::string(3000, 'b') + std::to_string(from_b)))
      ++from_b;
    // Now on one side, now on the other, with messages under way.
    if (b.messages.size() >= 100 * (breaks + 1) && breaks < 5) {
      Side& side = breaks++ % 2 == 0 ? a : b;
      side.fabric->break_lane(side.peer, kVerbsMessageLane);
    }
    a.fabric->set_status(a.peer, {{from_a, breaks}});
    return b.messages.size() >= kMessages && a.messages.size() >= kMessages;
  };
  ASSERT_TRUE(until(is_done, std::chrono::seconds(60)))
      << b.messages.size() << " and " << a.messages.size();
  EXPECT_GE(counter(a, "verbs_lanes_mended"), 3U);
  EXPECT_GE(counter(b, "verbs_lanes_mended"), 3U);
  ASSERT_TRUE(until([&] { return b.status.words[0] == kMessages && b.status.words[1] == breaks; }));
  ASSERT_EQ(a.messages.size(), kMessages);
  ASSERT_EQ(b.messages.size(), kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(b.messages[i], "a" + std::to_string(i));
    ASSERT_EQ(a.messages[i], std::string(3000, 'b') + std::to_string(i));
  }
}

TEST_F(VerbsFabricTest, ACableThatIsPulledAndPutBackCostsNothingButTime) {
  open();
  offer_memory(kLanes * 100000);
  spoil_cable("ip link set veth1 down");
  for (std::uint16_t lane = 0; lane < kLanes; ++lane)
    ASSERT_EQ(read(lane, lane * 100000U, 100000, lane), 1U);
  ASSERT_TRUE(send(a, "while it was out"));
  ASSERT_TRUE(until([&] { return a.reads.size() == kLanes; }));
  for (const auto& [tag, done] : a.reads)
    EXPECT_EQ(done.fault, FabricCompletion::Fault::kLost) << tag;
  ASSERT_TRUE(until([&] { return a.lanes.size() >= kLanes; }));
  EXPECT_THAT(a.fabric->describe_lane(a.peer, 0), HasSubstr("down"));
  mend_cable();
  ASSERT_TRUE(until([&] { return a.lanes.size() == 2 * kLanes; })) << a.lanes.size();
  ASSERT_TRUE(until([&] { return b.messages.size() == 1; }));
  EXPECT_EQ(b.messages[0], "while it was out");
  a.reads.clear();
  for (std::uint16_t lane = 0; lane < kLanes; ++lane)
    ASSERT_EQ(read(lane, lane * 100000U, 100000, lane), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == kLanes; }));
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, AGidThatVanishesEndsItsLanesAndTheyComeBackWithIt) {
  open();
  offer_memory(kLanes * 1000);
  // The kernel's own connection between the two sides lives on, for TCP waits.
  spoil_cable("ip addr del 10.77.0.1/24 dev veth0");
  ASSERT_TRUE(until([&] { return a.lanes.size() >= kLanes; }));
  EXPECT_THAT(a.fabric->describe_lane(a.peer, 0), HasSubstr("down: rxe0 port 1"));
  ASSERT_EQ(read(0, 0, 1000, 1), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == 1; }));
  EXPECT_EQ(a.reads[1].fault, FabricCompletion::Fault::kLost);
  mend_cable();
  ASSERT_TRUE(until([&] { return a.lanes.size() == 2 * kLanes; }, std::chrono::seconds(60)))
      << a.fabric->describe_lane(a.peer, 0);
  a.reads.clear();
  for (std::uint16_t lane = 0; lane < kLanes; ++lane)
    ASSERT_EQ(read(lane, lane * 1000U, 1000, lane), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == kLanes; }));
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, TheSmallerMtuOfTheTwoIsUsed) {
  VerbsOptions small = patient();
  small.mtu = 1024;
  open(patient(), small);
  offer_memory(100000);
  ASSERT_EQ(read(1, 0, 100000, 1), 1U);
  ASSERT_TRUE(until([&] { return a.reads.size() == 1; }));
  EXPECT_TRUE(a.reads[1].is_ok) << a.fabric->last_error(a.peer);
  EXPECT_EQ(mine, theirs);
}

TEST_F(VerbsFabricTest, AnMtuThatTheNetworkDoesNotCarryIsNamed) {
  a.fabric = open_verbs_device("rxe0", patient());
  b.fabric = open_verbs_device("rxe1", patient());
  // Both ports carry 4096 bytes, but the way between them does not.
  spoil_cable("ip link set veth1 mtu 2000");
  ASSERT_TRUE(b.fabric->add_address("").ok());
  const auto called = a.fabric->connect(b.fabric->addresses()[0], {}, 1);
  ASSERT_TRUE(called.ok());
  ASSERT_TRUE(until([&] { return !b.events.empty(); }));
  ASSERT_TRUE(b.fabric->accept(b.events[0].peer, {}, 1).ok());
  EXPECT_TRUE(until([&] { return !a.events.empty(); }));
  ASSERT_FALSE(a.events.empty());
  EXPECT_EQ(a.events[0].kind, FabricEvent::Kind::kRefused);
  EXPECT_THAT(a.events[0].cause, HasSubstr("packets of 4096 bytes do not get there and back"));
}

TEST_F(VerbsFabricTest, WhatLosesMessagesIsRefused) {
  VerbsFabric fabric({.transport = VerbsTransport::kUc});
  const Status opened = fabric.open();
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message(), HasSubstr("transport=uc loses messages"));
}

TEST_F(VerbsFabricTest, NothingLandsAfterADrop) {
  open();
  offer_memory(kLanes * 1000000);
  for (std::uint16_t lane = 0; lane < kLanes; ++lane)
    ASSERT_EQ(read(lane, lane * 1000000U, 1000000, lane), 1U);
  a.fabric->drop(a.peer);
  const Bytes then = mine;
  ::usleep(200000);
  EXPECT_EQ(mine, then);
  ASSERT_TRUE(
      until([&] { return !b.events.empty() && b.events.back().kind == FabricEvent::Kind::kGone; }));
}

}  // namespace
}  // namespace spindrift
