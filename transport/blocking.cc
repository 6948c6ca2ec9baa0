// Waiting made short: loops over progress() for programs that have nothing else to do.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/describe.h"

namespace spindrift {
namespace {

// An idle caller spins this long before it sleeps: a wake-up costs tens of microseconds.
constexpr Duration kSpin = std::chrono::microseconds(50);

// Calls `is_done` after each turn until it says so or `timeout` has passed.
template <class Done>
bool progress_until(Endpoint& endpoint, Duration timeout, Done is_done) {
  const Time start = endpoint.now();
  const Time end = timeout > kNever - start ? kNever : start + timeout;
  for (;;) {
    endpoint.progress();
    if (is_done()) return true;
    const Time now = endpoint.now();
    if (now >= end) return false;
    if (now - start > kSpin) endpoint.wait(end - now);
  }
}

}  // namespace

Result<ConnEvent> wait_event(Endpoint& endpoint, Duration timeout) {
  ConnEvent event;
  if (progress_until(endpoint, timeout,
                     [&] { return endpoint.poll_events(std::span(&event, 1)) == 1; }))
    return event;
  return Error(ErrorCode::kTimedOut,
               absl::StrCat("no connection event within ", format_duration(timeout)));
}

Result<Completion> wait_completion(Endpoint& endpoint, Duration timeout) {
  Completion completion;
  if (progress_until(endpoint, timeout,
                     [&] { return endpoint.poll(std::span(&completion, 1)) == 1; }))
    return completion;
  return Error(ErrorCode::kTimedOut,
               absl::StrCat("no completion within ", format_duration(timeout)));
}

namespace {

Result<ConnId> wait_open(Endpoint& endpoint, ConnId conn, Duration timeout) {
  ConnState state = ConnState::kConnecting;
  const bool is_settled = progress_until(endpoint, timeout, [&] {
    const auto info = endpoint.info(conn);
    state = info.ok() ? info.value().state : ConnState::kFailed;
    return state != ConnState::kConnecting;
  });
  if (is_settled && state == ConnState::kOpen) return conn;
  const Error why(is_settled ? ErrorCode::kUnavailable : ErrorCode::kTimedOut,
                  endpoint.last_error(conn));
  endpoint.release(conn);  // the caller never learns its id
  return why;
}

}  // namespace

Result<ConnId> connect_and_wait(Endpoint& endpoint, std::string_view address,
                                const ConnectOptions& options) {
  auto conn = endpoint.connect(address, options);
  if (!conn.ok()) return conn;
  // The connection itself gives up at connect_timeout; the rest is for its last turn.
  return wait_open(endpoint, conn.value(), options.connect_timeout + std::chrono::seconds(1));
}

Result<ConnId> accept_one(Endpoint& endpoint, Duration timeout, const ConnectOptions& options) {
  ConnEvent event;
  const bool has_come = progress_until(
      endpoint, timeout, [&] { return endpoint.take_event(ConnEvent::Kind::kRequest, event); });
  if (!has_come)
    return Error(ErrorCode::kTimedOut,
                 absl::StrCat("nobody connected within ", format_duration(timeout)));
  const Status accepted = endpoint.accept(event.conn, options);
  if (!accepted.ok()) {
    // Who asked learns why, unless accept() has told already.
    static_cast<void>(endpoint.reject(event.conn, accepted.error().message()));
    endpoint.progress();
    endpoint.release(event.conn);
    return accepted.error();
  }
  return wait_open(endpoint, event.conn, options.connect_timeout + std::chrono::seconds(1));
}

}  // namespace spindrift
