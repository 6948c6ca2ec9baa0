#include "collectives/shared_tables.h"

#include <algorithm>
#include <numeric>

#include "collectives/hosts.h"
#include "collectives/plan_clock.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint32_t kWhole = 0;  // the only chunk

std::vector<std::uint32_t> numbers(std::uint32_t count) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

// Every place shows one piece, or none; `to` says to which chunk it goes.
template <class To>
void take_from(SharedPhase& phase, const std::vector<std::uint32_t>& places, std::uint32_t piece,
               const To& to) {
  for (const std::uint32_t place : places)
    phase.takes.push_back({.place = place, .piece = piece, .chunk = to(place)});
}

std::uint32_t to_whole(std::uint32_t /*place*/) {
  return kWhole;
}

// Everybody waits for everybody.
SharedPhase meeting(std::uint32_t places) {
  SharedPhase phase{.chunks = 0, .pieces = 1};
  take_from(phase, numbers(places), 0, to_whole);
  return phase;
}

// One rank shows its only chunk, and all take it.
SharedPhase from_one(std::uint32_t place, std::uint32_t teller, BufferKind source) {
  SharedPhase phase{.source = source, .pieces = 1};
  if (place == teller) phase.shown = {{.chunk = kWhole}};
  take_from(phase, {teller}, 0, to_whole);
  return phase;
}

// All ranks are on one host, and place and rank are one number.
class OfOneHost final {
 public:
  OfOneHost(const PlanRequest& request, const Plan& plan)
      : n_(request.ranks),
        own_(request.rank),
        root_(request.root),
        chunks_per_block_(plan.chunks_per_block),
        all_(numbers(n_)) {}

  SharedTables tables(Collective collective) const {
    SharedTables made{.chunks_per_block = chunks_per_block_, .place = own_, .members = all_};
    // The mesh: each rank adds up one chunk, for all.
    if (chunks_per_block_ > 1) {
      made.before = added_blocks();
      take_from(made.before, all_, own_, [this](std::uint32_t) { return own_; });
      made.behind = {.source = BufferKind::kOutput, .pieces = 1, .shown = {{.chunk = own_}}};
      take_from(made.behind, all_, 0, [](std::uint32_t place) { return place; });
      return made;
    }
    made.before = only_phase(collective);
    return made;
  }

 private:
  bool is_root() const { return own_ == root_; }
  // Everybody shows all blocks. Its own is shown only where sums are written over it.
  SharedPhase added_blocks() const {
    SharedPhase phase{.adds = true, .is_final = true, .pieces = n_};
    for (const std::uint32_t block : all_)
      phase.shown.push_back({.chunk = block, .is_for_others = block != own_});
    return phase;
  }
  // What is copied has no room for the own one, which comes last.
  SharedPhase copied_blocks() const {
    SharedPhase phase{.pieces = n_ - 1};
    for (const std::uint32_t block : all_)
      if (block != own_) phase.shown.push_back({.chunk = block});
    phase.shown.push_back({.chunk = own_, .is_for_others = false});
    return phase;
  }
  std::uint32_t copied_piece(std::uint32_t place) const {
    if (place == own_) return n_ - 1;
    return own_ < place ? own_ : own_ - 1;
  }

  SharedPhase only_phase(Collective collective) const {
    const auto to_place = [](std::uint32_t place) { return place; };
    SharedPhase phase{.pieces = 1, .shown = {{.chunk = kWhole}}};
    switch (collective) {
      case Collective::kBarrier:
        return meeting(n_);
      case Collective::kBroadcast:
        return from_one(own_, root_, BufferKind::kInput);
      case Collective::kAllGather:
        take_from(phase, all_, 0, to_place);
        return phase;
      case Collective::kGather:
        phase.shown[0].is_for_others = !is_root();
        if (is_root()) take_from(phase, all_, 0, to_place);
        return phase;
      case Collective::kReduce:
        phase.shown[0].is_for_others = !is_root();
        phase.adds = phase.is_final = true;
        if (is_root()) take_from(phase, all_, 0, to_whole);
        return phase;
      case Collective::kReduceScatter:
        phase = added_blocks();
        take_from(phase, all_, own_, to_whole);
        return phase;
      case Collective::kAllToAll:
        phase = copied_blocks();
        for (const std::uint32_t place : all_)
          take_from(phase, {place}, copied_piece(place), to_place);
        return phase;
      case Collective::kScatter:
        phase = copied_blocks();
        if (!is_root()) phase.shown.clear();
        take_from(phase, {root_}, copied_piece(root_), to_whole);
        return phase;
      default:
        phase.adds = phase.is_final = true;
        take_from(phase, all_, 0, to_whole);
        return phase;
    }
  }

