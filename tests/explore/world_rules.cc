// What must hold in an EngineWorld: of every completion, and when nothing is lost any more.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/explore/engine_world.h"
#include "transport/completions.h"

namespace spindrift::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSettleLimit = 15s;  // several times the sum of all limits of small_world()
constexpr int kMaxSteps = 100000;

std::string name_of(Side side) {
  return side == Side::kA ? "A" : "B";
}
bool is_final(Phase phase) {
  return phase == Phase::kOpen || is_over(phase);
}

}  // namespace

void EngineWorld::take(Side side) {
  Node& n = node(side);
  std::vector<Completion> done;
  n.engine->take_completions(done);
  if (config_.loses_a_completion && side == Side::kA && !done.empty()) {
    config_.loses_a_completion = false;
    done.erase(done.begin());
  }
  for (const Completion& one : done)
    on_completion(side, one);
  std::vector<ConnEvent> events;
  n.engine->take_events(events);
  for (const ConnEvent& event : events)
    on_event(side, event);
  // Requests that nobody accepted, and what became of them, are not kept.
  for (auto& holder : n.engine->context().connections)
    if (holder && is_over(holder->phase) && holder->id != n.conn && !holder->is_ready)
      n.engine->engine().release(*holder);
}

void EngineWorld::on_event(Side side, const ConnEvent& event) {
  Node& n = node(side);
  if (event.conn != n.conn || event.kind == ConnEvent::Kind::kRequest) return;
  if (std::find(n.events.begin(), n.events.end(), event.kind) != n.events.end())
    fail(absl::StrCat(name_of(side), " was told twice of the same"));
  const bool was_open = !n.events.empty();
  n.events.push_back(event.kind);
  if (event.kind == ConnEvent::Kind::kEstablished) return;
  // Its farewell went unanswered for the whole close timeout: whoever still works on the connection
  // learns that it is gone.
  if (event.kind == ConnEvent::Kind::kClosed &&
      absl::StrContains(connection(side)->error, "closed without it"))
    has_cause_ = true;
  if (event.kind == ConnEvent::Kind::kFailed && was_open && !has_cause_ && !has_lied)
    fail(absl::StrCat(name_of(side), " failed without a cause: ", connection(side)->error));
  for (std::size_t i = 0; i < n.work.size(); ++i)
    if (!n.work[i].is_done)
      fail(absl::StrCat(name_of(side), " was told of the end before its work ", i,
                        " had completed"));
}

void EngineWorld::on_completion(Side side, const Completion& one) {
  Node& n = node(side);
  if (one.conn != n.conn || one.user_data >= n.work.size()) {
    fail(absl::StrCat(name_of(side), " got a completion of work it never posted"));
    return;
  }
  Work& work = n.work[one.user_data];
  if (work.is_done)
    fail(absl::StrCat(name_of(side), "'s work ", one.user_data, " completed twice"));
  work.is_done = true;
  work.status = one.status;
  if (one.kind != work.kind) fail(absl::StrCat(name_of(side), ": a completion of another kind"));
  if (one.status == OpStatus::kTimedOut && !work.has_deadline)
    fail(absl::StrCat(name_of(side), "'s work timed out and had no deadline"));
  const bool is_receive = work.kind == OpKind::kReceive;
  for (std::size_t i = 0; i < one.user_data; ++i)
    if (!n.work[i].is_done && is_receive == (n.work[i].kind == OpKind::kReceive))
      fail(absl::StrCat(name_of(side), "'s work ", one.user_data, " completed before work ", i));
  if (one.status == OpStatus::kOk && !has_lied)
    on_success(side, work, one);
  else if (work.must_succeed)
    fail(absl::StrCat(name_of(side),
                      "'s work failed on a good network: ", std::string(to_string(one.status))));
}

bool EngineWorld::holds(Side side, std::size_t at, const Work& work) const {
  const Node& holder = nodes_[static_cast<std::size_t>(side)];
  const Node& owner = nodes_[static_cast<std::size_t>(other(side))];
  return std::equal(holder.memory.begin() + static_cast<std::ptrdiff_t>(at),
                    holder.memory.begin() + static_cast<std::ptrdiff_t>(at + work.bytes),
                    owner.memory.begin() + static_cast<std::ptrdiff_t>(work.at));
}

void EngineWorld::on_success(Side side, const Work& work, const Completion& one) {
  Node& n = node(side);
  const Node& peer = node(other(side));
  switch (work.kind) {
    case OpKind::kReceive:
      on_received(side, work, one);
      return;
    case OpKind::kWrite:
    case OpKind::kWriteImm:
      if (!holds(other(side), work.target, work))
        fail(absl::StrCat(name_of(side), "'s WRITE completed and its bytes are not there"));
      break;
    case OpKind::kRead:
      if (std::memcmp(n.memory.data() + work.at, peer.memory.data(), work.bytes) != 0)
        fail(absl::StrCat(name_of(side), "'s READ brought other bytes"));
      break;
    case OpKind::kFetchAdd:
    case OpKind::kCompareSwap: {
      std::uint64_t old = 0;
      std::memcpy(&old, n.memory.data() + work.at, sizeof(old));
      if (old < n.adds_done || old > work.adds_before)
        fail(absl::StrCat(name_of(side), "'s FETCH_ADD found ", old, ", not ", n.adds_done, "..",
                          work.adds_before));
      ++n.adds_done;
      break;
    }
    case OpKind::kSend:
      break;
  }
  if (one.bytes != work.bytes) fail(absl::StrCat(name_of(side), ": a completion of other length"));
}

