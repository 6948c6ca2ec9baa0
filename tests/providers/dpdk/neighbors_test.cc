#include "providers/dpdk/neighbors.h"

#include <array>

#include <gtest/gtest.h>

namespace spindrift {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MacAddress kFirst{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kSecond{{2, 0, 0, 0, 0, 2}};

class Neighbors : public ::testing::Test {
 protected:
  std::vector<NeighborTable::Due> poll() {
    std::array<NeighborTable::Due, 16> due{};
    const std::size_t count = table_.poll(now_, due);
    return {due.begin(), due.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  void answer(const MacAddress& mac) {
    table_.learn({.address = peer_, .mac = mac, .is_confirmed = true}, now_);
  }
  NeighborTable table_{{.reachable = seconds(30), .retry = milliseconds(200), .tries = 4}};
  NetAddress peer_ = parse_net_address("10.0.0.2", 0).value();
  Time now_{seconds(1000)};
};

TEST_F(Neighbors, AreAskedForWhenUsedAndKnownWhenTheyAnswer) {
  EXPECT_EQ(table_.use(peer_, now_), nullptr);
  const auto due = poll();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_TRUE(due[0].is_question);
  EXPECT_TRUE(due[0].mac.is_zero()) << "everybody is asked";
  answer(kFirst);
  ASSERT_NE(table_.use(peer_, now_), nullptr);
  EXPECT_EQ(*table_.use(peer_, now_), kFirst);
  EXPECT_TRUE(poll().empty());
}

TEST_F(Neighbors, AreGoneAfterTheLastQuestionWithoutAnswer) {
  EXPECT_EQ(table_.use(peer_, now_), nullptr);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(poll().size(), 1U);
    EXPECT_TRUE(poll().empty()) << "not before its time";
    now_ += milliseconds(200);
  }
  const auto due = poll();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_FALSE(due[0].is_question);
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(Neighbors, InUseAreAskedAgainInTimeAndAloneFirst) {
  table_.use(peer_, now_);
  poll();
  answer(kFirst);
  now_ += seconds(20);
  table_.use(peer_, now_);
  now_ += seconds(10);
  const auto due = poll();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].mac, kFirst);
  EXPECT_EQ(*table_.use(peer_, now_), kFirst) << "used while it is checked";
  answer(kFirst);
  EXPECT_TRUE(poll().empty());
}

TEST_F(Neighbors, NotInUseAreNotAskedUntilTheyAre) {
  table_.use(peer_, now_);
  poll();
  answer(kFirst);
  now_ += seconds(31);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(*table_.use(peer_, now_), kFirst);
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(Neighbors, ThatDoNotAnswerAloneAreSoughtAmongAll) {
  table_.use(peer_, now_);
  poll();
  answer(kFirst);
  now_ += seconds(31);
  poll();
  table_.use(peer_, now_);
  bool has_asked_all = false;
  for (int i = 0; i < 4; ++i) {
    for (const auto& one : poll())
      has_asked_all = has_asked_all || (one.is_question && one.mac.is_zero());
    now_ += milliseconds(200);
  }
  EXPECT_TRUE(has_asked_all);
  answer(kSecond);
  EXPECT_EQ(*table_.use(peer_, now_), kSecond);
}

TEST_F(Neighbors, ThatMoveAreFollowedAndChangeTheGeneration) {
  table_.use(peer_, now_);
  poll();
  answer(kFirst);
  const std::uint64_t before = table_.generation();
  table_.learn({.address = peer_, .mac = kFirst}, now_);
  EXPECT_EQ(table_.generation(), before);
  table_.learn({.address = peer_, .mac = kSecond}, now_);  // an announcement
  EXPECT_GT(table_.generation(), before);
  EXPECT_EQ(*table_.use(peer_, now_), kSecond);
}

TEST_F(Neighbors, WhoAreStrangersAreLearntOnlyWhenWelcome) {
  table_.learn({.address = peer_, .mac = kFirst}, now_);
  EXPECT_EQ(table_.size(), 0U);
  table_.learn({.address = peer_, .mac = kFirst, .is_new_welcome = true}, now_);
  EXPECT_EQ(*table_.use(peer_, now_), kFirst);
}

TEST_F(Neighbors, ThatAreStaticStayAsTheyAre) {
  table_.set_static(peer_, kFirst);
  table_.learn({.address = peer_, .mac = kSecond, .is_confirmed = true}, now_);
  now_ += seconds(100);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(*table_.use(peer_, now_), kFirst);
}

TEST_F(Neighbors, AreBoundedInNumber) {
  for (std::uint32_t i = 0; i < NeighborTable::kCapacity + 10; ++i) {
    NetAddress one{.family = 4};
    one.ip = {10, static_cast<std::uint8_t>(i >> 16U), static_cast<std::uint8_t>(i >> 8U),
              static_cast<std::uint8_t>(i)};
    table_.learn({.address = one, .mac = kFirst, .is_new_welcome = true}, now_);
  }
  EXPECT_EQ(table_.size(), NeighborTable::kCapacity);
}

}  // namespace
}  // namespace spindrift
