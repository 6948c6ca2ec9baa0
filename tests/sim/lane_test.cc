// Lanes: the sender's rules by hand, and whole scenarios over them.
#include "sim/lane.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "sim/simulation.h"
#include "tests/sim/lane_world.h"

namespace spindrift::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaneMessage message_of(std::uint32_t bytes) {
  return {.payload_bytes = bytes, .payload = std::vector<std::byte>(bytes)};
}

std::vector<std::uint64_t> take_all(LaneSender& sender, Picoseconds now) {
  std::vector<std::uint64_t> out;
  while (sender.has_more())
    out.push_back(sender.take(now).psn);
  return out;
}

TEST(LaneSender, CutsMessagesIntoPacketsAndAsksForAcknowledgementsOfTheirEnds) {
  LaneSender sender({.mtu = 1000});
  LaneMessage first = message_of(1990);
  first.header_bytes = 24;
  sender.push(std::move(first));
  sender.push(message_of(0));
  std::vector<std::uint32_t> bytes;
  std::vector<bool> asks;
  while (sender.has_more()) {
    const LaneSegment segment = sender.take(0);
    bytes.push_back(segment.bytes);
    asks.push_back(segment.is_last && segment.wants_ack);
  }
  EXPECT_THAT(bytes, ElementsAre(1000, 1000, 14, 0));
  EXPECT_THAT(asks, ElementsAre(false, false, true, true));
}

TEST(LaneSender, GoesBackToWhatIsMissing) {
  LaneSender sender({.mtu = 100});
  sender.push(message_of(500));
  EXPECT_THAT(take_all(sender, 0), ElementsAre(0, 1, 2, 3, 4));
  sender.on_ack(2, true, 10);
  EXPECT_THAT(take_all(sender, 10), ElementsAre(2, 3, 4));
  EXPECT_EQ(sender.resent(), 3U);
  sender.on_ack(1, true, 11);  // older than what is known
  EXPECT_FALSE(sender.has_more());
  sender.on_ack(5, false, 12);
  EXPECT_TRUE(sender.is_empty());
  EXPECT_EQ(sender.deadline(), kEndOfTime);
}

TEST(LaneSender, IsGivenUpAfterItsRetriesAndNotBefore) {
  LaneSender sender({.mtu = 100, .timeout = 1000, .retries = 2});
  sender.push(message_of(200));
  EXPECT_THAT(take_all(sender, 5), ElementsAre(0, 1));
  EXPECT_EQ(sender.deadline(), 1005);
  EXPECT_TRUE(sender.on_timeout(1005));
  EXPECT_THAT(take_all(sender, 1005), ElementsAre(0, 1));
  sender.on_ack(1, false, 1500);  // progress: its retries are fresh
  EXPECT_EQ(sender.deadline(), 2500);
  EXPECT_TRUE(sender.on_timeout(2500));
  EXPECT_TRUE(sender.on_timeout(3500));
  EXPECT_FALSE(sender.on_timeout(4500));
  EXPECT_EQ(sender.take_back().size(), 1U);
  EXPECT_TRUE(sender.is_empty());
}

// What NIC 1 of each host sends is lost for a while: its lanes fail, and come back by themselves.
TEST(LaneFabric, GivesLanesUpAndTriesThemAgain) {
  constexpr std::uint16_t kLanes = 4;
  LaneWorld world({.nics = 2, .lanes = kLanes, .lane = {.timeout = 50 * kMicrosecond}});
  const auto a = world.make();
  const auto b = world.make();
  ASSERT_TRUE(b->add_address("").ok());
  const FabricPeer to_b = a->connect(b->addresses()[0], {}, kLanes).value();
  FabricEvent event;
  const auto wait = [&](LaneFabric& side) {
    while (side.poll_events({&event, 1}) == 0)
      static_cast<void>(world.step(world.now() + kMicrosecond));
  };
  wait(*b);
  ASSERT_TRUE(b->accept(event.peer, {}, kLanes).ok());
  wait(*a);
  std::vector<std::byte> memory(60000, std::byte{7});
  ASSERT_TRUE(a->add_region(LocalKey{1}, memory).ok());
  ASSERT_TRUE(b->add_region(LocalKey{2}, memory).ok());
  const Sge piece{.data = memory.data(), .bytes = 60000, .region = LocalKey{1}};
  const RemoteSpan remote =
      b->offer(event.peer, {.data = memory.data(), .bytes = 60000, .region = LocalKey{2}});
  const auto read_by = [&](std::uint16_t lane) {
    FabricOp op{.kind = FabricOp::Kind::kRead, .lane = lane, .peer = to_b};
    op.local = {&piece, 1};
    op.remote = {&remote, 1};
    ASSERT_EQ(a->post({&op, 1}), 1U);
  };
  const auto next = [&] {
    FabricCompletion got;
    while (a->poll({&got, 1}) == 0)
      static_cast<void>(world.step(world.now() + kMicrosecond));
    return got;
  };
  for (const std::uint32_t nic : {1U, 3U})
    world.network().set_loss(world.network().port_of_nic(nic), 1.0);
  read_by(1);
  read_by(2);
  FabricCompletion got = next();
  EXPECT_TRUE(got.is_ok);
  EXPECT_EQ(got.lane, 2);
  got = next();
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kRead);
  EXPECT_EQ(got.fault, FabricCompletion::Fault::kLost);
  EXPECT_EQ(got.lane, 1);
  got = next();
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kLane);
  EXPECT_FALSE(got.is_ok);
  EXPECT_EQ(got.lane, 1);
  EXPECT_THAT(a->describe_lane(to_b, 1), HasSubstr("NIC 1, down"));
  world.run(world.now() + 2 * kMillisecond);  // a trial fails, too
  for (const std::uint32_t nic : {1U, 3U})
    world.network().set_loss(world.network().port_of_nic(nic), 0.0);
  got = next();
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kLane);
  EXPECT_TRUE(got.is_ok);
  read_by(1);
  got = next();
  EXPECT_EQ(got.kind, FabricCompletion::Kind::kRead);
  EXPECT_TRUE(got.is_ok);
}