void EngineWorld::on_received(Side side, const Work& receive, const Completion& one) {
  Node& n = node(side);
  const Node& peer = node(other(side));
  if (n.is_stale) return;
  while (n.received < peer.messages.size()) {
    const Work& message = peer.work[peer.messages[n.received]];
    const std::size_t at = message.kind == OpKind::kWriteImm ? message.target : receive.at;
    const bool is_it = message.bytes == one.bytes && holds(side, at, message) &&
                       one.has_immediate == (message.kind == OpKind::kWriteImm);
    ++n.received;
    if (is_it) return;
    if (!message.has_deadline) break;  // one whose deadline passed unsent is never seen
  }
  fail(absl::StrCat(name_of(side), " received what was not sent, or out of order"));
}

bool EngineWorld::has_unfinished_requests(Side side) const {
  const Node& n = nodes_[static_cast<std::size_t>(side)];
  return std::any_of(n.work.begin(), n.work.end(), [](const Work& work) {
    return !work.is_done && work.kind != OpKind::kReceive;
  });
}

// RECEIVEs that messages of the other side still need here.
std::size_t EngineWorld::receives_missing(Side side) const {
  const Node& n = nodes_[static_cast<std::size_t>(side)];
  const Node& peer = nodes_[static_cast<std::size_t>(other(side))];
  const auto waiting =
      static_cast<std::size_t>(std::count_if(n.work.begin(), n.work.end(), [](const Work& work) {
        return !work.is_done && work.kind == OpKind::kReceive;
      }));
  const auto coming = static_cast<std::size_t>(
      std::count_if(peer.messages.begin(), peer.messages.end(),
                    [&peer](std::size_t index) { return !peer.work[index].is_done; }));
  return coming > waiting ? coming - waiting : 0;
}

bool EngineWorld::is_settled() {
  for (const Side side : {Side::kA, Side::kB}) {
    if (!channel(side).empty() || has_unfinished_requests(side)) return false;
    const Connection* c = connection(side);
    if (c != nullptr && !is_final(c->phase)) return false;
  }
  return request_of_a() == nullptr;
}

bool EngineWorld::run_until_settled() {
  const Time limit = now_ + kSettleLimit;
  for (int step = 0; step < kMaxSteps && failure_.empty(); ++step) {
    accept();
    for (const Side side : {Side::kA, Side::kB})
      if (const Connection* c = connection(side); c != nullptr && c->phase == Phase::kOpen)
        if (receives_missing(side) != 0) post_receive(side);
    if (is_settled()) return true;
    if (now_ > limit) return false;
    if (channel(Side::kA).empty() && channel(Side::kB).empty()) {
      if (!advance()) return false;
      continue;
    }
    for (const Side side : {Side::kA, Side::kB})
      for (std::size_t left = channel(side).size(); left != 0; --left)
        deliver(side, 0);
    pass(10us);
  }
  return !failure_.empty();
}

// A lie may leave a peer that answers and never does what it was asked: only deadlines and abort()
// end that.
void EngineWorld::settle() {
  is_lossless_ = true;
  const bool is_settled_now = run_until_settled();
  if (!is_settled_now && !has_lied) {
    std::string who;
    for (const Side side : {Side::kA, Side::kB})
      if (const Connection* c = connection(side))
        absl::StrAppend(&who, " ", name_of(side), " is in phase ", static_cast<int>(c->phase),
                        has_unfinished_requests(side) ? " with unfinished work;" : ";");
    fail(absl::StrCat("stuck though nothing is lost any more:", who));
  }
  if (failure_.empty() && !has_lied) check_agreement();
  if (failure_.empty() && !has_lied) close_both();
  leave_both();
}

void EngineWorld::check_agreement() {
  const Connection* a = connection(Side::kA);
  const Connection* b = connection(Side::kB);
  const bool both_open = are_linked() && a->phase == Phase::kOpen && b->phase == Phase::kOpen;
  if (both_open) {
    const auto low = [](Psn psn) { return static_cast<std::uint32_t>(psn.value); };
    if (low(a->first_psn) != low(b->peer_first_psn) || low(b->first_psn) != low(a->peer_first_psn))
      fail("both sides are open and disagree where the PSNs start");
    must_succeed_ = true;
    for (const Side side : {Side::kA, Side::kB})
      for (const OpKind kind : {OpKind::kSend, OpKind::kFetchAdd})
        post(side, kind, 700);
    if (!run_until_settled()) fail("both sides are open and data does not flow");
    return;
  }
  for (const Side side : {Side::kA, Side::kB})
    check_half(side);
}

// Open alone: the first work that wants the other side must end, by whatever tells it.
void EngineWorld::check_half(Side side) {
  const Connection* c = connection(side);
  if (c == nullptr || c->phase != Phase::kOpen) return;
  post(side, OpKind::kWrite, 8);
  if (!run_until_settled())
    fail(absl::StrCat(name_of(side), " is open alone and its work never ends"));
  const Node& n = node(side);
  if (!are_linked() && !n.work.empty() && n.work.back().is_done &&
      n.work.back().status == OpStatus::kOk)
    fail(absl::StrCat(name_of(side), "'s WRITE succeeded and nobody is there"));
}

void EngineWorld::close_both() {
  close(Side::kA);
  close(Side::kB);
  const auto is_gone = [this](Side side) {
    const Connection* c = connection(side);
    return c == nullptr || is_over(c->phase);
  };
  if (!run_until_settled() || !is_gone(Side::kA) || !is_gone(Side::kB))
    fail("close() does not end");
}

void EngineWorld::leave_both() {
  for (const Side side : {Side::kA, Side::kB}) {
    leave(side);
    Node& n = node(side);
    if (failure_.empty() && !n.engine->context().memory.remove(n.region, UINT64_MAX).ok())
      fail(absl::StrCat("all work of ", name_of(side), " has ended and its memory is still held"));
  }
}

}  // namespace spindrift::test
