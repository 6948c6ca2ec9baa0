#pragma once
// One lane between two simulated hosts, each direction by itself: what a reliable-connection queue
// pair does with messages. They are cut into packets that carry consecutive numbers; the receiver
// takes them in order alone, acknowledges up to where it is, and says once when one is missing
// (go-back-N); a sender that hears nothing for `timeout` begins again there, and gives the lane up
// after `retries` times in a row. Packets and time are arguments.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "spindrift/message_fabric.h"

#include "sim/time.h"

namespace spindrift::sim {

enum class LaneMessageKind : std::uint8_t {
  kCall,    // payload: hello
  kAnswer,  // the same
  kRefuse,  // the same
  kConfirm,
  kMessage,  // the engine's
  kStatus,   // payload: FabricStatus
  kReadRequest,
  kReadData,
  kReadFailed,  // payload: why
  kFarewell,
  kTrial,  // whether a lane that was given up carries again
};

struct LaneMessage {
  LaneMessageKind kind = LaneMessageKind::kMessage;
  std::uint8_t header_bytes = 0;
  bool is_carried = true;  // else the payload is only counted
  std::uint16_t lane = 0;  // that it was posted to
  // kMessage, kFarewell: place among all of the connection's. kStatus: how many of these came
  // before. kReadRequest and its answers: of the read.
  std::uint64_t number = 0;
  std::uint64_t version = 0;  // kStatus: the latest counts
  std::uint32_t payload_bytes = 0;
  std::array<std::byte, kFabricHeaderBytes> header{};
  std::vector<std::byte> payload{};

  std::uint64_t stream_bytes() const { return std::uint64_t{header_bytes} + payload_bytes; }
};

// A packet's share of a message: header and payload are one stream of bytes.
struct LaneSegment {
  const LaneMessage* message = nullptr;
  std::uint64_t psn = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  bool is_last = false;
  bool wants_ack = false;
};

class LaneSender {
 public:
  struct Shape {
    std::uint32_t mtu = 4096;
    Picoseconds timeout = kMillisecond;
    std::uint32_t retries = 7;
  };
  explicit LaneSender(const Shape& shape) : shape_(shape) {}

  void push(LaneMessage message);
  bool has_more() const { return next_psn_ != end_psn_; }
  // The next packet, has_more(). Valid until the next call of anything here.
  LaneSegment take(Picoseconds now);
  // Everything before `expected` has arrived; `is_gap`: and `expected` is missing.
  void on_ack(std::uint64_t expected, bool is_gap, Picoseconds now);
  // When on_timeout() is due; kEndOfTime: nothing is under way.
  Picoseconds deadline() const { return deadline_; }
  // Begins again from the oldest; false: the lane is given up.
  [[nodiscard]] bool on_timeout(Picoseconds now);
  bool is_empty() const { return queue_.empty(); }
  // A message whose first packet has not left yet, to be changed in place; null: there is none.
  LaneMessage* unsent(LaneMessageKind kind);
  // A lane that was given up has all its retries again.
  void restart() { tries_ = 0; }
  // Everything that is not acknowledged, oldest first; nothing is under way any more.
  std::vector<LaneMessage> take_back();
  std::uint64_t resent() const { return resent_; }

 private:
  struct Queued {
    LaneMessage message;
    std::uint64_t first_psn = 0;
    std::uint32_t packets = 0;
  };
  void go_back_to(std::uint64_t psn);

  Shape shape_;
  std::deque<Queued> queue_;
  std::size_t at_ = 0;           // of next_psn_ in queue_
  std::uint64_t una_ = 0;        // the oldest that is not acknowledged
  std::uint64_t next_psn_ = 0;   // to leave next
  std::uint64_t end_psn_ = 0;    // past the last message
  std::uint64_t fresh_psn_ = 0;  // never sent from here on
  std::uint32_t tries_ = 0;
  Picoseconds deadline_ = kEndOfTime;
  std::uint64_t resent_ = 0;
};

class LaneReceiver {
 public:
  enum class Verdict : std::uint8_t { kNext, kDuplicate, kGap };
  Verdict judge(std::uint64_t psn) {
    if (psn != expected_) return psn < expected_ ? Verdict::kDuplicate : Verdict::kGap;
    ++expected_;
    has_told_gap_ = false;
    return Verdict::kNext;
  }
  std::uint64_t expected() const { return expected_; }
  // A new era, which begins with `psn`.
  void restart(std::uint64_t psn) {
    expected_ = psn;
    has_told_gap_ = false;
  }
  // Once for each gap.
  bool tells_gap() { return !std::exchange(has_told_gap_, true); }
  LaneMessage& open_message() { return message_; }

 private:
  std::uint64_t expected_ = 0;
  bool has_told_gap_ = false;
  LaneMessage message_;  // of which some has come
};

}  // namespace spindrift::sim
