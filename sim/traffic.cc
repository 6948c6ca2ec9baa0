// Flows: posted as WRITEs when their time has come, finished when their last one completes.
#include <algorithm>

#include "sim/processor_time.h"
#include "sim/world.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

constexpr std::uint64_t kReportEvery = 100'000;  // events

}  // namespace

std::optional<Complaint> World::observe(RunObserver& observer) {
  std::vector<FlowRecord> records;
  for (const Flow& flow : flows_)
    records.push_back(flow.record);
  auto complaint = observer.begin(plan_, records);
  if (complaint) return complaint;
  observer_ = &observer;
  network_.observe(observer);
  return std::nullopt;
}

void World::tell(EventKind kind, std::uint32_t flow) {
  if (observer_ == nullptr) return;
  observer_->on_flow({.at = since_start(),
                      .kind = kind,
                      .flow = flow,
                      .has_failed = !flows_[flow].record.error.empty()});
}

void World::begin_workload() {
  is_running_ = true;
  if (collective_) begin_calls();
  for (std::uint32_t i = 0; i < flows_.size() && !collective_; ++i)
    if (flows_[i].awaits == 0) plan_item(started_ + plans_[i].start, Item::Kind::kFlow, i);
  if (scenario_.sample_every > 0) plan_item(started_, Item::Kind::kSample, 0);
  if (scenario_.network.has_pfc)
    plan_item(started_ + scenario_.network.deadlock_after, Item::Kind::kDeadlock, 0);
}

// Nodes hear of each other over links alone, unless flows start each other, a program joins all
// hosts, or somebody watches the history in its order: then at once.
Picoseconds World::shortest_delay() const {
  const bool is_joined =
      std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.awaits != 0; });
  if (collective_ || observer_ != nullptr || is_joined) return 0;
  Picoseconds shortest = kEndOfTime;
  for (std::uint32_t port = 0; port < network_.port_count(); ++port)
    shortest = std::min(shortest, network_.delay_of(port));
  return shortest;
}

void World::separate_places(Picoseconds window) {
  EventPlaces places{
      .of_actor = Network::places_of_actors(plan_), .window = window, .for_all = agenda_actor()};
  for (std::uint32_t host = 0; host < plan_.hosts; ++host)
    places.of_actor.push_back(host);  // its node has the same number
  places.of_actor.push_back(0);       // the agenda is never handed out so
  events_.separate(std::move(places));
}

void World::run(const RunOptions& options) {
  const double before = processor_seconds();
  const std::uint64_t hops_before = network_.hops();
  const Picoseconds end =
      scenario_.end > kEndOfTime - started_ ? kEndOfTime : started_ + scenario_.end;
  begin_workload();
  const Picoseconds window = shortest_delay();
  if (window != 0 && !options.is_in_order_of_time) separate_places(window);
  std::uint64_t events = 0;
  while (done_ != flows_.size() && step(end)) {
    if (++events % kReportEvery != 0 || !options.on_progress) continue;
    if (!options.on_progress({.now = since_start(),
                              .flows_done = done_,
                              .flows_total = flows_.size(),
                              .hops = network_.hops()}))
      break;
  }
  const bool is_done = done_ == flows_.size();
  finished_ = is_done ? started_ + last_end_ : events_.now();
  // All places come to the same time: in a window one may be before another.
  while (window != 0 && step(std::min(end, finished_ + window - 1))) {
  }
  results_.run_hops = network_.hops() - hops_before;
  results_.run_seconds = processor_seconds() - before;
}

void World::start_flow(std::uint32_t index) {
  Flow& flow = flows_[index];
  flow.record.start = since_start();
  count_into(flow.record, pairs_[flow.pair], false);
  tell(EventKind::kFlowStart, index);
  Pair& pair = pairs_[flow.pair];
  if (!pair.waiting.empty()) {
    pair.waiting.push_back(index);
    return;
  }
  post(index);
  hosts_[pair.source]->turn();
}

