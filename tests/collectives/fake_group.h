#pragma once
// Communicators of all ranks in one thread, over fake endpoints.
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shared_area.h"
#include "tests/collectives/fake_endpoint.h"

namespace spindrift::collectives {

struct FakeGroupOptions {
  std::uint32_t ranks = 2;
  std::uint64_t seed = 1;
  std::uint32_t full_percent = 0;
  std::uint32_t slice_bytes = 1024;
  std::uint32_t slices_in_flight = 4;
  bool is_deterministic = false;
  std::string algorithm{};
  std::uint32_t ranks_per_host = 0;  // 0: one endpoint for all
  bool shares_memory = false;        // ranks of one host (all, if not told) show segments
};

// Memory of all ranks in one process.
using FakeMemory = std::vector<std::vector<std::byte>>;
class FakeSegments final : public HostSegments {
 public:
  // `memory`: one of make() for each rank.
  FakeSegments(FakeMemory& memory, std::uint32_t rank) : memory_(memory), rank_(rank) {}
  static std::size_t bytes() { return SharedArea::kAreas * SharedArea::kBytes; }
  static std::vector<std::byte> make() { return std::vector<std::byte>(bytes() + 64); }
  static std::span<std::byte> aligned(std::vector<std::byte>& memory) {
    void* start = memory.data();
    std::size_t room = memory.size();
    return {static_cast<std::byte*>(std::align(64, bytes(), start, room)), bytes()};
  }
  std::span<std::byte> own() override { return aligned(memory_[rank_]); }
  std::span<const std::byte> of(std::uint32_t rank) const override {
    return rank == rank_ ? std::span<std::byte>() : aligned(memory_[rank]);
  }

 private:
  FakeMemory& memory_;
  const std::uint32_t rank_;
};

class FakeGroup {
 public:
  explicit FakeGroup(const FakeGroupOptions& options) : world_(options.seed) {
    Roster roster{.nonce = 7, .seats = {}};
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
      const std::string number = std::to_string(rank);
      const bool has_hosts = options.ranks_per_host > 0;
      roster.seats.push_back({.address = "fake://" + number,
                              .same_host_address = has_hosts ? "near://" + number : "",
                              .host = has_hosts               ? rank / options.ranks_per_host
                                      : options.shares_memory ? 0
                                                              : rank,
                              .costs = ""});
    }
    for (std::uint32_t rank = 0; options.shares_memory && rank < options.ranks; ++rank)
      memory_.push_back(FakeSegments::make());
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
      std::vector<Listening> listening;
      for (const std::string& address :
           {roster.seats[rank].address, roster.seats[rank].same_host_address}) {
        if (address.empty()) continue;
        endpoints_.push_back(std::make_unique<FakeEndpoint>(world_, address));
        endpoints_.back()->full_percent = options.full_percent;
        listening.push_back({.endpoint = endpoints_.back().get(), .listener = ListenerId{1}});
      }
      networks_.push_back(static_cast<FakeEndpoint*>(listening[0].endpoint));
      if (listening.size() > 1) near_.push_back(static_cast<FakeEndpoint*>(listening[1].endpoint));
      CommunicatorOptions own;
      own.rank = rank;
      own.ranks = options.ranks;
      own.slice_bytes = options.slice_bytes;
      own.slices_in_flight = options.slices_in_flight;
      own.stall_timeout = std::chrono::milliseconds(500);
      own.is_deterministic = options.is_deterministic;
      own.algorithm = options.algorithm;
      Parts parts{.listening = listening, .roster = roster};
      if (options.shares_memory) {
        parts.segments = std::make_unique<FakeSegments>(memory_, rank);
        parts.has_segments.assign(options.ranks, true);
      }
      communicators_.push_back(assemble(std::move(parts), own, false).value());
    }
  }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(communicators_.size()); }
  Communicator& operator[](std::uint32_t rank) { return *communicators_[rank]; }
  // The one that reaches all ranks.
  FakeEndpoint& endpoint(std::uint32_t rank) { return *networks_[rank]; }
  // Messages that ranks of one host sent one another over endpoints of their own.
  std::uint64_t posted_near() const {
    std::uint64_t all = 0;
    for (const FakeEndpoint* endpoint : near_)
      all += endpoint->posted;
    return all;
  }
  FakeWorld& world() { return world_; }
  // What a rank shows the others, to be written by somebody else.
  std::span<std::byte> segment(std::uint32_t rank) { return FakeSegments::aligned(memory_[rank]); }

  // Turns of `who` in random order until all their calls are done or one fails.
  Status run(const std::vector<std::uint32_t>& who) {
    for (std::uint32_t turn = 0; turn < 20'000'000; ++turn) {
      const std::uint32_t rank = who[world_.rng.below(who.size())];
      if (Status status = communicators_[rank]->progress(); !status.ok()) return status;
      bool is_over = true;
      for (const std::uint32_t one : who)
        is_over = is_over && communicators_[one]->is_done();
      if (is_over) return ok_status();
    }
    return Error(ErrorCode::kTimedOut, "the group did not finish");
  }
  Status run() {
    std::vector<std::uint32_t> all(ranks());
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
      all[rank] = rank;
    return run(all);
  }

 private:
  FakeWorld world_;
  FakeMemory memory_;
  std::vector<std::unique_ptr<FakeEndpoint>> endpoints_;
  std::vector<FakeEndpoint*> networks_;
  std::vector<FakeEndpoint*> near_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // before the endpoints go
};

}  // namespace spindrift::collectives
