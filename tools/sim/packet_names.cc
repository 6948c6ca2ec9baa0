#include "tools/sim/packet_names.h"

#include <algorithm>
#include <cstring>

#include "sim/lane_packet.h"
#include "sim/packet_pool.h"
#include "tools/sim/text.h"
#include "transport/base/edit_distance.h"
#include "transport/wire/pds.h"

namespace spindrift::simtool {

std::vector<std::string> link_names(const sim::NetworkPlan& plan) {
  std::vector<std::string> out;
  for (std::uint32_t port = 0; port < 2 * plan.links.size(); ++port)
    out.push_back(
        cat(plan.nodes[plan.near_end(port)].name, ">", plan.nodes[plan.far_end(port)].name));
  return out;
}

std::string no_such_link(const std::string& name, std::span<const std::string> names) {
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
        return edit_distance(a, name) < edit_distance(b, name);
      });
  return cat("there is no such link; the nearest is ", *nearest,
             " (a link has a name for each direction)");
}

void PacketNames::begin(const sim::NetworkPlan& plan, std::span<const sim::FlowRecord> flows) {
  for (const sim::NetworkPlan::Nic& nic : plan.nics)
    hosts_.push_back(nic.host);
  for (std::uint32_t i = 0; i < flows.size(); ++i)
    flow_of_pair_.emplace(std::pair(flows[i].source, flows[i].destination), i);
}

PacketNames::Named PacketNames::name(const sim::PacketEvent& event) {
  Named out;
  if (event.packet->traffic == sim::TrafficClass::kPause) {
    out.type = "pause";
    return out;
  }
  if (event.packet->is_lane) return name_of_lane(event);
  wire::Pds pds;
  if (wire::parse_pds(event.payload, pds) != wire::ParseError::kOk) return out;
  const std::uint32_t from = hosts_[event.packet->source];
  const std::uint32_t to = hosts_[event.packet->destination];
  if (const auto* request = std::get_if<wire::RudRequest>(&pds.header)) {
    out = {.type = "data", .flow = first_flow(from, to), .psn = request->psn, .has_psn = true};
    flow_of_pdcid_.try_emplace({from, request->spdcid}, out.flow);
  } else if (const auto* ack = std::get_if<wire::Ack>(&pds.header)) {
    out = {.type = "ack", .flow = find(to, ack->dpdcid), .psn = ack->cack_psn, .has_psn = true};
    if (!ack->is_probe) out.psn += static_cast<std::uint32_t>(std::int32_t{ack->ack_psn_offset});
  } else if (const auto* nack = std::get_if<wire::Nack>(&pds.header)) {
    out = {.type = "nack", .flow = find(to, nack->dpdcid), .psn = nack->psn, .has_psn = true};
  } else {
    const auto& control = std::get<wire::Control>(pds.header);
    out = {.type = "control", .flow = find(from, control.spdcid)};
    if (out.flow == kNoFlow) out.flow = find(to, control.dpdcid);
  }
  return out;
}

PacketNames::Named PacketNames::name_of_lane(const sim::PacketEvent& event) const {
  sim::LaneHeader header;
  std::memcpy(&header, event.payload.data(), sizeof(header));
  const std::uint32_t from = hosts_[event.packet->source];
  const std::uint32_t to = hosts_[event.packet->destination];
  Named out{.psn = static_cast<std::uint32_t>(header.psn), .has_psn = true};
  out.flow = first_flow(from, to);
  if (out.flow == kNoFlow) out.flow = first_flow(to, from);
  const bool is_data = header.message_kind == sim::LaneMessageKind::kMessage ||
                       header.message_kind == sim::LaneMessageKind::kReadData;
  if (header.kind == sim::LanePacketKind::kData)
    out.type = is_data ? "data" : "control";
  else
    out.type = header.kind == sim::LanePacketKind::kAck ? "ack" : "nack";
  return out;
}

std::uint32_t PacketNames::first_flow(std::uint32_t source, std::uint32_t destination) const {
  const auto found = flow_of_pair_.find({source, destination});
  return found == flow_of_pair_.end() ? kNoFlow : found->second;
}

std::uint32_t PacketNames::find(std::uint32_t host, std::uint16_t pdcid) const {
  const auto found = flow_of_pdcid_.find({host, pdcid});
  return found == flow_of_pdcid_.end() ? kNoFlow : found->second;
}

}  // namespace spindrift::simtool