// As much of it as the send queue takes; the rest follows when work completes.
void World::post(std::uint32_t index) {
  Flow& flow = flows_[index];
  const FlowPlan& plan = plans_[index];
  Pair& pair = pairs_[flow.pair];
  Endpoint& endpoint = hosts_[pair.source]->endpoint();
  while (flow.posted < plan.bytes) {
    const std::uint64_t bytes = std::min(plan.bytes - flow.posted, kMessageBytes);
    const bool is_last = flow.posted + bytes == plan.bytes;
    const bool is_carried = scenario_.transport.carries_payload;
    const std::uint64_t at = is_carried ? flow.posted : 0;
    const Sge piece = sge_of(sources_[pair.source], memory_.source_offset(index) + at,
                             static_cast<std::uint32_t>(bytes));
    WorkRequest work{.user_data = index, .conn = pair.at_source, .kind = OpKind::kWrite};
    if (is_last && !plan.after_delivery.empty()) work.kind = OpKind::kWriteImm;
    work.is_unsignaled = !is_last;
    work.immediate = index;
    work.local = {&piece, 1};
    work.remote_key = sinks_[pair.destination].remote.key;
    work.remote_offset = memory_.sink_offset(index) + at;
    const PostResult result = endpoint.post({&work, 1});
    if (result.accepted == 0) {
      if (result.status == PostStatus::kQueueFull)
        pair.waiting.push_front(index);
      else
        on_finished(index, OpStatus::kPeerGone);
      return;
    }
    flow.posted += bytes;
  }
}

void World::post_receives(std::uint32_t index) {
  const Pair& pair = pairs_[index];
  Endpoint& endpoint = hosts_[pair.destination]->endpoint();
  for (std::uint32_t i = 0; i < pair.receives; ++i) {
    const WorkRequest receive{.conn = pair.at_destination, .kind = OpKind::kReceive};
    SPINDRIFT_CHECK(endpoint.post({&receive, 1}).accepted == 1);
  }
}

void World::on_completion(std::uint32_t /*host*/, const Completion& completion) {
  if (!is_running_) return;
  if (completion.kind == OpKind::kReceive) {
    if (completion.status == OpStatus::kOk) on_delivered(completion.immediate);
    return;
  }
  on_finished(static_cast<std::uint32_t>(completion.user_data), completion.status);
}

void World::on_finished(std::uint32_t index, OpStatus status) {
  Flow& flow = flows_[index];
  if (flow.record.is_done() || !flow.record.error.empty()) return;
  Pair& pair = pairs_[flow.pair];
  count_into(flow.record, pair, true);
  ++done_;
  last_end_ = std::max(last_end_, since_start());
  if (status == OpStatus::kOk) {
    flow.record.finish = since_start();
  } else {
    flow.record.error = hosts_[pair.source]->endpoint().last_error(pair.at_source);
    if (flow.record.error.empty()) flow.record.error = std::string(to_string(status));
  }
  tell(EventKind::kFlowEnd, index);
  if (status == OpStatus::kOk) release(plans_[index].after_finish);
  while (!pair.waiting.empty()) {
    const std::uint32_t next = pair.waiting.front();
    pair.waiting.pop_front();
    post(next);
    if (!pair.waiting.empty() && pair.waiting.front() == next) break;  // no room yet
  }
}

void World::on_delivered(std::uint32_t index) {
  flows_[index].record.delivered = since_start();
  release(plans_[index].after_delivery);
}

void World::release(const std::vector<std::uint32_t>& flows) {
  for (const std::uint32_t index : flows) {
    Flow& flow = flows_[index];
    if (flow.awaits == 0 || --flow.awaits != 0) continue;
    if (plans_[index].start == 0)
      start_flow(index);
    else
      plan_item(events_.now() + plans_[index].start, Item::Kind::kFlow, index);
  }
}

}  // namespace spindrift::sim
