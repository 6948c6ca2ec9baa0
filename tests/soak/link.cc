#include "tests/soak/link.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace spindrift::soak {
namespace {

constexpr std::size_t kCellBytes = 64;  // apart, as programs keep them

bool meets_receive(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kWriteImm;
}
bool is_atomic(OpKind kind) {
  return kind == OpKind::kFetchAdd || kind == OpKind::kCompareSwap;
}
bool writes(OpKind kind) {
  return kind == OpKind::kWrite || kind == OpKind::kWriteImm;
}
std::vector<std::size_t> numbers(std::size_t count) {
  std::vector<std::size_t> out;
  for (std::size_t i = count; i != 0; --i)
    out.push_back(i - 1);
  return out;
}

}  // namespace

Link::Link(std::uint32_t id, const Plan& plan, Host& initiator, Host& target)
    : id_(id), plan_(plan) {
  side(End::kInitiator).host = &initiator;
  side(End::kTarget).host = &target;
  set_up(End::kInitiator);
  set_up(End::kTarget);
}

void Link::set_up(End end) {
  Side& s = side(end);
  Endpoint& endpoint = s.host->endpoint();
  s.incarnation = s.host->incarnation();
  const std::size_t bytes = std::size_t{plan_.slots} * plan_.max_bytes;
  s.source.emplace(endpoint, 2 * std::size_t{plan_.max_bytes}, Access::kRemoteRead);
  for (std::size_t i = 0; i < s.source->area().size(); ++i)
    s.source->data()[i] = pattern(stream(end), i);
  s.written.emplace(endpoint, bytes, Access::kRemoteWrite);
  s.received.emplace(endpoint, bytes, Access::kLocalWrite);
  s.results.emplace(endpoint, bytes, Access::kLocalWrite);
  s.cells.emplace(endpoint, kCells * kCellBytes, Access::kRemoteAtomic);
  std::fill(s.cells->area().begin(), s.cells->area().end(), std::byte{0});
  s.forbidden.emplace(endpoint, 4096, Access::kLocalWrite);
  s.free_written = numbers(plan_.slots);
  s.free_received = numbers(plan_.slots);
  s.free_results = numbers(plan_.slots);
}

void Link::fail(End end, const std::string& sentence) {
  if (failure_.empty())
    failure_ = absl::StrCat("link ", id_,
                            end == End::kInitiator ? ", initiator: " : ", target: ", sentence);
}

bool Link::is_at(const Host& host, ConnId conn, End& end) const {
  for (const End one : {End::kInitiator, End::kTarget}) {
    if (side(one).host != &host || side(one).conn != conn || side(one).is_gone) continue;
    end = one;
    return true;
  }
  return false;
}

// --- opening and ending ----------------------------------------------------------------------

void Link::connect(Rng& rng) {
  Side& s = side(End::kInitiator);
  ConnectOptions options = plan_.options;
  options.private_data.resize(sizeof(id_));
  std::memcpy(options.private_data.data(), &id_, sizeof(id_));
  s.uses_shared_queue = s.host->has_shared_queue() && rng.below(2) == 0;
  if (s.uses_shared_queue) options.shared_receive_queue = s.host->shared_queue();
  const auto conn = s.host->endpoint().connect(host(End::kTarget).address(), options);
  if (conn.ok())
    s.conn = conn.value();
  else
    fail(End::kInitiator, conn.error().message());
}

void Link::accept(ConnId conn, Rng& rng) {
  Side& s = side(End::kTarget);
  s.conn = conn;
  ConnectOptions options = plan_.options;
  options.path_count = 1 + static_cast<std::uint32_t>(rng.below(16));
  s.uses_shared_queue = s.host->has_shared_queue() && rng.below(2) == 0;
  if (s.uses_shared_queue) options.shared_receive_queue = s.host->shared_queue();
  const Status accepted = s.host->endpoint().accept(conn, options);
  if (!accepted.ok()) fail(End::kTarget, accepted.error().message());
}

void Link::reject(ConnId conn) {
  Side& s = side(End::kTarget);
  expect_trouble();
  if (!s.host->endpoint().reject(conn, "not today").ok()) fail(End::kTarget, "cannot reject");
  s.host->endpoint().release(conn);
  s.is_over = true;
}

// Two ends that both close need all RECEIVEs beforehand: none can be posted any more.
void Link::close(End end) {
  Side& s = side(end);
  Side& peer = side(other(end));
  if (!is_open(end) || s.is_closing) return;
  if (peer.is_closing && (peer.messages.size() > s.receives || s.messages.size() > peer.receives))
    return;
  s.is_closing = true;
  peer.may_fail = true;
  s.host->endpoint().close(s.conn);
}

