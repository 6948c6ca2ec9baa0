// How links come about, over which endpoint, and how they end.
#include <algorithm>
#include <utility>

#include <absl/strings/str_format.h>

#include "collectives/links.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(10);
// The longest that the transport takes.
constexpr Duration kMaxConnectTimeout = std::chrono::hours(1);

}  // namespace

Status Links::want(std::uint32_t peer) {
  Link& link = links_[peer];
  if (link.state == State::kLost) {
    return Error(ErrorCode::kUnavailable,
                 absl::StrFormat("rank %d: rank %d (%s) has left the group: %s", rank_, peer,
                                 address(peer), link.why_lost));
  }
  if (link.state != State::kNone) return ok_status();
  if (Status status = make_send_slots(); !status.ok()) return status;
  link.state = State::kWanted;
  return peer < rank_ ? ok_status() : dial(peer);
}

Status Links::dial(std::uint32_t peer) {
  ConnectOptions connection = options_.connection;
  connection.private_data = serialize(Greeting{.nonce = roster_.nonce,
                                               .from = rank_,
                                               .to = peer,
                                               .ranks = ranks(),
                                               .slice_bytes = options_.slice_bytes});
  // The peer may still be on its way from the store, or busy with what comes before this call.
  connection.connect_timeout = std::min<Duration>(
      std::max({connection.connect_timeout, options_.setup_timeout, options_.stall_timeout}),
      kMaxConnectTimeout);
  Result<ConnId> conn = endpoint(peer).connect(address(peer), connection);
  if (!conn.ok() && is_near(peer)) {
    leave_near(peer, conn.error().message());
    conn = endpoint(peer).connect(address(peer), connection);
  }
  if (!conn.ok()) return could_not_connect(peer, conn.error());
  links_[peer].state = State::kDialling;
  return prepare(peer, conn.value());
}

Status Links::could_not_connect(std::uint32_t peer, const Error& error) const {
  const std::string& far = links_[peer].why_far;
  return Error(error.code(), absl::StrFormat("rank %d could not connect to rank %d at %s: %s%s%s",
                                             rank_, peer, address(peer), error.message(),
                                             far.empty() ? "" : "; nor by shared memory: ", far));
}

// The link is made over the network, like those of ranks on other hosts.
void Links::leave_near(std::uint32_t peer, const std::string& why) {
  Link& link = links_[peer];
  if (link.conn != ConnId{}) {
    endpoint(peer).abort(link.conn);
    endpoint(peer).release(link.conn);
    (void)endpoint(peer).deregister_memory(link.region);
    link.slots = Pages();
    std::erase_if(unposted_, [&](const Unposted& one) { return one.peer == peer; });
  }
  link.conn = {};
  link.state = State::kWanted;
  --links_via_[link.via];
  link.via = 0;
  ++links_via_[0];
  link.why_far = why;
  // Who is called says nothing: the caller knows the reason and has told it.
  if (peer < rank_ || std::exchange(has_noted_, true) || !options_.on_note) return;
  options_.on_note(absl::StrFormat(
      "rank %d talks to rank %d over %s and not over shared memory, although both are on one host: "
      "%s",
      rank_, peer, address(peer), why));
}

// Whether a link that was lost before it stood comes again over the network: dialled from here, or
// from there if it is the peer that dials.
bool Links::falls_back(std::uint32_t peer, const std::string& why) {
  const State state = links_[peer].state;
  const bool is_coming = state == State::kDialling || state == State::kAccepted;
  if (is_closing_ || !is_near(peer) || !is_coming) return false;
  leave_near(peer, why);
  return state == State::kAccepted || dial(peer).ok();
}

// Slots are posted before the peer can send, so that no message ever waits for one.
Status Links::prepare(std::uint32_t peer, ConnId conn) {
  Link& link = links_[peer];
  link.conn = conn;
  Result<Pages> memory = Pages::map(receive_slots_ * kSlotBytes);
  if (!memory.ok()) return memory.error();
  const Result<MemoryRegion> region =
      endpoint(peer).register_memory(memory.value().bytes(), Access::kLocalWrite);
  if (!region.ok()) return region.error();
  link.slots = std::move(memory).value();
  link.region = region.value();
  for (std::uint32_t slot = 0; slot < receive_slots_; ++slot) {
    if (!post_slot(peer, slot)) {
      return Error(
          ErrorCode::kNoMemory,
          absl::StrFormat("the receive queue is shorter than the %d slots of a link: raise "
                          "receive_queue",
                          receive_slots_));
    }
  }
  return ok_status();
}

