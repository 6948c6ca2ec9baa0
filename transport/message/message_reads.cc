#include "transport/message/message_reads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/message/message_completions.h"
#include "transport/message/message_fetch.h"
#include "transport/message/message_lanes.h"
#include "transport/placement.h"

namespace spindrift {
namespace {

// How often the path policy is asked before lanes with room are tried in turn.
constexpr int kPicks = 4;
// How often the fabric may have no room, each time by another lane, before the next turn.
constexpr int kShortCounts = 4;
// Where the window is smaller than a chunk is to be, chunks are as small as it, down to this.
constexpr std::uint32_t kSmallestChunk = 4096;
// Of an RTT that congestion control was told: the gain that is worth telling.
constexpr int kRttGain = 8;
// Asked for in one go: where reading is copying by this processor, a turn stays bounded.
constexpr std::uint64_t kBytesAtOnce = 1U << 20U;

Duration retry_time(const MessageConnection& c) {
  return c.fetching->rtt.timeout(c.options.rto_min, c.options.rto_max, c.options.rto_min);
}

// Bytes [offset, offset + bytes) of what was offered, in at most `most` pieces; `bytes` becomes
// what they hold. How many pieces.
std::uint8_t cut_offer(const Offer& offer, std::uint64_t offset, std::uint32_t& bytes,
                       std::size_t most, std::array<RemoteSpan, kMaxSge>& out) {
  std::uint8_t count = 0;
  std::uint32_t left = bytes;
  for (std::uint8_t i = 0; i < offer.count && left != 0 && count < most; ++i) {
    const RemoteSpan& piece = offer.pieces[i];
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const auto here =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, piece.bytes - offset));
    out[count++] = {.address = piece.address + offset, .key = piece.key, .bytes = here};
    left -= here;
    offset = 0;
  }
  bytes -= left;
  return count;
}

void release_bounce(MessageContext& ctx, Chunk& chunk) {
  if (chunk.bounce == 0) return;
  ctx.free_bounces.push_back(chunk.bounce);
  chunk.bounce = 0;
}

// Some reads, filled in and handed to the fabric together.
class ReadBatch {
 public:
  // Of about so many bytes; at least one read.
  ReadBatch(MessageContext& ctx, MessageConnection& c, std::uint64_t bytes)
      : ctx_(ctx), c_(c), f_(*c.fetching), scratch_(ctx.reading), most_bytes_(bytes) {}

  // False: there is nothing that may be asked for now.
  bool fill() {
    // Paced: each when its time has come.
    const std::size_t most = f_.flow.limits().pacing_rate.is_unlimited() ? kReadBatch : 1;
    while (count_ < most && batch_bytes_ < most_bytes_ && take_next()) {
    }
    return count_ != 0;
  }
  // False: the fabric had no room for all.
  bool send() {
    const std::size_t taken =
        ctx_.fabric.post(std::span<const FabricOp>(scratch_.ops).first(count_));
    for (std::size_t i = 0; i < taken; ++i)
      commit(scratch_.chunks[i]);
    for (std::size_t i = taken; i < count_; ++i) {
      Chunk& chunk = f_.chunks[scratch_.chunks[i]];
      f_.lanes[chunk.lane].posted_bytes -= chunk.bytes;
      release_bounce(ctx_, chunk);
      f_.again.push_back(scratch_.chunks[i]);
    }
    if (taken == count_) return true;
    // The lane has room when a read has ended; where none is under way, perhaps with the next turn.
    if (f_.posted != 0) f_.lanes[scratch_.ops[taken].lane].full_until = f_.ended + 1;
    return false;
  }
  bool met_fault() const { return met_fault_; }
  std::uint64_t bytes() const { return batch_bytes_; }

