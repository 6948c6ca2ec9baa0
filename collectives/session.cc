#include "collectives/session.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "collectives/wait_any.h"
#include "transport/base/printable.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kSetupTurn = std::chrono::milliseconds(20);
constexpr Duration kPingInterval = std::chrono::seconds(1);
// For the others to hear why the group has failed, before the connections go.
constexpr Duration kNoticePatience = std::chrono::milliseconds(200);
// Messages of calls that this rank has not started; beyond, peers are made to wait.
constexpr std::size_t kMaxEarly = 4096;
// Notices are longer than what the transport copies, so that their arrival is known.
constexpr std::size_t kNoticeBytes = 1024;

Endpoints endpoints_of(const std::vector<Listening>& listening) {
  Endpoints endpoints;
  for (const Listening& one : listening)
    endpoints.push_back(one.endpoint);
  return endpoints;
}

Duration spin_for(const CommunicatorOptions& options, const Roster& roster) {
  const std::uint64_t own = roster.seats[options.rank].host;
  const auto neighbours = std::count_if(roster.seats.begin(), roster.seats.end(),
                                        [&](const Seat& seat) { return seat.host == own; });
  return static_cast<unsigned>(neighbours) > usable_cores() ? Duration::zero() : options.spin;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Session::Ref Session::create(std::vector<Listening> listening, Roster roster,
                             const CommunicatorOptions& options) {
  return Ref(new Session(std::move(listening), std::move(roster), options));
}

Session::Session(std::vector<Listening> listening, Roster roster,
                 const CommunicatorOptions& options)
    : listening_(std::move(listening)),
      options_(options),
      spin_(spin_for(options, roster)),
      links_(endpoints_of(listening_), std::move(roster), options, *this),
      pool_(endpoints_of(listening_)),
      buffers_(endpoints_of(listening_)) {}

Session::~Session() {
  close();
}

Error Session::missing_neighbour(std::uint32_t peer) const {
  const double waited = seconds(options_.setup_timeout);
  if (peer < options_.rank) {
    return {ErrorCode::kTimedOut,
            absl::StrFormat("rank %d (%s) has not connected to rank %d within %.1f s; is it alive, "
                            "and can it reach %s?",
                            peer, links_.address(peer), options_.rank, waited,
                            links_.address(options_.rank))};
  }
  const std::string why = links_.is_lost(peer) ? links_.why_lost(peer)
                                               : absl::StrFormat("no answer within %.1f s", waited);
  return {ErrorCode::kIo, absl::StrFormat("rank %d could not connect to rank %d at %s: %s",
                                          options_.rank, peer, links_.address(peer), why)};
}

Status Session::connect_neighbours() {
  if (options_.ranks == 1) return ok_status();
  const std::uint32_t n = options_.ranks;
  const std::array<std::uint32_t, 2> peers{(options_.rank + 1) % n, (options_.rank + n - 1) % n};
  for (const std::uint32_t peer : peers) {
    if (Status status = links_.want(peer); !status.ok()) return status;
  }
  const Time deadline = links_.now() + options_.setup_timeout;
  for (;;) {
    const std::size_t happened = links_.poll();
    if (links_.is_open(peers[0]) && links_.is_open(peers[1])) return ok_status();
    const Time now = links_.now();
    for (const std::uint32_t peer : peers) {
      if (links_.is_lost(peer) || (now >= deadline && !links_.is_open(peer))) {
        return missing_neighbour(peer);
      }
    }
    if (happened == 0) links_.sleep(std::min<Duration>(kSetupTurn, deadline - now));
  }
}

Status Session::add_group(Group& group) {
  if (groups_[group.id] != nullptr || next_group_id_ == UINT8_MAX) {
    return Error(ErrorCode::kNoMemory,
                 "255 communicators were split from one; create others through a store");
  }
  groups_[group.id] = &group;
  next_group_id_ =
      static_cast<std::uint8_t>(std::max<std::uint32_t>(next_group_id_, group.id + 1U));
  return ok_status();
}

void Session::remove_group(Group& group) {
  if (groups_[group.id] == &group) groups_[group.id] = nullptr;
  for (std::size_t i = active_.size(); i > 0; --i) {
    Run& run = *active_[i - 1];
    if (run.call().group == group.id && group.in_flight > 0) finish(run);
  }
}

Run* Session::new_run(const Group& group) {
  if (group.runs[group.started % Group::kSlots] != nullptr) return nullptr;
  if (free_runs_.empty()) {
    runs_.push_back(std::make_unique<Run>(links_, pool_, static_cast<std::uint32_t>(runs_.size())));
    free_runs_.push_back(runs_.back().get());
  }
  Run* const run = free_runs_.back();
  free_runs_.pop_back();
  return run;
}

void Session::give_back(Run& run) {
  for (const RegionSet& set : run.belongings().sets)
    buffers_.release(set);
  run.belongings().sets.clear();
  if (run.belongings().plan_users != nullptr) --*run.belongings().plan_users;
  run.belongings().plan_users = nullptr;
  run.end();
  free_runs_.push_back(&run);
}

// Links for all messages of a plan. Shared memory needs them to hear of the end of others, and to
// wake them.
Status Session::want_links(const Group& group, const RunCall& call) {
  if (call.shared.area != nullptr) {
    for (const std::uint32_t rank : call.shared.tables->members()) {
      const std::uint32_t peer = group.members[rank];
      if (peer == options_.rank || links_.is_open(peer)) continue;
      if (Status status = links_.want(peer); !status.ok()) return status;
    }
  }
  for (const BoundLane& lane : call.plan->lanes()) {
    if (lane.direction == Direction::kLocal) continue;
    const std::uint32_t peer = group.members[lane.peer];
    if (links_.is_open(peer)) continue;
    if (Status status = links_.want(peer); !status.ok()) return status;
  }
  return ok_status();
}

Result<std::uint64_t> Session::start(Group& group, Run& run) {
  RunCall& call = run.call();
  if (Status status = want_links(group, call); !status.ok()) {
    give_back(run);
    return status.error();
  }
  call.group = group.id;
  call.operation = static_cast<std::uint32_t>(group.started);
  call.members = group.members;
  call.slices_in_flight = options_.slices_in_flight;
  if (Status status = run.begin(); !status.ok()) {
    give_back(run);
    return status.error();
  }
  group.runs[group.started % Group::kSlots] = &run;
  ++group.in_flight;
  const std::uint64_t number = group.started++;
  active_.push_back(&run);
  if (run.is_shared()) ++shared_runs_;
  has_moved_ = true;
  if (!early_.empty()) hand_over_early(group, run);
  // Done already, perhaps, or failed.
  if (find_run(group.id, call.operation, UINT32_MAX) == &run) advance(run);
  if (failure_ && !is_aborted_) finish_failing();
  return number;
}

void Session::advance(Run& run) {
  run.advance();
  settle(run);
}

// Ends a run that is over, or everything if it has failed.
void Session::settle(Run& run) {
  if (run.failure()) {
    const Run::Failure failure = *run.failure();
    const Group* const group = groups_[run.call().group];
    const std::uint32_t peer =
        failure.peer == kNobody || group == nullptr ? kNobody : group->members[failure.peer];
    (void)fail(ErrorCode::kIo, absl::StrFormat("rank %d %s", options_.rank, failure.what), peer);
    return;
  }
  if (run.is_done()) finish(run);
}

void Session::finish(Run& run) {
  Group* const group = groups_[run.call().group];
  if (group != nullptr) {
    group->runs[run.call().operation % Group::kSlots] = nullptr;
    --group->in_flight;
  }
  active_.erase(std::find(active_.begin(), active_.end(), &run));
  if (run.is_shared()) --shared_runs_;
  give_back(run);
}

Run* Session::find_run(std::uint8_t group, std::uint32_t operation, std::uint32_t mask) const {
  if (groups_[group] == nullptr) return nullptr;
  Run* const run = groups_[group]->runs[operation % Group::kSlots];
  return run != nullptr && (run->call().operation & mask) == (operation & mask) ? run : nullptr;
}

bool Session::on_message(std::uint32_t peer, const MessageHeader& header,
                         std::span<const std::byte> payload) {
  if (failure_ || is_closed_) return true;
  Run* const run = find_run(header.group, header.operation, UINT32_MAX);
  if (header.kind == MessageKind::kCalling && run == nullptr) return true;  // it says so again
  if (header.kind != MessageKind::kCalling) has_moved_ = true;
  if (header.kind == MessageKind::kNotice) {
    on_notice(peer, payload);
    return true;
  }
  if (run == nullptr) return keep_early(peer, header, payload);
  run->on_message(groups_[header.group]->ranks[peer], header, payload);
  advance(*run);
  return true;
}

bool Session::keep_early(std::uint32_t peer, const MessageHeader& header,
                         std::span<const std::byte> payload) {
  const Group* const group = groups_[header.group];
  const auto ahead = static_cast<std::int32_t>(
      header.operation - (group == nullptr ? 0 : static_cast<std::uint32_t>(group->started)));
  if (ahead < 0) {
    (void)fail(ErrorCode::kInvalidArgument,
               absl::StrFormat("rank %d: rank %d sends more for a call than this rank expects; all "
                               "ranks must call the same collectives in the same order",
                               options_.rank, peer),
               peer);
    return true;
  }
  if (early_.size() >= kMaxEarly) return false;
  Early one;
  if (!spare_early_.empty()) {
    one = std::move(spare_early_.back());
    spare_early_.pop_back();
  }
  one.header = header;
  one.peer = peer;
  one.payload.assign(payload.begin(), payload.end());
  early_.push_back(std::move(one));
  return true;
}

void Session::hand_over_early(const Group& group, Run& run) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < early_.size(); ++i) {
    Early& one = early_[i];
    if (one.header.group == group.id && one.header.operation == run.call().operation) {
      run.on_message(group.ranks[one.peer], one.header, one.payload);
      spare_early_.push_back(std::move(one));
    } else {
      if (kept != i) early_[kept] = std::move(one);
      ++kept;
    }
  }
  early_.resize(kept);
  links_.retry_held();
}

