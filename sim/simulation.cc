#include "sim/simulation.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sim/processor_time.h"
#include "sim/telemetry.h"
#include "sim/topology.h"
#include "sim/world.h"

namespace spindrift::sim {
namespace {

void check_names(const Scenario& scenario, const Registry& registry, RunError& out) {
  const TransportSpec& transport = scenario.transport;
  const auto cc = registry.find_congestion_control(transport.congestion_control);
  if (!cc.ok())
    out.push_back({.key = "transport.congestion_control",
                   .value = transport.congestion_control,
                   .limit = cc.error().message()});
  else if (cc.value().info->traits.needs_telemetry && !scenario.network.has_telemetry)
    out.push_back({.key = "transport.congestion_control",
                   .value = transport.congestion_control,
                   .limit = "needs in-band telemetry, which this network does not carry; set "
                            "network.has_telemetry=true"});
  else if (transport.engine == Engine::kLanes &&
           (cc.value().info->traits.needs_ecn || cc.value().info->traits.is_receiver_driven))
    out.push_back({.key = "transport.congestion_control",
                   .value = transport.congestion_control,
                   .limit =
                       "needs marks or credit, of which lanes (transport.engine) tell nothing; "
                       "choose fixed_window"});
  if (transport.engine == Engine::kLanes && scenario.network.has_telemetry)
    out.push_back({.key = "network.has_telemetry",
                   .value = "true",
                   .limit = "needs transport.engine=packets: lanes carry no telemetry"});
  const auto selector = registry.find_path_selector(transport.path_selector);
  if (!selector.ok())
    out.push_back({.key = "transport.path_selector",
                   .value = transport.path_selector,
                   .limit = selector.error().message()});
}

void check_faults(const Scenario& scenario, const NetworkPlan& plan, RunError& out) {
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const FaultSpec& fault = scenario.faults[i];
    if (World::ports_of(plan, fault).empty())
      out.push_back({.key = absl::StrCat("faults[", i, "]"),
                     .value = absl::StrCat(fault.from, fault.to.empty() ? "" : ">", fault.to),
                     .limit = "there is no such link in this topology"});
  }
}

// Flows that wait for each other in a ring would never start.
void check_order(const FlowPlans& flows, RunError& out) {
  std::vector<std::uint32_t> awaits;
  std::vector<std::uint32_t> startable;
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    awaits.push_back(flows[i].awaits);
    if (flows[i].awaits == 0) startable.push_back(i);
  }
  for (std::size_t at = 0; at < startable.size(); ++at)
    for (const auto* list :
         {&flows[startable[at]].after_finish, &flows[startable[at]].after_delivery})
      for (const std::uint32_t next : *list)
        if (awaits[next] != 0 && --awaits[next] == 0) startable.push_back(next);
  if (startable.size() == flows.size()) return;
  std::uint32_t stuck = 0;
  while (awaits[stuck] == 0)
    ++stuck;
  out.push_back({.key = "workload",
                 .value = absl::StrCat("flow ", stuck + 1, ", ", flows[stuck].source, "->",
                                       flows[stuck].destination),
                 .limit = "can never start: it waits, directly or not, for itself"});
}

WorkloadWorld world_of(const NetworkPlan& plan) {
  WorkloadWorld world{.hosts = plan.hosts};
  for (const NetworkPlan::Nic& nic : plan.nics)
    if (nic.host == 0) world.host_rate_bps += plan.links[nic.port / 2].spec.rate_bps;
  return world;
}

}  // namespace

std::variant<Results, RunError> run(const Scenario& asked, const Registry& registry,
                                    const RunOptions& options) {
  RunError complaints = validate(asked);
  Scenario scenario = asked;
  if (scenario.network.has_telemetry) scenario.transport.frame_overhead_bytes += kTelemetryBytes;
  // Its messages say where bytes go.
  const bool is_collective = scenario.workload.name == "collective";
  if (is_collective) scenario.transport.carries_payload = true;
  if (is_collective && !options.take_seat)
    complaints.push_back({.key = "workload.name",
                          .value = scenario.workload.name,
                          .limit = "needs the collective layer, which this program does not hand "
                                   "in (RunOptions::take_seat)"});
  check_names(scenario, registry, complaints);
  if (!complaints.empty()) return complaints;
  const double before = processor_seconds();
  auto planned = plan_network(scenario.topology);
  if (auto* errors = std::get_if<RunError>(&planned)) return std::move(*errors);
  const NetworkPlan& plan = std::get<NetworkPlan>(planned);
  check_faults(scenario, plan, complaints);
  auto workload = plan_workload(scenario.workload, world_of(plan), scenario.seed);
  if (auto* errors = std::get_if<RunError>(&workload))
    complaints.insert(complaints.end(), errors->begin(), errors->end());
  else
    check_order(std::get<FlowPlans>(workload), complaints);
  if (!complaints.empty()) return complaints;
  World world(scenario, registry, plan, std::move(std::get<FlowPlans>(workload)));
  const Status ready = world.set_up(options.take_seat);
  if (!ready.ok())
    return RunError{{.key = is_collective ? "workload" : "transport",
                     .value = is_collective ? scenario.workload.name : "",
                     .limit = ready.error().message()}};
  const double set_up = processor_seconds();
  if (options.observer != nullptr) {
    const auto complaint = world.observe(*options.observer);
    if (complaint) return RunError{*complaint};
  }
  world.run(options);
  Results results = world.results();
  results.set_up_seconds = set_up - before;
  return results;
}

}  // namespace spindrift::sim