 private:
  bool take_next() {
    while (!f_.again.is_empty()) {
      const std::uint16_t tag = f_.again.front();
      Chunk& chunk = f_.chunks[tag];
      if (c_.arrivals->contains_serial(chunk.arrival)) {
        Arrival& arrival = c_.arrivals->at_serial(chunk.arrival);
        if (arrival.fault == OpStatus::kOk) {
          std::uint32_t bytes = chunk.bytes;
          if (!prepare(arrival, chunk.at, bytes)) {
            if (arrival.fault != OpStatus::kOk) continue;
            return false;
          }
          f_.again.pop_front();
          add(tag);
          return true;
        }
      }
      f_.again.pop_front();
      f_.free.push_back(tag);
    }
    Arrival* arrival = next_arrival();
    if (arrival == nullptr || f_.free.empty()) return false;
    const std::uint64_t left = arrival->offer.bytes - arrival->asked_bytes;
    auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, chunk_limit()));
    if (!prepare(*arrival, arrival->asked_bytes, bytes)) return arrival->fault != OpStatus::kOk;
    const std::uint16_t tag = f_.free.back();
    f_.free.pop_back();
    f_.chunks[tag] = {
        .arrival = f_.next, .at = static_cast<std::uint32_t>(arrival->asked_bytes), .bytes = bytes};
    arrival->asked_bytes += bytes;
    add(tag);
    return true;
  }
  // The first of which not all was asked for.
  Arrival* next_arrival() {
    f_.next = std::max(f_.next, c_.arrivals->front_serial());
    for (; f_.next < c_.next_begin; ++f_.next) {
      Arrival& arrival = c_.arrivals->at_serial(f_.next);
      if (arrival.fault == OpStatus::kOk && arrival.asked_bytes < arrival.offer.bytes)
        return &arrival;
    }
    return nullptr;
  }
  std::uint32_t chunk_limit() const {
    const FabricCaps& caps = ctx_.fabric.caps();
    if (caps.read_chunk_bytes != 0) return std::min(caps.read_chunk_bytes, caps.max_read_bytes);
    const std::uint64_t window = std::max<std::uint64_t>(f_.flow.window_bytes(), kSmallestChunk);
    return static_cast<std::uint32_t>(std::min(
        {std::uint64_t{c_.options.chunk_bytes}, window, std::uint64_t{caps.max_read_bytes}}));
  }
  // Where the bytes lie and land, and the lane; `bytes` becomes what one read can have of them.
  // False: not now, or never (Arrival::fault). Nothing has changed then.
  bool prepare(Arrival& arrival, std::uint64_t at, std::uint32_t& bytes) {
    const FabricCaps& caps = ctx_.fabric.caps();
    std::array<RemoteSpan, kMaxSge>& remote = scratch_.remote[count_];
    remotes_ = cut_offer(arrival.offer, at, bytes, caps.max_read_remote, remote);
    const OpStatus status = find_landing(ctx_, c_, arrival.place, at, bytes);
    if (status != OpStatus::kOk) {
      arrival.fault = status;
      met_fault_ = true;
      return false;
    }
    is_bounced_ = ctx_.landing.line_ordered != 0;
    std::uint32_t fits = is_bounced_ ? std::min(bytes, kBounceBytes)
                                     : first_pieces(ctx_.landing, caps.max_read_local);
    fits = std::min(fits, bytes);
    if (fits != bytes) {
      bytes = fits;
      remotes_ = cut_offer(arrival.offer, at, bytes, caps.max_read_remote, remote);
      static_cast<void>(find_landing(ctx_, c_, arrival.place, at, bytes));
    }
    holds_region_ = !is_bounced_ && arrival.place.key != 0;
    if (!fits_flow(bytes) || (is_bounced_ && !has_bounce())) return false;
    const std::optional<PathId> lane = pick_lane(bytes);
    if (!lane) return false;
    lane_ = lane->value;
    return true;
  }
  static std::uint32_t first_pieces(const Landing& landing, std::size_t most) {
    std::uint32_t bytes = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(most, landing.count); ++i)
      bytes += landing.pieces[i].bytes;
    return bytes;
  }
  // Of the connection that has the others all: with the next turn, perhaps.
  bool has_bounce() {
    if (ctx_.free_bounces.empty()) ctx_.make_ready(c_);
    return !ctx_.free_bounces.empty();
  }
  bool fits_flow(std::uint32_t bytes) {
    if (f_.flow.is_paced_out(ctx_.now)) {
      f_.timer = std::min(f_.timer, f_.flow.next_send_time());
      return false;
    }
    if (batch_bytes_ == 0) return f_.flow.has_room(bytes);
    return f_.flow.in_flight() + batch_bytes_ + bytes <= f_.flow.window_bytes();
  }

  std::optional<PathId> pick_lane(std::uint32_t bytes) {
    PathTable& paths = *c_.paths;
    // One that lost much is tried with a chunk now and then.
    while (const std::optional<PathId> probed = paths.take_due_probe(ctx_.now))
      if (takes(*probed, bytes)) return probed;
    if (f_.flow.in_flight() + batch_bytes_ >= std::uint64_t{paths.size()} * lane_limit(bytes))
      return std::nullopt;
    for (int i = 0; i < kPicks; ++i) {
      const std::optional<PathId> picked = paths.pick(ctx_.now);
      if (!picked || takes(*picked, bytes)) return picked;
    }
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      if (++f_.next_lane >= paths.size()) f_.next_lane = 0;
      const PathId lane{static_cast<std::uint16_t>(f_.next_lane)};
      const PathState state = paths.state(lane);
      const bool is_usable = state == PathState::kGood || state == PathState::kSkip;
      if (is_usable && takes(lane, bytes)) return lane;
    }
    return std::nullopt;
  }
  std::uint64_t lane_limit(std::uint32_t bytes) const {
    const std::uint64_t own = own_window_bytes(ctx_.fabric.caps()) / c_.paths->size();
    return std::max({std::uint64_t{c_.options.lane_bytes}, std::uint64_t{bytes}, own});
  }
  bool takes(PathId lane, std::uint32_t bytes) const {
    const LaneLoad& load = f_.lanes[lane.value];
    const bool has_room =
        load.posted_bytes + bytes <= lane_limit(bytes) && load.full_until <= f_.ended;
    return has_room && !load.is_denied_by_peer && !is_down(c_, lane) &&
           c_.paths->state(lane) != PathState::kDenied;
  }

  void add(std::uint16_t tag) {
    Chunk& chunk = f_.chunks[tag];
    chunk.lane = lane_;
    chunk.region = holds_region_ ? ctx_.landing.pieces[0].region : LocalKey{};
    f_.lanes[lane_].posted_bytes += chunk.bytes;
    batch_bytes_ += chunk.bytes;
    FabricOp& op = scratch_.ops[count_];
    op.kind = FabricOp::Kind::kRead;
    op.lane = lane_;
    op.peer = c_.peer;
    op.tag = tag;
    op.remote = std::span(scratch_.remote[count_]).first(remotes_);
    Landing& local = scratch_.local[count_];
    if (is_bounced_) {
      chunk.bounce = ctx_.free_bounces.back();
      ctx_.free_bounces.pop_back();
      local.count = 1;
      local.pieces[0] = {
          .data = ctx_.bounce_at(chunk.bounce), .bytes = chunk.bytes, .region = kBounceRegion};
    } else {
      local.count = ctx_.landing.count;
      std::copy_n(ctx_.landing.pieces.begin(), local.count, local.pieces.begin());
    }
    op.local = local.list();
    scratch_.chunks[count_++] = tag;
  }
  void commit(std::uint16_t tag) {
    Chunk& chunk = f_.chunks[tag];
    chunk.posted = ctx_.now;
    chunk.is_posted = true;
    ++f_.posted;
    f_.flow.on_sent(chunk.bytes, ctx_.now);
    c_.paths->on_sent(PathId{chunk.lane}, c_.packets_of(chunk.bytes), chunk.bytes);
  }

  MessageContext& ctx_;
  MessageConnection& c_;
  Fetching& f_;
  ReadScratch& scratch_;
  std::uint64_t most_bytes_;
  std::size_t count_ = 0;
  std::uint64_t batch_bytes_ = 0;
  // Of the chunk at hand.
  std::uint8_t remotes_ = 0;
  std::uint16_t lane_ = 0;
  bool is_bounced_ = false;
  bool holds_region_ = false;
  bool met_fault_ = false;
};

