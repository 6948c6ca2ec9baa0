#include "transport/describe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spindrift {

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
  if (!c.paths) return out;
  absl::StrAppend(&out, "; ", c.paths->usable(), " of ", c.paths->size(), " paths usable");
  std::string bad;
  for (std::uint32_t i = 0; i < c.paths->size(); ++i)
    if (c.paths->state(PathId{static_cast<std::uint16_t>(i)}) == PathState::kBad)
      absl::StrAppend(&bad, bad.empty() ? "" : ",", i);
  if (!bad.empty()) absl::StrAppend(&out, " (dark: ev ", bad, ")");
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
