#include "sim/flow_files.h"

#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace spindrift::sim {
namespace {

using Complaints = std::vector<Complaint>;
using Words = std::vector<std::string>;

constexpr std::uint64_t kMaxFlowBytes = 1ULL << 40;
constexpr std::uint64_t kMaxStartUs = 1'000'000'000;

class Reader {
 public:
  Reader(std::string_view name, std::uint32_t hosts) : name_(name), hosts_(hosts) {}

  void complain(std::string_view value, std::string limit) {
    complaints.push_back({.key = absl::StrCat(name_, ":", line),
                          .value = std::string(value),
                          .limit = std::move(limit)});
  }
  bool number(const std::string& word, std::uint64_t high, std::uint64_t& out) {
    if (absl::SimpleAtoi(word, &out) && out <= high) return true;
    complain(word, absl::StrCat("must be a whole number 0..", high));
    return false;
  }
  bool host(const std::string& word, std::uint32_t& out) {
    std::uint64_t value = 0;
    if (!number(word, hosts_ - 1, value)) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }
  bool add(const FlowPlan& flow) {
    if (flow.source == flow.destination) {
      complain(absl::StrCat(flow.source), "sends to itself");
      return false;
    }
    if (flow.bytes == 0) {
      complain("0", "a flow needs at least one byte");
      return false;
    }
    flows.push_back(flow);
    return true;
  }
  // Calls `use` for every line that holds something.
  template <class Use>
  void each_line(std::string_view text, Use use) {
    for (const absl::string_view raw :
         absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
      ++line;
      const absl::string_view body = absl::StripAsciiWhitespace(raw.substr(0, raw.find('#')));
      if (!body.empty())
        use(Words(absl::StrSplit(body, absl::ByAnyChar(" \t"), absl::SkipEmpty())));
    }
  }
  FlowFile result() {
    if (!complaints.empty()) return complaints;
    return std::move(flows);
  }
  std::uint32_t hosts() const { return hosts_; }

  std::size_t line = 0;
  FlowPlans flows;
  Complaints complaints;

 private:
  std::string name_;
  std::uint32_t hosts_;
};

struct Trigger {
  std::vector<std::uint32_t> starts;    // flows that wait for it
  std::vector<std::uint32_t> finishes;  // flows that pull it, when the sender is done
  std::vector<std::uint32_t> deliveries;
  std::uint64_t count = 1;  // pulls that it needs
  bool is_declared = false;
};
using Triggers = std::map<std::uint64_t, Trigger>;

void read_trigger(Reader& in, const Words& words, Triggers& triggers) {
  std::uint64_t id = 0;
  if (words.size() < 4 || words[1] != "id" || !in.number(words[2], UINT32_MAX, id)) {
    in.complain(absl::StrJoin(words, " "), "must be: trigger id N oneshot|multishot|barrier");
    return;
  }
  Trigger& trigger = triggers[id];
  trigger.is_declared = true;
  if (words[3] == "oneshot" || words[3] == "multishot") return;
  if (words[3] != "barrier" || words.size() != 6 || words[4] != "count")
    in.complain(words[3], "must be oneshot, multishot, or barrier count N");
  else
    in.number(words[5], UINT32_MAX, trigger.count);
}

void read_connection(Reader& in, const Words& words, Triggers& triggers) {
  FlowPlan flow;
  const std::size_t arrow = words[0].find("->");
  if (!in.host(words[0].substr(0, arrow), flow.source) ||
      !in.host(words[0].substr(arrow + 2), flow.destination))
    return;
  const auto index = static_cast<std::uint32_t>(in.flows.size());
  for (std::size_t i = 1; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      in.complain(words[i], "lacks its value");
      return;
    }
    const std::string& key = words[i];
    std::uint64_t value = 0;
    const std::uint64_t high = key == "size"    ? kMaxFlowBytes
                               : key == "start" ? kMaxStartUs
                                                : UINT32_MAX;
    if (!in.number(words[i + 1], high, value)) return;
    if (key == "start")
      flow.start = static_cast<Picoseconds>(value) * kMicrosecond;
    else if (key == "size")
      flow.bytes = value;
    else if (key == "trigger")
      triggers[value].starts.push_back(index);
    else if (key == "send_done_trigger")
      triggers[value].finishes.push_back(index);
    else if (key == "recv_done_trigger")
      triggers[value].deliveries.push_back(index);
    else if (key != "id" && key != "prio")
      in.complain(key,
                  "must be id, start, size, trigger, send_done_trigger, recv_done_trigger or "
                  "prio");
  }
  in.add(flow);
}

