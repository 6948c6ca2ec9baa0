#include "transport/paths/path_table.h"

#include <algorithm>

#include "transport/base/check.h"

namespace spindrift {
namespace {

// How often the policy is asked before the table chooses by itself. Bounds the cost of a pick.
constexpr int kProposals = 8;
// How many usable paths the table itself looks at to find one that is not to be skipped.
constexpr std::uint32_t kFallBackTries = 4;
// Fewer lost packets in a row than this never condemn a path, however short its bursts: at 1 %
// random loss that happens once in 10^6 packets, and a probe brings it back within an RTO.
constexpr std::uint64_t kLostInRowMin = 3;
constexpr Duration kRtoFloor = std::chrono::microseconds(1);
constexpr Duration kSkipMax = std::chrono::milliseconds(1);
// So that a path is in use again within 100 ms of its return.
constexpr Duration kProbeIntervalMax = std::chrono::milliseconds(50);

}  // namespace

PathTable::PathTable(std::unique_ptr<PathSelector> selector, std::uint32_t path_count)
    : selector_(std::move(selector)), paths_(path_count), usable_(path_count), bad_(path_count) {
  SPINDRIFT_CHECK(selector_ != nullptr);
  SPINDRIFT_CHECK(path_count >= 1 && path_count <= kMaxPaths);
  for (std::uint32_t i = 0; i < path_count; ++i) {
    usable_.insert(PathId{static_cast<std::uint16_t>(i)});
  }
}

std::uint32_t PathTable::burst_size(const Path& path) {
  return std::max(path.burst_packets, path.open_burst_packets);
}

bool PathTable::has_lost_again(const Path& path) {
  return path.lost_in_row_packets > std::max(burst_size(path), 1U);
}

std::optional<PathId> PathTable::pick(Time now) {
  if (usable_.is_empty()) {
    if (bad_.is_empty()) return std::nullopt;
    return start_burst(bad_.next());
  }
  for (int i = 0; i < kProposals; ++i) {
    PathId id{};
    selector_->pick({&id, 1});
    if (id.value >= paths_.size()) {
      if (wild_picks_ != nullptr) ++*wild_picks_;
      continue;
    }
    if (takes(paths_[id.value], now)) return start_burst(id);
  }
  return start_burst(fall_back(now));
}

bool PathTable::takes(Path& path, Time now) {
  switch (path.state) {
    case PathState::kGood:
      return true;
    case PathState::kSkip: {
      // Passed over once is enough, unless it lost again when it was tried again.
      const bool is_over = now >= path.skip_until;
      if (is_over || !has_lost_again(path)) path.state = PathState::kGood;
      return is_over;
    }
    case PathState::kBad:
    case PathState::kDenied:
      return false;
  }
  return false;
}

PathId PathTable::fall_back(Time now) {
  PathId id{};
  for (std::uint32_t i = 0; i < kFallBackTries; ++i) {
    id = usable_.next();
    if (takes(paths_[id.value], now)) break;
  }
  return id;
}

PathId PathTable::start_burst(PathId id) {
  Path& path = paths_[id.value];
  // Bursts differ in size; a short one must not make the path easier to condemn at once.
  if (path.open_burst_packets > 0) {
    path.burst_packets =
        std::max(path.open_burst_packets, path.burst_packets - path.burst_packets / 4);
  }
  path.open_burst_packets = 0;
  return id;
}

void PathTable::on_sent(PathId id, std::uint32_t packets, std::uint64_t bytes) {
  Path& path = paths_[id.value];
  path.counters.packets_sent += packets;
  path.counters.bytes_sent += bytes;
  path.open_burst_packets += packets;
}

void PathTable::on_feedback(std::span<const PathFeedback> feedback, Time now, Duration rto) {
  rto = std::max(rto, kRtoFloor);
  for (const PathFeedback& one : feedback) {
    SPINDRIFT_DCHECK(one.path.value < paths_.size());
    Path& path = paths_[one.path.value];
    switch (one.outcome) {
      case PathOutcome::kDelivered:
        on_arrival(one.path, one.rtt);
        break;
      case PathOutcome::kMarked:
        path.counters.packets_marked += one.packets;
        on_arrival(one.path, one.rtt);
        break;
      case PathOutcome::kTrimmed:
        path.counters.packets_lost += one.packets;
        on_arrival(one.path, one.rtt);
        skip(path, now, rto);
        break;
      case PathOutcome::kLost:
        on_loss(one.path, one.packets, now, rto);
        break;
    }
  }
  selector_->on_feedback(feedback);
}

void PathTable::on_arrival(PathId id, Duration rtt) {
  Path& path = paths_[id.value];
  path.lost_in_row_packets = 0;
  if (awaits_arrival(id)) set_usable(id);
  if (rtt > Duration{}) add_rtt(id, rtt);
}

void PathTable::on_loss(PathId id, std::uint32_t packets, Time now, Duration rto) {
  Path& path = paths_[id.value];
  path.counters.packets_lost += packets;
  path.lost_in_row_packets += packets;
  const bool is_dark =
      path.lost_in_row_packets >= std::max<std::uint64_t>(2ULL * burst_size(path), kLostInRowMin);
  if (is_dark && usable_.contains(id)) {
    set_bad(id, now, rto);
  } else {
    skip(path, now, rto);
  }
}

void PathTable::skip(Path& path, Time now, Duration rto) {
  if (path.state != PathState::kGood && path.state != PathState::kSkip) return;
  path.state = PathState::kSkip;
  path.skip_until = now + std::min(has_lost_again(path) ? rto : rto / 4, kSkipMax);
}

void PathTable::add_rtt(PathId id, Duration rtt) {
  PathCounters& counters = paths_[id.value].counters;
  const bool is_first = counters.rtt == Duration{};
  counters.rtt_min = is_first ? rtt : std::min(counters.rtt_min, rtt);
  // Never rounded to zero, which would read as "none yet".
  counters.rtt = is_first ? rtt : std::max(Duration{1}, counters.rtt + (rtt - counters.rtt) / 8);
  if (!is_rtt_range_known_ || !usable_.contains(id)) return;
  const bool is_inside = has_rtt_ && id != slowest_ && id != fastest_ &&
                         counters.rtt <= paths_[slowest_.value].counters.rtt &&
                         counters.rtt >= paths_[fastest_.value].counters.rtt;
  if (!is_inside) is_rtt_range_known_ = false;
}

void PathTable::set_bad(PathId id, Time now, Duration rto) {
  Path& path = paths_[id.value];
  path.state = PathState::kBad;
  path.bad_since = now;
  ++path.counters.times_bad;
  usable_.erase(id);
  bad_.insert(id);
  path.probe_interval = std::min(rto, kProbeIntervalMax);
  path.probe_due = now + path.probe_interval;
  is_next_probe_known_ = false;
  is_rtt_range_known_ = false;
}

void PathTable::set_usable(PathId id) {
  Path& path = paths_[id.value];
  path.state = PathState::kGood;
  path.lost_in_row_packets = 0;
  path.probe_due = kNever;
  path.is_link_down = false;
  bad_.erase(id);
  usable_.insert(id);
  is_next_probe_known_ = false;
  is_rtt_range_known_ = false;
}

Time PathTable::next_probe() const {
  if (!is_next_probe_known_) {
    next_probe_ = kNever;
    for (std::uint32_t i = 0; i < bad_.size(); ++i) {
      next_probe_ = std::min(next_probe_, paths_[bad_[i].value].probe_due);
    }
    is_next_probe_known_ = true;
  }
  return next_probe_;
}

std::optional<PathId> PathTable::take_due_probe(Time now) {
  if (next_probe() > now) return std::nullopt;
  for (std::uint32_t i = 0; i < bad_.size(); ++i) {
    const PathId id = bad_[i];
    Path& path = paths_[id.value];
    if (path.probe_due > now) continue;
    path.probe_interval = std::min(path.probe_interval * 2, kProbeIntervalMax);
    path.probe_due = now + path.probe_interval;
    is_next_probe_known_ = false;
    return id;
  }
  return std::nullopt;
}

void PathTable::on_probe_reply(PathId id, Duration rtt) {
  paths_[id.value].is_link_down = false;
  on_arrival(id, rtt);
  const PathFeedback news{.path = id, .packets = 1, .rtt = rtt};
  selector_->on_feedback({&news, 1});
}

bool PathTable::on_link_down(PathId id, Time now, Duration rto) {
  if (paths_[id.value].state != PathState::kDenied) paths_[id.value].is_link_down = true;
  if (!usable_.contains(id)) return false;
  set_bad(id, now, std::max(rto, kRtoFloor));
  return true;
}

void PathTable::on_link_up(PathId id, Time now) {
  paths_[id.value].is_link_down = false;
  if (!bad_.contains(id)) return;
  paths_[id.value].probe_due = now;
  is_next_probe_known_ = false;
}

void PathTable::deny(PathId id, bool is_denied) {
  Path& path = paths_[id.value];
  if (is_denied == (path.state == PathState::kDenied)) return;
  if (!is_denied) {
    set_usable(id);
    return;
  }
  path.state = PathState::kDenied;
  path.probe_due = kNever;
  usable_.erase(id);
  bad_.erase(id);
  is_next_probe_known_ = false;
  is_rtt_range_known_ = false;
}

void PathTable::refresh_rtt_range() const {
  has_rtt_ = false;
  for (std::uint32_t i = 0; i < usable_.size(); ++i) {
    const PathId id = usable_[i];
    const Duration rtt = paths_[id.value].counters.rtt;
    if (rtt == Duration{}) continue;
    if (!has_rtt_ || rtt > paths_[slowest_.value].counters.rtt) slowest_ = id;
    if (!has_rtt_ || rtt < paths_[fastest_.value].counters.rtt) fastest_ = id;
    has_rtt_ = true;
  }
  is_rtt_range_known_ = true;
}

Duration PathTable::slowest_rtt() const {
  if (!is_rtt_range_known_) refresh_rtt_range();
  return has_rtt_ ? paths_[slowest_.value].counters.rtt : Duration{};
}

Duration PathTable::fastest_rtt() const {
  if (!is_rtt_range_known_) refresh_rtt_range();
  return has_rtt_ ? paths_[fastest_.value].counters.rtt : Duration{};
}

void PathTable::describe(StateWriter& out) const {
  std::uint32_t skipped = 0;
  for (const Path& path : paths_)
    skipped += path.state == PathState::kSkip ? 1 : 0;
  out.field("paths", size());
  out.field("usable_paths", usable());
  out.field("skipped_paths", skipped);
  out.field("bad_paths", bad_.size());
  out.field("denied_paths", size() - usable() - bad_.size());
  out.field("slowest_rtt_ns", static_cast<double>(slowest_rtt().count()));
  out.field("fastest_rtt_ns", static_cast<double>(fastest_rtt().count()));
  selector_->describe(out);
}

}  // namespace spindrift
