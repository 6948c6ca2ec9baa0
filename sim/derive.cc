#include "sim/derive.h"

#include <algorithm>
#include <bit>

#include "sim/path_time.h"

namespace spindrift::sim {
namespace {

constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000ULL;

std::uint64_t bytes_in(Picoseconds span, std::uint64_t rate_bps) {
  const auto bits = static_cast<unsigned __int128>(span) * rate_bps / kPicosecondsPerSecond;
  return static_cast<std::uint64_t>(bits / 8);
}

Picoseconds transmission(const LinkSpec& link, std::uint64_t bytes) {
  return static_cast<Picoseconds>(Rate::bits_per_second(link.rate_bps).picoseconds_for(bytes));
}

std::uint64_t fastest_host_link(const NetworkPlan& plan) {
  std::uint64_t rate = 0;
  for (const NetworkPlan::Nic& nic : plan.nics)
    rate = std::max(rate, plan.links[nic.port / 2].spec.rate_bps);
  return rate;
}

// ECN's, from the size of the queue.
void set_thresholds(SwitchSpec& spec) {
  if (spec.kmin_bytes == 0) spec.kmin_bytes = spec.queue_bytes / 5;
  if (spec.kmax_bytes == 0) spec.kmax_bytes = std::max(spec.queue_bytes / 5 * 4, spec.kmin_bytes);
}

}  // namespace

std::uint64_t bandwidth_delay_bytes(const NetworkPlan& plan, const TransportSpec& transport) {
  const Routing routing(plan, 0);
  const FlowFrames frames = frames_of(transport, transport.payload_mtu);
  Picoseconds longest = 0;
  for (std::uint32_t nic = 1; nic < plan.nics.size(); ++nic) {
    Picoseconds rtt = 0;
    for (const std::uint32_t port : routing.a_path(0, nic)) {
      const NetworkPlan::Link& link = plan.links[port / 2];
      rtt += transmission(link.spec, frames.full) + transmission(link.spec, frames.ack) +
             2 * link.spec.delay + link.latency_a + link.latency_b;
    }
    longest = std::max(longest, rtt);
  }
  const std::uint64_t bytes = bytes_in(longest, fastest_host_link(plan));
  return (bytes + frames.full - 1) / frames.full * frames.full;
}

std::vector<PortLimits> port_limits(const SwitchSpec& asked, const SwitchSpec& derived,
                                    const NetworkPlan& plan) {
  const bool has_own = std::any_of(
      plan.links.begin(), plan.links.end(),
      [](const NetworkPlan::Link& link) { return link.queue_a != 0 || link.queue_b != 0; });
  if (!has_own) return {};
  std::vector<PortLimits> out;
  const auto add = [&](std::uint64_t own) {
    SwitchSpec port = derived;
    if (own != 0) {
      port.queue_bytes = own;
      port.kmin_bytes = asked.kmin_bytes;
      port.kmax_bytes = asked.kmax_bytes;
      set_thresholds(port);
    }
    out.push_back({.queue_bytes = port.queue_bytes,
                   .kmin_bytes = port.kmin_bytes,
                   .kmax_bytes = port.kmax_bytes});
  };
  for (const NetworkPlan::Link& link : plan.links) {
    add(link.queue_a);
    add(link.queue_b);
  }
  return out;
}

SwitchSpec derive(const SwitchSpec& spec, const NetworkPlan& plan, const TransportSpec& transport) {
  SwitchSpec out = spec;
  if (out.queue_bytes == 0) out.queue_bytes = bandwidth_delay_bytes(plan, transport);
  if (out.control_bytes == 0) out.control_bytes = out.queue_bytes;
  set_thresholds(out);
  if (out.xoff_bytes == 0) out.xoff_bytes = out.queue_bytes / 2;
  if (out.xon_bytes == 0) out.xon_bytes = out.xoff_bytes / 5 * 4;
  if (out.headroom_bytes != 0) return out;
  // What is on a link, there and back, until a pause takes hold; a packet begun at each end.
  const std::uint64_t full = frames_of(transport, transport.payload_mtu).full;
  for (const NetworkPlan::Link& link : plan.links) {
    const Picoseconds round = 2 * link.spec.delay + link.latency_a + link.latency_b;
    const std::uint64_t need = bytes_in(round, link.spec.rate_bps) + 3 * full + 128;
    out.headroom_bytes = std::max(out.headroom_bytes, need);
  }
  return out;
}

// Several events a slot when every port is busy, and one turn of the wheel until most of what a
// port plans.
EventListShape event_list_shape(const NetworkPlan& plan, const TransportSpec& transport) {
  constexpr unsigned kTurnBits = 22;  // 4 us
  const FlowFrames frames = frames_of(transport, transport.payload_mtu);
  LinkSpec link;
  link.rate_bps = std::max<std::uint64_t>(fastest_host_link(plan), 1);
  const auto packet_ps = static_cast<std::uint64_t>(transmission(link, frames.full));
  const std::uint64_t per_event = packet_ps / std::max<std::size_t>(plan.links.size() * 2, 1);
  EventListShape shape;
  shape.slot_bits = std::clamp(static_cast<unsigned>(std::bit_width(per_event)), 5U, 18U);
  shape.wheel_bits = std::clamp(kTurnBits - std::min(shape.slot_bits, kTurnBits), 12U, 16U);
  return shape;
}

}  // namespace spindrift::sim
