// The flight recorder of an endpoint, read and written to its file.
#include <mutex>

#include "transport/endpoint_impl.h"

namespace spindrift {

Trace EndpointImpl::trace() const {
  const std::lock_guard guard(lock_);
  return ctx_.recorder.snapshot();
}

Status EndpointImpl::write_trace() {
  const std::lock_guard guard(lock_);
  return append_trace();
}

Status EndpointImpl::append_trace() {
  if (!trace_file_.is_wanted()) return ok_status();
  std::vector<TracedConnection> connections;
  for (const auto& holder : ctx_.connections)
    if (holder)
      connections.push_back({.id = holder->id,
                             .peer = holder->remotes.empty() ? "" : url_of(holder->remotes[0]),
                             .error = holder->error});
  const Status written = trace_file_.append(ctx_.recorder, connections);
  if (!written.ok()) return remember(ConnId{}, written.error());
  return ok_status();
}

// A failure is seldom the last thing a program does, but what led to it is soon overwritten.
void EndpointImpl::trace_failures() {
  traced_failures_ = ctx_.counters.connections_failed;
  static_cast<void>(append_trace());  // last_error() has the reason; the turn goes on
}

}  // namespace spindrift
