#include <algorithm>
#include <map>
#include <string>

#include "tests/explore/loose_engine.h"
#include "transport/connection_timers.h"

namespace spindrift::test {
namespace {

using State = SentUnit::State;

bool is_waiting_to_be_sent(Connection& c, Psn psn) {
  const Ring<Psn>& lost = c.send->lost;
  for (std::size_t i = 0; i < lost.size(); ++i)
    if (lost[i] == psn) return true;
  return false;
}

// A unit that waits for the receiver to be ready is asked for again by somebody.
bool is_retried(Connection& c) {
  if (!c.send->stalled) return false;
  const SentUnit* asked = c.send->log.find(*c.send->stalled);
  if (asked == nullptr) return false;
  if (asked->state == State::kStalled) return c.send->stalled_retry != kNever || c.is_ready;
  return asked->state == State::kInFlight || asked->state == State::kLost;
}

std::string check_path_list(Connection& c, PathId path) {
  std::uint32_t count = 0;
  std::uint64_t last = 0;
  for (const SentUnit* unit = c.send->log.path_head(path); unit != nullptr;
       unit = c.send->log.path_next(*unit)) {
    if (unit->state != State::kInFlight || unit->path != path) return "a path lists a stranger";
    if (unit->path_seq.value <= last) return "a path's list is out of send order";
    last = unit->path_seq.value;
    ++count;
  }
  return count == c.send->log.path_in_flight(path) ? "" : "a path's packets are miscounted";
}

std::string check_log(Connection& c) {
  SentLog& log = c.send->log;
  if (log.oldest() > log.next()) return "the sent log's edges crossed";
  std::uint64_t bytes = 0;
  std::uint32_t packets = 0;
  bool has_stalled = false;
  std::map<std::uint64_t, std::uint32_t> unacked;
  for (Psn psn = log.oldest(); psn < log.next(); ++psn.value) {
    const SentUnit* unit = log.find(psn);
    if (unit == nullptr || unit->psn != psn) return "a PSN is not in the sent log";
    if (unit->transmissions == 0) return "a PSN was given out and never sent";
    if (unit->state == State::kInFlight) {
      bytes += unit->nominal_bytes;
      ++packets;
    }
    if (unit->state == State::kLost && !is_waiting_to_be_sent(c, psn))
      return "a lost packet waits for nobody";
    has_stalled = has_stalled || unit->state == State::kStalled;
    if (unit->state != State::kAcked && unit->kind == SentUnit::Kind::kRequest)
      ++unacked[unit->owner];
  }
  if (bytes != c.flow->in_flight()) return "bytes in flight: flow and sent log disagree";
  if (packets != log.in_flight_packets()) return "packets in flight are miscounted";
  if (has_stalled && !is_retried(c)) return "a message waits for its RECEIVE and nobody asks";
  const Ring<Request>& requests = c.send->queue.requests;
  for (std::uint64_t at = requests.front_serial(); at != requests.end_serial(); ++at)
    if (requests.at_serial(at).unacked_packets != unacked[at])
      return "a request's unacknowledged packets are miscounted";
  return "";
}

std::string check_connection(EngineContext& ctx, Connection& c, Time now) {
  if (!carries_data(c.phase)) return "";
  std::string broken = check_log(c);
  for (std::uint32_t i = 0; i < c.send->log.path_count() && broken.empty(); ++i)
    broken = check_path_list(c, PathId{static_cast<std::uint16_t>(i)});
  if (!broken.empty()) return broken;
  if (!c.is_ready && ctx.timers.armed(c.index) > next_timer(c, now))
    return "a deadline would be missed";
  if (c.send->log.in_flight_packets() != 0 && ctx.timers.armed(c.index) == kNever)
    return "packets are in flight and no timer runs";
  return "";
}

}  // namespace

std::string broken_invariant(EngineContext& ctx, Time now) {
  std::uint32_t half_open = 0;
  std::uint32_t open = 0;
  std::uint32_t waiting = 0;
  std::size_t count = 0;
  for (auto& holder : ctx.connections) {
    if (!holder) continue;
    ++count;
    half_open += holder->phase == Phase::kRequested || holder->phase == Phase::kAccepting ? 1 : 0;
    waiting += holder->phase == Phase::kRequested ? 1 : 0;
    open += carries_data(holder->phase) ? 1 : 0;
    std::string broken = check_connection(ctx, *holder, now);
    if (!broken.empty()) return broken;
  }
  if (half_open != ctx.half_open) return "half-open connections are miscounted";
  if (open != ctx.open_connections) return "open connections are miscounted";
  if (ctx.by_nonce.size() > count) return "nonces outlive their connections";
  std::uint32_t told = 0;
  for (const Listener& listener : ctx.listeners) {
    if (listener.waiting > listener.options.backlog) return "a backlog is longer than allowed";
    told += listener.waiting;
  }
  if (told != waiting) return "requests that wait for accept() are miscounted";
  if (ctx.strangers.size() > ctx.strangers.capacity()) return "too many answers to strangers";
  return "";
}

}  // namespace spindrift::test