Scenario over_lanes() {
  Scenario scenario;
  scenario.topology.hosts = 8;
  scenario.transport.engine = Engine::kLanes;
  scenario.transport.congestion_control = "fixed_window";
  scenario.transport.path_count = 4;
  scenario.transport.carries_payload = true;
  scenario.workload.name = "permutation";
  scenario.workload.bytes = 1U << 20U;
  return scenario;
}

Results must_run(const Scenario& scenario) {
  auto outcome = run(scenario, builtin_registry());
  if (const auto* complaints = std::get_if<RunError>(&outcome)) {
    ADD_FAILURE() << to_string(complaints->front());
    return {};
  }
  return std::get<Results>(std::move(outcome));
}

void expect_all_intact(const Results& results) {
  ASSERT_FALSE(results.flows.empty());
  for (const FlowRecord& flow : results.flows) {
    EXPECT_TRUE(flow.is_done()) << flow.source << "->" << flow.destination << flow.error;
    EXPECT_GE(flow.finish - flow.start, flow.ideal);
  }
  EXPECT_EQ(results.payload_errors, 0U);
}

TEST(LanesInASimulation, CarryEveryByteAndRepeat) {
  const Results first = must_run(over_lanes());
  expect_all_intact(first);
  EXPECT_EQ(first.total.trims, 0U);
  EXPECT_EQ(first.history, must_run(over_lanes()).history);
}

TEST(LanesInASimulation, SendAgainWhatANetworkLoses) {
  Scenario scenario = over_lanes();
  scenario.topology.fabric_link.loss = 0.01;
  scenario.transport.lane_timeout = 200 * kMicrosecond;
  const Results results = must_run(scenario);
  expect_all_intact(results);
  EXPECT_GT(results.total.drops_loss, 0U);
}

// With PFC nothing is lost, and an incast takes what its bottleneck needs; without, go-back-N sends
// much of it again.
TEST(LanesInASimulation, NeedALosslessNetworkForAnIncast) {
  Scenario scenario = over_lanes();
  scenario.workload.name = "incast";
  scenario.workload.fan_in = 7;
  scenario.workload.destination = 0;
  const Results lossy = must_run(scenario);
  expect_all_intact(lossy);
  EXPECT_GT(lossy.total.drops_full, 0U);
  EXPECT_EQ(lossy.total.trims, 0U) << "a queue pair knows no trimmed packets";
  scenario.network.has_pfc = true;
  const Results lossless = must_run(scenario);
  expect_all_intact(lossless);
  EXPECT_EQ(lossless.total.drops_full, 0U);
  EXPECT_GT(lossless.pauses_sent, 0U);
  EXPECT_LT(lossless.simulated, lossy.simulated);
}

TEST(LanesInASimulation, SurviveALinkThatIsCutByTheOtherLanes) {
  Scenario scenario = over_lanes();
  scenario.transport.path_count = 16;
  scenario.transport.lane_timeout = 50 * kMicrosecond;
  scenario.faults.push_back(
      {.kind = FaultSpec::Kind::kDown, .from = "leaf0", .to = "spine1", .at = 20 * kMicrosecond});
  const Results results = must_run(scenario);
  expect_all_intact(results);
  EXPECT_GT(results.total.drops_down, 0U);
}

TEST(LanesInASimulation, EndTheirConnectionWhenNoneIsLeft) {
  Scenario scenario = over_lanes();
  scenario.workload.name = "one_flow";
  scenario.transport.lane_timeout = 50 * kMicrosecond;
  scenario.faults.push_back(
      {.kind = FaultSpec::Kind::kDown, .from = "host1", .at = 20 * kMicrosecond});
  const Results results = must_run(scenario);
  ASSERT_EQ(results.flows.size(), 1U);
  EXPECT_THAT(results.flows[0].error, HasSubstr("no acknowledgement in 8 tries of 50 us"));
}

TEST(LanesInASimulation, AreRefusedWhatDoesNotApplyToThem) {
  const auto complaint = [](const Scenario& scenario) {
    auto outcome = run(scenario, builtin_registry());
    const auto* complaints = std::get_if<RunError>(&outcome);
    return complaints == nullptr ? std::string() : to_string(complaints->front());
  };
  Scenario marks = over_lanes();
  marks.transport.congestion_control = "dcqcn";
  EXPECT_THAT(complaint(marks), HasSubstr("choose fixed_window"));
  Scenario credit = over_lanes();
  credit.transport.congestion_control = "receiver_credit";
  EXPECT_THAT(complaint(credit), HasSubstr("choose fixed_window"));
  Scenario telemetry = over_lanes();
  telemetry.network.has_telemetry = true;
  EXPECT_THAT(complaint(telemetry), HasSubstr("lanes carry no telemetry"));
  Scenario window = over_lanes();
  window.transport.window_packets = 128;
  EXPECT_THAT(complaint(window), HasSubstr("transport.engine=packets"));
  Scenario crc = over_lanes();
  crc.transport.has_crc = true;
  EXPECT_THAT(complaint(crc), HasSubstr("transport.engine=packets"));
}

}  // namespace
}  // namespace spindrift::sim
