// What goes through memory is what the plan of messages, which is checked on paper (plan_test.cc),
// says: the same chunks from the same ranks to the same places. Of shared.cc, hierarchical.cc,
// hierarchical_blocks.cc and hierarchical_root.cc.
#include "collectives/shared_tables.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "collectives/plan.h"
#include "collectives/plan_clock.h"
#include "collectives/plan_order.h"

namespace spindrift::collectives {
namespace {

// From and to which rank, which chunk of which buffer; whether it is added, else where it goes.
using Move = std::tuple<std::uint32_t, std::uint32_t, BufferKind, std::uint32_t, bool, BufferKind,
                        std::uint32_t>;
using Moves = std::map<Move, int>;

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

PlanRequest request_of(const PlanRequest& request, std::uint32_t rank) {
  PlanRequest own = request;
  own.rank = rank;
  return own;
}

std::optional<SharedTables> tables_of(const CollectiveAlgorithm& algorithm,
                                      const PlanRequest& request) {
  return shared_tables(algorithm, request, build_plan(algorithm, request).value());
}

Move move_of(std::uint32_t from, std::uint32_t to, const ChunkRef& source, bool adds,
             const ChunkRef& target) {
  // A sum may be made anywhere before it gets to its place.
  if (adds) return {from, to, source.buffer, source.chunk, true, BufferKind::kOutput, 0};
  return {from, to, source.buffer, source.chunk, false, target.buffer, target.chunk};
}

// Messages inside hosts that the plans of all ranks send.
Moves moves_of_plans(const CollectiveAlgorithm& algorithm, const PlanRequest& request) {
  std::vector<Plan> plans;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank)
    plans.push_back(build_plan(algorithm, request_of(request, rank)).value());
  PlanClock clock(plans, request.topology);
  clock.run();
  Moves moves;
  for (const PlanMessage& message : clock.messages()) {
    if (!is_near(request.topology, message.from, message.to)) continue;
    const bool adds =
        reduces(algorithm.collective) && message.send->source.buffer == BufferKind::kInput;
    for (std::uint32_t i = 0; i < message.send->chunks; ++i) {
      ChunkRef source = message.send->source;
      ChunkRef target = message.receive->target;
      source.chunk += i;
      target.chunk += i;
      ++moves[move_of(message.from, message.to, source, adds, target)];
    }
  }
  return moves;
}

void add_moves(const std::vector<SharedTables>& all, std::uint32_t rank,
               SharedPhase SharedTables::*which, Moves& moves) {
  const SharedTables& own = all[rank];
  const SharedPhase& phase = own.*which;
  std::uint32_t last_place = 0;
  std::map<std::uint32_t, std::uint32_t> pieces;  // by target
  for (const SharedTake& take : phase.takes) {
    EXPECT_GE(take.place, last_place);
    last_place = take.place;
    if (phase.adds) {
      EXPECT_EQ(pieces.try_emplace(take.chunk, take.piece).first->second, take.piece);
    }
    const std::uint32_t from = own.members[take.place];
    const SharedPhase& theirs = all[from].*which;
    EXPECT_EQ(theirs.source, phase.source);
    EXPECT_EQ(theirs.chunks, phase.chunks);
    EXPECT_EQ(theirs.pieces, phase.pieces);
    if (phase.chunks == 0) continue;
    ASSERT_LT(take.piece, theirs.shown.size());
    if (from == rank) continue;
    ASSERT_LT(take.piece, theirs.pieces);
    EXPECT_TRUE(theirs.shown[take.piece].is_for_others);
    for (std::uint32_t i = 0; i < phase.chunks; ++i) {
      const ChunkRef source{.buffer = phase.source, .chunk = theirs.shown[take.piece].chunk + i};
      const ChunkRef target{.buffer = phase.target, .chunk = take.chunk + i};
      ++moves[move_of(from, rank, source, phase.adds, target)];
    }
  }
}

Moves moves_of_tables(const CollectiveAlgorithm& algorithm, const PlanRequest& request) {
  std::vector<SharedTables> all;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    all.push_back(tables_of(algorithm, request_of(request, rank)).value_or(SharedTables{}));
  }
  Moves moves;
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    add_moves(all, rank, &SharedTables::before, moves);
    add_moves(all, rank, &SharedTables::behind, moves);
  }
  return moves;
}

