// A collective as the workload: its calls are the run's flows, one for each rank and call.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/world.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

// Connections that take longer are given up.
constexpr Picoseconds kSetUpLimit = 100 * kSecond;

}  // namespace

// The ideal is what serialisation alone costs the bytes that a rank must at least send or receive.
void World::make_calls() {
  for (const FlowPlan& plan : plans_) {
    FlowRecord record{.source = plan.source, .destination = plan.destination, .bytes = plan.bytes};
    const std::uint32_t nic = first_nics_[plan.source];
    const FlowFrames frames = frames_of(scenario_.transport, plan.bytes);
    record.ideal =
        network_.transmission(plan_.nics[nic].port, frames.full * frames.count + frames.last) /
        static_cast<Picoseconds>(first_nics_[plan.source + 1] - nic);
    flows_.push_back({.record = std::move(record)});
    const auto path = network_.routing().a_path(nic, first_nics_[plan.destination]);
    longest_rtt_ = std::max(
        longest_rtt_,
        base_rtt(network_, path, frames_of(scenario_.transport, scenario_.transport.payload_mtu)));
  }
  pairs_of_.resize(plan_.hosts);
  calls_done_.assign(plan_.hosts, 0);
  collective_ = std::make_unique<CollectiveRun>(
      scenario_.workload, plan_.hosts,
      [this](std::uint32_t rank, const Status& status) { on_call_done(rank, status); });
}

// A first call of a few bytes makes the connections, so that none is made while time is taken.
Status World::set_up_collective(const TakeSeat& take_seat) {
  for (std::uint32_t rank = 0; rank < plan_.hosts; ++rank) {
    const Pair nobody{.source = rank, .rtt = longest_rtt_};
    CommunicatorOptions options;
    options.rank = rank;
    options.ranks = plan_.hosts;
    options.address = hosts_[rank]->address();
    options.host_id = absl::StrCat("simulated-", rank);
    options.connection = connect_options(nobody, rank);
    options.connection.local_addresses.clear();
    options.connection.close_timeout = std::chrono::milliseconds(1);  // of a run that is over
    const Status added =
        collective_->add_rank(hosts_[rank]->endpoint(), take_seat, options,
                              [this, rank](Duration timeout) { sleep(rank, timeout); });
    if (!added.ok()) return added;
  }
  Status status = collective_->join();
  for (std::uint32_t rank = 0; rank < plan_.hosts && status.ok(); ++rank)
    status = collective_->start(rank, true);
  if (!status.ok()) return status;
  for (auto& host : hosts_)
    host->turn();
  const auto is_ready = [this] {
    return std::all_of(calls_done_.begin(), calls_done_.end(),
                       [](std::uint32_t calls) { return calls != 0; });
  };
  while (!is_ready() && trouble_.empty() && step(kSetUpLimit)) {
  }
  if (!trouble_.empty()) return Error(ErrorCode::kUnavailable, trouble_);
  SPINDRIFT_CHECK(is_ready());
  calls_done_.assign(plan_.hosts, 0);
  return ok_status();
}

void World::begin_calls() {
  for (std::uint32_t rank = 0; rank < plan_.hosts; ++rank)
    begin_call(rank);
  for (auto& host : hosts_)
    host->turn();
}

void World::begin_call(std::uint32_t rank) {
  const std::uint32_t index = calls_done_[rank] * plan_.hosts + rank;
  flows_[index].record.start = since_start();
  tell(EventKind::kFlowStart, index);
  const Status started = collective_->start(rank, false);
  if (!started.ok()) on_call_done(rank, started);
}

void World::on_call_done(std::uint32_t rank, const Status& status) {
  if (!is_running_) {
    ++calls_done_[rank];
    if (!status.ok() && trouble_.empty()) trouble_ = status.error().message();
    return;
  }
  const std::uint32_t index = calls_done_[rank] * plan_.hosts + rank;
  if (index >= flows_.size()) return;
  FlowRecord& record = flows_[index].record;
  ++calls_done_[rank];
  ++done_;
  if (status.ok()) {
    record.finish = since_start();
    if (!collective_->is_right(rank)) ++results_.payload_errors;
  } else {
    record.error = status.error().message();
  }
  tell(EventKind::kFlowEnd, index);
  if (index + plan_.hosts < flows_.size()) begin_call(rank);
}

void World::sleep(std::uint32_t host, Duration timeout) {
  const Picoseconds until = events_.now() + std::max<Picoseconds>(timeout.count(), 1) * kNanosecond;
  const Host::Pause pause(*hosts_[host]);
  while (!hosts_[host]->has_news() && step(until)) {
  }
}

}  // namespace spindrift::sim
