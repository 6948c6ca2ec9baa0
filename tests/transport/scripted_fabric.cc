#include "tests/transport/scripted_fabric.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/transport/scripted_host.h"
#include "transport/base/check.h"

namespace spindrift::test {

ScriptedNet::ScriptedNet(const ScriptedOptions& options)
    : options_(options),
      rng_(options.seed),
      is_up_(options.lanes, true),
      lane_bytes_(options.lanes, 0) {
  events_.reserve(4096);
}

ScriptedNet::~ScriptedNet() = default;

std::unique_ptr<MessageFabric> ScriptedNet::make() {
  auto made = std::make_unique<ScriptedFabric>(*this, static_cast<std::uint32_t>(hosts_.size()));
  hosts_.push_back(made.get());
  return made;
}

Time ScriptedNet::next_event() const {
  return events_.empty() ? kNever : events_.front().at;
}

void ScriptedNet::schedule(Event event) {
  event.order = scheduled_++;
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end());
}

void ScriptedNet::advance_to(Time time) {
  while (!events_.empty() && events_.front().at <= time) {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = events_.back();
    events_.pop_back();
    now_ = std::max(now_, event.at);
    happen(event);
  }
  now_ = std::max(now_, time);
}

void ScriptedNet::happen(const Event& event) {
  Pair& pair = *pairs_[event.pair];
  End& end = pair.ends[event.side];
  const std::vector<std::byte>& hello = pair.ends[1 - event.side].hello;
  if (end.host == nullptr || end.is_dropped) return;
  switch (event.kind) {
    case EventKind::kCall:
      end.host->tell_engine({.kind = FabricEvent::Kind::kRequest,
                             .peer = end.host->add_caller(pair, event.pair),
                             .address = end.address,
                             .hello = hello});
      return;
    case EventKind::kAnswer:
      open(pair, end);
      end.host->tell_engine(
          {.kind = FabricEvent::Kind::kAccepted, .peer = end.peer, .hello = hello});
      schedule({.at = now_ + options_.delay,
                .pair = event.pair,
                .side = static_cast<std::uint8_t>(1 - event.side),
                .kind = EventKind::kConfirm});
      return;
    case EventKind::kRefuse:
      end.is_gone = true;
      end.is_gone_told = true;
      end.host->tell_engine(
          {.kind = FabricEvent::Kind::kRefused, .peer = end.peer, .hello = hello});
      return;
    case EventKind::kConfirm:
      open(pair, end);
      end.host->tell_engine({.kind = FabricEvent::Kind::kOpened, .peer = end.peer});
      return;
    case EventKind::kFarewell:
      end.is_gone = true;
      return;
    case EventKind::kMessage:
      ++end.arrived;
      return;
    case EventKind::kStatus:
      end.status = end.coming.front();
      end.coming.pop_front();
      return;
    case EventKind::kRead:
      finish_read(pair, event);
      return;
  }
}

// Lanes that are down then are told so.
void ScriptedNet::open(Pair& pair, End& end) {
  end.is_open = true;
  for (std::uint16_t lane = 0; lane < pair.lanes; ++lane)
    if (!is_up_[lane]) end.news.push_back({.lane = lane, .is_up = false});
}

void ScriptedNet::finish_read(Pair& pair, const Event& event) {
  End& end = pair.ends[event.side];
  End::Read& read = end.reads[event.index];
  if (!read.is_posted || read.era != event.era) return;  // its lane failed
  End::Done done{.tag = read.tag, .lane = read.lane};
  const End& owner = pair.ends[1 - event.side];
  if (options_.loss > 0 && rng_.chance(options_.loss)) {
    ++reads_lost_;
    done.fault = FabricCompletion::Fault::kLost;
    end.error = absl::StrCat("a read by lane ", read.lane, " got no answer");
  } else {
    for (std::uint8_t i = 0; i < read.remotes; ++i) {
      const RemoteSpan& from = read.remote[i];
      if (owner.host->covers(from.key, from.address, from.bytes)) continue;
      done.fault = FabricCompletion::Fault::kRefused;
      end.error = end.host->describe_peer(end.peer) + " has no such memory";
    }
  }
  if (done.fault == FabricCompletion::Fault::kNone) {
    lane_bytes_[read.lane] += read.bytes;
    if (options_.copies) {
      std::size_t piece = 0;
      std::uint32_t used = 0;
      for (std::uint8_t i = 0; i < read.locals; ++i)
        for (std::uint32_t at = 0; at < read.local[i].bytes;) {
          const RemoteSpan& from = read.remote[piece];
          const std::uint32_t here = std::min(read.local[i].bytes - at, from.bytes - used);
          const std::byte* const bytes = owner.host->seen_by_device(from.key, from.address);
          std::byte* const place = end.host->seen_by_device(
              read.local[i].region.value, reinterpret_cast<std::uintptr_t>(read.local[i].data));
          std::memcpy(place + at, bytes + used, here);
          at += here;
          used += here;
          if (used != from.bytes) continue;
          used = 0;
          ++piece;
        }
    }
  }
  end_read(end, event.index);
  end.done.push_back(done);
}

void ScriptedNet::end_read(End& end, std::uint32_t index) {
  End::Read& read = end.reads[index];
  read.is_posted = false;
  ++read.era;
  --end.posted_reads[read.lane];
  end.posted_bytes[read.lane] -= read.bytes;
  end.all_posted_bytes -= read.bytes;
  end.free_reads.push_back(index);
}

void ScriptedNet::lose_reads(Pair& pair, std::uint16_t lane) {
  for (End& end : pair.ends)
    for (std::uint32_t i = 0; i < end.reads.size(); ++i) {
      End::Read& read = end.reads[i];
      if (!read.is_posted || read.lane != lane) continue;
      end_read(end, i);
      ++reads_lost_;
      end.done.push_back({.tag = read.tag, .lane = lane, .fault = FabricCompletion::Fault::kLost});
    }
}

void ScriptedNet::set_lane(std::uint16_t lane, bool is_up) {
  if (is_up_[lane] == is_up) return;
  is_up_[lane] = is_up;
  for (const auto& pair : pairs_) {
    if (lane >= pair->lanes) continue;
    if (!is_up) lose_reads(*pair, lane);
    for (End& end : pair->ends) {
      if (end.is_dropped || !end.is_open) continue;
      end.error = absl::StrCat("lane ", lane, ": its cable was pulled");
      SPINDRIFT_CHECK(!end.news.is_full());
      end.news.push_back({.lane = lane, .is_up = is_up});
    }
  }
}

}  // namespace spindrift::test
