#include "tools/perf/session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <sys/mman.h>

#include "absl/strings/str_format.h"
#include "tools/perf/units.h"

namespace spindrift::perf {
namespace {

constexpr Duration kSpin = std::chrono::microseconds(200);
constexpr Duration kIdleWait = std::chrono::milliseconds(20);
constexpr Duration kPingInterval = std::chrono::seconds(1);
constexpr std::uint32_t kTurnsPerEventCheck = 64;
// What waits for a message should see it at once, and not be at something else.
constexpr std::uint32_t kEmptyTurnsPerLook = 32;

}  // namespace

Result<Arena> Arena::allocate(std::uint64_t bytes) {
  void* at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (at == MAP_FAILED) {
    return Error(ErrorCode::kNoMemory,
                 absl::StrFormat("cannot allocate %u bytes of buffers (%s); choose a smaller "
                                 "--size, --depth or --connections",
                                 bytes, std::system_category().message(errno)));
  }
  Arena arena;
  arena.bytes_ = std::span(static_cast<std::byte*>(at), bytes);
  return arena;
}

Arena::Arena(Arena&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Arena::~Arena() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Session::~Session() {
  is_closing_ = true;
  sink = nullptr;
  on_event = nullptr;
  for (const ConnId conn : connections)
    endpoint_.abort(conn);
  endpoint_.abort(control_.conn());
  // A few turns, so that nothing refers to the memory any more.
  for (int i = 0; i < 16; ++i)
    turn();
  for (const ConnId conn : connections)
    endpoint_.release(conn);
  endpoint_.release(control_.conn());
  if (!region_.bytes.empty()) (void)endpoint_.deregister_memory(region_);
}

Status Session::prepare(const TestShape& shape) {
  shape_ = shape;
  memory_ = plan_memory(shape);
  if (memory_.total_bytes() > kMaxArenaBytes) {
    return Error(ErrorCode::kNoMemory,
                 absl::StrFormat("the test needs %u bytes of buffers and the limit is %u; choose a "
                                 "smaller --size, --depth or --connections",
                                 memory_.total_bytes(), kMaxArenaBytes));
  }
  Result<Arena> arena = Arena::allocate(memory_.total_bytes());
  if (!arena.ok()) return arena.error();
  arena_ = std::move(arena).value();
  Result<MemoryRegion> region = endpoint_.register_memory(arena_.bytes(), kAllAccess);
  if (!region.ok()) return region.error();
  region_ = region.value();
  connections.resize(shape.connections);
  return ok_status();
}

Sge Session::receive_sge(std::uint32_t connection, std::uint32_t slot) const {
  return sge_of(region_, memory_.receive_offset(connection, slot),
                static_cast<std::uint32_t>(memory_.receive_slot_bytes));
}

void Session::post_receives(std::uint32_t connection) {
  for (std::uint32_t slot = 0; slot < memory_.receives; ++slot) {
    const Sge sge = receive_sge(connection, slot);
    const WorkRequest work{.user_data = make_user_data(WorkTag::kReceive, connection, slot),
                           .conn = connections[connection],
                           .kind = OpKind::kReceive,
                           .local = std::span(&sge, memory_.receive_slot_bytes == 0 ? 0 : 1)};
    if (endpoint_.post(std::span(&work, 1)).accepted == 1) continue;
    fail(absl::StrFormat("posting RECEIVE %u of %u on connection %u was refused: %s", slot + 1,
                         memory_.receives, connection,
                         endpoint_.last_error(connections[connection])));
    return;
  }
}

void Session::turn() {
  const std::size_t count = endpoint_.poll(batch_);
  if (count > 0) {
    hand_out(std::span(batch_).first(count));
    last_activity_ = Time{};
  }
  if (++turns_ % (count > 0 ? kTurnsPerEventCheck : kEmptyTurnsPerLook) != 0) return;
  look_at_events();
  if (count == 0) rest_if_quiet();
}

void Session::hand_out(std::span<const Completion> completions) {
  std::size_t data_count = 0;
  for (const Completion& completion : completions) {
    if (completion.status != OpStatus::kOk) {
      report_failed_completion(completion);
      continue;
    }
    const WorkTag tag = tag_of(completion.user_data);
    if (tag == WorkTag::kControlSend || tag == WorkTag::kControlReceive) {
      if (!is_closing_) control_.on_completion(completion);
    } else {
      data_batch_[data_count++] = completion;
    }
  }
  if (sink != nullptr && data_count > 0) {
    sink->on_completions(std::span(data_batch_).first(data_count));
  }
}

void Session::report_failed_completion(const Completion& completion) {
  // Flushed work follows the end of its connection, whose event tells the cause.
  if (is_closing_ || completion.status == OpStatus::kFlushed) return;
  std::string reason = endpoint_.last_error(completion.conn);
  if (reason.empty() && completion.status == OpStatus::kTimedOut) {
    reason =
        absl::StrFormat("it was not sent within its deadline of %s", format_duration(deadline));
  }
  fail(absl::StrFormat("%s to %s failed: %s%s%s", to_string(completion.kind), peer_name,
                       to_string(completion.status), reason.empty() ? "" : "; ", reason));
}

void Session::look_at_events() {
  const std::size_t count = endpoint_.poll_events(events_);
  for (const ConnEvent& event : std::span(events_).first(count)) {
    const bool is_ours =
        event.conn == control_.conn() ||
        std::find(connections.begin(), connections.end(), event.conn) != connections.end();
    if (event.kind == ConnEvent::Kind::kFailed && is_ours) {
      fail(absl::StrFormat("the connection to %s failed: %s", peer_name,
                           endpoint_.last_error(event.conn)));
    } else if (event.kind == ConnEvent::Kind::kClosed && is_ours && !is_closing_) {
      fail(absl::StrFormat("%s ended the session", peer_name));
    } else if (on_event) {
      on_event(event);
    }
  }
}

// Spinning keeps latency low while messages flow; a process that only waits gives its core back.
void Session::rest_if_quiet() {
  const Time now = endpoint_.now();
  if (last_activity_ == Time{}) last_activity_ = now;
  if (now - last_activity_ < kSpin) return;
  endpoint_.wait(kIdleWait);
  const Time woken = endpoint_.now();
  if (woken - now < kIdleWait) last_activity_ = woken;  // something came: spin again
  if (on_idle) on_idle();
}

bool Session::take_message(nlohmann::json* message) {
  while (control_.take(message)) {
    const auto type = message->find("type");
    if (type == message->end() || !type->is_string()) {
      fail(absl::StrFormat("%s sent a control message that is not understood", peer_name));
      return false;
    }
    if (*type == "ping") continue;
    if (*type != "error") return true;
    const auto text = message->find("text");
    fail(absl::StrFormat(
        "%s reports: %s", peer_name,
        text != message->end() && text->is_string() ? text->get<std::string>() : "an error"));
    return false;
  }
  return false;
}

Result<nlohmann::json> Session::expect(std::string_view type, Duration patience) {
  const Time limit = endpoint_.now() + patience;
  nlohmann::json message;
  while (!has_failed()) {
    turn();
    if (take_message(&message)) {
      if (type.empty() || message["type"] == type) return message;
      fail(absl::StrFormat("%s sent '%s' where '%s' was due", peer_name,
                           message["type"].get<std::string>(), type));
    }
    ping_when_idle();
    if (endpoint_.now() > limit) {
      fail(absl::StrFormat("%s did not answer with '%s' in time; is it overloaded?", peer_name,
                           type));
    }
  }
  return failure();
}

void Session::ping_when_idle() {
  const Time now = endpoint_.now();
  if (now - last_ping_ < kPingInterval) return;
  last_ping_ = now;
  if (control_.is_flushed()) control_.send({{"type", "ping"}});
}

void Session::fail(std::string sentence) {
  if (!failure_) failure_ = std::move(sentence);
}

void Session::close(Duration patience) {
  is_closing_ = true;
  for (const ConnId conn : connections)
    endpoint_.close(conn);
  endpoint_.close(control_.conn());
  const Time limit = endpoint_.now() + patience;
  const auto is_open = [&](ConnId conn) {
    const Result<ConnInfo> info = endpoint_.info(conn);
    return info.ok() &&
           (info.value().state == ConnState::kOpen || info.value().state == ConnState::kDraining);
  };
  while (
      endpoint_.now() < limit &&
      (is_open(control_.conn()) || std::any_of(connections.begin(), connections.end(), is_open))) {
    turn();
  }
}

}  // namespace spindrift::perf
