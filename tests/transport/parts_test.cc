// The parts of the packet engine, each alone.
#include <array>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/answer_predictor.h"
#include "transport/memory_table.h"
#include "transport/placement.h"
#include "transport/receive_log.h"
#include "transport/receive_queue.h"
#include "transport/rtt.h"
#include "transport/sent_log.h"
#include "transport/timer_heap.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;

TEST(ReceiveLog, AgreesWithASetAcrossTheWrapOf32Bits) {
  for (const std::uint32_t capacity : {128U, 640U, 2048U}) {
    std::mt19937_64 rng(capacity);
    std::uint64_t edge = (2ULL << 32) - 3000;  // first PSN not arrived
    ReceiveLog log(capacity, Psn{edge});
    std::set<std::uint64_t> above;
    for (int i = 0; i < 30000; ++i) {
      const std::uint64_t psn = rng() % 3 == 0 ? edge : edge - 20 + rng() % (capacity + 40);
      ASSERT_EQ(log.extend(static_cast<std::uint32_t>(psn)).value, psn);
      const bool is_new = psn >= edge && psn < edge + capacity && !above.contains(psn);
      const bool is_beyond = psn >= edge + capacity;
      ASSERT_EQ(log.check(Psn{psn}), is_beyond ? ReceiveLog::Arrival::kOutOfWindow
                                     : is_new  ? ReceiveLog::Arrival::kNew
                                               : ReceiveLog::Arrival::kDuplicate);
      if (!is_new) continue;
      above.insert(psn);
      const std::uint64_t before = edge;
      while (above.erase(edge) != 0)
        ++edge;
      ASSERT_EQ(log.mark(Psn{psn}), edge != before);
      ASSERT_EQ(log.cumulative().value, edge - 1);
      ASSERT_EQ(log.out_of_order(), above.size());
      if (above.empty()) continue;
      ASSERT_EQ(log.newest().value, *above.rbegin());
      const std::uint64_t from = edge + rng() % (*above.rbegin() - edge + 1);
      const std::uint64_t bitmap = log.bitmap(Psn{from});
      for (std::uint64_t k = 0; k < 64; ++k)
        ASSERT_EQ((bitmap >> k) & 1, above.contains(from + k) ? 1U : 0U);
    }
    EXPECT_GT(edge, 2ULL << 32);
  }
}

TEST(SentLog, KeepsPathListsInSendOrderThroughLossAndRetirement) {
  SentLog log(128, 2, Psn{(2ULL << 32) - 2});
  for (std::uint16_t i = 0; i < 6; ++i)
    log.sent(log.append(), PathId{static_cast<std::uint16_t>(i % 2)}, Time(Duration(i)));
  const Psn first = log.oldest();
  EXPECT_EQ(log.path_head(PathId{0})->psn, first);
  EXPECT_EQ(log.path_in_flight(PathId{0}), 3U);
  SentUnit& lost = *log.find(first);
  log.take_out(lost, SentUnit::State::kLost);
  EXPECT_EQ(log.path_head(PathId{0})->psn.value, first.value + 2);
  log.sent(lost, PathId{1}, Time(Duration(10)));
  EXPECT_EQ(lost.transmissions, 2);
  std::vector<std::uint64_t> order;
  for (SentUnit* unit = log.path_head(PathId{1}); unit != nullptr; unit = log.path_next(*unit))
    order.push_back(unit->psn.value - first.value);
  EXPECT_THAT(order, testing::ElementsAre(1, 3, 5, 0));
  log.take_out(*log.find(Psn{first.value + 1}), SentUnit::State::kAcked);
  log.retire();
  EXPECT_EQ(log.oldest(), first);
  log.take_out(lost, SentUnit::State::kAcked);
  log.retire();
  EXPECT_EQ(log.oldest().value, first.value + 2);
  EXPECT_EQ(log.find(first), nullptr);
  EXPECT_NE(log.find_retired(first), nullptr);
  EXPECT_EQ(log.find(log.next()), nullptr);
  EXPECT_EQ(log.in_flight_packets(), 4U);
}