void Session::on_written(std::uint32_t peer, std::uint32_t immediate, std::uint64_t bytes) {
  if (failure_ || is_closed_) return;
  has_moved_ = true;
  const WriteTag tag = WriteTag::unpack(immediate);
  Run* const run = find_run(tag.group, tag.operation, WriteTag::kOperationMask);
  if (run == nullptr) return;
  run->on_written(groups_[tag.group]->ranks[peer], tag.channel, bytes);
  advance(*run);
}

void Session::on_write_done(std::uint64_t token) {
  if (failure_ || is_closed_) return;
  has_moved_ = true;
  Run& run = *runs_[token >> 32U];
  run.on_write_done(static_cast<std::uint32_t>(token));
  advance(run);
}

void Session::on_open(std::uint32_t peer) {
  has_moved_ = true;
  for (std::size_t i = active_.size(); i > 0 && !failure_; --i) {
    Run& run = *active_[std::min(i, active_.size()) - 1];
    const std::uint32_t rank = groups_[run.call().group]->ranks[peer];
    if (rank == kNobody) continue;
    run.on_open(rank);
    advance(run);
  }
}

void Session::on_lost(std::uint32_t peer, bool is_orderly, std::string why) {
  if (failure_ || is_closed_ || active_.empty()) return;
  bool is_needed = !is_orderly;
  for (const Run* run : active_) {
    const std::uint32_t rank = groups_[run->call().group]->ranks[peer];
    is_needed = is_needed || (rank != kNobody && run->needs(rank));
  }
  if (!is_needed) return;
  (void)fail(ErrorCode::kIo,
             absl::StrFormat("rank %d lost rank %d (%s) in the middle of a collective: %s",
                             options_.rank, peer, links_.address(peer), why),
             peer);
}