void read_heading(Reader& in, const Words& words) {
  std::uint64_t value = 0;
  if (words.size() != 2 || !in.number(words[1], UINT32_MAX, value)) {
    in.complain(absl::StrJoin(words, " "), "is neither a connection nor a trigger nor a heading");
    return;
  }
  const std::string key = absl::AsciiStrToLower(words[0]);
  if (key == "nodes" && value > in.hosts())
    in.complain(words[1], absl::StrCat("more hosts than the topology has (", in.hosts(), ")"));
  else if (key == "failures" && value != 0)
    in.complain(words[1], "failures belong into the scenario's faults");
  else if (key != "nodes" && key != "connections" && key != "triggers" && key != "failures")
    in.complain(words[0], "must be Nodes, Connections, Triggers or Failures");
}

void connect_triggers(Reader& in, const Triggers& triggers) {
  for (const auto& [id, trigger] : triggers) {
    const std::size_t pulls = trigger.finishes.size() + trigger.deliveries.size();
    if (!trigger.is_declared) {
      in.complain(absl::StrCat("trigger ", id), "is used and not declared");
      continue;
    }
    if (trigger.starts.empty()) continue;
    if (pulls < trigger.count) {
      in.complain(absl::StrCat("trigger ", id),
                  absl::StrCat("needs ", trigger.count, " flows that pull it, and has ", pulls));
      continue;
    }
    for (const std::uint32_t started : trigger.starts) {
      in.flows[started].awaits = static_cast<std::uint32_t>(trigger.count);
      for (const std::uint32_t flow : trigger.finishes)
        in.flows[flow].after_finish.push_back(started);
      for (const std::uint32_t flow : trigger.deliveries)
        in.flows[flow].after_delivery.push_back(started);
    }
  }
}

FlowFile read_file(const std::string& file, std::uint32_t hosts,
                   FlowFile (*parse)(std::string_view, std::string_view, std::uint32_t)) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return Complaints{
        {.key = "workload.file", .value = file, .limit = "must be a file that can be read"}};
  return parse(text.str(), file, hosts);
}

}  // namespace

FlowFile parse_flow_list(std::string_view text, std::string_view name, std::uint32_t hosts) {
  Reader in(name, hosts);
  in.each_line(text, [&in](const Words& words) {
    if (words.size() != 4) {
      in.complain(absl::StrJoin(words, " "), "must be: source destination bytes start_ps");
      return;
    }
    FlowPlan flow;
    std::uint64_t start = 0;
    if (!in.host(words[0], flow.source) || !in.host(words[1], flow.destination) ||
        !in.number(words[2], kMaxFlowBytes, flow.bytes) ||
        !in.number(words[3], kMaxStartUs * kMicrosecond, start))
      return;
    flow.start = static_cast<Picoseconds>(start);
    in.add(flow);
  });
  return in.result();
}

FlowFile parse_matrix(std::string_view text, std::string_view name, std::uint32_t hosts) {
  Reader in(name, hosts);
  Triggers triggers;
  in.each_line(text, [&](const Words& words) {
    if (words[0].find("->") != std::string::npos)
      read_connection(in, words, triggers);
    else if (words[0] == "trigger")
      read_trigger(in, words, triggers);
    else if (words[0] == "failure")
      in.complain("failure", "failures belong into the scenario's faults");
    else
      read_heading(in, words);
  });
  if (in.complaints.empty()) connect_triggers(in, triggers);
  return in.result();
}

FlowFile read_flow_list(const std::string& file, std::uint32_t hosts) {
  return read_file(file, hosts, parse_flow_list);
}

FlowFile read_matrix(const std::string& file, std::uint32_t hosts) {
  return read_file(file, hosts, parse_matrix);
}

}  // namespace spindrift::sim
