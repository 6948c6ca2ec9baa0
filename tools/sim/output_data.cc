// JSON and CSV for machines. Names carry their units.
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/sim/keys.h"
#include "tools/sim/output.h"
#include "tools/sim/quantities.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

using Json = nlohmann::ordered_json;

Json scenario_json(const ScenarioFile& file) {
  Json out;
  if (!file.title.empty()) out["title"] = file.title;
  for (const std::string& name : key_names(file.scenario))
    out[name] = get_key(file.scenario, name);
  return out;
}

Json flow_json(const sim::FlowRecord& flow) {
  Json out = {{"source", flow.source},
              {"destination", flow.destination},
              {"bytes", flow.bytes},
              {"start_ps", flow.start},
              {"finish_ps", flow.finish},
              {"delivered_ps", flow.delivered},
              {"ideal_ps", flow.ideal},
              {"packets_sent", flow.packets_sent},
              {"retransmits_reordered", flow.retransmits_reordered},
              {"retransmits_trimmed", flow.retransmits_trimmed},
              {"retransmits_timeout", flow.retransmits_timeout},
              {"spurious_retransmits", flow.spurious_retransmits}};
  if (!flow.error.empty()) out["error"] = flow.error;
  return out;
}

Json port_json(const sim::PortRecord& port) {
  const sim::PortCounters& n = port.counters;
  return {{"from", port.from},
          {"to", port.to},
          {"rate_bps", port.rate_bps},
          {"packets", n.packets},
          {"bytes", n.bytes},
          {"drops_full", n.drops_full},
          {"drops_loss", n.drops_loss},
          {"drops_down", n.drops_down},
          {"trims", n.trims},
          {"marks", n.marks},
          {"pauses_received", n.pauses_received},
          {"paused_ps", n.paused},
          {"mean_queue_bytes", n.mean_queue_bytes},
          {"max_queue_bytes", n.max_queue_bytes}};
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  return cat("\"", absl::StrReplaceAll(std::string(text), {{"\"", "\"\""}}), "\"");
}

}  // namespace

Json to_json(const FinishedRun& run) {
  Json out;
  out["scenario"] = scenario_json(run.plan->file);
  out["seed"] = run.plan->file.scenario.seed;
  for (const auto& [key, value] : run.plan->varied)
    out["varied"][key] = value;
  const Summary summary = summarise(run.results);
  for (const Figure& figure : figures())
    out["summary"][std::string(figure.name)] = figure.value(summary);
  out["history"] = absl::StrFormat("%016x", run.results.history);
  out["hops"] = run.results.hops;
  out["events"] = run.results.events;
  out["deadlocks"] = run.results.deadlocks;
  out["flows"] = Json::array();
  for (const sim::FlowRecord& flow : run.results.flows)
    out["flows"].push_back(flow_json(flow));
  out["ports"] = Json::array();
  for (const sim::PortRecord& port : run.results.ports)
    out["ports"].push_back(port_json(port));
  out["path_shares"] = Json::array();
  for (const sim::PathShare& share : run.results.path_shares)
    out["path_shares"].push_back({{"flow", share.flow},
                                  {"path", share.path},
                                  {"packets", share.packets},
                                  {"lost", share.lost},
                                  {"marked", share.marked}});
  return out;
}

std::string summary_csv(std::span<const FinishedRun> runs) {
  if (runs.empty()) return {};
  std::string out;
  for (const auto& [key, value] : runs.front().plan->varied)
    append(out, csv_cell(key), ",");
  append(out, "seed");
  for (const Figure& figure : figures())
    append(out, ",", figure.name);
  out.push_back('\n');
  for (const FinishedRun& run : runs) {
    for (const auto& [key, value] : run.plan->varied)
      append(out, csv_cell(value), ",");
    append(out, run.plan->file.scenario.seed);
    const Summary summary = summarise(run.results);
    for (const Figure& figure : figures())
      append(out, ",", format_number(figure.value(summary)));
    out.push_back('\n');
  }
  return out;
}

std::string flow_series_csv(const sim::Results& results) {
  if (results.flow_samples.empty()) return {};
  std::string out =
      "at_ps,flow,source,destination,received_bytes,window_bytes,pacing_bps,in_flight_bytes,"
      "rtt_ps\n";
  for (const sim::FlowSample& sample : results.flow_samples) {
    const sim::FlowRecord& flow = results.flows[sample.flow];
    absl::StrAppendFormat(&out, "%d,%d,%d,%d,%d,%d,%d,%d,%d\n", sample.at, sample.flow, flow.source,
                          flow.destination, sample.received_bytes, sample.window_bytes,
                          sample.pacing_bps, sample.in_flight_bytes, sample.rtt);
  }
  return out;
}

std::string port_series_csv(const sim::Results& results) {
  if (results.port_samples.empty()) return {};
  std::string out = "at_ps,from,to,queue_bytes,sent_bytes,is_paused\n";
  for (const sim::PortSample& sample : results.port_samples) {
    const sim::PortRecord& port = results.ports[sample.port];
    absl::StrAppendFormat(&out, "%d,%s,%s,%d,%d,%d\n", sample.at, port.from, port.to,
                          sample.queue_bytes, sample.sent_bytes, sample.is_paused ? 1 : 0);
  }
  return out;
}

}  // namespace spindrift::simtool
