#pragma once
// The control connection: JSON messages as SENDs, with buffers of their own, so that data
// operations and talk never meet in one queue.
#include <deque>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/endpoint.h"

namespace spindrift::perf {

// The top byte of WorkRequest::user_data says whose completion it is.
enum class WorkTag : std::uint8_t { kControlSend = 1, kControlReceive, kRequest, kReceive };
constexpr std::uint64_t make_user_data(WorkTag tag, std::uint32_t connection, std::uint32_t slot) {
  return static_cast<std::uint64_t>(tag) << 56 | static_cast<std::uint64_t>(connection) << 32 |
         slot;
}
constexpr WorkTag tag_of(std::uint64_t user_data) {
  return static_cast<WorkTag>(user_data >> 56);
}
constexpr std::uint32_t connection_of(std::uint64_t user_data) {
  return static_cast<std::uint32_t>(user_data >> 32) & 0xFFFFFFu;
}
constexpr std::uint32_t slot_of(std::uint64_t user_data) {
  return static_cast<std::uint32_t>(user_data);
}

class ControlChannel {
 public:
  static constexpr std::uint32_t kMessageBytes = 64 << 10;
  static constexpr std::uint32_t kSlots = 16;  // messages in flight, each way

  explicit ControlChannel(Endpoint& endpoint) : endpoint_(endpoint) {}
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  // Registers the buffers and posts the receives; the connection may still be opening.
  [[nodiscard]] Status attach(ConnId conn);
  ConnId conn() const { return conn_; }

  // Queues a message; it leaves at once where a buffer is free.
  void send(const nlohmann::json& message);
  // Nothing queued and nothing in flight.
  bool is_flushed() const { return waiting_.empty() && in_flight_ == 0; }
  // For successful completions of this channel.
  void on_completion(const Completion& completion);
  // The oldest message that has arrived; false: none.
  bool take(nlohmann::json* message);

 private:
  std::span<std::byte> buffer(std::uint32_t slot);
  void post_receive(std::uint32_t slot);
  void flush();

  Endpoint& endpoint_;
  ConnId conn_{};
  std::vector<std::byte> memory_;
  MemoryRegion region_{};
  std::deque<std::string> waiting_;
  std::deque<nlohmann::json> inbox_;
  std::uint32_t next_send_slot_ = 0;
  std::uint32_t in_flight_ = 0;
};

}  // namespace spindrift::perf
