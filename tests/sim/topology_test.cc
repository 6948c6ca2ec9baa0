#include "sim/topology.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "sim/derive.h"
#include "sim/routing.h"
#include "sim/topology_file.h"

namespace spindrift::sim {
namespace {

NetworkPlan plan_of(const TopologySpec& spec) {
  auto planned = plan_network(spec);
  if (const auto* complaints = std::get_if<std::vector<Complaint>>(&planned)) {
    for (const Complaint& one : *complaints)
      ADD_FAILURE() << to_string(one);
    return {};
  }
  return std::get<NetworkPlan>(planned);
}

std::size_t count_switches(const NetworkPlan& plan, std::string_view tier) {
  return static_cast<std::size_t>(
      std::count_if(plan.nodes.begin(), plan.nodes.end(), [tier](const NetworkPlan::Node& node) {
        return node.is_switch && node.name.find(tier) != std::string::npos;
      }));
}

// Every NIC reaches every other of its plane in as many links as `links` allows.
void expect_connected(const NetworkPlan& plan, std::uint32_t planes, std::uint32_t links) {
  const Routing routing(plan, 1);
  for (std::uint32_t a = 0; a < plan.nics.size(); ++a)
    for (std::uint32_t b = 0; b < plan.nics.size(); ++b) {
      if (a == b) continue;
      if (a % planes != b % planes) {
        EXPECT_EQ(routing.path_links(a, b), 0U);
        continue;
      }
      EXPECT_GE(routing.path_links(a, b), 2U);
      EXPECT_LE(routing.path_links(a, b), links);
    }
}

TEST(Topology, LeafSpineHasTheSpinesThatOversubscriptionLeaves) {
  TopologySpec spec;
  spec.hosts = 32;
  spec.hosts_per_leaf = 8;
  EXPECT_EQ(count_switches(plan_of(spec), "spine"), 8U);
  spec.oversubscription = 4;
  const NetworkPlan plan = plan_of(spec);
  EXPECT_EQ(count_switches(plan, "leaf"), 4U);
  EXPECT_EQ(count_switches(plan, "spine"), 2U);
  EXPECT_EQ(plan.links.size(), 32U + 4 * 2);
  expect_connected(plan, 1, 4);
}

TEST(Topology, FatTreeOfRadixFourHasSixteenHostsAndFourCores) {
  TopologySpec spec;
  spec.name = "fat_tree";
  spec.hosts = 0;
  const NetworkPlan plan = plan_of(spec);
  EXPECT_EQ(plan.hosts, 16U);
  EXPECT_EQ(count_switches(plan, "core"), 4U);
  EXPECT_EQ(plan.links.size(), 48U);
  expect_connected(plan, 1, 6);
}

// NICs of one rail and group meet at one leaf; others are two leaves apart.
TEST(Topology, RailKeepsNicsOfOneRailTogether) {
  TopologySpec spec;
  spec.name = "rail";
  spec.hosts = 64;
  spec.rails = 8;
  spec.hosts_per_leaf = 4;
  const NetworkPlan plan = plan_of(spec);
  const Routing routing(plan, 1);
  EXPECT_EQ(routing.path_links(0, 8), 2U);
  EXPECT_EQ(routing.path_links(0, 24), 2U);
  EXPECT_EQ(routing.path_links(0, 32), 4U);
  EXPECT_EQ(routing.path_links(0, 1), 4U);
  expect_connected(plan, 1, 4);
}

TEST(Topology, PlanesAreNetworksOfTheirOwn) {
  TopologySpec spec;
  spec.name = "multi_plane";
  spec.hosts = 8;
  spec.planes = 2;
  const NetworkPlan plan = plan_of(spec);
  EXPECT_EQ(plan.nics.size(), 16U);
  EXPECT_EQ(plan.links[plan.nics[0].port / 2].spec.rate_bps, 50'000'000'000U);
  expect_connected(plan, 2, 4);
}

TEST(Topology, RefusesWhatCannotBeBuilt) {
  TopologySpec spec;
  spec.hosts = 10;
  spec.hosts_per_leaf = 4;
  const auto planned = plan_network(spec);
  ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(planned));
  const auto& complaints = std::get<std::vector<Complaint>>(planned);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_EQ(complaints[0].key, "topology.hosts");
  EXPECT_EQ(complaints[0].value, "10");

  spec.hosts = 8;
  spec.oversubscription = 3;
  const auto uneven = plan_network(spec);
  ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(uneven));
  EXPECT_EQ(std::get<std::vector<Complaint>>(uneven)[0].key, "topology.oversubscription");
}

TEST(Routing, SpreadsPathsOverAllSpines) {
  TopologySpec spec;
  spec.hosts = 32;
  spec.hosts_per_leaf = 8;
  const NetworkPlan plan = plan_of(spec);
  const Routing routing(plan, 1);
  const std::uint32_t leaf = routing.edge_of(0);
  std::vector<int> uses(2 * plan.links.size(), 0);
  for (std::uint32_t hash = 0; hash < 8000; ++hash)
    ++uses[routing.choose(leaf, 31, routing.edge_of(31), hash * 2654435761U)];
  std::set<int> used(uses.begin(), uses.end());
  used.erase(0);
  EXPECT_EQ(std::count_if(uses.begin(), uses.end(), [](int n) { return n != 0; }), 8);
  EXPECT_GT(*used.begin(), 850);
  EXPECT_LT(*used.rbegin(), 1150);
}

TEST(TopologyFile, ReadsTwoTiers) {
  const auto planned = parse_topology(
      "# comment\nNodes 8\nTiers 2\nPodsize 8\n\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 4\n"
      "Radix_Up 2\nDownlink_Latency_ns 500\nSwitch_Latency_ns 10\nTier 1\n"
      "Downlink_speed_Gbps 400\nRadix_Down 2\nDownlink_Latency_ns 700\nSwitch_Latency_ns 20\n",
      "x.topo");
  ASSERT_TRUE(std::holds_alternative<NetworkPlan>(planned));
  const auto& plan = std::get<NetworkPlan>(planned);
  EXPECT_EQ(count_switches(plan, "leaf"), 2U);
  EXPECT_EQ(count_switches(plan, "spine"), 2U);
  EXPECT_EQ(plan.links[0].spec.rate_bps, 200'000'000'000U);
  EXPECT_EQ(plan.links[0].spec.delay, 500 * kNanosecond);
  EXPECT_EQ(plan.links[0].latency_b, 10 * kNanosecond);
  const NetworkPlan::Link& up = plan.links.back();
  EXPECT_EQ(up.spec.rate_bps, 400'000'000'000U);
  EXPECT_EQ(up.latency_a, 10 * kNanosecond);
  EXPECT_EQ(up.latency_b, 20 * kNanosecond);
  expect_connected(plan, 1, 4);
}

TEST(TopologyFile, ReadsThreeTiersWithBundles) {
  const auto planned = parse_topology(
      "Nodes 16\nTiers 3\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 4\n"
      "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 4\nBundle 2\n"
      "Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 2\nBundle 1\n",
      "x.topo");
  ASSERT_TRUE(std::holds_alternative<NetworkPlan>(planned));
  const auto& plan = std::get<NetworkPlan>(planned);
  EXPECT_EQ(count_switches(plan, "agg"), 4U);
  EXPECT_EQ(count_switches(plan, "core"), 8U);
  expect_connected(plan, 1, 6);
}

std::string two_tiers(const std::string& tier0, const std::string& tier1 = "") {
  return "Nodes 16\nTiers 2\nPodsize 16\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\n" + tier0 +
         "Tier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\n" + tier1;
}

TEST(TopologyFile, OversubscriptionStandsForTheLinksUp) {
  // 8 x 100 Gb/s down, 2 x 200 Gb/s up.
  const auto given = parse_topology(two_tiers("Oversubscribed 2\n"), "x.topo");
  ASSERT_TRUE(std::holds_alternative<NetworkPlan>(given));
  EXPECT_EQ(count_switches(std::get<NetworkPlan>(given), "spine"), 2U);
  const auto agreed = parse_topology(two_tiers("Oversubscribed 2\nRadix_Up 2\n"), "x.topo");
  EXPECT_TRUE(std::holds_alternative<NetworkPlan>(agreed));
  for (const char* wrong : {"Oversubscribed 2\nRadix_Up 4\n", "Oversubscribed 3\n"}) {
    const auto refused = parse_topology(two_tiers(wrong), "x.topo");
    ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(refused)) << wrong;
    EXPECT_EQ(std::get<std::vector<Complaint>>(refused)[0].key, "x.topo: Tier 0 Oversubscribed");
  }
}

TEST(TopologyFile, QueuesBelongToTheirPorts) {
  const auto planned = parse_topology(
      two_tiers("Radix_Up 2\nQueue_Down 50000\nQueue_Up 60000\n", "Queue_Down 70000\n"), "x.topo");
  ASSERT_TRUE(std::holds_alternative<NetworkPlan>(planned));
  const auto& plan = std::get<NetworkPlan>(planned);
  EXPECT_EQ(plan.links.front().queue_a, 0U);  // a host's
  EXPECT_EQ(plan.links.front().queue_b, 50'000U);
  EXPECT_EQ(plan.links.back().queue_a, 60'000U);
  EXPECT_EQ(plan.links.back().queue_b, 70'000U);
  SwitchSpec asked;
  asked.kmin_bytes = 1'000;
  const SwitchSpec derived = derive(asked, plan, {});
  const std::vector<PortLimits> limits = port_limits(asked, derived, plan);
  ASSERT_EQ(limits.size(), 2 * plan.links.size());
  EXPECT_EQ(limits[0].queue_bytes, derived.queue_bytes);
  EXPECT_EQ(limits[1].queue_bytes, 50'000U);
  EXPECT_EQ(limits[1].kmin_bytes, 1'000U);
  EXPECT_EQ(limits[1].kmax_bytes, 40'000U);
  // A number of packets would be far below one.
  const auto packets = parse_topology(two_tiers("Radix_Up 2\nQueue_Up 100\n"), "x.topo");
  EXPECT_TRUE(std::holds_alternative<std::vector<Complaint>>(packets));
}

TEST(TopologyFile, NamesTheLineThatItCannotRead) {
  const auto planned = parse_topology("Nodes 8\nTiers two\nWings 4\n", "x.topo");
  ASSERT_TRUE(std::holds_alternative<std::vector<Complaint>>(planned));
  const auto& complaints = std::get<std::vector<Complaint>>(planned);
  ASSERT_EQ(complaints.size(), 2U);
  EXPECT_EQ(complaints[0].key, "x.topo:2");
  EXPECT_EQ(complaints[1].key, "x.topo:3");
  EXPECT_EQ(complaints[1].value, "Wings");
}

}  // namespace
}  // namespace spindrift::sim