  const std::uint32_t n_;
  const std::uint32_t own_;
  const std::uint32_t root_;
  const std::uint32_t chunks_per_block_;
  const std::vector<std::uint32_t> all_;
};

// What hierarchical plans do inside a host: hierarchical.cc, hierarchical_blocks.cc and
// hierarchical_root.cc, whose words these are.
class OfSeveralHosts final {
 public:
  OfSeveralHosts(const PlanRequest& request, const Plan& plan)
      : request_(request),
        chunks_per_block_(plan.chunks_per_block),
        parts_(request),
        near_(parts_.near()),
        places_(numbers(static_cast<std::uint32_t>(near_.size()))) {}

  SharedTables tables(Collective collective) const {
    SharedTables made{.chunks_per_block = chunks_per_block_, .place = own(), .members = near_};
    switch (collective) {
      case Collective::kAllReduce:
        all_reduce(made);
        return made;
      case Collective::kAllGather:
        all_gather(made);
        return made;
      case Collective::kReduceScatter:
        reduce_scatter(made);
        return made;
      case Collective::kBroadcast:
        broadcast(made);
        return made;
      case Collective::kReduce:
        reduce(made);
        return made;
      default:
        made.before = made.behind = meeting(static_cast<std::uint32_t>(near_.size()));
        return made;
    }
  }

 private:
  std::uint32_t own() const { return parts_.place(); }

  void all_reduce(SharedTables& made) const {
    const std::uint32_t chunks = chunks_per_block_ / parts_.owners();  // of a group
    const auto group = [&](std::uint32_t owner) { return owner * chunks; };
    made.before = {.adds = true, .chunks = chunks, .pieces = parts_.owners()};
    for (std::uint32_t owner = 0; owner < parts_.owners(); ++owner)
      made.before.shown.push_back({.chunk = group(owner), .is_for_others = owner != own()});
    made.behind = {.source = BufferKind::kOutput, .chunks = chunks, .pieces = 1};
    if (parts_.is_owner()) {
      take_from(made.before, places_, own(), [&](std::uint32_t) { return group(own()); });
      made.behind.shown = {{.chunk = group(own())}};
    }
    for (std::uint32_t owner = 0; owner < parts_.owners(); ++owner) {
      if (owner != own())
        made.behind.takes.push_back({.place = owner, .piece = 0, .chunk = group(owner)});
    }
  }

  void all_gather(SharedTables& made) const {
    made.before = {.pieces = 1, .shown = {{.chunk = kWhole}}};
    for (const std::uint32_t place : places_) {
      if (place != own())
        made.before.takes.push_back({.place = place, .piece = 0, .chunk = near_[place]});
    }
    made.behind = {.source = BufferKind::kOutput};
    for (std::uint32_t owner = 0; owner < parts_.owners(); ++owner) {
      std::vector<std::uint32_t> blocks;
      for (std::uint32_t step = 1; step < parts_.hosts(); ++step) {
        const std::vector<std::uint32_t> some = parts_.part(parts_.back(step), owner);
        blocks.insert(blocks.end(), some.begin(), some.end());
      }
      made.behind.pieces = std::max(made.behind.pieces, static_cast<std::uint32_t>(blocks.size()));
      for (std::uint32_t piece = 0; piece < blocks.size(); ++piece) {
        if (owner == own()) {
          made.behind.shown.push_back({.chunk = blocks[piece]});
        } else {
          made.behind.takes.push_back({.place = owner, .piece = piece, .chunk = blocks[piece]});
        }
      }
    }
  }

