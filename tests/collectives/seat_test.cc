#include "spindrift/seat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/fake_endpoint.h"

namespace spindrift {
namespace {

using collectives::FakeEndpoint;
using collectives::FakeWorld;
using testing::HasSubstr;

struct Rank {
  std::unique_ptr<FakeEndpoint> endpoint;
  std::unique_ptr<CommunicatorSeat> seat;
  std::unique_ptr<Communicator> communicator;
};

std::vector<Rank> seated(FakeWorld& world, std::uint32_t count) {
  std::vector<Rank> ranks(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    ranks[rank].endpoint = std::make_unique<FakeEndpoint>(world, "fake://" + std::to_string(rank));
    CommunicatorOptions options;
    options.rank = rank;
    options.ranks = count;
    ranks[rank].seat = CommunicatorSeat::take(*ranks[rank].endpoint, options).value();
  }
  return ranks;
}

std::vector<std::string> cards_of(const std::vector<Rank>& ranks) {
  std::vector<std::string> cards;
  for (const Rank& one : ranks)
    cards.push_back(one.seat->card());
  return cards;
}

TEST(CommunicatorSeat, BringsRanksOfOneThreadTogetherWithoutWaiting) {
  FakeWorld world(1);
  std::vector<Rank> ranks = seated(world, 5);
  const std::vector<std::string> cards = cards_of(ranks);
  for (Rank& one : ranks)
    one.communicator = one.seat->join(cards, 99).value();
  std::vector<float> numbers(5, 2);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ASSERT_TRUE(ranks[i]
                    .communicator
                    ->start({.collective = Collective::kAllReduce,
                             .input = &numbers[i],
                             .output = &numbers[i],
                             .count = 1})
                    .ok());
  for (int turn = 0; turn < 100'000; ++turn)
    for (Rank& one : ranks)
      ASSERT_TRUE(one.communicator->progress().ok());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_TRUE(ranks[i].communicator->is_done());
    EXPECT_TRUE(ranks[i].communicator->is_idle());
    EXPECT_EQ(numbers[i], 10);
  }
}

TEST(CommunicatorSeat, RefusesWhatIsNoGroup) {
  FakeWorld world(1);
  std::vector<Rank> ranks = seated(world, 2);
  std::vector<std::string> cards = cards_of(ranks);
  cards.pop_back();
  EXPECT_THAT(ranks[0].seat->join(cards, 1).error().message(), HasSubstr("1 cards for 2 ranks"));
  cards.push_back("nonsense");
  EXPECT_THAT(ranks[0].seat->join(cards, 1).error().message(), HasSubstr("rank 1"));
  CommunicatorOptions options;
  options.ranks = 100;
  EXPECT_THAT(CommunicatorSeat::take(*ranks[0].endpoint, options).error().message(),
              HasSubstr("100 ranks"));
}

}  // namespace
}  // namespace spindrift