void Link::abort(End end) {
  if (is_over(end) || side(end).conn.value == 0) return;
  expect_trouble();
  side(end).host->endpoint().abort(side(end).conn);
}

void Link::vanish(const Host& host) {
  for (const End end : {End::kInitiator, End::kTarget}) {
    Side& s = side(end);
    if (s.host != &host || s.is_gone) continue;
    s.is_gone = true;
    if (s.is_over) continue;
    s.failed.insert(s.failed.end(), s.outstanding.begin(), s.outstanding.end());
    s.outstanding.clear();
    expect_trouble();
  }
}

void Link::expect_trouble() {
  side(End::kInitiator).may_fail = true;
  side(End::kTarget).may_fail = true;
}

// A peer whose message met no RECEIVE of a side that has closed ends the connection for both.
bool Link::may_fail(End end) const {
  const Side& s = ends_[index(end)];
  return s.may_fail || (s.is_closing && !ends_[index(other(end))].messages.empty());
}

void Link::on_event(End end, ConnEvent::Kind kind) {
  Side& s = side(end);
  if (kind == ConnEvent::Kind::kRequest) return;
  if (s.is_over) fail(end, "an event after the end");
  if (kind == ConnEvent::Kind::kEstablished) {
    if (s.is_open) fail(end, "established twice");
    s.is_open = true;
    return;
  }
  for (const Operation& operation : s.outstanding) {
    if (!operation.is_unsignaled) fail(end, "the connection ended before its work");
    on_success(end, operation);
  }
  s.outstanding.clear();
  s.is_over = true;
  const bool is_expected = may_fail(end) || (kind == ConnEvent::Kind::kClosed &&
                                             (s.is_closing || side(other(end)).is_closing));
  if (!is_expected)
    fail(end, absl::StrCat("failed without a cause: ", s.host->endpoint().last_error(s.conn)));
}

bool Link::is_idle(End end) const {
  const Side& s = side(end);
  return std::all_of(s.outstanding.begin(), s.outstanding.end(), [](const Operation& one) {
    return one.is_unsignaled;  // at last nobody tells of it
  });
}

bool Link::is_half() const {
  return !is_finished() && (is_over(End::kInitiator) || is_over(End::kTarget));
}

std::string Link::describe() const {
  std::string out = absl::StrCat("link ", id_);
  for (const End end : {End::kInitiator, End::kTarget}) {
    const Side& s = side(end);
    absl::StrAppend(&out, end == End::kInitiator ? ", initiator " : ", target ",
                    s.is_gone   ? "gone"
                    : s.is_over ? "over"
                    : s.is_open ? "open"
                                : "opening",
                    " with ", s.outstanding.size(), " operations and ", s.receives, " RECEIVEs");
  }
  return out;
}

// --- completions -----------------------------------------------------------------------------

void Link::on_completion(End end, const Completion& one) {
  Side& s = side(end);
  if (s.is_over) fail(end, "a completion after the end");
  if (one.kind == OpKind::kReceive)
    on_receive_done(end, one);
  else
    on_request_done(end, one);
}

void Link::on_request_done(End end, const Completion& one) {
  Side& s = side(end);
  const std::uint64_t serial = one.user_data & 0xffffffff;
  while (!s.outstanding.empty() && s.outstanding.front().serial < serial) {
    if (!s.outstanding.front().is_unsignaled) fail(end, "a completion out of posting order");
    on_success(end, s.outstanding.front());
    s.outstanding.pop_front();
  }
  if (s.outstanding.empty() || s.outstanding.front().serial != serial) {
    fail(end, "a completion of work that was not posted, or completed before");
    return;
  }
  const Operation operation = s.outstanding.front();
  s.outstanding.pop_front();
  if (one.kind != operation.kind) fail(end, "a completion of another kind");
  if (one.status != OpStatus::kOk) {
    on_failure(end, operation, one.status);
    return;
  }
  if (operation.is_unsignaled) fail(end, "a completion of unsignaled work that succeeded");
  if (one.bytes != operation.length) fail(end, "a completion with another length");
  on_success(end, operation);
}

bool Link::holds(const std::byte* at, std::uint64_t seed, const Operation& operation) const {
  for (std::uint64_t i = 0; i < operation.length; ++i)
    if (at[i] != pattern(seed, operation.from + i)) return false;
  return std::all_of(at + operation.length, at + plan_.max_bytes,
                     [](std::byte one) { return one == kCanary; });
}