  void reduce_scatter(SharedTables& made) const {
    made.before = {.target = BufferKind::kScratch, .adds = true, .pieces = request_.ranks};
    const std::vector<std::uint32_t> kept =
        parts_.is_owner() ? parts_.all_of(own()) : std::vector<std::uint32_t>();
    for (std::uint32_t block = 0; block < request_.ranks; ++block) {
      const bool is_kept = std::find(kept.begin(), kept.end(), block) != kept.end();
      made.before.shown.push_back({.chunk = block, .is_for_others = !is_kept});
    }
    for (const std::uint32_t place : places_) {
      for (const std::uint32_t block : kept)
        made.before.takes.push_back({.place = place, .piece = block, .chunk = block});
    }
    const std::uint32_t owner = own() % parts_.owners();
    made.behind = {.source = BufferKind::kScratch};
    made.behind.pieces = static_cast<std::uint32_t>(parts_.part(parts_.back(0), 0).size());
    if (parts_.is_owner()) {
      for (const std::uint32_t block : parts_.part(parts_.back(0), own()))
        made.behind.shown.push_back({.chunk = block, .is_for_others = block != parts_.rank()});
    } else {
      made.behind.takes = {{.place = owner, .piece = own() / parts_.owners(), .chunk = kWhole}};
    }
  }

  void broadcast(SharedTables& made) const {
    const Leaders leaders(request_);
    SharedPhase& phase = leaders.is_root_host() ? made.before : made.behind;
    phase = from_one(own(), parts_.place_of(leaders.own()),
                     leaders.is_root_host() ? BufferKind::kInput : BufferKind::kOutput);
    if (request_.rank == leaders.own()) phase.takes.clear();
  }

  void reduce(SharedTables& made) const {
    const Leaders leaders(request_);
    const bool is_leader = request_.rank == leaders.own();
    made.before = {.adds = true, .pieces = 1, .shown = {{.chunk = kWhole}}};
    made.before.shown[0].is_for_others = !is_leader;
    made.before.target =
        request_.rank == request_.root ? BufferKind::kOutput : BufferKind::kScratch;
    if (is_leader) take_from(made.before, places_, 0, to_whole);
  }

  const PlanRequest& request_;
  const std::uint32_t chunks_per_block_;
  const HostParts parts_;
  const std::vector<std::uint32_t>& near_;
  const std::vector<std::uint32_t> places_;
};

bool is_shared_lane(const CollectiveAlgorithm& algorithm, const Plan& plan, const Lane& lane,
                    const PlanTopology& topology) {
  return algorithm.is_shared || (lane.peer && is_near(topology, plan.rank, *lane.peer));
}

}  // namespace

std::optional<SharedTables> shared_tables(const CollectiveAlgorithm& algorithm,
                                          const PlanRequest& request, const Plan& plan) {
  if (request.ranks == 1) return {};
  if (algorithm.is_shared) return OfOneHost(request, plan).tables(algorithm.collective);
  if (!algorithm.is_hierarchical) return {};
  const Hosts hosts(request);
  if (hosts.ranks(hosts.host_of(request.rank)).size() == 1) return {};
  return OfSeveralHosts(request, plan).tables(algorithm.collective);
}

Plan without_shared(const CollectiveAlgorithm& algorithm, const Plan& plan,
                    const PlanTopology& topology) {
  Plan rest = plan;
  rest.lanes.clear();
  constexpr std::uint32_t kGone = UINT32_MAX;
  std::vector<std::uint32_t> new_number;
  for (const Lane& lane : plan.lanes) {
    const bool goes = is_shared_lane(algorithm, plan, lane, topology);
    new_number.push_back(goes ? kGone : static_cast<std::uint32_t>(rest.lanes.size()));
    if (!goes) rest.lanes.push_back(lane);
  }
  for (Lane& lane : rest.lanes) {
    for (Step& step : lane.steps) {
      std::erase_if(step.waits,
                    [&](const StepWait& wait) { return new_number[wait.on.lane] == kGone; });
      for (StepWait& wait : step.waits)
        wait.on.lane = new_number[wait.on.lane];
    }
  }
  return rest;
}

}  // namespace spindrift::collectives