bool Session::is_in_child() {
  if (!guard_.is_in_child()) return false;
  if (!failure_) {
    failure_ = CommunicatorFailure{
        .error = Error(
            ErrorCode::kUnavailable,
            absl::StrFormat("rank %d: %s", options_.rank, ForkGuard::sentence("communicator"))),
        .rank = std::nullopt};
  }
  is_aborted_ = is_closed_ = true;
  return true;
}

Status Session::progress() {
  if (failure_ || is_in_child()) return failure_->error;
  is_idle_ = links_.poll() == 0;
  if (!failure_) advance_all();
  if (is_idle_ && !failure_ && !active_.empty()) on_idle_turn();
  if (!failure_) return ok_status();
  if (!is_aborted_) finish_failing();
  return failure_->error;
}

bool Session::is_idle() const {
  return is_idle_ && std::none_of(active_.begin(), active_.end(),
                                  [](const Run* run) { return run->has_more(); });
}

void Session::advance_all() {
  // advance() may take the run out of the list.
  for (std::size_t i = 0; i < active_.size() && !failure_;) {
    Run& run = *active_[i];
    if (run.is_shared() && run.advance_shared()) has_moved_ = true;
    if (run.has_blocked()) run.retry_blocked();
    if (run.has_more()) {
      run.advance();
      has_moved_ = true;
    }
    settle(run);
    if (i < active_.size() && active_[i] == &run) ++i;
  }
}

