#include "collectives/communicator.h"

#include <algorithm>
#include <cstdlib>

#include <absl/strings/str_format.h>

#include "collectives/call.h"
#include "collectives/plan.h"
#include "collectives/planner.h"
#include "collectives/reduce.h"
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

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(Session::Ref session, Planner planner)
      : session_(std::move(session)), planner_(std::move(planner)) {}
  ~GroupCommunicator() override { close(); }

  // Members are ranks of the links, the own one among them.
  Status join(std::uint8_t id, std::vector<std::uint32_t> members) {
    group_.id = id;
    group_.ranks.assign(session_->links().ranks(), kNobody);
    for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
      group_.ranks[members[rank]] = rank;
      if (members[rank] == session_->links().rank()) group_.rank = rank;
    }
    group_.members = std::move(members);
    return session_->add_group(group_);
  }

  std::uint32_t rank() const override { return group_.rank; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(group_.members.size()); }

  Result<WorkId> start(const CollectiveCall& call) override {
    if (session_->is_in_child() || failure()) return failure()->error;
    if (is_closed_) return invalid("the communicator is closed");
    Run* const run = session_->new_run(group_);
    if (run == nullptr) {
      return Error(ErrorCode::kUnavailable,
                   absl::StrFormat("%d calls are under way, the most there may be; wait for some",
                                   kMaxInFlight));
    }
    RunCall ready{.element_bytes = bytes_of(call.type), .ranks = ranks()};
    const Status prepared = prepare(call, *run, ready);
    if (!prepared.ok()) {
      session_->give_back(*run);
      return prepared.error();
    }
    const Result<std::uint64_t> number = session_->start(group_, *run, ready);
    if (!number.ok()) return number.error();
    return WorkId{number.value()};
  }

  Status progress() override { return session_->progress(); }
  bool is_idle() const override { return session_->is_idle(); }
  bool is_done(WorkId work) const override {
    if (failure() || work.value >= group_.started) return true;
    const Run* const run = group_.runs[work.value % Group::kSlots];
    return run == nullptr || run->call().operation != static_cast<std::uint32_t>(work.value);
  }
  bool is_done() const override { return failure().has_value() || group_.in_flight == 0; }
  Status wait(WorkId work) override {
    struct Wanted {
      const GroupCommunicator* communicator;
      WorkId work;
    } const wanted{.communicator = this, .work = work};
    return session_->wait_until(
        [](const void* argument) {
          const auto* one = static_cast<const Wanted*>(argument);
          return one->communicator->is_done(one->work);
        },
        &wanted);
  }
  Status wait() override {
    return session_->wait_until(
        [](const void* argument) {
          return static_cast<const GroupCommunicator*>(argument)->is_done();
        },
        this);
  }
  void sleep(Duration timeout, int wake_fd) override { session_->sleep(timeout, wake_fd); }

  Result<AlgorithmChoice> explain(const CollectiveCall& call) const override {
    if (call.collective == Collective::kSendReceive) return explain_transfers(call);
    const Result<PlanKey> key = key_of(call, false);
    if (!key.ok()) return key.error();
    return planner_.explain(key.value());
  }

  Result<std::unique_ptr<Communicator>> split(std::int32_t color, std::int32_t key) override;
  Result<std::unique_ptr<Communicator>> shrink(Store& store,
                                               std::span<const std::uint32_t> survivors) override;

  void abort(std::string_view reason) override {
    (void)session_->fail(
        ErrorCode::kUnavailable,
        absl::StrFormat("rank %d has aborted: %s", session_->links().rank(), std::string(reason)),
        session_->links().rank());
    (void)session_->progress();
  }
  const std::optional<CommunicatorFailure>& failure() const override { return session_->failure(); }

  void forget_memory() override {
    if (!session_->is_in_child()) session_->buffers().clear();
  }
  std::vector<RankLink> links() const override;

  bool is_in_child() const override { return session_->is_in_child(); }
  void close() override {
    if (is_closed_) return;
    is_closed_ = true;
    if (session_->is_in_child()) return;
    // Others would wait for the rest of the calls, and peers might still write into their buffers.
    if (group_.in_flight > 0) abort("it closed a communicator with calls under way");
    if (group_.id == 0) session_->close();
    session_->remove_group(group_);
  }

 private:
  Result<PlanKey> key_of(const CollectiveCall& call, bool is_in_place) const {
    PlanKey key{.collective = call.collective,
                .is_in_place = is_in_place,
                .element_bytes = static_cast<std::uint8_t>(bytes_of(call.type)),
                .root = call.root,
                .count = call.count};
    if (call.collective == Collective::kBarrier) {
      key.count = 1;
      key.element_bytes = 1;
    }
    if (!call.algorithm.empty()) {
      const auto found = find_collective_algorithm(call.collective, call.algorithm);
      if (!found.ok()) return found.error();
      key.algorithm = found.value();
    }
    return key;
  }

  Result<AlgorithmChoice> explain_transfers(const CollectiveCall& call) const;
  // Finds or makes the plan, and the buffers' registrations.
  Status prepare(const CollectiveCall& call, Run& run, RunCall& ready);
  Status prepare_transfers(const CollectiveCall& call, Run& run, RunCall& ready);
  Status register_buffers(const CallBuffers& buffers, Run& run, RunCall& ready);

  Session::Ref session_;
  Planner planner_;
  Group group_;
  bool is_closed_ = false;
};

