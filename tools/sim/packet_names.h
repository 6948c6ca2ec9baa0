#pragma once
// What links and packets of an observed run are called.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/observer.h"

namespace spindrift::simtool {

// "leaf0>host1" of every port, as all outputs name it; parallel links have one name.
std::vector<std::string> link_names(const sim::NetworkPlan& plan);
// What to say of a name that is none of them; they are not empty.
std::string no_such_link(const std::string& name, std::span<const std::string> names);

class PacketNames {
 public:
  void begin(const sim::NetworkPlan& plan, std::span<const sim::FlowRecord> flows);

  static constexpr std::uint32_t kNoFlow = 0xffffffff;
  struct Named {
    std::string_view type = "other";  // data, ack, nack, control, pause
    std::uint32_t flow = kNoFlow;
    std::uint32_t psn = 0;  // of data, or the one that is acknowledged
    bool has_psn = false;
  };
  // Flows of one pair of hosts share a connection: its packets go by the number of the first.
  // Connections are known from their data packets: these must have been shown from the first on.
  Named name(const sim::PacketEvent& event);
  std::uint32_t first_flow(std::uint32_t source, std::uint32_t destination) const;
  std::uint32_t host_of_nic(std::uint32_t nic) const { return hosts_[nic]; }

 private:
  Named name_of_lane(const sim::PacketEvent& event) const;
  std::uint32_t find(std::uint32_t host, std::uint16_t pdcid) const;

  std::vector<std::uint32_t> hosts_;  // by NIC
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> flow_of_pair_;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::uint32_t> flow_of_pdcid_;
};

}  // namespace spindrift::simtool
