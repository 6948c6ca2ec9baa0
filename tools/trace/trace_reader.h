#pragma once
// A trace as the flight recorder writes it (docs/TRACE.md): JSON lines, in sections of one endpoint
// each.
#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/result.h"

namespace spindrift::tools {

struct TraceConnection {
  std::string peer;
  std::string error;
};

struct TraceSection {
  std::uint64_t process = 0;
  std::uint64_t level = 0;
  std::uint64_t overwritten = 0;
  std::map<std::uint64_t, TraceConnection> connections{};
  // Objects with "t_ns", "event" and "conn", as they stood there.
  std::vector<nlohmann::ordered_json> events{};
};

// An error names the line that is none of a trace.
Result<std::vector<TraceSection>> read_trace(std::istream& in);

}  // namespace spindrift::tools