// Units move when the log grows: in flight, lost and retired ones stay what they were.
TEST(SentLog, GrowsWithWhatIsInFlight) {
  SentLog log(1024, 3, Psn{(1ULL << 32) - 50});
  const Psn first = log.oldest();
  EXPECT_EQ(log.room(), 1024U);
  EXPECT_EQ(log.find_retired(Psn{first.value - 1}), nullptr);
  const auto path_of = [&](std::uint64_t i) { return PathId{static_cast<std::uint16_t>(i % 3)}; };
  for (std::uint64_t i = 0; i < 60; ++i)
    log.sent(log.append(), path_of(i), Time(Duration(1)));
  for (std::uint64_t i = 0; i < 20; ++i)
    log.take_out(*log.find(Psn{first.value + i}), SentUnit::State::kAcked);
  log.retire();
  log.take_out(*log.find(Psn{first.value + 25}), SentUnit::State::kLost);
  while (log.room() > 300)
    log.append_run({.owner = 7}, 4, PathId{1}, Time(Duration(2)));
  EXPECT_EQ(log.find_retired(Psn{first.value + 19})->state, SentUnit::State::kAcked);
  EXPECT_EQ(log.find(Psn{first.value + 25})->state, SentUnit::State::kLost);
  std::uint64_t in_flight = 0;
  for (std::uint16_t path = 0; path < 3; ++path) {
    std::uint64_t previous = 0;
    for (SentUnit* unit = log.path_head(PathId{path}); unit != nullptr;
         unit = log.path_next(*unit)) {
      ASSERT_EQ(unit->path, PathId{path});
      ASSERT_GT(unit->psn.value, previous);
      ASSERT_EQ(log.find(unit->psn), unit);
      previous = unit->psn.value;
      ++in_flight;
    }
  }
  EXPECT_EQ(in_flight, log.in_flight_packets());
  EXPECT_EQ(in_flight, log.next().value - log.oldest().value - 1);
}

TEST(TimerHeap, FiresInOrderOfTimeWhateverIsMoved) {
  std::mt19937_64 rng(3);
  TimerHeap heap(50);
  std::vector<Time> model(50, kNever);
  for (int i = 0; i < 20000; ++i) {
    const auto actor = static_cast<std::uint32_t>(rng() % 50);
    const Time when =
        rng() % 5 == 0 ? kNever : Time(Duration(static_cast<std::int64_t>(rng() % 1000)));
    heap.arm(actor, when);
    model[actor] = when;
    ASSERT_EQ(heap.next(), *std::min_element(model.begin(), model.end()));
    ASSERT_EQ(heap.armed(actor), when);
    std::uint32_t due = 0;
    const Time now{Duration(static_cast<std::int64_t>(rng() % 300))};
    if (!heap.take_due(now, due)) {
      ASSERT_GT(heap.next(), now);
      continue;
    }
    ASSERT_EQ(model[due], *std::min_element(model.begin(), model.end()));
    ASSERT_LE(model[due], now);
    model[due] = kNever;
  }
}

TEST(RttEstimator, FollowsRfc6298) {
  RttEstimator rtt;
  EXPECT_EQ(rtt.timeout(1us, 1s, 20ms), 20ms);
  rtt.add(100us);
  EXPECT_EQ(rtt.smoothed(), 100us);
  EXPECT_EQ(rtt.timeout(1us, 1s, 20ms), 300us);
  rtt.add(180us);
  EXPECT_EQ(rtt.smoothed(), 110us);
  EXPECT_EQ(rtt.variation(), 57500ns);
  EXPECT_EQ(rtt.min(), 100us);
  EXPECT_EQ(rtt.timeout(1ms, 1s, 20ms), 1ms);
  EXPECT_EQ(rtt.timeout(1us, 10us, 20ms), 10us);
}

