#include "tools/perf/opening.h"

#include <algorithm>

#include "tools/trace_file.h"

namespace spindrift::perf {
namespace {

void at_least(std::uint32_t wanted, std::uint32_t& field) {
  field = std::max(field, wanted);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> open_perf_endpoint(std::string_view address,
                                                     const PerfOptions& options) {
  const Settings& settings = options.settings;
  OpenOptions open{.endpoint = settings.endpoint, .udp = settings.udp};
  // Data connections, one for control, and room for those of the session before.
  at_least(2 * kMaxTestConnections, open.endpoint.max_connections);
  at_least(kMaxDepth, open.endpoint.send_queue);
  at_least(kMaxDepth, open.endpoint.receive_queue);
  at_least(1U << 20U, open.endpoint.completion_queue);
  open.endpoint.has_guardian = options.has_guardian;
  tools::trace_to(options.trace, origin_of(settings, "trace_events") != "default", open.endpoint);
  open.faults = options.faults;
  open.capture = options.capture;
  return open_endpoint(address, open);
}

ConnectOptions control_options(const PerfOptions& options) {
  ConnectOptions connect = options.settings.connect;
  if (options.has_corruption) connect.crc = CrcChoice::kOn;
  connect.private_data = encode_greeting({.is_control = true});
  // Pings go every second, and the peer answers them unless it is dead or stuck.
  connect.silence_limit_passive = std::chrono::seconds(15);
  return connect;
}

}  // namespace spindrift::perf
