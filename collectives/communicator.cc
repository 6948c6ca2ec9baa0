#include "collectives/communicator.h"

#include <algorithm>
#include <cstdlib>

#include <absl/strings/str_format.h>

#include "collectives/group_communicator.h"
#include "collectives/planner.h"
#include "collectives/rendezvous.h"
#include "collectives/seating.h"
#include "collectives/session.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kMaxSetupTimeout = std::chrono::hours(1);
constexpr Duration kMaxStallTimeout = std::chrono::hours(30 * 24);

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

Status check_times(const CommunicatorOptions& options) {
  struct Bound {
    const char* name;
    Duration value, lowest, highest;
    const char* says;
  };
  const Duration zero = Duration::zero();
  const Duration shortest = std::chrono::milliseconds(1);
  const Duration second = std::chrono::seconds(1);
  for (const Bound& bound : {
           Bound{"spin", options.spin, zero, second, "0 to 1 s"},
           Bound{"yield", options.yield, zero, second, "0 to 1 s"},
           Bound{"setup_timeout", options.setup_timeout, shortest, kMaxSetupTimeout, "1 ms to 1 h"},
           Bound{"stall_timeout", options.stall_timeout, shortest, kMaxStallTimeout,
                 "1 ms to 30 days"},
       }) {
    if (bound.value >= bound.lowest && bound.value <= bound.highest) continue;
    return invalid(absl::StrFormat("%s is %g s; it must be %s", bound.name,
                                   std::chrono::duration<double>(bound.value).count(), bound.says));
  }
  return ok_status();
}

}  // namespace

Status check_options(const CommunicatorOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return invalid(absl::StrFormat("%d ranks; a group has 1 to %d", options.ranks, kMaxRanks));
  }
  if (options.rank >= options.ranks) {
    return invalid(absl::StrFormat("rank %d of %d ranks; ranks count from 0 to %d", options.rank,
                                   options.ranks, options.ranks - 1));
  }
  if (options.slice_bytes < 1024 || options.slice_bytes > (1U << 24) ||
      options.slice_bytes % 128 != 0) {
    return invalid(absl::StrFormat(
        "slice_bytes is %d; it must be a multiple of 128 in 1024..16777216", options.slice_bytes));
  }
  if (options.slices_in_flight < 2 || options.slices_in_flight > 64) {
    return invalid(
        absl::StrFormat("slices_in_flight is %d; it must be 2..64", options.slices_in_flight));
  }
  return check_times(options);
}

namespace {

std::string algorithm_text(const CommunicatorOptions& options) {
  if (!options.algorithm.empty()) return options.algorithm;
  // Read once, at set-up; nobody changes the environment meanwhile.
  const char* const told = std::getenv("SPINDRIFT_ALGO");  // NOLINT(concurrency-mt-unsafe)
  return told == nullptr ? std::string() : std::string(told);
}

// All ranks choose by rank 0's costs, or they would choose differently.
Result<Planner> make_planner(const CommunicatorOptions& options, const Roster& roster) {
  Result<CostModel> costs = cost_model_from_text(roster.seats[0].costs);
  if (!costs.ok()) return costs.error();
  CostModel model = std::move(costs).value();
  const auto has_near = [](const Seat& seat) { return !seat.same_host_address.empty(); };
  const auto is_near = [](const Seat& seat) { return is_of_one_host(seat.address); };
  if (std::all_of(roster.seats.begin(), roster.seats.end(), is_near)) {
    model.network = model.near;
  } else if (std::none_of(roster.seats.begin(), roster.seats.end(), has_near)) {
    model.near = model.network;
  }
  return Planner::create({.rank = options.rank,
                          .ranks = options.ranks,
                          .slice_bytes = options.slice_bytes,
                          .is_deterministic = options.is_deterministic,
                          .algorithm = algorithm_text(options),
                          .topology = {.hosts = roster.hosts()},
                          .costs = std::move(model)});
}

// Null: this rank has none to show, or no other rank of its host does, or it could not be; the
// reason is told.
std::unique_ptr<HostSegments> exchange_segments(const CommunicatorOptions& options,
                                                const Roster& roster) {
  constexpr Duration kPatience = std::chrono::seconds(10);
  if (options.segments == nullptr) return nullptr;
  HostSegmentExchange::Request request{.nonce = roster.nonce,
                                       .rank = options.rank,
                                       .bytes = SharedArea::kAreas * SharedArea::kBytes,
                                       .timeout = std::min(kPatience, options.setup_timeout)};
  bool has_others = false;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const Seat& seat = roster.seats[rank];
    const bool is_other = rank != options.rank && seat.host == roster.seats[options.rank].host;
    request.addresses.push_back(is_other ? seat.segments : std::string());
    has_others = has_others || !request.addresses.back().empty();
  }
  if (!has_others) return nullptr;
  Result<std::unique_ptr<HostSegments>> segments = options.segments->exchange(request);
  if (segments.ok()) return std::move(segments).value();
  // Nobody on this host has them then, and one rank says it.
  const auto first = std::find_if(request.addresses.begin(), request.addresses.end(),
                                  [](const std::string& address) { return !address.empty(); });
  if (options.on_note && first - request.addresses.begin() > options.rank) {
    options.on_note(
        absl::StrFormat("rank %d: small collectives go by messages, not through shared memory: %s",
                        options.rank, segments.error().message()));
  }
  return nullptr;
}

