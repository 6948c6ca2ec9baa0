#include "collectives/group_communicator.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "collectives/algorithms.h"
#include "collectives/reduce.h"

namespace spindrift::collectives {
namespace {

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

struct SplitRecord {
  std::int32_t color = 0;
  std::int32_t key = 0;
  std::uint32_t next_id = 0;
};

}  // namespace

Status GroupCommunicator::join(std::uint8_t id, std::vector<std::uint32_t> members) {
  group_.id = id;
  group_.ranks.assign(session_->links().ranks(), kNobody);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    group_.ranks[members[rank]] = rank;
    if (members[rank] == session_->links().rank()) group_.rank = rank;
  }
  group_.members = std::move(members);
  if (Status status = session_->add_group(group_); !status.ok()) return status;
  make_area();
  return ok_status();
}

void GroupCommunicator::use_segments(std::unique_ptr<HostSegments> segments,
                                     std::vector<bool> has_segments) {
  planner_.set_segments(std::move(has_segments));
  session_->use_segments(std::move(segments));
  make_area();
}

Result<WorkId> GroupCommunicator::start(const CollectiveCall& call) {
  if (session_->is_in_child() || failure()) return failure()->error;
  if (is_closed_) return invalid("the communicator is closed");
  Run* const run = session_->new_run(group_);
  if (run == nullptr) {
    return Error(ErrorCode::kUnavailable,
                 absl::StrFormat("%d calls are under way, the most there may be; wait for some",
                                 kMaxInFlight));
  }
  RunCall& ready = run->new_call();
  ready.element_bytes = bytes_of(call.type);
  ready.ranks = ranks();
  const Status prepared = prepare(call, *run, ready);
  if (!prepared.ok()) {
    session_->give_back(*run);
    return prepared.error();
  }
  const Result<std::uint64_t> number = session_->start(group_, *run);
  if (!number.ok()) return number.error();
  return WorkId{number.value()};
}

Status GroupCommunicator::wait(WorkId work) {
  struct Wanted {
    const GroupCommunicator* communicator = nullptr;
    WorkId work{};
  } const wanted{.communicator = this, .work = work};
  return session_->wait_until(
      [](const void* argument) {
        const auto* one = static_cast<const Wanted*>(argument);
        return one->communicator->is_done(one->work);
      },
      &wanted);
}

Status GroupCommunicator::wait() {
  return session_->wait_until(
      [](const void* argument) {
        return static_cast<const GroupCommunicator*>(argument)->is_done();
      },
      this);
}

Result<AlgorithmChoice> GroupCommunicator::explain(const CollectiveCall& call) const {
  if (call.collective == Collective::kSendReceive) return explain_transfers(call);
  const Result<PlanKey> key = key_of(call, false);
  if (!key.ok()) return key.error();
  return planner_.explain(key.value());
}

void GroupCommunicator::abort(std::string_view reason) {
  (void)session_->fail(
      ErrorCode::kUnavailable,
      absl::StrFormat("rank %d has aborted: %s", session_->links().rank(), std::string(reason)),
      session_->links().rank());
  (void)session_->progress();
}

void GroupCommunicator::close() {
  if (is_closed_) return;
  is_closed_ = true;
  if (session_->is_in_child()) return;
  // Others would wait for the rest of the calls, and peers might still write into their buffers.
  if (group_.in_flight > 0) abort("it closed a communicator with calls under way");
  if (group_.id == 0) session_->close();
  session_->remove_group(group_);
}

void GroupCommunicator::make_area() {
  session_->make_area(group_, planner_.near_ranks());
  if (group_.id >= SharedArea::kAreas) {
    planner_.set_why_not_shared(
        absl::StrFormat("%d communicators that descend from one share memory, and there are more",
                        SharedArea::kAreas));
  }
}

Result<PlanKey> GroupCommunicator::key_of(const CollectiveCall& call, bool is_in_place) const {
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
  ready.reduce = find_reduce_kernel(call.type, call.op);
  ready.finish = find_finish_kernel(call.type, call.op);
  ready.plan = &entry.value()->plan;
  ready.fingerprint = fingerprint_of(call, entry.value()->name_hash);
  ++entry.value()->users;
  run.belongings().plan_users = &entry.value()->users;
  if (entry.value()->shared) {
    SharedCall& shared = ready.shared;
    shared.area = &*group_.area;
    shared.tables = &*entry.value()->shared;
    shared.buffers = {buffers.input, buffers.output, nullptr};
    shared.element_bytes = ready.element_bytes;
    shared.ranks = ready.ranks;
    shared.reduce = ready.reduce;
    shared.finish = ready.finish;
    shared.fingerprint = ready.fingerprint;
    if (ready.plan->lanes().empty()) return ok_status();
  }
  if (call.collective == Collective::kBarrier) {
    run.belongings().bytes.resize(ranks() + 1);
    buffers = {.input = run.belongings().bytes.data() + ranks(),
               .output = run.belongings().bytes.data()};
    ready.element_bytes = 1;
  }
  return register_buffers(buffers, run, ready);
}

Status GroupCommunicator::register_buffers(const CallBuffers& buffers, Run& run, RunCall& ready) {
  ready.input = {.data = buffers.input, .set = {}};
  ready.output = {.data = buffers.output, .set = {}};
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
  ready.input = ready.output = {};
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

// The answer of every rank goes to all by messages, along the links that stand already.
Status GroupCommunicator::agree_on_segments(std::unique_ptr<HostSegments> segments) {
  const std::uint8_t own = segments == nullptr ? 0 : 1;
  std::vector<std::uint8_t> all(ranks());
  const CollectiveCall call{.collective = Collective::kAllGather,
                            .input = &own,
                            .output = all.data(),
                            .count = 1,
                            .type = DataType::kUint8,
                            .algorithm = kRingAllGather.name};
  if (Status status = run(call); !status.ok()) return status;
  use_segments(std::move(segments), std::vector<bool>(all.begin(), all.end()));
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

}  // namespace spindrift::collectives
