#include "tools/perf/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/perf/pattern.h"

namespace spindrift::perf {
namespace {

OpKind kind_of(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return OpKind::kWrite;
    case Operation::kWriteImm:
      return OpKind::kWriteImm;
    case Operation::kSend:
      return OpKind::kSend;
    case Operation::kRead:
      return OpKind::kRead;
    case Operation::kAtomic:
      return OpKind::kFetchAdd;
  }
  return OpKind::kSend;
}

bool brings_data_here(Operation operation) {
  return operation == Operation::kRead || operation == Operation::kAtomic;
}

}  // namespace

void fill_request(const Session& session, const RunPlan& plan, std::uint32_t connection,
                  std::uint64_t iteration, Sge& piece, WorkRequest& work) {
  const MemoryPlan& memory = session.memory();
  const Operation operation = session.shape().operation;
  const std::uint64_t slot_offset = iteration % plan.slots * plan.slot_bytes;
  const std::uint64_t source = memory.source_offset(connection) + slot_offset;
  const std::uint64_t target = memory.target_offset(connection) + slot_offset;
  const bool fetches = brings_data_here(operation);
  piece = sge_of(session.region(), fetches ? target : source,
                 static_cast<std::uint32_t>(plan.message_bytes));
  work.user_data = make_user_data(WorkTag::kRequest, connection, 0);
  work.conn = session.connections[connection];
  work.kind = kind_of(operation);
  work.immediate = static_cast<std::uint32_t>(iteration);
  work.local = std::span<const Sge>(&piece, plan.message_bytes == 0 ? 0 : 1);
  work.remote_key = session.peer_region.key;
  // All atomics of a connection meet in one word.
  const bool is_atomic = operation == Operation::kAtomic;
  work.remote_offset = is_atomic ? memory.source_offset(connection) : fetches ? source : target;
  work.operand = 1;
}

Sender::Sender(Session& session, const RunRequest& run)
    : session_(session),
      run_(run),
      plan_(plan_run(session.shape(), run.message_bytes)),
      meter_(run.message_bytes, std::uint64_t{2} * plan_.depth * session.shape().connections),
      lanes_(session.shape().connections) {
  const Operation operation = session.shape().operation;
  checks_at_peer_ = session.shape().has_verify &&
                    (operation == Operation::kWrite || operation == Operation::kWriteImm);
  warmup_left_ = run.warmup * session.shape().connections;
}

void Sender::start(Time now) {
  last_batch_ = now;
  if (warmup_left_ == 0) meter_.start(now);
  if (run_.iterations == 0 && warmup_left_ == 0) stop_time_ = now + run_.duration;
}

std::uint64_t Sender::room(const Lane& lane) const {
  std::uint64_t room = plan_.depth - (lane.posted - lane.completed);
  if (run_.iterations != 0) {
    room = std::min(room, run_.warmup + run_.iterations - lane.posted);
  }
  if (checks_at_peer_) room = std::min(room, lane.checked + plan_.slots - lane.posted);
  return room;
}

void Sender::post(Time now) {
  if (now >= stop_time_) is_stopped_ = true;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    if (!is_stopped_ && room(lanes_[i]) > 0) post_lane(i);
    if (checks_at_peer_) ask_for_check(i);
  }
}

void Sender::post_lane(std::uint32_t connection) {
  Lane& lane = lanes_[connection];
  const std::size_t most = std::min<std::size_t>(run_.post_batch, kPostBatch);
  while (const std::size_t count = std::min<std::uint64_t>(room(lane), most)) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t iteration = lane.posted + i;
      if (session_.shape().has_verify) prepare_slot(connection, iteration);
      fill_request(session_, plan_, connection, iteration, pieces_[i], work_[i]);
    }
    const PostResult result = session_.endpoint().post(std::span(work_).first(count));
    lane.posted += result.accepted;
    if (result.status == PostStatus::kInvalid) {
      session_.fail(
          absl::StrFormat("posting was refused: %s",
                          session_.endpoint().last_error(session_.connections[connection])));
    }
    if (result.accepted < count) return;
  }
}

