#pragma once
// The file that a flight recorder is written to (EndpointConfig::trace).
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spindrift/result.h"
#include "spindrift/types.h"

#include "transport/base/flight_recorder.h"

namespace spindrift {

struct TracedConnection {
  ConnId id{};
  std::string peer;
  std::string error;
};

class TraceFile {
 public:
  // Empty: none.
  explicit TraceFile(std::string path) : path_(std::move(path)) {}
  bool is_wanted() const { return !path_.empty(); }
  // What was recorded since the last time.
  Status append(const FlightRecorder& recorder, const std::vector<TracedConnection>& connections);

 private:
  std::string path_;
  std::uint64_t written_ = 0;  // events
};

}  // namespace spindrift
