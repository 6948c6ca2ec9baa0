#include "sim/topology_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spindrift::sim {
namespace {

using Complaints = std::vector<Complaint>;

struct Tier {
  std::uint64_t gbps = 0;
  std::uint64_t down_latency_ns = 0;
  std::uint64_t switch_latency_ns = 0;
  std::uint64_t radix_down = 0;
  std::uint64_t radix_up = 0;
  std::uint64_t bundle = 1;
  std::uint64_t oversubscribed = 0;  // 0: not given
  std::uint64_t queue_down = 0;
  std::uint64_t queue_up = 0;
};

struct File {
  std::uint64_t nodes = 0;
  std::uint64_t tiers = 0;
  std::uint64_t pod = 0;
  std::array<Tier, 3> tier{};
};

struct Bounds {
  std::uint64_t* field = nullptr;
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// A queue of bytes holds at least a packet; a smaller number was meant in packets.
constexpr std::uint64_t kLeastQueueBytes = 1024;
constexpr std::uint64_t kMostQueueBytes = 1ULL << 40U;

Bounds field_of(File& file, Tier* tier, std::string_view key) {
  if (tier == nullptr) {
    if (key == "nodes") return {&file.nodes, 2, 65536};
    if (key == "tiers") return {&file.tiers, 2, 3};
    if (key == "podsize") return {&file.pod, 1, 65536};
    return {};
  }
  if (key == "downlink_speed_gbps") return {&tier->gbps, 1, 10000};
  if (key == "downlink_latency_ns") return {&tier->down_latency_ns, 0, 1'000'000'000};
  if (key == "switch_latency_ns") return {&tier->switch_latency_ns, 0, 1'000'000'000};
  if (key == "radix_down") return {&tier->radix_down, 1, 4096};
  if (key == "radix_up") return {&tier->radix_up, 1, 4096};
  if (key == "oversubscribed") return {&tier->oversubscribed, 1, 1000};
  if (key == "bundle") return {&tier->bundle, 1, 64};
  if (key == "queue_down") return {&tier->queue_down, kLeastQueueBytes, kMostQueueBytes};
  if (key == "queue_up") return {&tier->queue_up, kLeastQueueBytes, kMostQueueBytes};
  return {};
}

Complaint complain(std::string_view name, std::size_t line, std::string_view value,
                   std::string limit) {
  return {.key = absl::StrCat(std::string(name), ":", line),
          .value = std::string(value),
          .limit = std::move(limit)};
}

Complaints read_lines(std::string_view text, std::string_view name, File& file) {
  Complaints out;
  Tier* tier = nullptr;
  std::size_t number = 0;
  for (const absl::string_view raw :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw.substr(0, raw.find('#')));
    if (line.empty()) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    std::uint64_t value = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[1], &value)) {
      out.push_back(
          complain(name, number, {line.data(), line.size()}, "must be a key and a whole number"));
      continue;
    }
    const std::string key = absl::AsciiStrToLower(words[0]);
    if (key == "tier") {
      if (value > 2)
        out.push_back(complain(name, number, words[1], "a tier is 0, 1 or 2"));
      else
        tier = &file.tier[value];
      continue;
    }
    const Bounds bounds = field_of(file, tier, key);
    if (bounds.field == nullptr)
      out.push_back(complain(name, number, words[0], "is no key of a topology file here"));
    else if (value < bounds.low || value > bounds.high)
      out.push_back(complain(name, number, words[1],
                             absl::StrCat(words[0], " must be ", bounds.low, "..", bounds.high)));
    else
      *bounds.field = value;
  }
  return out;
}

LinkSpec down_link(const Tier& tier) {
  return {.rate_bps = tier.gbps * 1'000'000'000,
          .delay = static_cast<Picoseconds>(tier.down_latency_ns) * kNanosecond};
}

struct Counts {
  std::uint64_t leaves = 0;
  std::uint64_t aggs = 0;  // the spines where there are two tiers
  std::uint64_t cores = 0;
  std::uint64_t pods = 1;
};

// Oversubscription is capacity down by capacity up. It gives Radix_Up where the file does not, and
// must agree with it where it does.
Complaints settle_oversubscription(File& file, std::string_view name) {
  Complaints out;
  for (std::size_t t = 0; t + 1 < file.tiers; ++t) {
    Tier& tier = file.tier[t];
    if (tier.oversubscribed == 0) continue;
    const std::uint64_t down_gbps = tier.radix_down * tier.gbps;
    const std::uint64_t up_gbps = tier.oversubscribed * file.tier[t + 1].gbps;
    if (up_gbps == 0) continue;  // that is told of elsewhere
    if (tier.radix_up == 0 && down_gbps % up_gbps == 0) tier.radix_up = down_gbps / up_gbps;
    if (tier.radix_up * up_gbps != down_gbps)
      out.push_back({.key = absl::StrCat(std::string(name), ": Tier ", t, " Oversubscribed"),
                     .value = absl::StrCat(tier.oversubscribed),
                     .limit = absl::StrCat("does not fit: ", tier.radix_down, " ports down of ",
                                           tier.gbps, " Gb/s, ", tier.radix_up, " up of ",
                                           file.tier[t + 1].gbps, " Gb/s")});
  }
  return out;
}

Complaints check(const File& file, std::string_view name, Counts& counts) {
  Complaints out;
  const auto need = [&](bool holds, std::string_view key, std::uint64_t value, std::string limit) {
    if (!holds)
      out.push_back({.key = absl::StrCat(std::string(name), ": ", std::string(key)),
                     .value = absl::StrCat(value),
                     .limit = std::move(limit)});
  };
  need(file.nodes != 0, "Nodes", file.nodes, "must be given");
  need(file.tiers != 0, "Tiers", file.tiers, "must be given, 2 or 3");
  if (!out.empty()) return out;
  const Tier& t0 = file.tier[0];
  const Tier& t1 = file.tier[1];
  need(t0.radix_down != 0, "Tier 0 Radix_Down", 0, "must be given");
  need(t0.radix_up != 0, "Tier 0 Radix_Up", 0, "must be given");
  need(t0.gbps != 0, "Tier 0 Downlink_speed_Gbps", 0, "must be given");
  need(t1.gbps != 0, "Tier 1 Downlink_speed_Gbps", 0, "must be given");
  need(t1.radix_down != 0, "Tier 1 Radix_Down", 0, "must be given");
  if (file.tiers == 3) {
    need(file.tier[2].gbps != 0, "Tier 2 Downlink_speed_Gbps", 0, "must be given");
    need(t1.radix_up != 0, "Tier 1 Radix_Up", 0, "must be given");
    need(file.pod != 0 && file.nodes % file.pod == 0, "Podsize", file.pod, "must divide Nodes");
  }
  if (!out.empty()) return out;
  need(file.nodes % t0.radix_down == 0, "Nodes", file.nodes,
       "must be a multiple of tier 0's Radix_Down");
  if (!out.empty()) return out;
  counts.leaves = file.nodes / t0.radix_down;
  counts.pods = file.tiers == 3 ? file.nodes / file.pod : 1;
  const std::uint64_t leaves_per_pod = counts.leaves / counts.pods;
  need(leaves_per_pod * t0.radix_down * counts.pods == file.nodes, "Podsize", file.pod,
       "must be a multiple of tier 0's Radix_Down");
  if (!out.empty()) return out;
  need(t0.radix_up % t1.bundle == 0, "Tier 1 Bundle", t1.bundle, "must divide tier 0's Radix_Up");
  need(leaves_per_pod * t0.radix_up % t1.radix_down == 0, "Tier 1 Radix_Down", t1.radix_down,
       "must divide the links that come up from a pod's leaves");
  if (!out.empty()) return out;
  const std::uint64_t aggs_per_pod = leaves_per_pod * t0.radix_up / t1.radix_down;
  need(aggs_per_pod * t1.bundle == t0.radix_up, "Tier 0 Radix_Up", t0.radix_up,
       absl::StrCat("must be the number of tier 1 switches in a pod (", aggs_per_pod,
                    ") times Bundle"));
  counts.aggs = aggs_per_pod * counts.pods;
  if (file.tiers == 2) return out;
  const std::uint64_t bundle = file.tier[2].bundle;
  need(t1.radix_up % bundle == 0, "Tier 2 Bundle", bundle, "must divide tier 1's Radix_Up");
  if (out.empty()) counts.cores = aggs_per_pod * (t1.radix_up / bundle);
  return out;
}

void connect_bundle(NetworkPlan& plan, std::uint32_t a, std::uint32_t b, const Tier& below,
                    const Tier& above) {
  for (std::uint64_t i = 0; i < above.bundle; ++i) {
    const std::uint32_t link = plan.connect(a, b, down_link(above), 0);
    plan.links[link].latency_a = static_cast<Picoseconds>(below.switch_latency_ns) * kNanosecond;
    plan.links[link].latency_b = static_cast<Picoseconds>(above.switch_latency_ns) * kNanosecond;
    plan.links[link].queue_a = below.queue_up;
    plan.links[link].queue_b = above.queue_down;
  }
}

NetworkPlan build(const File& file, const Counts& counts) {
  NetworkPlan plan;
  plan.hosts = static_cast<std::uint32_t>(file.nodes);
  for (std::uint32_t i = 0; i < plan.hosts; ++i)
    plan.nodes.push_back({.name = absl::StrCat("host", i), .is_switch = false});
  std::vector<std::uint32_t> leaves;
  std::vector<std::uint32_t> aggs;
  std::vector<std::uint32_t> cores;
  for (std::uint64_t i = 0; i < counts.leaves; ++i)
    leaves.push_back(plan.add_switch(absl::StrCat("leaf", i)));
  for (std::uint64_t i = 0; i < counts.aggs; ++i)
    aggs.push_back(plan.add_switch(absl::StrCat(file.tiers == 2 ? "spine" : "agg", i)));
  for (std::uint64_t i = 0; i < counts.cores; ++i)
    cores.push_back(plan.add_switch(absl::StrCat("core", i)));
  const Tier& t0 = file.tier[0];
  for (std::uint32_t i = 0; i < plan.hosts; ++i) {
    const std::uint32_t link = plan.connect(i, leaves[i / t0.radix_down], down_link(t0), 0);
    plan.links[link].latency_b = static_cast<Picoseconds>(t0.switch_latency_ns) * kNanosecond;
    plan.links[link].queue_b = t0.queue_down;
    plan.nics.push_back({.host = i, .port = 2 * link});
  }
  const std::uint64_t leaves_per_pod = counts.leaves / counts.pods;
  const std::uint64_t aggs_per_pod = counts.aggs / counts.pods;
  for (std::uint64_t leaf = 0; leaf < counts.leaves; ++leaf)
    for (std::uint64_t i = 0; i < aggs_per_pod; ++i)
      connect_bundle(plan, leaves[leaf], aggs[leaf / leaves_per_pod * aggs_per_pod + i], t0,
                     file.tier[1]);
  if (counts.cores == 0) return plan;
  const std::uint64_t cores_per_agg = counts.cores / aggs_per_pod;
  for (std::uint64_t agg = 0; agg < counts.aggs; ++agg)
    for (std::uint64_t i = 0; i < cores_per_agg; ++i)
      connect_bundle(plan, aggs[agg], cores[agg % aggs_per_pod * cores_per_agg + i], file.tier[1],
                     file.tier[2]);
  return plan;
}

}  // namespace

std::variant<NetworkPlan, Complaints> parse_topology(std::string_view text, std::string_view name) {
  File file;
  Complaints out = read_lines(text, name, file);
  if (!out.empty()) return out;
  out = settle_oversubscription(file, name);
  if (!out.empty()) return out;
  Counts counts;
  out = check(file, name, counts);
  if (!out.empty()) return out;
  return build(file, counts);
}

std::variant<NetworkPlan, Complaints> read_topology_file(const TopologySpec& spec) {
  std::ifstream in(spec.file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return Complaints{
        {.key = "topology.file", .value = spec.file, .limit = "must be a file that can be read"}};
  return parse_topology(text.str(), spec.file);
}

}  // namespace spindrift::sim
