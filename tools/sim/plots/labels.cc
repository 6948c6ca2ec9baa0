// Names and notes that plots share.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/sim/plots/parts.h"

namespace spindrift::simtool {
namespace {

using sim::FaultSpec;
using sim::Picoseconds;

std::string link_name(const FaultSpec& fault) {
  if (fault.to.empty()) return absl::StrCat(fault.from, ", all links");
  return absl::StrCat(fault.from, fault.is_both_ways ? "–" : "→", fault.to);
}

bool is_same_link(const FaultSpec& a, const FaultSpec& b) {
  return a.from == b.from && a.to == b.to;
}

bool is_over(const FaultSpec& fault) {
  switch (fault.kind) {
    case FaultSpec::Kind::kUp:
      return true;
    case FaultSpec::Kind::kRate:
      return fault.value >= 1;
    case FaultSpec::Kind::kLoss:
      return fault.value <= 0;
    case FaultSpec::Kind::kDown:
    case FaultSpec::Kind::kFlap:
      return false;
  }
  return false;
}

// What a later fault on the same link puts an end to.
bool ends(const FaultSpec& later, const FaultSpec& fault) {
  if (!is_same_link(later, fault)) return false;
  if (fault.kind == FaultSpec::Kind::kDown) return later.kind == FaultSpec::Kind::kUp;
  return later.kind == fault.kind;
}

std::string fault_label(const FaultSpec& fault) {
  const std::string share = chart::format_value(chart::Quantity::kShare, fault.value);
  switch (fault.kind) {
    case FaultSpec::Kind::kDown:
      return absl::StrCat(link_name(fault), " down");
    case FaultSpec::Kind::kRate:
      return absl::StrCat(link_name(fault), " at ", share, " of its rate");
    case FaultSpec::Kind::kLoss:
      return absl::StrCat(link_name(fault), " loses ", share);
    case FaultSpec::Kind::kFlap:
      return absl::StrCat(link_name(fault), " flaps");
    case FaultSpec::Kind::kUp:
      return {};
  }
  return {};
}

}  // namespace

chart::Axis time_axis(const PlotInput& input) {
  return {.title = "Time since the start",
          .quantity = chart::Quantity::kTime,
          .from = 0,
          .to = static_cast<double>(std::max<Picoseconds>(input.results.simulated, 1))};
}

bool is_alone(const PlotInput& input, std::uint32_t flow) {
  const sim::FlowRecord& record = input.results.flows[flow];
  return input.flows_of_pair.at({record.source, record.destination}) == 1;
}

std::string flow_name(const PlotInput& input, std::uint32_t flow) {
  const sim::FlowRecord& record = input.results.flows[flow];
  std::string name = absl::StrCat("host", record.source, "→host", record.destination);
  if (!is_alone(input, flow)) absl::StrAppend(&name, " (flow ", flow, ")");
  return name;
}

std::string port_name(const sim::PortRecord& port) {
  return absl::StrCat(port.from, "→", port.to);
}

std::string unfinished_note(const sim::Results& results) {
  const auto unfinished =
      std::count_if(results.flows.begin(), results.flows.end(),
                    [](const sim::FlowRecord& flow) { return !flow.is_done(); });
  if (unfinished == 0) return {};
  return absl::StrCat("; ", unfinished, " of ", results.flows.size(), " flows did not finish");
}

Plot without_series(std::string name, std::string title) {
  return {.name = std::move(name),
          .title = std::move(title),
          .missing = "There is no time series: set sample_every, for example to 1 us."};
}

std::vector<chart::Span> fault_spans(const sim::Scenario& scenario, Picoseconds end) {
  std::vector<chart::Span> spans;
  const auto add = [&](const FaultSpec& fault, Picoseconds from, Picoseconds to) {
    if (from <= end)
      spans.push_back({.from = static_cast<double>(from),
                       .to = static_cast<double>(std::min(to, end)),
                       .label = fault_label(fault)});
  };
  for (const FaultSpec& fault : scenario.faults) {
    if (is_over(fault)) continue;
    if (fault.kind == FaultSpec::Kind::kFlap) {
      const Picoseconds period = std::max<Picoseconds>(fault.down_for + fault.up_for, 1);
      for (std::uint32_t n = 0; n < fault.times && fault.at + n * period <= end; ++n)
        add(fault, fault.at + n * period, fault.at + n * period + fault.down_for);
      continue;
    }
    Picoseconds until = end;
    for (const FaultSpec& later : scenario.faults)
      if (later.at > fault.at && ends(later, fault)) until = std::min(until, later.at);
    add(fault, fault.at, until);
  }
  return spans;
}

}  // namespace spindrift::simtool