Status GroupCommunicator::prepare(const CollectiveCall& call, Run& run, RunCall& ready) {
  if (call.collective == Collective::kSendReceive) return prepare_transfers(call, run, ready);
  const Result<CallBuffers> checked = check_call(call, rank(), ranks());
  if (!checked.ok()) return checked.error();
  CallBuffers buffers = checked.value();
  const Result<PlanKey> key = key_of(call, buffers.is_in_place);
  if (!key.ok()) return key.error();
  if (call.collective == Collective::kAllToAllV) {
    const BlockTables tables = tables_of(call);
    Result<BoundPlan> plan = planner_.bind(
        call.collective, key.value().algorithm,
        {.element_bytes = ready.element_bytes, .input = tables.input, .output = tables.output});
    if (!plan.ok()) return plan.error();
    run.belongings().plan = std::move(plan).value();
    ready.plan = &*run.belongings().plan;
    ready.fingerprint = fingerprint_of(call, 0);
    return register_buffers(buffers, run, ready);
  }
  const Result<Planner::Entry*> entry = planner_.find(key.value());
  if (!entry.ok()) return entry.error();
  if (call.collective == Collective::kBarrier) {
    run.belongings().bytes.resize(ranks() + 1);
    buffers = {.input = run.belongings().bytes.data() + ranks(),
               .output = run.belongings().bytes.data()};
    ready.element_bytes = 1;
  }
  ready.plan = &entry.value()->plan;
  ++entry.value()->users;
  run.belongings().plan_users = &entry.value()->users;
  ready.fingerprint = fingerprint_of(call, entry.value()->name_hash);
  ready.reduce = find_reduce_kernel(call.type, call.op);
  ready.finish = find_finish_kernel(call.type, call.op);
  return register_buffers(buffers, run, ready);
}

Status GroupCommunicator::register_buffers(const CallBuffers& buffers, Run& run, RunCall& ready) {
  ready.input.data = buffers.input;
  ready.output.data = buffers.output;
  if (!ready.plan->has_large()) return ok_status();
  if (buffers.output_bytes > 0) {
    const Result<RegionSet> set = session_->buffers().use(
        {buffers.output, buffers.output_bytes}, Access::kLocalWrite | Access::kRemoteWrite);
    if (!set.ok()) return set.error();
    ready.output.set = set.value();
    run.belongings().sets.push_back(set.value());
  }
  if (buffers.input_bytes > 0) {
    const Result<RegionSet> set =
        session_->buffers().use({buffers.input, buffers.input_bytes}, Access::kLocalRead);
    if (!set.ok()) return set.error();
    ready.input.set = set.value();
    run.belongings().sets.push_back(set.value());
  }
  return ok_status();
}

Status GroupCommunicator::prepare_transfers(const CollectiveCall& call, Run& run, RunCall& ready) {
  const Result<TransferPlan> made = plan_transfers(call, rank(), ranks());
  if (!made.ok()) return made.error();
  Run::Belongings& own = run.belongings();
  own.plan = BoundPlan(made.value().plan, {.element_bytes = ready.element_bytes,
                                           .slice_bytes = session_->options().slice_bytes,
                                           .input = made.value().chunks,
                                           .output = made.value().chunks});
  ready.plan = &*own.plan;
  ready.fingerprint = fingerprint_of(call, 0);
  if (!own.plan->has_large()) return ok_status();
  for (const Transfer& transfer : call.transfers) {
    const std::uint64_t bytes = transfer.count * ready.element_bytes;
    if (bytes <= kSmallBytes) continue;
    const Access access =
        transfer.is_send ? Access::kLocalRead : Access::kLocalWrite | Access::kRemoteWrite;
    const Result<RegionSet> set =
        session_->buffers().use({static_cast<std::byte*>(transfer.data), bytes}, access);
    if (!set.ok()) return set.error();
    own.sets.push_back(set.value());
  }
  ready.pieces = own.sets;
  return ok_status();
}

std::vector<RankLink> GroupCommunicator::links() const {
  std::vector<RankLink> all;
  for (RankLink& link : session_->links().describe()) {
    link.rank = group_.ranks[link.rank];
    if (link.rank != kNobody) all.push_back(std::move(link));
  }
  std::sort(all.begin(), all.end(),
            [](const RankLink& a, const RankLink& b) { return a.rank < b.rank; });
  return all;
}