// Empty: the caller is `peer`, whose link is still missing.
std::string Links::why_not_welcome(std::size_t via, const ConnInfo& info,
                                   std::uint32_t& peer) const {
  const Greeting expected{
      .nonce = roster_.nonce, .to = rank_, .ranks = ranks(), .slice_bytes = options_.slice_bytes};
  std::string reason = why_not(expected, info.private_data, peer);
  if (!reason.empty()) return reason;
  if (peer >= rank_) return absl::StrFormat("rank %d is called by lower ranks only", rank_);
  const Link& link = links_[peer];
  const bool is_second_try = via == 0 && is_near(peer) && link.state != State::kOpen;
  if (link.conn != ConnId{} && !is_second_try) {
    return absl::StrFormat("rank %d is connected already", peer);
  }
  if (via != 0 && !is_near(peer)) {
    return absl::StrFormat("rank %d is to be called at %s", rank_, roster_.seats[rank_].address);
  }
  return is_closing_ ? absl::StrFormat("rank %d is leaving", rank_) : std::string();
}

void Links::on_request(std::size_t via, ConnId conn) {
  Endpoint& called = *endpoints_[via];
  const Result<ConnInfo> info = called.info(conn);
  if (!info.ok()) return;
  std::uint32_t peer = 0;
  std::string reason = why_not_welcome(via, info.value(), peer);
  if (reason.empty()) {
    if (via == 0 && is_near(peer)) leave_near(peer, "that rank called over the network");
    Status status = make_send_slots();
    if (status.ok()) status = prepare(peer, conn);
    if (status.ok()) status = called.accept(conn, options_.connection);
    if (!status.ok()) reason = status.error().message();
  }
  // Strangers and leftovers of other jobs are told, and do not stop this one.
  if (!reason.empty()) {
    (void)called.reject(conn, reason);
    return;
  }
  links_[peer].state = State::kAccepted;
}

void Links::lose(std::uint32_t peer, bool is_orderly, std::string why) {
  Link& link = links_[peer];
  if (link.state == State::kLost || falls_back(peer, why)) return;
  link.state = State::kLost;
  link.why_lost = why.empty() ? "it has closed the connection" : std::move(why);
  std::erase_if(unposted_, [&](const Unposted& one) { return one.peer == peer; });
  sink_.on_lost(peer, is_orderly, link.why_lost);
}

void Links::abort_all() {
  is_closing_ = true;
  for (Link& link : links_) {
    if (link.conn != ConnId{} && !is_over(link)) endpoints_[link.via]->abort(link.conn);
    if (link.state != State::kNone) link.state = State::kLost;
  }
  drain();
}

bool Links::is_over(const Link& link) const {
  const Result<ConnInfo> info = endpoints_[link.via]->info(link.conn);
  return !info.ok() || info.value().state == ConnState::kClosed ||
         info.value().state == ConnState::kFailed;
}

// The lower rank closes, after both have said goodbye: before that, the peer may lack the
// acknowledgement of its last message, and would take the farewell for a failure.
void Links::close_all() {
  if (is_closing_) return;
  is_closing_ = true;
  const Time deadline = now() + options_.connection.close_timeout;
  for (bool is_waiting = true; is_waiting && now() < deadline;) {
    is_waiting = false;
    for (std::uint32_t peer = 0; peer < ranks(); ++peer)
      if (links_[peer].state == State::kOpen) is_waiting = part_with(peer) || is_waiting;
    if (poll() == 0 && is_waiting) sleep(kTurn);
  }
  abort_all();
}

// Whether the connection is still there.
bool Links::part_with(std::uint32_t peer) {
  Link& link = links_[peer];
  if (!link.has_said_goodbye) {
    const MessageHeader header{.kind = MessageKind::kGoodbye};
    const PostOutcome outcome = send(peer, header, {});
    if (outcome != PostOutcome::kPosted) return outcome == PostOutcome::kFull;
    link.has_said_goodbye = true;
  }
  if (link.has_heard_goodbye && peer > rank_) endpoint(peer).close(link.conn);
  return !is_over(link);
}

}  // namespace spindrift::collectives
