#include "tools/perf/control.h"

#include <cstring>

namespace spindrift::perf {

ControlChannel::~ControlChannel() {
  if (region_.bytes.empty()) return;
  // Refused only while the connection still works on it; then the endpoint keeps the entry.
  (void)endpoint_.deregister_memory(region_);
}

Status ControlChannel::attach(ConnId conn) {
  conn_ = conn;
  memory_.resize(std::size_t{2} * kSlots * kMessageBytes);
  Result<MemoryRegion> region = endpoint_.register_memory(memory_, Access::kLocalWrite);
  if (!region.ok()) return region.error();
  region_ = region.value();
  for (std::uint32_t slot = 0; slot < kSlots; ++slot)
    post_receive(slot);
  return ok_status();
}

// Receives use the first kSlots buffers, sends the others.
std::span<std::byte> ControlChannel::buffer(std::uint32_t slot) {
  return std::span(memory_).subspan(std::size_t{slot} * kMessageBytes, kMessageBytes);
}

void ControlChannel::post_receive(std::uint32_t slot) {
  const Sge sge = sge_of(region_, std::uint64_t{slot} * kMessageBytes, kMessageBytes);
  const WorkRequest work{.user_data = make_user_data(WorkTag::kControlReceive, 0, slot),
                         .conn = conn_,
                         .kind = OpKind::kReceive,
                         .local = std::span(&sge, 1)};
  // A refusal means that the connection has ended, which its event reports.
  (void)endpoint_.post(std::span(&work, 1));
}

void ControlChannel::send(const nlohmann::json& message) {
  waiting_.push_back(message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  flush();
}

void ControlChannel::flush() {
  while (!waiting_.empty() && in_flight_ < kSlots) {
    const std::string& text = waiting_.front();
    const std::uint32_t slot = kSlots + next_send_slot_;
    const std::size_t length = std::min<std::size_t>(text.size(), kMessageBytes);
    std::memcpy(buffer(slot).data(), text.data(), length);
    const Sge sge =
        sge_of(region_, std::uint64_t{slot} * kMessageBytes, static_cast<std::uint32_t>(length));
    const WorkRequest work{.user_data = make_user_data(WorkTag::kControlSend, 0, slot),
                           .conn = conn_,
                           .kind = OpKind::kSend,
                           .local = std::span(&sge, 1)};
    if (endpoint_.post(std::span(&work, 1)).accepted == 0) return;
    next_send_slot_ = (next_send_slot_ + 1) % kSlots;
    ++in_flight_;
    waiting_.pop_front();
  }
}

void ControlChannel::on_completion(const Completion& completion) {
  if (tag_of(completion.user_data) == WorkTag::kControlSend) {
    --in_flight_;
    flush();
    return;
  }
  const std::uint32_t slot = slot_of(completion.user_data);
  const auto* begin = reinterpret_cast<const char*>(buffer(slot).data());
  nlohmann::json message =
      nlohmann::json::parse(begin, begin + completion.bytes, nullptr, /*allow_exceptions=*/false);
  // What is no object has no type; whoever waits for one will say so.
  if (!message.is_object()) message = nlohmann::json::object();
  inbox_.push_back(std::move(message));
  post_receive(slot);
}

bool ControlChannel::take(nlohmann::json* message) {
  if (inbox_.empty()) return false;
  *message = std::move(inbox_.front());
  inbox_.pop_front();
  return true;
}

}  // namespace spindrift::perf
