#include "tools/perf/receiver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/perf/pattern.h"
#include "tools/perf/sender.h"

namespace spindrift::perf {

Receiver::Receiver(Session& session, const RunRequest& run)
    : session_(session),
      run_(run),
      plan_(plan_run(session.shape(), run.message_bytes)),
      lanes_(session.shape().connections) {
  for (Lane& lane : lanes_)
    lane.free_slots.reserve(session.memory().receives);
}

void Receiver::fill_sources() {
  const MemoryPlan& memory = session_.memory();
  const std::uint64_t first = first_iteration(run_.number);
  for (std::uint32_t connection = 0; connection < lanes_.size(); ++connection) {
    const std::uint64_t source = memory.source_offset(connection);
    if (session_.shape().operation == Operation::kAtomic) {
      std::memcpy(session_.bytes(source, kAtomicBytes).data(), &first, kAtomicBytes);
      continue;
    }
    if (session_.shape().operation != Operation::kRead || !session_.shape().has_verify) continue;
    for (std::uint64_t slot = 0; slot < plan_.slots; ++slot) {
      fill_pattern(session_.bytes(source + slot * plan_.slot_bytes, plan_.message_bytes),
                   {.connection = connection, .iteration = first + slot});
    }
  }
}

void Receiver::on_receive_completed(const Completion& completion) {
  const std::uint32_t connection = connection_of(completion.user_data);
  Lane& lane = lanes_[connection];
  check_arrival(connection, completion);
  ++lane.received;
  lane.free_slots.push_back(slot_of(completion.user_data));
}

void Receiver::check_arrival(std::uint32_t connection, const Completion& completion) {
  const std::uint64_t iteration = lanes_[connection].received;
  if (completion.bytes != run_.message_bytes) {
    note_error(absl::StrFormat("connection %u, iteration %u: %u bytes arrived instead of %u",
                               connection, iteration, completion.bytes, run_.message_bytes));
  } else if (completion.has_immediate &&
             completion.immediate != static_cast<std::uint32_t>(iteration)) {
    note_error(absl::StrFormat("connection %u, iteration %u: immediate %u arrived instead of %u",
                               connection, iteration, completion.immediate,
                               static_cast<std::uint32_t>(iteration)));
  } else if (session_.shape().has_verify && session_.shape().operation == Operation::kSend) {
    const PatternKey key{.connection = connection,
                         .iteration = first_iteration(run_.number) + iteration};
    const std::uint64_t offset =
        session_.memory().receive_offset(connection, slot_of(completion.user_data));
    if (const auto mismatch = find_mismatch(session_.bytes(offset, plan_.message_bytes), key)) {
      note_error(describe(*mismatch, key, plan_.message_bytes));
    }
  }
}

void Receiver::repost() {
  const std::size_t pieces = session_.memory().receive_slot_bytes == 0 ? 0 : 1;
  for (std::uint32_t connection = 0; connection < lanes_.size(); ++connection) {
    std::vector<std::uint32_t>& free_slots = lanes_[connection].free_slots;
    while (!free_slots.empty()) {
      const std::size_t count = std::min(free_slots.size(), work_.size());
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t slot = free_slots[free_slots.size() - 1 - i];
        sges_[i] = session_.receive_sge(connection, slot);
        work_[i] = WorkRequest{.user_data = make_user_data(WorkTag::kReceive, connection, slot),
                               .conn = session_.connections[connection],
                               .kind = OpKind::kReceive,
                               .local = std::span<const Sge>(&sges_[i], pieces)};
      }
      const std::size_t accepted = session_.endpoint().post(std::span(work_).first(count)).accepted;
      free_slots.resize(free_slots.size() - accepted);
      if (accepted < count) break;
    }
  }
}

void Receiver::on_check(const nlohmann::json& message) {
  const std::uint64_t connection = number_or(message, "connection", kNoLimit);
  const std::uint64_t count = number_or(message, "count", 0);
  if (connection >= lanes_.size() || count == 0 || count > plan_.slots) {
    session_.fail(absl::StrFormat("%s asked for a check that makes no sense", session_.peer_name));
    return;
  }
  Lane& lane = lanes_[connection];
  lane.check_first = number_or(message, "first", 0);
  lane.check_count = count;
}

void Receiver::answer_checks() {
  const bool counts_arrivals = uses_receives(session_.shape().operation);
  for (std::uint32_t connection = 0; connection < lanes_.size(); ++connection) {
    Lane& lane = lanes_[connection];
    if (lane.check_count == 0) continue;
    if (counts_arrivals && lane.received < lane.check_first + lane.check_count) continue;
    nlohmann::json answer = {{"type", "checked"}, {"connection", connection}};
    std::string wrong = check_round(connection);
    if (wrong.empty()) wrong = error_;
    if (!wrong.empty()) answer["error"] = wrong;
    lane.check_count = 0;
    session_.control().send(answer);
    if (!wrong.empty()) note_error(std::move(wrong));
  }
}

std::string Receiver::check_round(std::uint32_t connection) const {
  const Lane& lane = lanes_[connection];
  for (std::uint64_t i = 0; i < lane.check_count; ++i) {
    const std::uint64_t iteration = lane.check_first + i;
    const std::uint64_t offset =
        session_.memory().target_offset(connection) + iteration % plan_.slots * plan_.slot_bytes;
    const PatternKey key{.connection = connection,
                         .iteration = first_iteration(run_.number) + iteration};
    if (const auto mismatch = find_mismatch(session_.bytes(offset, plan_.message_bytes), key)) {
      return describe(*mismatch, key, plan_.message_bytes);
    }
  }
  return {};
}

void Receiver::note_error(std::string sentence) {
  if (error_.empty()) error_ = std::move(sentence);
}

}  // namespace spindrift::perf