Result<std::unique_ptr<GroupCommunicator>> make_world(Parts parts,
                                                      const CommunicatorOptions& options,
                                                      bool waits_for_neighbours) {
  Result<Planner> planner = make_planner(options, parts.roster);
  Session::Ref session =
      Session::create(std::move(parts.listening), std::move(parts.roster), options);
  if (!planner.ok()) return planner.error();
  if (waits_for_neighbours) {
    if (Status status = session->connect_neighbours(); !status.ok()) return status.error();
  }
  std::vector<std::uint32_t> members(options.ranks);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
    members[rank] = rank;
  auto made = std::make_unique<GroupCommunicator>(std::move(session), std::move(planner).value());
  if (Status status = made->join(0, std::move(members)); !status.ok()) return status.error();
  if (!parts.has_segments.empty()) {
    made->use_segments(std::move(parts.segments), std::move(parts.has_segments));
  }
  return made;
}

}  // namespace

Result<std::unique_ptr<Communicator>> assemble(Parts parts, const CommunicatorOptions& options,
                                               bool waits_for_neighbours) {
  auto made = make_world(std::move(parts), options, waits_for_neighbours);
  if (!made.ok()) return made.error();
  return std::unique_ptr<Communicator>(std::move(made).value());
}

Result<std::unique_ptr<Communicator>> create(Endpoint& endpoint, Store& store,
                                             const CommunicatorOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status.error();
  // Refused before anybody is told of this rank.
  const Roster nobody{.nonce = 0, .seats = std::vector<Seat>(options.ranks)};
  if (const Result<Planner> planner = make_planner(options, nobody); !planner.ok()) {
    return planner.error();
  }
  Seating seating;
  if (Status status = seating.sit(endpoint, options); !status.ok()) return status.error();
  Result<Roster> met = meet(store, options, seating.seat());
  if (!met.ok()) return met.error();
  Roster roster = std::move(met).value();
  if (Status status = seating.check(roster); !status.ok()) return status.error();
  std::unique_ptr<HostSegments> segments = exchange_segments(options, roster);
  const bool has_any = std::any_of(roster.seats.begin(), roster.seats.end(),
                                   [](const Seat& seat) { return !seat.segments.empty(); });
  auto made = make_world({.listening = seating.take(), .roster = std::move(roster)}, options, true);
  if (!made.ok()) return made.error();
  if (has_any) {
    if (Status status = made.value()->agree_on_segments(std::move(segments)); !status.ok()) {
      return status.error();
    }
  }
  return std::unique_ptr<Communicator>(std::move(made).value());
}

}  // namespace spindrift::collectives

namespace spindrift {

Result<std::unique_ptr<Communicator>> Communicator::create(Endpoint& endpoint, Store& store,
                                                           const CommunicatorOptions& options) {
  return collectives::create(endpoint, store, options);
}

}  // namespace spindrift