// Without the time that the bytes themselves take, so that short and long ones compare.
Duration rtt_of(const Fetching& f, const Chunk& chunk, Time now) {
  const Duration took = now - chunk.posted;
  const Duration bytes_take(
      static_cast<std::int64_t>(f.link_rate.picoseconds_for(chunk.bytes) / 1000));
  return std::max({took - bytes_take, took / 4, Duration{1}});
}

void learn_rtt(MessageContext& ctx, MessageConnection& c, Duration rtt) {
  Fetching& f = *c.fetching;
  f.rtt.add(rtt);
  if (!f.measures_base_rtt) return;
  if (f.told_rtt != Duration{} && rtt >= f.told_rtt - f.told_rtt / kRttGain) return;
  f.told_rtt = rtt;
  f.flow.on_signal(ctx.now, PathChanged{.base_rtt = rtt, .link_rate = f.link_rate});
}

// False: where it should land is gone.
bool unbounce(MessageContext& ctx, MessageConnection& c, Arrival& arrival, const Chunk& chunk) {
  const OpStatus status = find_landing(ctx, c, arrival.place, chunk.at, chunk.bytes);
  if (status != OpStatus::kOk) {
    arrival.fault = status;
    return false;
  }
  scatter(ctx.landing.list(), 0, {ctx.bounce_at(chunk.bounce), chunk.bytes},
          ctx.landing.line_ordered);
  return true;
}