TEST(Placement, LineOrderedCopiesEveryByteAtEveryAlignment) {
  std::vector<std::byte> from(700);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(i * 37 + 1);
  for (std::size_t to_at = 0; to_at < 17; ++to_at)
    for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 127U, 128U, 129U, 500U}) {
      std::vector<std::byte> to(800, std::byte{0});
      copy_line_ordered(to.data() + to_at, {from.data() + 3, count});
      EXPECT_TRUE(std::equal(to.begin() + static_cast<std::ptrdiff_t>(to_at),
                             to.begin() + static_cast<std::ptrdiff_t>(to_at + count),
                             from.begin() + 3));
      EXPECT_EQ(to[to_at + count], std::byte{0});
      if (to_at != 0) {
        EXPECT_EQ(to[to_at - 1], std::byte{0});
      }
    }
}

TEST(Placement, LineOrderedCopiesWholeLinesFromAnySource) {
  std::vector<std::byte> from(2000);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(i * 59 + 3);
  struct alignas(128) Lines {
    std::array<std::byte, 1280> bytes{};
  };
  for (const std::size_t from_at : {0U, 1U, 8U, 13U})
    for (const std::size_t count : {128U, 136U, 255U, 256U, 1000U, 1152U}) {
      Lines to;
      copy_line_ordered(to.bytes.data(), {from.data() + from_at, count});
      EXPECT_TRUE(std::equal(to.bytes.begin(), to.bytes.begin() + count,
                             from.begin() + static_cast<std::ptrdiff_t>(from_at)));
      EXPECT_EQ(to.bytes[count], std::byte{0});
    }
}

// A reader that sees the last word of a line sees the whole line.
TEST(Placement, TheLastWordOfALineBecomesVisibleLast) {
  constexpr std::size_t kLines = 64;
  struct alignas(128) Lines {
    std::array<std::uint64_t, kLines * 16> words{};
  };
  Lines to;
  std::atomic<std::uint64_t> seen{0};
  std::atomic<bool> is_torn{false};
  constexpr std::uint64_t kRounds = 2000;
  std::thread reader([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      for (std::size_t line = 0; line < kLines; ++line) {
        const auto word = [&](std::size_t i) {
          return std::atomic_ref<std::uint64_t>(to.words[line * 16 + i])
              .load(std::memory_order_acquire);
        };
        while (word(15) < round)
          std::this_thread::yield();
        for (std::size_t i = 0; i < 15; ++i)
          if (word(i) != round) is_torn = true;
      }
      seen = round;
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<std::uint64_t> from(kLines * 16, round);
    copy_line_ordered(reinterpret_cast<std::byte*>(to.words.data()),
                      std::as_bytes(std::span(from)));
    while (seen != round)
      std::this_thread::yield();
  }
  reader.join();
  EXPECT_FALSE(is_torn);
}

TEST(Placement, GatherNamesWhatScatterFills) {
  std::vector<std::byte> memory(100);
  const Sge list[] = {{memory.data(), 10, {}},
                      {memory.data() + 20, 0, {}},
                      {memory.data() + 30, 5, {}},
                      {memory.data() + 50, 40, {}}};
  std::vector<std::byte> bytes(30);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i + 1);
  scatter(list, 8, bytes, 0b0100);
  std::array<std::span<const std::byte>, kMaxPieces> pieces{};
  const std::uint8_t count = gather(list, 8, 30, pieces);
  std::vector<std::byte> got;
  for (std::size_t i = 0; i < count; ++i)
    got.insert(got.end(), pieces[i].begin(), pieces[i].end());
  EXPECT_EQ(count, 3);
  EXPECT_TRUE(got == bytes);
}

