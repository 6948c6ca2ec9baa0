#pragma once
// What a scenario leaves open and the network decides.
#include "sim/event_list.h"
#include "sim/network_plan.h"
#include "sim/routing.h"

namespace spindrift::sim {

// The longest idle round trip between two NICs, as seen from NIC 0, times the fastest host link.
std::uint64_t bandwidth_delay_bytes(const NetworkPlan& plan, const TransportSpec& transport);
// By port where a link of the plan has queues of its own; empty where none has. Marking thresholds
// that `asked` leaves open are shares of the port's queue.
std::vector<PortLimits> port_limits(const SwitchSpec& asked, const SwitchSpec& derived,
                                    const NetworkPlan& plan);
// Every zero that means "derive it" replaced.
SwitchSpec derive(const SwitchSpec& spec, const NetworkPlan& plan, const TransportSpec& transport);
// How finely the event list divides time; actors and seed are the caller's.
EventListShape event_list_shape(const NetworkPlan& plan, const TransportSpec& transport);

}  // namespace spindrift::sim