void take_chunk(MessageContext& ctx, MessageConnection& c, const Chunk& chunk) {
  Fetching& f = *c.fetching;
  const PathId lane{chunk.lane};
  const Duration rtt = rtt_of(f, chunk, ctx.now);
  learn_rtt(ctx, c, rtt);
  AckEvent event;
  event.now = ctx.now;
  event.sent_time = chunk.posted;
  event.rtt = rtt;
  event.acked_bytes = chunk.bytes;
  event.received_bytes = chunk.bytes;
  event.acked_packets = c.packets_of(chunk.bytes);
  f.flow.on_ack(event);
  const PathState before = c.paths->state(lane);
  const PathFeedback feedback{.path = lane, .packets = event.acked_packets, .rtt = rtt};
  c.paths->on_feedback({&feedback, 1}, ctx.now, Duration{});
  if (before == PathState::kBad && c.paths->state(lane) == PathState::kGood) {
    ++c.counters.paths_restored;
    trace_lane(ctx, c, lane);
  }
  f.lanes[chunk.lane].lost_bytes = 0;
  f.came = ctx.now;
  ++c.counters.chunks_fetched;
  if (!c.arrivals->contains_serial(chunk.arrival)) return;
  Arrival& arrival = c.arrivals->at_serial(chunk.arrival);
  if (chunk.bounce != 0 && !unbounce(ctx, c, arrival, chunk)) return;
  arrival.fetched_bytes += chunk.bytes;
  ctx.turn_bytes += chunk.bytes;
}

void lose_chunk(MessageContext& ctx, MessageConnection& c, const Chunk& chunk) {
  Fetching& f = *c.fetching;
  const PathId lane{chunk.lane};
  ++c.counters.chunks_lost;
  if (is_down(c, lane)) {  // no congestion
    f.flow.on_withdrawn(chunk.bytes);
    return;
  }
  LossEvent event;
  event.now = ctx.now;
  event.newest_sent_time = chunk.posted;
  event.lost_bytes = chunk.bytes;
  event.lost_packets = c.packets_of(chunk.bytes);
  event.cause = LossCause::kTimeout;
  f.flow.on_loss(event);
  f.lanes[chunk.lane].lost_bytes += chunk.bytes;
  const PathState before = c.paths->state(lane);
  const PathFeedback feedback{
      .path = lane, .outcome = PathOutcome::kLost, .packets = event.lost_packets};
  c.paths->on_feedback({&feedback, 1}, ctx.now, retry_time(c));
  if (before != PathState::kBad && c.paths->state(lane) == PathState::kBad) {
    ++c.counters.paths_went_bad;
    trace_lane(ctx, c, lane);
  }
}

}  // namespace