TEST(MemoryTable, AnOldKeyNeverNamesALaterRegionHoweverOftenItsPlaceIsUsedAgain) {
  MemoryTable table(1);
  std::array<std::byte, 64> bytes{};
  const MemoryRegion first = table.add(bytes, kAllAccess, {}, 1).value();
  ASSERT_TRUE(table.remove(first, 0).ok());
  const Sge old = sge_of(first, 0, 8);
  for (std::uint64_t i = 0; i < 3 * 4096; ++i) {
    const auto next = table.add(bytes, kAllAccess, {}, 2 + i);
    ASSERT_TRUE(next.ok()) << i << next.error().message();
    ASSERT_FALSE(table.cover(old, false).is_whole) << i;
    ASSERT_EQ(table.find(first.remote.key, 0, 8, Access::kRemoteRead).code,
              wire::ReturnCode::kBadKey);
    ASSERT_TRUE(table.cover(sge_of(next.value(), 0, 8), true).is_whole) << i;
    ASSERT_TRUE(table.remove(next.value(), 0).ok());
  }
}

TEST(MemoryTable, ChecksKeyRightBoundsAndEpoch) {
  MemoryTable table(2);
  std::vector<std::byte> memory(100);
  const MemoryRegion region =
      table.add(memory, Access::kRemoteRead, {}, 0x123456789abcdefULL).value();
  const auto code = [&](std::uint64_t key, std::uint64_t offset, std::uint64_t length, Access a) {
    return table.find(key, offset, length, a).code;
  };
  const std::uint64_t key = region.remote.key;
  EXPECT_EQ(code(key, 0, 100, Access::kRemoteRead), wire::ReturnCode::kOk);
  EXPECT_EQ(code(key, 100, 0, Access::kRemoteRead), wire::ReturnCode::kOk);
  EXPECT_EQ(code(key, 100, 1, Access::kRemoteRead), wire::ReturnCode::kOutOfRange);
  EXPECT_EQ(code(key, 1, ~0ULL, Access::kRemoteRead), wire::ReturnCode::kOutOfRange);
  EXPECT_EQ(code(key, ~0ULL, 1, Access::kRemoteRead), wire::ReturnCode::kOutOfRange);
  EXPECT_EQ(code(key, 0, 1, Access::kRemoteWrite), wire::ReturnCode::kPermission);
  EXPECT_EQ(code(0, 0, 0, Access::kRemoteRead), wire::ReturnCode::kBadKey);
  EXPECT_EQ(code(key ^ (1ULL << 63), 0, 1, Access::kRemoteRead), wire::ReturnCode::kBadKey);
  EXPECT_EQ(code(key | 0xfffff, 0, 1, Access::kRemoteRead), wire::ReturnCode::kBadKey);
  table.hold(region.local);
  EXPECT_FALSE(table.remove(region, 0).ok());
  table.drop(region.local);
  ASSERT_TRUE(table.remove(region, 0).ok());
  EXPECT_EQ(code(key, 0, 1, Access::kRemoteRead), wire::ReturnCode::kBadKey);
  EXPECT_FALSE(table.cover(sge_of(region, 0, 1), false).is_whole);
}

// The index is used again thousands of times; local keys keep their epoch in 12 bits.
TEST(MemoryTable, OldLocalKeysDoNotNameNewRegionsOfTheirSlot) {
  MemoryTable table(1);
  std::vector<std::byte> memory(8);
  const MemoryRegion first = table.add(memory, kAllAccess, {}, 1).value();
  ASSERT_TRUE(table.remove(first, 0).ok());
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const MemoryRegion next = table.add(memory, kAllAccess, {}, 2 + i).value();
    ASSERT_FALSE(table.cover(sge_of(first, 0, 8), false).is_whole) << i;
    ASSERT_TRUE(table.cover(sge_of(next, 0, 8), true).is_whole);
    ASSERT_TRUE(table.remove(next, 0).ok());
  }
}

PostedReceive receive(std::uint64_t user_data) {
  PostedReceive out;
  out.user_data = user_data;
  return out;
}

