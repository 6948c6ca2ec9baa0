#include "transport/message/message_lanes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/message/message_fetch.h"
#include "transport/message/message_sender.h"

namespace spindrift {

bool is_down(const MessageConnection& c, PathId lane) {
  return c.paths->state(lane) == PathState::kBad && !c.paths->awaits_arrival(lane);
}

void trace_lane(MessageContext& ctx, MessageConnection& c, PathId lane) {
  ctx.trace(TraceKind::kPath, c.id,
            {.cause = static_cast<std::uint8_t>(c.paths->state(lane)), .path = lane});
}

void on_lane(MessageContext& ctx, MessageConnection& c, const FabricCompletion& news) {
  if (!c.paths || news.lane >= c.paths->size()) return;
  const PathId lane{news.lane};
  const PathState before = c.paths->state(lane);
  if (news.is_ok)
    c.paths->on_probe_reply(lane, Duration{});
  else
    c.paths->on_link_down(lane, ctx.now, Duration{});
  if (c.paths->state(lane) != before) {
    ++(news.is_ok ? c.counters.paths_restored : c.counters.paths_went_bad);
    trace_lane(ctx, c, lane);
  }
  if (c.fetching) {
    // What it lost before the news came was no congestion.
    const std::uint64_t lost = std::exchange(c.fetching->lanes[news.lane].lost_bytes, 0);
    if (!news.is_ok && lost != 0 && 2 * c.paths->usable() >= c.paths->size())
      c.fetching->flow.on_signal(ctx.now, LossWasSpurious{lost});
    stir(ctx, c);
  }
  ctx.make_ready(c);
}

void deny_lane(MessageContext& ctx, MessageConnection& c, PathId lane, bool is_denied) {
  c.paths->deny(lane, is_denied);
  if (c.denials.empty()) c.denials.resize(c.paths->size());
  LaneDenial& denial = c.denials[lane.value];
  if (denial.is_denied == is_denied) return;
  denial.is_denied = is_denied;
  c.denied_paths += is_denied ? 1 : -1U;
  if (std::exchange(denial.is_told, false)) ++c.lane_notes_owed;
  trace_lane(ctx, c, lane);
  if (is_denied && c.burst.path == lane) c.burst_left = 0;
  if (carries_data(c.phase)) send_lane_notes(ctx, c);  // in front of what is posted next
  stir(ctx, c);
  ctx.make_ready(c);
}

void send_lane_notes(MessageContext& ctx, MessageConnection& c) {
  for (std::size_t i = 0; i < c.denials.size() && c.lane_notes_owed != 0; ++i) {
    if (c.denials[i].is_told) continue;
    Record note;
    note.kind = RecordKind::kLaneNote;
    note.flags = c.denials[i].is_denied ? kLaneIsDenied : 0;
    note.immediate = static_cast<std::uint32_t>(i);
    if (!send_note(ctx, c, note)) {
      ctx.make_ready(c);
      return;
    }
    c.denials[i].is_told = true;
    --c.lane_notes_owed;
  }
}

void take_lane_note(MessageContext& ctx, MessageConnection& c, const Record& note) {
  if (!c.fetching || note.immediate >= c.fetching->lanes.size()) return;
  c.fetching->lanes[note.immediate].is_denied_by_peer = (note.flags & kLaneIsDenied) != 0;
  stir(ctx, c);
}

std::string describe_lanes(const MessageContext& ctx, const MessageConnection& c) {
  constexpr std::uint32_t kNamed = 4;
  if (!c.paths || !c.has_peer) return {};
  std::string names;
  std::uint32_t down = 0;
  for (std::uint32_t i = 0; i < c.paths->size(); ++i) {
    const PathId lane{static_cast<std::uint16_t>(i)};
    if (c.paths->state(lane) != PathState::kBad) continue;
    if (down++ < kNamed)
      absl::StrAppend(&names, names.empty() ? "" : ", ",
                      ctx.fabric.describe_lane(c.peer, lane.value));
  }
  if (down == 0) return {};
  return absl::StrCat("; ", down, " of ", c.paths->size(), " lanes are down: ", names,
                      down > kNamed ? ", ..." : "");
}

}  // namespace spindrift