// Hosts of equal size, of sizes that differ, and with ranks dealt out one by one; of one size only
// where all are on one host.
std::vector<PlanTopology> topologies(std::uint32_t ranks, bool is_one_host) {
  if (is_one_host) return {{.hosts = std::vector<std::uint32_t>(ranks, 0)}};
  std::vector<PlanTopology> made(3);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    made[0].hosts.push_back(rank / 2);
    made[1].hosts.push_back(rank == 0 ? 0 : rank < 3 ? 1 : 2);
    made[2].hosts.push_back(rank % 3);
  }
  return made;
}

TEST(SharedTables, MoveWhatThePlansOfMessagesMove) {
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (!algorithm->is_shared && !algorithm->is_hierarchical) continue;
    if (algorithm->collective == Collective::kBarrier) continue;  // nobody takes anything
    for (const std::uint32_t ranks : {2U, 3U, 4U, 5U, 7U, 12U, 21U}) {
      for (const PlanTopology& topology : topologies(ranks, algorithm->is_shared)) {
        for (const std::uint32_t root : {0U, ranks / 2, ranks - 1}) {
          const PlanRequest request{.collective = algorithm->collective,
                                    .ranks = ranks,
                                    .root = root,
                                    .topology = topology};
          if (algorithm->why_not != nullptr && !algorithm->why_not(request).empty()) continue;
          EXPECT_EQ(moves_of_tables(*algorithm, request), moves_of_plans(*algorithm, request))
              << to_string(algorithm->collective) << ":" << algorithm->name << " of " << ranks
              << " ranks, root " << root;
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(SharedTables, ABarrierWaitsForAllOfTheHostBeforeAndBehindTheOthers) {
  const CollectiveAlgorithm& barrier =
      *find_collective_algorithm(Collective::kBarrier, "hierarchical").value();
  const PlanRequest request{
      .collective = Collective::kBarrier, .rank = 1, .ranks = 5, .topology = {{0, 0, 0, 1, 1}}};
  const auto tables = tables_of(barrier, request);
  ASSERT_TRUE(tables.has_value());
  EXPECT_EQ(tables->members, (std::vector<std::uint32_t>{0, 1, 2}));
  for (const SharedPhase* phase : {&tables->before, &tables->behind}) {
    ASSERT_EQ(phase->takes.size(), 3U);
    for (std::uint32_t place = 0; place < 3; ++place)
      EXPECT_EQ(phase->takes[place].place, place);
  }
}

TEST(SharedTables, OnlyMessagesBetweenHostsAreLeftOfAPlan) {
  const CollectiveAlgorithm& sum =
      *find_collective_algorithm(Collective::kAllReduce, "hierarchical").value();
  const PlanRequest request{.rank = 2, .ranks = 6, .topology = {{0, 0, 0, 1, 1, 1}}};
  const Plan whole = build_plan(sum, request).value();
  const Plan rest = without_shared(sum, whole, request.topology);
  EXPECT_LT(rest.lanes.size(), whole.lanes.size());
  ASSERT_FALSE(rest.lanes.empty());
  for (const Lane& lane : rest.lanes) {
    EXPECT_FALSE(lane.peer && is_near(request.topology, 2, *lane.peer));
    for (const Step& step : lane.steps) {
      for (const StepWait& wait : step.waits) {
        ASSERT_LT(wait.on.lane, rest.lanes.size());
        EXPECT_LT(wait.on.step, rest.lanes[wait.on.lane].steps.size());
      }
    }
  }
  const CollectiveAlgorithm& shared =
      *find_collective_algorithm(Collective::kAllReduce, "shared").value();
  EXPECT_TRUE(without_shared(shared, build_plan(shared, request).value(), {}).lanes.empty());
}

TEST(SharedTables, ThereAreNoneForARankAloneAndForMessages) {
  const CollectiveAlgorithm& sum =
      *find_collective_algorithm(Collective::kAllReduce, "hierarchical").value();
  EXPECT_FALSE(tables_of(sum, {.rank = 2, .ranks = 3, .topology = {{0, 0, 1}}}).has_value());
  const CollectiveAlgorithm& ring =
      *find_collective_algorithm(Collective::kAllReduce, "ring").value();
  EXPECT_FALSE(tables_of(ring, {.ranks = 2, .topology = {{0, 0}}}).has_value());
}

}  // namespace
}  // namespace spindrift::collectives
