#include "tools/perf/opening.h"

#include <algorithm>

#include "spindrift/counter_snapshot.h"

#include "absl/strings/str_format.h"
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
  OpenOptions open{.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm};
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

Status finish_files(Endpoint& endpoint, const PerfOptions& options) {
  Status traced = endpoint.write_trace();
  if (!traced.ok()) return traced;
  CounterSnapshot counters;
  endpoint.counters(counters);
  if (counters.value("capture_write_errors") == 0) return ok_status();
  return Error(
      ErrorCode::kIo,
      absl::StrFormat("the capture %s is incomplete: only %d packets could be written; name "
                      "a file where there is room",
                      options.capture, counters.value("capture_packets")));
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