void Session::on_idle_turn() {
  last_look_ = links_.now();
  if (has_moved_) {
    has_moved_ = false;
    last_movement_ = last_look_;
    return;
  }
  const Duration silent_for = last_look_ - last_movement_;
  if (silent_for > kPingInterval && last_look_ - last_ping_ > kPingInterval) ping();
  if (silent_for <= options_.stall_timeout) return;
  (void)fail(
      ErrorCode::kTimedOut,
      absl::StrFormat("rank %d: nothing has moved for %.1f s while %s; is that rank alive "
                      "and in the same collective?",
                      options_.rank, seconds(silent_for), active_.front()->describe_waiting()),
      kNobody);
}

// Who only waits for a message would not notice that its sender is dead.
void Session::ping() {
  last_ping_ = last_look_;
  for (std::uint32_t peer = 0; peer < links_.ranks(); ++peer) {
    const bool is_needed = std::any_of(active_.begin(), active_.end(), [&](const Run* run) {
      const std::uint32_t rank = groups_[run->call().group]->ranks[peer];
      return rank != kNobody && run->needs(rank);
    });
    if (!is_needed || !links_.is_open(peer)) continue;
    (void)links_.send(peer, {.kind = MessageKind::kPing}, {});
    // It would never hear of a call that it does not make.
    for (const Run* run : active_) {
      const RunCall& call = run->call();
      if (!run->is_shared() || groups_[call.group]->ranks[peer] == kNobody) continue;
      (void)links_.send(peer,
                        {.kind = MessageKind::kCalling,
                         .group = call.group,
                         .operation = call.operation,
                         .fingerprint = call.fingerprint},
                        {});
      break;
    }
  }
}

Error Session::fail(ErrorCode code, const std::string& message, std::uint32_t rank) {
  if (failure_ || is_in_child()) return failure_->error;
  failure_ = CommunicatorFailure{
      .error = Error(code, message),
      .rank = rank == kNobody ? std::nullopt : std::optional<std::uint32_t>(rank)};
  spread(message, rank);
  return failure_->error;
}

void Session::spread(const std::string& message, std::uint32_t rank) {
  std::vector<std::byte> notice(kNoticeBytes);
  std::memcpy(notice.data(), &rank, sizeof(rank));
  std::memcpy(notice.data() + sizeof(rank), message.data(),
              std::min(message.size(), notice.size() - sizeof(rank)));
  const MessageHeader header{.kind = MessageKind::kNotice};
  for (std::uint32_t peer = 0; peer < links_.ranks(); ++peer) {
    if (peer != rank && links_.is_open(peer)) (void)links_.send(peer, header, notice);
  }
}

void Session::on_notice(std::uint32_t peer, std::span<const std::byte> payload) {
  std::uint32_t rank = kNobody;
  if (payload.size() < sizeof(rank)) return;
  std::memcpy(&rank, payload.data(), sizeof(rank));
  const char* const text = reinterpret_cast<const char*>(payload.data()) + sizeof(rank);
  std::string message = printable({text, strnlen(text, payload.size() - sizeof(rank))});
  constexpr std::string_view kFailed = ": the group has failed: ";
  const std::size_t passed_on = message.find(kFailed);
  if (passed_on != std::string::npos) message.erase(0, passed_on + kFailed.size());
  if (rank >= links_.ranks()) rank = kNobody;
  // Who passes it on is not named.
  constexpr std::string_view kSaid = " said: ";
  if (message.find(kSaid) == std::string::npos) {
    message = absl::StrFormat("rank %d%s%s", peer, std::string(kSaid), message);
  }
  message = absl::StrFormat("rank %d: the group has failed: %s", options_.rank, message);
  (void)fail(ErrorCode::kIo, std::move(message), rank);
}

// The others are told before the connections go; then nothing touches a buffer any more.
void Session::finish_failing() {
  is_aborted_ = true;
  const Time deadline = links_.now() + kNoticePatience;
  while (links_.unacknowledged() > 0 && links_.now() < deadline) {
    if (links_.poll() == 0) links_.sleep(std::chrono::milliseconds(1));
  }
  links_.abort_all();
  while (!active_.empty())
    finish(*active_.back());
}

void Session::close() {
  if (is_closed_ || is_in_child()) return;
  is_closed_ = true;
  if (!is_aborted_) links_.close_all();
  while (!active_.empty())
    finish(*active_.back());
  for (const Listening& one : listening_)
    one.endpoint->stop_listening(one.listener);
}

}  // namespace spindrift::collectives
