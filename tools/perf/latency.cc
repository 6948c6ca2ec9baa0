#include "tools/perf/latency.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"

namespace spindrift::perf {
namespace {

// How many turns pass between looks at the control channel, which costs nothing but is not free.
constexpr std::uint64_t kTurnsPerLook = 256;
// Below 256, so that even the lowest byte of a stamp differs from what the slot held before.
constexpr std::uint32_t kSlotsMax = 16;

}  // namespace

LatencyRun::LatencyRun(Session& session, const RunRequest& run)
    : session_(session),
      run_(run),
      plan_(plan_run(session.shape(), run.message_bytes)),
      receiver_(session, run) {
  plan_.slots = std::min(plan_.slots, kSlotsMax);
  receiver_.fill_sources();
  if (session.shape().operation == Operation::kWrite) {
    // What lies here from before must not look like the first message of a slot.
    for (std::uint64_t slot = 0; slot < plan_.slots; ++slot)
      fill_pattern(target(slot), key(slot - plan_.slots));
  }
  session_.sink = this;
}

std::span<std::byte> LatencyRun::target(std::uint64_t iteration) const {
  return session_.bytes(
      session_.memory().target_offset(0) + iteration % plan_.slots * plan_.slot_bytes,
      plan_.message_bytes);
}

void LatencyRun::on_completions(std::span<const Completion> completions) {
  for (const Completion& completion : completions) {
    if (tag_of(completion.user_data) == WorkTag::kReceive)
      receiver_.on_receive_completed(completion);
    else
      ++completed_;
  }
}

bool LatencyRun::post_one(std::uint64_t iteration) {
  const Operation operation = session_.shape().operation;
  const std::span<std::byte> source = session_.bytes(
      session_.memory().source_offset(0) + iteration % plan_.slots * plan_.slot_bytes,
      plan_.message_bytes);
  if (is_ping_pong(operation) && session_.shape().has_verify) {
    fill_pattern(source, key(iteration));
  } else if (operation == Operation::kWrite) {
    write_stamps(source, key(iteration));
  } else if (session_.shape().has_verify) {
    const std::span<std::byte> landing = target(iteration);
    std::fill(landing.begin(), landing.end(), std::byte{0xEE});
  }
  Sge piece;
  WorkRequest work;
  fill_request(session_, plan_, 0, iteration, piece, work);
  while (!session_.has_failed()) {
    const PostResult result = session_.endpoint().post(std::span(&work, 1));
    if (result.accepted == 1) {
      receiver_.repost();  // while the message is under way
      return true;
    }
    if (result.status == PostStatus::kInvalid) {
      session_.fail(absl::StrFormat("posting was refused: %s",
                                    session_.endpoint().last_error(session_.connections[0])));
    }
    session_.turn();
  }
  return false;
}

// Whether the message of this iteration is here: the peer's, or the result of our own operation.
bool LatencyRun::has_arrived(std::uint64_t iteration) {
  const Operation operation = session_.shape().operation;
  if (!is_ping_pong(operation)) return completed_ > iteration;
  if (uses_receives(operation)) return receiver_.received(0) > iteration;
  if (watched_iteration_ != iteration) {
    watched_iteration_ = iteration;
    watch_.emplace(target(iteration), key(iteration));
  }
  return watch_->has_arrived();
}

// What WRITEs, READs and atomics brought; SENDs have been checked on arrival.
void LatencyRun::check_written(std::uint64_t iteration) {
  const Operation operation = session_.shape().operation;
  if (!session_.shape().has_verify || operation == Operation::kSend) return;
  const std::span<const std::byte> found = target(iteration);
  PatternKey expected = key(iteration);
  if (operation == Operation::kAtomic) {
    std::uint64_t old_value = 0;
    std::memcpy(&old_value, found.data(), sizeof(old_value));
    if (old_value != expected.iteration) {
      session_.fail(
          absl::StrFormat("verification failed: atomic %u: expected the old value %u, found %u",
                          iteration, expected.iteration, old_value));
    }
    return;
  }
  if (operation == Operation::kRead) expected = key(iteration % plan_.slots);
  if (const auto mismatch = find_mismatch(found, expected)) {
    session_.fail("verification failed: " + describe(*mismatch, expected, plan_.message_bytes));
  }
}

bool LatencyRun::is_enough(std::uint64_t iteration, Time now, Time start) const {
  if (run_.iterations != 0) return iteration >= run_.warmup + run_.iterations;
  return iteration >= run_.warmup && now - start >= run_.duration;
}

Status LatencyRun::measure(const std::function<bool()>& is_interrupted) {
  Time start = session_.endpoint().now();
  std::uint64_t iteration = 0;
  while (!is_interrupted()) {
    const Time posted = session_.endpoint().now();
    if (iteration == run_.warmup) start = posted;
    if (is_enough(iteration, posted, start) || !post_one(iteration)) break;
    for (std::uint64_t turns = 1; !has_arrived(iteration) && !session_.has_failed(); ++turns) {
      session_.turn();
      if (turns % kTurnsPerLook == 0) session_.ping_when_idle();
    }
    if (session_.has_failed()) break;
    if (iteration >= run_.warmup) histogram_.add(session_.endpoint().now() - posted);
    check_written(iteration);
    ++iteration;
  }
  return finish(iteration);
}

Status LatencyRun::finish(std::uint64_t iterations) {
  receiver_.repost();  // for the next run
  // Own operations may still wait for their acknowledgement.
  while (!session_.has_failed() && completed_ < iterations)
    session_.turn();
  if (session_.has_failed()) return session_.failure();
  session_.control().send({{"type", "sent"}});
  const Result<nlohmann::json> result = session_.expect("result", std::chrono::seconds(30));
  if (!result.ok()) return result.error();
  std::string error = text_or(result.value(), "error", "");
  if (error.empty()) error = receiver_.error();
  if (error.empty()) return ok_status();
  return Error(ErrorCode::kIo, "verification failed: " + error);
}

Status LatencyRun::answer() {
  const bool has_pongs = is_ping_pong(session_.shape().operation);
  std::uint64_t iteration = 0;
  nlohmann::json message;
  for (std::uint64_t turns = 0; !session_.has_failed(); ++turns) {
    session_.turn();
    if (has_pongs && has_arrived(iteration)) {
      check_written(iteration);
      if (!post_one(iteration)) break;
      ++iteration;
    }
    if (session_.take_message(&message)) {
      const std::string type = text_or(message, "type", "");
      if (type == "sent") break;
      if (type != "stop") session_.fail(absl::StrFormat("'%s' came in the middle of a run", type));
    }
    if (turns % kTurnsPerLook == 0) session_.ping_when_idle();
  }
  while (!session_.has_failed() && completed_ < iteration)
    session_.turn();
  if (session_.has_failed()) return session_.failure();
  nlohmann::json result = {{"type", "result"}};
  if (!receiver_.error().empty()) result["error"] = receiver_.error();
  session_.control().send(result);
  return ok_status();
}

LatencySummary LatencyRun::summary() const {
  return histogram_.summary(is_ping_pong(session_.shape().operation) ? 2 : 1);
}

}  // namespace spindrift::perf
