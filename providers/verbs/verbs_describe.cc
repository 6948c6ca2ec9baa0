#include "providers/verbs/verbs_describe.h"

#include <array>
#include <cstdio>

#include "providers/verbs/verbs_greeting.h"

namespace spindrift {
namespace {

std::string state_of(const VerbsPort& port) {
  std::string out = port.attributes().state == IBV_PORT_ACTIVE
                        ? "active"
                        : ibv_port_state_str(port.attributes().state);
  if (port.device().fw_ver[0] != '\0') out.append(", firmware ").append(port.device().fw_ver);
  return out;
}

std::string link_of(const VerbsPort& port) {
  std::array<char, 32> rate{};
  std::snprintf(rate.data(), rate.size(), "%g Gb/s",
                static_cast<double>(port.link_rate().bits_per_second()) / 1e9);
  std::string out = port.is_infiniband() ? "InfiniBand" : "Ethernet (RoCE)";
  if (!port.link_rate().is_unlimited()) out.append(", ").append(rate.data());
  if (port.is_infiniband()) out += ", LID " + std::to_string(port.attributes().lid);
  return out;
}

std::string mtu_of(const VerbsPort& port, const VerbsOptions& options) {
  const std::uint32_t active = mtu_bytes(static_cast<std::uint8_t>(port.attributes().active_mtu));
  const std::uint32_t most = mtu_bytes(static_cast<std::uint8_t>(port.attributes().max_mtu));
  std::string out =
      std::to_string(active) + " bytes of payload; the port's most: " + std::to_string(most);
  if (options.mtu < active) out += "; mtu=" + std::to_string(options.mtu) + " says less";
  return out;
}

void describe_gids(const VerbsPort& port, const VerbsOptions& options,
                   std::vector<VerbsFact>& out) {
  const GidWish wish{.index = options.gid_index,
                     .address = options.gid_address,
                     .origin = options.gid_origin,
                     .peer = {}};
  const auto chosen = port.choose(wish);
  out.push_back(
      {port.describe(), "GID", chosen.ok() ? chosen.value().reason : chosen.error().message()});
  for (const GidEntry& entry : port.gids()) {
    const GidRank rank = rank_gid(entry, wish);
    const bool is_chosen = chosen.ok() && chosen.value().entry.index == entry.index;
    out.push_back({port.describe(), is_chosen ? "  chosen" : "  also there",
                   to_string(entry) + ", score " + std::to_string(rank.score) + " of " +
                       std::to_string(kBestGidScore) + (rank.lacks.empty() ? "" : ": ") +
                       rank.lacks});
  }
}

}  // namespace

std::string describe_paths(VerbsTransport transport, bool is_infiniband, std::uint32_t lanes) {
  const std::string count = std::to_string(lanes);
  if (transport == VerbsTransport::kUd)
    return "1: the device gives all datagrams of a queue pair one UDP source port";
  if (is_infiniband)
    return "1 for " + count + " lanes: one LID, unless the subnet routes adaptively";
  return count + ": each lane's queue pair has a UDP source port of its own";
}

Result<std::vector<VerbsFact>> describe_verbs(const VerbsOptions& options) {
  const auto found = VerbsPort::look(options);
  if (!found.ok()) return found.error();
  std::vector<VerbsFact> out;
  for (const VerbsPort::Found& one : found.value()) {
    if (!one.port) {
      out.push_back({one.device, "state", one.trouble});
      continue;
    }
    const VerbsPort& port = *one.port;
    const std::string name = port.describe();
    out.push_back({name, "state", state_of(port)});
    out.push_back({name, "link", link_of(port)});
    out.push_back({name, "MTU", mtu_of(port, options)});
    describe_gids(port, options, out);
    for (const VerbsTransport transport :
         {VerbsTransport::kRc, VerbsTransport::kUc, VerbsTransport::kUd})
      out.push_back({name, "paths, " + std::string(to_string(transport)),
                     describe_paths(transport, port.is_infiniband(), options.lanes)});
  }
  return out;
}

}  // namespace spindrift
