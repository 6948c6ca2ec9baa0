#pragma once
// A trace for people: its time line, and what became of each connection.
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tools/trace/trace_reader.h"

namespace spindrift::tools {

// What is wanted; empty: everything.
struct TraceFilter {
  std::optional<std::uint64_t> conn{};
  std::optional<std::uint64_t> path{};
  std::set<std::string> events{};

  bool takes(const nlohmann::ordered_json& event) const;
};

// A line per event that the filter takes, with the time since the first event of the section.
std::string format_time_line(const TraceSection& section, const TraceFilter& filter);

// Per connection: its states, counts of events by cause, what its paths went through.
std::string format_summary(const TraceSection& section, const TraceFilter& filter);

}  // namespace spindrift::tools