// Before an operation is posted for verification: what it carries, or a blank where it lands.
void Sender::prepare_slot(std::uint32_t connection, std::uint64_t iteration) {
  const MemoryPlan& memory = session_.memory();
  const std::uint64_t slot_offset = iteration % plan_.slots * plan_.slot_bytes;
  if (brings_data_here(session_.shape().operation)) {
    const std::span<std::byte> target =
        session_.bytes(memory.target_offset(connection) + slot_offset, plan_.message_bytes);
    std::fill(target.begin(), target.end(), std::byte{0xEE});
    return;
  }
  fill_pattern(session_.bytes(memory.source_offset(connection) + slot_offset, plan_.message_bytes),
               {.connection = connection, .iteration = first_iteration(run_.number) + iteration});
}

void Sender::on_request_completed(const Completion& completion) {
  const std::uint32_t connection = connection_of(completion.user_data);
  Lane& lane = lanes_[connection];
  if (session_.shape().has_verify && brings_data_here(session_.shape().operation)) {
    check_result(connection, lane.completed);
  }
  ++lane.completed;
  ++batch_completed_;
}

void Sender::check_result(std::uint32_t connection, std::uint64_t iteration) {
  const std::uint64_t slot = iteration % plan_.slots;
  const std::span<const std::byte> found = session_.bytes(
      session_.memory().target_offset(connection) + slot * plan_.slot_bytes, plan_.message_bytes);
  if (session_.shape().operation == Operation::kAtomic) {
    // The counter starts at the run's first iteration and each operation adds one.
    const std::uint64_t expected = first_iteration(run_.number) + iteration;
    std::uint64_t old_value = 0;
    std::memcpy(&old_value, found.data(), sizeof(old_value));
    if (old_value == expected) return;
    ++failed_checks_;
    session_.fail(absl::StrFormat(
        "verification failed: connection %u, atomic %u: expected the old value %u, found %u",
        connection, iteration, expected, old_value));
    return;
  }
  // The peer filled its slots once, each with the slot's number.
  const PatternKey key{.connection = connection, .iteration = first_iteration(run_.number) + slot};
  if (const auto mismatch = find_mismatch(found, key)) {
    ++failed_checks_;
    session_.fail("verification failed: " + describe(*mismatch, key, plan_.message_bytes));
  }
}

void Sender::count_batch(Time now) {
  const std::uint64_t count = std::exchange(batch_completed_, 0);
  if (count == 0) return;
  const std::uint64_t warm = std::min(count, warmup_left_);
  warmup_left_ -= warm;
  if (warmup_left_ == 0 && !meter_.is_started()) {
    // What this batch holds beyond the warm-up took the time since the batch before.
    meter_.start(count > warm ? last_batch_ : now);
    if (run_.iterations == 0) stop_time_ = now + run_.duration;
  }
  if (meter_.is_started() && count > warm) meter_.add(now, count - warm);
  last_batch_ = now;
}

// A round is over when its slots are full, or when nothing more will be posted.
void Sender::ask_for_check(std::uint32_t connection) {
  Lane& lane = lanes_[connection];
  const bool is_drained = lane.completed == lane.posted && lane.posted > lane.checked;
  if (lane.is_checking || !is_drained || (!is_stopped_ && room(lane) > 0)) return;
  lane.is_checking = true;
  session_.control().send({{"type", "check"},
                           {"connection", connection},
                           {"first", lane.checked},
                           {"count", lane.posted - lane.checked}});
}

void Sender::on_checked(const nlohmann::json& message) {
  const std::uint64_t connection = number_or(message, "connection", kNoLimit);
  const std::string error = text_or(message, "error", "");
  if (!error.empty()) {
    ++failed_checks_;
    session_.fail("verification failed: " + error);
    return;
  }
  if (connection >= lanes_.size() || !lanes_[connection].is_checking) {
    session_.fail(absl::StrFormat("%s answered a check that was not asked", session_.peer_name));
    return;
  }
  Lane& lane = lanes_[connection];
  lane.checked = lane.posted;
  lane.is_checking = false;
}

bool Sender::is_done() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    const bool has_all = run_.iterations != 0 && lane.posted == run_.warmup + run_.iterations;
    return (is_stopped_ || has_all) && lane.completed == lane.posted &&
           (!checks_at_peer_ || lane.checked == lane.posted);
  });
}

}  // namespace spindrift::perf