bool Link::holds_part(const std::byte* at, std::uint64_t seed, const Operation& operation) const {
  for (std::uint64_t i = 0; i < plan_.max_bytes; ++i)
    if (at[i] != kCanary && (i >= operation.length || at[i] != pattern(seed, operation.from + i)))
      return false;
  return true;
}

void Link::on_success(End end, const Operation& operation) {
  Side& s = side(end);
  Side& peer = side(other(end));
  if (operation.mistake != Mistake::kNone) fail(end, "a mistake succeeded");
  if (meets_receive(operation.kind)) {
    for (Operation& message : s.messages) {
      if (message.serial != operation.serial) continue;
      message.is_done = true;
      return;  // its slot is free when the RECEIVE has completed too
    }
  }
  const std::byte* result = s.results->data() + operation.slot * plan_.max_bytes;
  if (writes(operation.kind)) {
    if (!holds(peer.written->data() + operation.slot * plan_.max_bytes, stream(end), operation))
      fail(end, "a WRITE completed and its bytes are not in place");
  } else if (operation.kind == OpKind::kRead) {
    if (!holds(result, stream(other(end)), operation)) fail(end, "a READ brought other bytes");
  } else if (is_atomic(operation.kind)) {
    if (std::memcmp(result, &operation.old_value, sizeof(operation.old_value)) != 0)
      fail(end, "an atomic found another value");
    Cell& cell = peer.model[operation.cell];
    cell.reached = std::max(cell.reached, operation.history);
  }
  give_back(end, operation);
}

// The slots of an operation that has ended well are used again.
void Link::give_back(End end, const Operation& operation) {
  Side& s = side(end);
  Side& peer = side(other(end));
  if (operation.kind == OpKind::kSend) return;
  Side& owner = writes(operation.kind) ? peer : s;
  Block& block = writes(operation.kind) ? *peer.written : *s.results;
  std::fill_n(block.data() + operation.slot * plan_.max_bytes, plan_.max_bytes, kCanary);
  (writes(operation.kind) ? owner.free_written : owner.free_results).push_back(operation.slot);
}

void Link::on_failure(End end, const Operation& operation, OpStatus status) {
  Side& s = side(end);
  s.failed.push_back(operation);
  const std::string name(to_string(status));
  constexpr OpStatus kExpected[] = {OpStatus::kOk, OpStatus::kRemoteKey, OpStatus::kRemoteAccess,
                                    OpStatus::kRemoteBounds};
  const bool is_flush = status == OpStatus::kFlushed || status == OpStatus::kPeerGone;
  const bool is_told = status == kExpected[static_cast<std::size_t>(operation.mistake)];
  const bool is_late = status == OpStatus::kTimedOut && operation.has_deadline;
  if (!may_fail(end))
    fail(end, absl::StrCat("failed without a cause: ", name));
  else if (!is_flush && !is_told && !is_late)
    fail(end, absl::StrCat("failed with a status that has no cause: ", name));
}

std::byte* Link::buffer_of(End end, const Completion& one) {
  const auto slot = static_cast<std::size_t>(one.user_data & 0xffffffff);
  Side& s = side(end);
  return one.is_shared ? s.host->shared_buffer(slot) : s.received->data() + slot * plan_.max_bytes;
}

void Link::on_receive_done(End end, const Completion& one) {
  Side& s = side(end);
  const auto slot = static_cast<std::size_t>(one.user_data & 0xffffffff);
  if (one.is_shared != s.uses_shared_queue) fail(end, "a RECEIVE of another queue");
  if (one.status == OpStatus::kOk) {
    match(end, one, buffer_of(end, one));
  } else if (one.status != OpStatus::kFlushed) {
    fail(end, absl::StrCat("a RECEIVE ended with ", std::string(to_string(one.status))));
  } else if (!s.may_fail && !s.is_closing && !side(other(end)).is_closing) {
    fail(end, absl::StrCat("a RECEIVE was flushed without a cause: ",
                           s.host->endpoint().last_error(s.conn)));
  }
  if (one.is_shared) {
    s.host->return_shared_buffer(slot);
    return;
  }
  if (s.receives == 0) fail(end, "more RECEIVEs completed than were posted");
  --s.receives;
  std::fill_n(buffer_of(end, one), plan_.max_bytes, kCanary);
  s.free_received.push_back(slot);
}

bool Link::is_message(End end, const Operation& operation, const Completion& one,
                      const std::byte* buffer) const {
  const bool has_immediate = operation.kind == OpKind::kWriteImm;
  if (one.bytes != operation.length || one.has_immediate != has_immediate) return false;
  if (!has_immediate) return holds(buffer, stream(other(end)), operation);
  const std::byte* at = ends_[index(end)].written->region().bytes.data();
  return one.immediate == static_cast<std::uint32_t>(operation.serial) &&
         holds(at + operation.slot * plan_.max_bytes, stream(other(end)), operation);
}

