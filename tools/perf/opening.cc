#include "tools/perf/opening.h"

namespace spindrift::perf {

Result<std::unique_ptr<Endpoint>> open_perf_endpoint(std::string_view address,
                                                     const PerfOptions& options) {
  OpenOptions open;
  // Data connections, one for control, and room for those of the session before.
  open.endpoint.max_connections = 2 * kMaxTestConnections;
  open.endpoint.max_regions = 64;
  open.endpoint.send_queue = kMaxDepth;
  open.endpoint.receive_queue = kMaxDepth;
  open.endpoint.completion_queue = 1u << 20;
  open.endpoint.has_guardian = options.has_guardian;
  open.faults = options.faults;
  open.capture = options.capture;
  return open_endpoint(address, open);
}

ConnectOptions control_options(const PerfOptions& options) {
  ConnectOptions connect;
  if (options.has_corruption) connect.crc = CrcChoice::kOn;
  connect.private_data = encode_greeting({.is_control = true});
  // Pings go every second, and the peer answers them unless it is dead or stuck.
  connect.silence_limit_passive = std::chrono::seconds(15);
  return connect;
}

}  // namespace spindrift::perf