Result<AlgorithmChoice> GroupCommunicator::explain_transfers(const CollectiveCall& call) const {
  const Result<TransferPlan> plan = plan_transfers(call, rank(), ranks());
  if (!plan.ok()) return plan.error();
  std::uint32_t messages = 0;
  double bytes = 0;
  for (const Transfer& transfer : call.transfers) {
    if (!transfer.is_send || transfer.peer == rank()) continue;
    ++messages;
    bytes += static_cast<double>(transfer.count * bytes_of(call.type));
  }
  return planner_.explain_transfers(messages, bytes);
}

struct SplitRecord {
  std::int32_t color = 0;
  std::int32_t key = 0;
  std::uint32_t next_id = 0;
};

Result<std::unique_ptr<Communicator>> GroupCommunicator::split(std::int32_t color,
                                                               std::int32_t key) {
  const SplitRecord own{.color = color, .key = key, .next_id = session_->next_group_id()};
  std::vector<SplitRecord> all(ranks());
  const CollectiveCall call{.collective = Collective::kAllGather,
                            .input = &own,
                            .output = all.data(),
                            .count = sizeof(own),
                            .type = DataType::kUint8};
  if (Status status = run(call); !status.ok()) return status.error();
  std::uint32_t id = 0;
  std::vector<std::int32_t> colors;
  for (const SplitRecord& record : all) {
    id = std::max(id, record.next_id);
    if (record.color >= 0) colors.push_back(record.color);
  }
  if (color < 0) return std::unique_ptr<Communicator>();
  std::sort(colors.begin(), colors.end());
  colors.erase(std::unique(colors.begin(), colors.end()), colors.end());
  id += static_cast<std::uint32_t>(std::find(colors.begin(), colors.end(), color) - colors.begin());
  if (id >= UINT8_MAX) {
    return Error(ErrorCode::kNoMemory,
                 "255 communicators were split from one; create others through a store");
  }
  std::vector<std::uint32_t> members;
  for (std::uint32_t one = 0; one < ranks(); ++one)
    if (all[one].color == color) members.push_back(one);
  std::stable_sort(members.begin(), members.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return all[a].key < all[b].key; });
  const auto own_place = static_cast<std::uint32_t>(
      std::find(members.begin(), members.end(), rank()) - members.begin());
  Result<Planner> planner = planner_.for_part(own_place, members);
  if (!planner.ok()) return planner.error();
  for (std::uint32_t& member : members)
    member = group_.members[member];
  auto made = std::make_unique<GroupCommunicator>(session_->share(), std::move(planner).value());
  if (Status status = made->join(static_cast<std::uint8_t>(id), std::move(members)); !status.ok()) {
    return status.error();
  }
  return std::unique_ptr<Communicator>(std::move(made));
}

Result<std::unique_ptr<Communicator>> GroupCommunicator::shrink(
    Store& store, std::span<const std::uint32_t> survivors) {
  const auto own = std::find(survivors.begin(), survivors.end(), rank());
  if (own == survivors.end() || !std::is_sorted(survivors.begin(), survivors.end()) ||
      survivors.back() >= ranks()) {
    return invalid(
        absl::StrFormat("survivors are ranks of 0 to %d in ascending order, rank %d among them",
                        ranks() - 1, rank()));
  }
  CommunicatorOptions options = session_->options();
  options.name += "/shrunk";
  for (const std::uint32_t rank : survivors)
    options.name += absl::StrFormat("-%d", group_.members[rank]);
  options.rank = static_cast<std::uint32_t>(own - survivors.begin());
  options.ranks = static_cast<std::uint32_t>(survivors.size());
  close();
  session_->close();
  return Communicator::create(session_->endpoint(), store, options);
}

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

}  // namespace

Result<std::unique_ptr<Communicator>> assemble(Parts parts, const CommunicatorOptions& options,
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
  return std::unique_ptr<Communicator>(std::move(made));
}

}  // namespace spindrift::collectives

namespace spindrift {

Result<std::unique_ptr<Communicator>> Communicator::create(Endpoint& endpoint, Store& store,
                                                           const CommunicatorOptions& options) {
  using namespace collectives;
  if (Status status = check_options(options); !status.ok()) return status.error();
  // Refused before anybody is told of this rank.
  const Roster nobody{.nonce = 0, .seats = std::vector<Seat>(options.ranks)};
  if (const Result<Planner> planner = make_planner(options, nobody); !planner.ok()) {
    return planner.error();
  }
  Seating seating;
  if (Status status = seating.sit(endpoint, options); !status.ok()) return status.error();
  Result<Roster> roster = meet(store, options, seating.seat());
  if (!roster.ok()) return roster.error();
  if (Status status = seating.check(roster.value()); !status.ok()) return status.error();
  return assemble({.listening = seating.take(), .roster = std::move(roster).value()}, options,
                  true);
}

}  // namespace spindrift
