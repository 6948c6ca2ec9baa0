#include "sim/lane.h"

#include <algorithm>

#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

// A packet in so many asks for an acknowledgement, and the last one of each message.
constexpr std::uint64_t kAckEvery = 16;

}  // namespace

void LaneSender::push(LaneMessage message) {
  const std::uint64_t bytes = message.stream_bytes();
  const auto packets =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + shape_.mtu - 1) / shape_.mtu));
  queue_.push_back({.message = std::move(message), .first_psn = end_psn_, .packets = packets});
  end_psn_ += packets;
}

LaneSegment LaneSender::take(Picoseconds now) {
  SPINDRIFT_CHECK(has_more());
  while (next_psn_ >= queue_[at_].first_psn + queue_[at_].packets)
    ++at_;
  const Queued& queued = queue_[at_];
  const auto index = static_cast<std::uint32_t>(next_psn_ - queued.first_psn);
  LaneSegment out{.message = &queued.message, .psn = next_psn_};
  out.offset = index * shape_.mtu;
  out.bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(shape_.mtu, queued.message.stream_bytes() - out.offset));
  out.is_last = index + 1 == queued.packets;
  out.wants_ack = out.is_last || next_psn_ % kAckEvery == 0;
  if (next_psn_ < fresh_psn_) ++resent_;
  fresh_psn_ = std::max(fresh_psn_, ++next_psn_);
  if (deadline_ == kEndOfTime) deadline_ = now + shape_.timeout;
  return out;
}

void LaneSender::on_ack(std::uint64_t expected, bool is_gap, Picoseconds now) {
  if (expected > fresh_psn_ || expected < una_) return;
  if (expected > una_) {
    una_ = expected;
    tries_ = 0;
    deadline_ = una_ == fresh_psn_ ? kEndOfTime : now + shape_.timeout;
    while (!queue_.empty() && queue_.front().first_psn + queue_.front().packets <= una_) {
      queue_.pop_front();
      if (at_ != 0) --at_;
    }
  }
  if (is_gap || next_psn_ < una_) go_back_to(una_);
}

bool LaneSender::on_timeout(Picoseconds now) {
  if (tries_ == shape_.retries) return false;
  ++tries_;
  deadline_ = now + shape_.timeout;
  go_back_to(una_);
  return true;
}

void LaneSender::go_back_to(std::uint64_t psn) {
  next_psn_ = psn;
  at_ = 0;
}

LaneMessage* LaneSender::unsent(LaneMessageKind kind) {
  if (queue_.empty()) return nullptr;
  Queued& last = queue_.back();
  return last.message.kind == kind && last.first_psn >= fresh_psn_ ? &last.message : nullptr;
}

std::vector<LaneMessage> LaneSender::take_back() {
  std::vector<LaneMessage> out;
  for (Queued& queued : queue_)
    out.push_back(std::move(queued.message));
  queue_.clear();
  go_back_to(end_psn_);
  una_ = fresh_psn_ = end_psn_;
  deadline_ = kEndOfTime;
  return out;
}

}  // namespace spindrift::sim
