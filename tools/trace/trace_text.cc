#include "tools/trace/trace_text.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string name_of(const Json& event) {
  return event["event"].get<std::string>();
}

double since_first_ms(const TraceSection& section, const Json& event) {
  const auto first = section.events.front()["t_ns"].get<std::int64_t>();
  return static_cast<double>(event["t_ns"].get<std::int64_t>() - first) / 1e6;
}

// Members that only say which event this is.
bool is_heading(const std::string& key) {
  return key == "t_ns" || key == "event" || key == "conn";
}

// "loss reordered", "timeout": what is counted together.
std::string class_of(const Json& event) {
  std::string out = name_of(event);
  for (const char* key : {"cause", "status"})
    if (event.contains(key)) absl::StrAppend(&out, " ", shown(event[key]));
  return out;
}

struct Story {
  std::vector<std::string> states;
  std::vector<std::string> paths;
  std::map<std::string, std::uint64_t> counts;
};

// Endpoint-wide events have conn 0.
std::map<std::uint64_t, Story> stories_of(const TraceSection& section, const TraceFilter& filter) {
  std::map<std::uint64_t, Story> stories;
  for (const Json& event : section.events) {
    if (!filter.takes(event)) continue;
    Story& story = stories[event["conn"].get<std::uint64_t>()];
    const std::string name = name_of(event);
    const double at = since_first_ms(section, event);
    if (name == "state" && event.contains("state"))
      story.states.push_back(absl::StrFormat("%s +%.3f ms", shown(event["state"]), at));
    else if (name == "path" && event.contains("state") && event.contains("path"))
      story.paths.push_back(
          absl::StrFormat("%s %s +%.3f ms", shown(event["path"]), shown(event["state"]), at));
    else
      ++story.counts[class_of(event)];
  }
  return stories;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts)
    out += (out.empty() ? "" : ", ") + part;
  return out;
}

}  // namespace

bool TraceFilter::takes(const Json& event) const {
  if (conn && event["conn"].get<std::uint64_t>() != *conn) return false;
  if (path && (!event.contains("path") || event["path"] != *path)) return false;
  return events.empty() || events.count(name_of(event)) > 0;
}

std::string format_time_line(const TraceSection& section, const TraceFilter& filter) {
  std::string out;
  for (const Json& event : section.events) {
    if (!filter.takes(event)) continue;
    absl::StrAppendFormat(&out, "%+14.6f ms  conn %-10d %-16s", since_first_ms(section, event),
                          event["conn"].get<std::uint64_t>(), name_of(event));
    for (const auto& [key, value] : event.items())
      if (!is_heading(key)) absl::StrAppend(&out, " ", key, "=", shown(value));
    out += "\n";
  }
  return out;
}

std::string format_summary(const TraceSection& section, const TraceFilter& filter) {
  std::string out = absl::StrFormat("# process %d, level %d: %d events", section.process,
                                    section.level, section.events.size());
  if (section.overwritten > 0) {
    absl::StrAppendFormat(&out,
                          "; %d earlier ones were overwritten, raise trace_events to keep them",
                          section.overwritten);
  }
  out += "\n";
  for (const auto& [conn, story] : stories_of(section, filter)) {
    const auto known = section.connections.find(conn);
    absl::StrAppendFormat(&out, "conn %d", conn);
    if (conn == 0) out += " (the endpoint itself)";
    if (known != section.connections.end()) out += " with " + known->second.peer;
    out += "\n";
    if (!story.states.empty()) out += "  states: " + joined(story.states) + "\n";
    if (!story.paths.empty()) out += "  paths: " + joined(story.paths) + "\n";
    for (const auto& [what, count] : story.counts)
      absl::StrAppendFormat(&out, "  %-32s %10d\n", what, count);
    if (known != section.connections.end() && !known->second.error.empty())
      out += "  error: " + known->second.error + "\n";
  }
  return out;
}

}  // namespace spindrift::tools
