#include "transport/describe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "transport/loss_detector.h"

namespace spindrift {
namespace {

// Since when nothing has come back on a path that was tried; kNever: it works, or is not in use.
// When the peer is silent on all of them no acknowledgement says so of any, but its packets wait
// for longer than they should.
Time dark_since(const Connection& c, PathId path, Time now) {
  if (c.paths->state(path) == PathState::kBad) return c.paths->bad_since(path);
  const SentUnit* oldest = c.send ? c.send->log.path_head(path) : nullptr;
  const bool is_overdue = oldest != nullptr && now - oldest->sent_time > current_rto(c);
  return is_overdue ? oldest->sent_time : kNever;
}

bool is_idle(const Connection& c, PathId path) {
  const PathState state = c.paths->state(path);
  const bool may_be_used = state == PathState::kGood || state == PathState::kSkip;
  return may_be_used && (!c.send || c.send->log.path_in_flight(path) == 0);
}

// "11 of 16 paths dark for up to 5.0 s (ev 0-5,8-12), 5 idle"
std::string describe_paths(const Connection& c, Time now) {
  std::uint32_t dark = 0;
  std::uint32_t idle = 0;
  Time earliest = kNever;
  std::string list;
  const std::uint32_t count = c.paths->size();
  for (std::uint32_t first = 0, end = 0; first < count; first = end + 1) {
    for (end = first; end < count; ++end) {
      const Time since = dark_since(c, PathId{static_cast<std::uint16_t>(end)}, now);
      if (since == kNever) break;
      earliest = std::min(earliest, since);
    }
    if (end == first) continue;
    dark += end - first;
    absl::StrAppend(&list, list.empty() ? "" : ",", first);
    if (end - first > 1) absl::StrAppend(&list, "-", end - 1);
  }
  std::string out = dark == 0 ? absl::StrCat("none of ", count, " paths is known to be dark")
                              : absl::StrCat(dark, " of ", count, " paths dark for up to ",
                                             format_duration(now - earliest), " (ev ", list, ")");
  for (std::uint32_t i = 0; i < count; ++i)
    idle += is_idle(c, PathId{static_cast<std::uint16_t>(i)}) ? 1 : 0;
  if (idle != 0) absl::StrAppend(&out, ", ", idle, " idle");
  if (c.denied_paths != 0) absl::StrAppend(&out, ", ", c.denied_paths, " denied");
  return out;
}

}  // namespace

ConnState state_of(Phase phase) {
  switch (phase) {
    case Phase::kConnecting:
    case Phase::kAccepting:
      return ConnState::kConnecting;
    case Phase::kRequested:
      return ConnState::kRequested;
    case Phase::kOpen:
      return ConnState::kOpen;
    case Phase::kDraining:
    case Phase::kClosing:
      return ConnState::kDraining;
    case Phase::kClosed:
      return ConnState::kClosed;
    case Phase::kFailed:
      return ConnState::kFailed;
  }
  return ConnState::kFailed;
}

std::string_view name_of(PathState state) {
  switch (state) {
    case PathState::kGood:
      return "good";
    case PathState::kSkip:
      return "skip";
    case PathState::kBad:
      return "bad";
    case PathState::kDenied:
      return "denied";
  }
  return "?";
}

std::string format_duration(Duration duration) {
  const double ns = static_cast<double>(duration.count());
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.1f us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.1f ms", ns / 1e6);
  return absl::StrFormat("%.1f s", ns / 1e9);
}

std::string describe_peer(const Connection& c) {
  return absl::StrCat("peer ", c.remotes.empty() ? "(unknown)" : c.remotes[0].to_string());
}

std::string describe_silence(const Connection& c, Time now) {
  std::string out = c.last_heard == Time{}
                        ? std::string("nothing was ever heard from it")
                        : absl::StrCat("last heard ", format_duration(now - c.last_heard), " ago");
  if (c.send)
    absl::StrAppend(&out, "; ", c.send->log.in_flight_packets(), " packets in flight, ",
                    c.counters.timeouts, " timeouts");
  if (c.paths) absl::StrAppend(&out, "; ", describe_paths(c, now));
  return out;
}

std::string describe_misfits(const Connection& c) {
  std::string out;
  if (c.flow && c.counters.cc_limits_clamped != 0)
    absl::StrAppendFormat(&out, "congestion control %s asked for %s (%d times; cc_limits_clamped)",
                          c.cc.info->name, c.flow->check().complaint(),
                          c.counters.cc_limits_clamped);
  if (c.paths && c.counters.path_picks_out_of_range != 0)
    absl::StrAppendFormat(&out,
                          "%spath selector %s picked paths outside 0..%d (%d times; "
                          "path_picks_out_of_range)",
                          out.empty() ? "" : "; ", c.selector->name, c.paths->size() - 1,
                          c.counters.path_picks_out_of_range);
  return out;
}

}  // namespace spindrift