TEST(ReceiveQueue, NamesSlotsBySequenceNumberAcrossItsWrap) {
  ReceiveQueue queue(4, nullptr);
  for (std::uint32_t i = 0; i < 10; ++i) {
    queue.post() = receive(i);
    ASSERT_NE(queue.find(i), nullptr);
    EXPECT_EQ(queue.find(i)->posted.user_data, i);
    EXPECT_EQ(queue.find(i + 1), nullptr);
    EXPECT_EQ(queue.credits(), i + 1);
    queue.pop();
    EXPECT_TRUE(queue.is_past(i));
    EXPECT_EQ(queue.find(i), nullptr);
  }
}

TEST(ReceiveQueue, ATimedOutSlotIsFilledByTheNextReceive) {
  ReceiveQueue queue(2, nullptr);
  queue.post() = receive(1);
  queue.post() = receive(2);
  EXPECT_FALSE(queue.has_room());
  queue.vacate(*queue.find(0));
  EXPECT_EQ(queue.find(0), nullptr);
  EXPECT_TRUE(queue.has_room());
  queue.post() = receive(3);
  EXPECT_EQ(queue.find(0)->posted.user_data, 3U);
  EXPECT_EQ(queue.find(1)->posted.user_data, 2U);
}

TEST(ReceiveQueue, ALaterMessageNeverTakesTheSharedBufferOfAnEarlierOne) {
  SharedReceiveQueue shared(4);
  ReceiveQueue queue(4, &shared);
  shared.posted.push_back(receive(1));
  EXPECT_EQ(queue.find(1), nullptr);  // message 0 has not come: one buffer is not enough for both
  EXPECT_EQ(shared.posted.size(), 1U);
  EXPECT_EQ(queue.find(0)->posted.user_data, 1U);
  shared.posted.push_back(receive(2));
  EXPECT_EQ(queue.find(1)->posted.user_data, 2U);
  EXPECT_EQ(queue.credits(), 2U);
}

// Turns in which data came, each answered `after` it.
void play(AnswerPredictor& answers, Time& now, int turns, Duration after) {
  for (int i = 0; i < turns; ++i) {
    static_cast<void>(answers.defers_after(true, now));
    answers.on_post(now + after);
    answers.on_answer_sent();
    static_cast<void>(answers.defers_after(false, now + after));
    now += 10 * after;
  }
}

TEST(AnswerPredictor, TrustsAProgramThatAnsweredAtOnceThreeTimes) {
  AnswerPredictor answers;
  Time now{std::chrono::seconds(1)};
  play(answers, now, 2, std::chrono::microseconds(2));
  EXPECT_FALSE(answers.defers_after(true, now));
  answers.on_post(now);
  EXPECT_FALSE(answers.defers_after(false, now));
  EXPECT_TRUE(answers.is_prompt());
  EXPECT_TRUE(answers.defers_after(true, now));
}

TEST(AnswerPredictor, DistrustsAProgramThatAnswersLateOrNotAtAll) {
  AnswerPredictor late;
  Time now{std::chrono::seconds(1)};
  play(late, now, 10, std::chrono::microseconds(50));
  EXPECT_FALSE(late.defers_after(true, now));
  AnswerPredictor silent;
  play(silent, now, 10, std::chrono::microseconds(1));
  EXPECT_TRUE(silent.defers_after(true, now));
  EXPECT_FALSE(silent.defers_after(true, now));
  EXPECT_FALSE(silent.defers_after(true, now));
}

TEST(AnswerPredictor, NeverDefersTwiceInARowWhatHasNotLeft) {
  AnswerPredictor answers;
  Time now{std::chrono::seconds(1)};
  play(answers, now, 5, std::chrono::microseconds(1));
  bool deferred_last = false;
  for (int i = 0; i < 20; ++i) {
    const bool defers = answers.defers_after(true, now);
    EXPECT_FALSE(defers && deferred_last);
    deferred_last = defers;
    answers.on_post(now);  // queued behind others: nothing left
  }
}

}  // namespace
}  // namespace spindrift
