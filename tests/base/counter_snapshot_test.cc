#include "spindrift/counter_snapshot.h"

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(CounterSnapshot, KeepsTheOrderInWhichNamesCame) {
  CounterSnapshot snapshot;
  snapshot.counter("zebras", 1);
  snapshot.counter("apes", 2);
  EXPECT_EQ(snapshot.to_json(), "{\"zebras\":1,\"apes\":2}");
}

TEST(CounterSnapshot, AddsUpWhatHasOneName) {
  CounterSnapshot snapshot;
  snapshot.counter("packets_sent", 3);
  snapshot.counter("packets_sent", 4);
  EXPECT_EQ(snapshot.value("packets_sent"), 7U);
  EXPECT_EQ(snapshot.entries().size(), 1U);
}

TEST(CounterSnapshot, TellsWhatCameSinceAnEarlierOne) {
  CounterSnapshot before;
  before.counter("packets_sent", 3);
  CounterSnapshot after;
  after.counter("packets_sent", 10);
  after.counter("timeouts", 2);
  const CounterSnapshot fresh = after.since(before);
  EXPECT_EQ(fresh.value("packets_sent"), 7U);
  EXPECT_EQ(fresh.value("timeouts"), 2U);
  EXPECT_EQ(before.since(after).value("packets_sent"), 0U);
}

TEST(CounterSnapshot, SumsOverEndpoints) {
  CounterSnapshot one;
  one.counter("packets_sent", 3);
  CounterSnapshot other;
  other.counter("bytes_sent", 5);
  other.counter("packets_sent", 1);
  one.add(other);
  EXPECT_EQ(one.to_json(), "{\"packets_sent\":4,\"bytes_sent\":5}");
}

TEST(CounterSnapshot, OfAnUnknownNameIsZero) {
  EXPECT_EQ(CounterSnapshot().value("packets_sent"), 0U);
  EXPECT_EQ(CounterSnapshot().to_json(), "{}");
}

}  // namespace
}  // namespace spindrift