void Link::match(End end, const Completion& one, const std::byte* buffer) {
  Side& sender = side(other(end));
  while (!sender.messages.empty()) {
    const Operation message = sender.messages.front();
    const bool is_it = is_message(end, message, one, buffer);
    if (!is_it && (!message.has_deadline || message.is_done)) break;
    sender.messages.pop_front();
    if (!is_it) continue;  // its deadline passed before it was sent
    check_writes_before(other(end), message.serial);
    if (message.is_done) give_back(other(end), message);
    return;
  }
  fail(end, absl::StrCat("a RECEIVE of ", one.bytes,
                         " bytes brought other bytes than were sent, or out of order"));
}

// A message is complete only when everything posted before it is in place.
void Link::check_writes_before(End end, std::uint64_t serial) {
  const Side& s = side(end);
  const Side& peer = side(other(end));
  const std::byte* written = peer.written->region().bytes.data();
  for (const Operation& operation : s.outstanding) {
    if (operation.serial >= serial) return;
    if (operation.kind != OpKind::kWrite || operation.has_deadline ||
        operation.mistake != Mistake::kNone)
      continue;
    if (!holds(written + operation.slot * plan_.max_bytes, stream(end), operation))
      fail(end, "a later message completed before the bytes of an earlier WRITE were in place");
  }
}

// --- the end ---------------------------------------------------------------------------------

void Link::release(End end) {
  Side& s = side(end);
  if (s.is_gone) return;
  Endpoint& endpoint = s.host->endpoint();
  if (s.conn.value != 0) endpoint.release(s.conn);
  for (const auto* block : {&s.source, &s.written, &s.received, &s.results, &s.cells, &s.forbidden})
    if (const Status gone = s.host->deregister((*block)->region()); !gone.ok())
      fail(end, gone.error().message());
}

void Link::check_memory(End end) {
  Side& s = side(end);
  for (const auto* block : {&s.source, &s.written, &s.received, &s.results, &s.cells, &s.forbidden})
    if (!(*block)->has_whole_guards()) fail(end, "bytes outside a region changed");
  const Operation nothing;
  for (std::size_t i = 0; i < s.source->area().size(); ++i)
    if (s.source->data()[i] != pattern(stream(end), i))
      fail(end, "a buffer only read from changed");
  for (const std::size_t slot : s.free_written)
    if (!holds(s.written->data() + slot * plan_.max_bytes, 0, nothing))
      fail(end, "memory was written after its WRITE had completed");
  for (const std::byte one : s.forbidden->area())
    if (one != kCanary) fail(end, "a region that grants no right changed");
  for (const Operation& operation : s.failed) {
    const bool is_here = operation.kind == OpKind::kRead;
    if ((!is_here && operation.kind != OpKind::kWrite) || operation.mistake != Mistake::kNone)
      continue;
    Block& block = is_here ? *s.results : *ends_[index(other(end))].written;
    if (!holds_part(block.data() + operation.slot * plan_.max_bytes,
                    stream(is_here ? other(end) : end), operation))
      fail(end, "an operation that failed left bytes that nobody sent");
  }
  for (std::size_t i = 0; i < kCells; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, s.cells->data() + i * kCellBytes, sizeof(value));
    const Cell& cell = s.model[i];
    const auto from = cell.history.begin() + static_cast<std::ptrdiff_t>(cell.reached);
    if (std::find(from, cell.history.end(), value) == cell.history.end())
      fail(end, "a cell holds a value that no order of the atomics gives");
  }
  for (const Operation& message : s.messages)
    if (message.is_done)
      fail(end, absl::StrCat("message ", message.serial, " (", std::string(to_string(message.kind)),
                             " of ", message.length, " bytes) completed and was never received"));
}

std::uint64_t Link::digest_of(Side& s) {
  std::uint64_t sum = 0;
  for (const auto* block : {&s.source, &s.written, &s.received, &s.results, &s.cells, &s.forbidden})
    sum = sum * 31 + (*block)->digest();
  return sum;
}

void Link::tear_down() {
  for (const End end : {End::kInitiator, End::kTarget})
    release(end);
  for (const End end : {End::kInitiator, End::kTarget})
    check_memory(end);
  for (Side& s : ends_)
    s.digest = digest_of(s);
}

void Link::check_afterwards() {
  for (const End end : {End::kInitiator, End::kTarget})
    if (digest_of(side(end)) != side(end).digest)
      fail(end, "memory changed after it was deregistered");
}

}  // namespace spindrift::soak
