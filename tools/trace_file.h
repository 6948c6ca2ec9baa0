#pragma once
// The file that `--trace` names, and traces on request of whoever sends a signal.
#include <string>

#include "spindrift/config.h"
#include "spindrift/result.h"

namespace spindrift::tools {

// Makes the file, or empties it: the endpoints of this run append to it.
[[nodiscard]] Status start_trace_file(const std::string& path);

// An endpoint that records to `path`. Of a run that is traced more is wanted than its last moments:
// without a size of the user's, the recorder has room for 2^18 events.
void trace_to(const std::string& path, bool has_own_size, EndpointConfig& config);

// From now on SIGUSR2 writes what the flight recorders of this process hold to
// $TMPDIR/spindrift-trace-PID.jsonl, and says so on standard error.
void trace_on_signal();

}  // namespace spindrift::tools