bool is_fetching(const MessageConnection& c) {
  return c.fetching && !c.arrivals->is_empty();
}

bool post_reads(MessageContext& ctx, MessageConnection& c) {
  if (!is_fetching(c)) return true;
  Fetching& f = *c.fetching;
  f.timer = kNever;
  ctx.now = ctx.fabric.now();
  if (f.flow.limits().timer <= ctx.now) f.flow.on_signal(ctx.now, TimerFired{});
  bool met_fault = false;
  std::uint64_t asked = 0;
  for (int short_counts = 0; short_counts < kShortCounts;) {
    ReadBatch batch(ctx, c, kBytesAtOnce - asked);
    const bool has_some = batch.fill();
    met_fault = met_fault || batch.met_fault();
    if (!has_some) break;
    asked += batch.bytes();
    const bool had_room = batch.send();
    if (asked >= kBytesAtOnce) {
      ctx.make_ready(c);
      break;
    }
    if (had_room) continue;
    ++short_counts;
    if (f.posted == 0 || short_counts == kShortCounts) {
      ctx.make_ready(c);
      break;
    }
  }
  const bool waits = f.posted == 0 || !f.again.is_empty() || f.next < c.next_begin;
  f.timer = std::min(f.timer, f.flow.limits().timer);
  if (waits) f.timer = std::min(f.timer, c.paths->next_probe());
  ctx.arm(c, f.timer);
  return !met_fault;
}

void on_read(MessageContext& ctx, MessageConnection& c, const FabricCompletion& done) {
  if (!c.fetching || done.tag >= c.fetching->chunks.size()) return;
  Fetching& f = *c.fetching;
  const auto tag = static_cast<std::uint16_t>(done.tag);
  Chunk& chunk = f.chunks[tag];
  if (!chunk.is_posted) return;
  chunk.is_posted = false;
  f.lanes[chunk.lane].posted_bytes -= chunk.bytes;
  --f.posted;
  ++f.ended;
  stir(ctx, c);
  if (done.is_ok)
    take_chunk(ctx, c, chunk);
  else
    lose_chunk(ctx, c, chunk);
  release_bounce(ctx, chunk);
  const bool is_wanted = !done.is_ok && c.arrivals->contains_serial(chunk.arrival);
  if (!is_wanted) {
    f.free.push_back(tag);
    return;
  }
  // What its owner has given up is nobody's any more.
  if (Bulletin::unpack(ctx.fabric.status(c.peer)).is_over()) {
    c.ignores_rest = true;
    f.free.push_back(tag);
    drop_arrivals(ctx, c);
    return;
  }
  if (done.fault == FabricCompletion::Fault::kRefused) {
    fail_connection(ctx, c, OpStatus::kPeerGone,
                    absl::StrCat("what ", describe_peer(ctx, c),
                                 " offered could not be fetched: ", ctx.fabric.last_error(c.peer)));
    return;
  }
  f.again.push_back(tag);
}

void run_fetch_timer(MessageContext& ctx, MessageConnection& c) {
  if (!c.fetching || c.fetching->timer > ctx.now) return;
  c.fetching->timer = kNever;
  if (is_fetching(c)) stir(ctx, c);
}

void forget_reads(MessageContext& ctx, MessageConnection& c) {
  if (!c.fetching) return;
  for (Chunk& chunk : c.fetching->chunks) {
    chunk.is_posted = false;
    release_bounce(ctx, chunk);
  }
}

}  // namespace spindrift
