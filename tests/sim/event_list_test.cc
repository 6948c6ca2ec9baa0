#include "sim/event_list.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "transport/base/rng.h"

namespace spindrift::sim {
namespace {

EventListShape shape(std::uint32_t actors) {
  return {.actors = actors, .slot_bits = 6, .wheel_bits = 6, .seed = 7};
}

TEST(EventList, GivesActorsInTheOrderOfTheirTime) {
  EventList list(shape(4));
  list.schedule(0, 3'000'000);
  list.schedule(1, 10);
  list.schedule(2, 70);
  EXPECT_EQ(list.next(kEndOfTime), 1U);
  list.schedule(3, 11);
  EXPECT_EQ(list.next(kEndOfTime), 3U);
  EXPECT_EQ(list.next(kEndOfTime), 2U);
  EXPECT_EQ(list.next(kEndOfTime), 0U);
  EXPECT_EQ(list.now(), 3'000'000);
  EXPECT_EQ(list.next(4'000'000), EventList::kNobody);
  EXPECT_EQ(list.now(), 4'000'000);
}

TEST(EventList, StopsAtTheTimeAskedFor) {
  EventList list(shape(1));
  list.schedule(0, 5'000);
  EXPECT_EQ(list.next(4'999), EventList::kNobody);
  EXPECT_EQ(list.now(), 4'999);
  EXPECT_EQ(list.next(5'000), 0U);
}

TEST(EventList, TakesAnActorBeforeThePresentSlotAfterAWaitThatEndedEarly) {
  EventList list(shape(2));
  list.schedule(0, 1'000'000'000);
  EXPECT_EQ(list.next(100), EventList::kNobody);
  list.schedule(1, 101);
  EXPECT_EQ(list.next(kEndOfTime), 1U);
  EXPECT_EQ(list.next(kEndOfTime), 0U);
}

// Places 0 and 1 have two actors each; the fifth concerns both.
TEST(EventList, HandsOutAWindowPlaceByPlace) {
  EventList list(shape(5));
  list.separate({.of_actor = {0, 0, 1, 1, 0}, .window = 1024, .for_all = 4});
  list.schedule(0, 1000);
  list.schedule(1, 300);
  list.schedule(2, 100);
  list.schedule(3, 1030);  // in the next window
  EXPECT_EQ(list.next(kEndOfTime), 1U);
  list.schedule(1, 900);  // a turn that plans another of its place
  EXPECT_EQ(list.next(kEndOfTime), 1U);
  EXPECT_EQ(list.next(kEndOfTime), 0U);
  EXPECT_EQ(list.now(), 1000);
  EXPECT_EQ(list.next(kEndOfTime), 2U);
  EXPECT_EQ(list.now(), 100);
  EXPECT_EQ(list.next(2000), 3U);
  EXPECT_EQ(list.now(), 1030);
}

TEST(EventList, KeepsTheOrderOfTimeAroundATurnThatConcernsAll) {
  EventList list(shape(5));
  list.separate({.of_actor = {0, 0, 1, 1, 0}, .window = 1 << 20, .for_all = 4});
  list.schedule(0, 200);
  list.schedule(1, 1000);
  list.schedule(2, 150);
  list.schedule(4, 1000 + 64);
  list.schedule(3, 1000 + 65);
  std::vector<EventList::Actor> order;
  for (int i = 0; i < 5; ++i)
    order.push_back(list.next(kEndOfTime));
  EXPECT_EQ(order, (std::vector<EventList::Actor>{0, 1, 2, 4, 3}));
  EXPECT_EQ(list.next(5000), EventList::kNobody);
  list.schedule(0, 7000);
  EXPECT_EQ(list.next(6900), EventList::kNobody);  // the caller's limit lies in its window
  EXPECT_EQ(list.next(7000), 0U);
}

// Against a plain sorted map, over spans that use every level and what lies beyond.
TEST(EventList, AgreesWithASortedMapUnderRandomUse) {
  constexpr std::uint32_t kActors = 200;
  EventList list(shape(kActors));
  std::map<EventList::Actor, Picoseconds> model;
  Rng rng(1);
  std::uint64_t taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto actor = static_cast<EventList::Actor>(rng.below(kActors));
    const std::uint64_t span = 1ULL << rng.below(31);
    const Picoseconds at = list.now() + static_cast<Picoseconds>(rng.below(span));
    ASSERT_EQ(list.is_scheduled(actor), model.contains(actor));
    switch (rng.below(4)) {
      case 0:
        list.cancel(actor);
        model.erase(actor);
        break;
      case 1:
        list.reschedule(actor, at);
        model[actor] = at;
        break;
      default: {
        const EventList::Actor next = list.next(kEndOfTime - 1);
        if (next == EventList::kNobody) {
          ASSERT_TRUE(model.empty());
          return;
        }
        ASSERT_TRUE(model.contains(next));
        for (const auto& [other, due] : model)
          ASSERT_GE(due, model[next]) << other << " was due before " << next;
        ASSERT_EQ(list.now(), model[next]);
        model.erase(next);
        ++taken;
      }
    }
    if (model.size() < kActors / 2 && !list.is_scheduled(actor)) {
      list.schedule(actor, at > list.now() ? at : list.now());
      model[actor] = at > list.now() ? at : list.now();
    }
  }
  EXPECT_GT(taken, 50'000U);
}

TEST(EventList, LetsNobodyAlwaysWinAmongEquals) {
  EventList list(shape(2));
  int first_wins = 0;
  for (Picoseconds at = 1; at <= 1000; ++at) {
    list.schedule(0, at * 77);
    list.schedule(1, at * 77);
    if (list.next(kEndOfTime) == 0) ++first_wins;
    EXPECT_NE(list.next(kEndOfTime), EventList::kNobody);
  }
  EXPECT_GT(first_wins, 400);
  EXPECT_LT(first_wins, 600);
}

}  // namespace
}  // namespace spindrift::sim
