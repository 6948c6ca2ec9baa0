#pragma once
// A congestion-controlled flow: the algorithm, its limits, what is in flight, when the next packet
// may leave, and the delivery rate. Measured once here, outside the algorithms.
#include <algorithm>
#include <memory>

#include "spindrift/congestion_control.h"

#include "transport/limit_check.h"

namespace spindrift {

class Flow {
 public:
  // `burst` is how much the pacer may catch up after the caller was held up: at least 20 us, since
  // a host's timer tick alone stops a thread that long.
  Flow(std::unique_ptr<CongestionControl> algorithm, std::uint64_t burst_bytes,
       std::uint64_t receiver_bytes, const LimitCheck& check = {})
      : algorithm_(std::move(algorithm)),
        check_(check),
        limits_(check_.first(algorithm_->initial())),
        burst_bytes_(burst_bytes),
        receiver_bytes_(receiver_bytes) {}

  std::uint64_t window_bytes() const { return std::min(limits_.window_bytes, receiver_bytes_); }
  // One packet may always be in flight, whatever the window says: otherwise nothing ever moves.
  // Credit is different: the receiver grants it in the end.
  bool has_room(std::uint32_t bytes) const {
    return (in_flight_ == 0 || in_flight_ + bytes <= window_bytes()) &&
           sent_ + bytes <= limits_.credit_bytes;
  }
  // How many packets of `bytes` each fit and leave `margin` of the window.
  std::uint64_t packets_within(std::uint32_t bytes, std::uint64_t margin) const {
    const std::uint64_t used = in_flight_ + margin;
    const std::uint64_t window = window_bytes() > used ? window_bytes() - used : 0;
    const std::uint64_t credit = limits_.credit_bytes > sent_ ? limits_.credit_bytes - sent_ : 0;
    return std::min(window, credit) / bytes;
  }
  bool is_paced_out(Time now) const {
    return !limits_.pacing_rate.is_unlimited() && next_send_ps_ > to_ps(now);
  }
  Time next_send_time() const {
    return Time(Duration(static_cast<std::int64_t>((next_send_ps_ + 999) / 1000)));
  }

  void on_sent(std::uint64_t bytes, Time now) {
    in_flight_ += bytes;
    sent_ += bytes;
    if (limits_.pacing_rate.is_unlimited()) return;
    if (limits_.pacing_rate != scaled_rate_) scale_rate();
    const std::uint64_t now_ps = to_ps(now);
    const std::uint64_t floor_ps = now_ps > catch_up_ps_ ? now_ps - catch_up_ps_ : 0;
    next_send_ps_ = std::max(next_send_ps_, floor_ps) + picoseconds_for(bytes);
  }
  void on_ack(AckEvent& event) {
    in_flight_ -= std::min(in_flight_, event.acked_bytes);
    delivered_ += event.acked_bytes;
    if (event.acked_bytes != 0) delivered_time_ = event.now;
    event.in_flight_bytes = in_flight_;
    limits_ = check_.after_event(algorithm_->on_ack(event), limits_, event.now);
  }
  void on_loss(LossEvent& event) {
    in_flight_ -= std::min(in_flight_, event.lost_bytes);
    event.in_flight_bytes = in_flight_;
    limits_ = check_.after_event(algorithm_->on_loss(event), limits_, event.now);
  }
  // Bytes that neither arrived nor were lost to congestion (receiver not ready).
  void on_withdrawn(std::uint64_t bytes) { in_flight_ -= std::min(in_flight_, bytes); }
  void on_signal(Time now, const Signal& signal) {
    const SendLimits limits = algorithm_->on_signal(now, signal);
    limits_ = std::holds_alternative<TimerFired>(signal) ? check_.after_timer(limits, now)
                                                         : check_.after_event(limits, limits_, now);
  }

  const SendLimits& limits() const { return limits_; }
  std::uint64_t in_flight() const { return in_flight_; }
  std::uint64_t sent() const { return sent_; }  // ever, what was sent again included
  std::uint64_t delivered() const { return delivered_; }
  Time delivered_time() const { return delivered_time_; }
  const CongestionControl& algorithm() const { return *algorithm_; }
  const LimitCheck& check() const { return check_; }

 private:
  static constexpr std::uint64_t kMinCatchUpPs = 20'000'000;
  static constexpr unsigned kScaleBits = 20;

  // One division for each new rate instead of one for each packet. Rounded up, as pacing must be:
  // by less than 2^-20 ps for each byte.
  void scale_rate() {
    scaled_rate_ = limits_.pacing_rate;
    scaled_ps_per_byte_ = scaled_rate_.picoseconds_for(1ULL << kScaleBits);
    catch_up_ps_ = std::max(kMinCatchUpPs, picoseconds_for(burst_bytes_));
  }
  std::uint64_t picoseconds_for(std::uint64_t bytes) const {
    const auto scaled = static_cast<unsigned __int128>(bytes) * scaled_ps_per_byte_;
    return static_cast<std::uint64_t>((scaled + ((1U << kScaleBits) - 1)) >> kScaleBits);
  }
  static std::uint64_t to_ps(Time t) {
    return static_cast<std::uint64_t>(t.time_since_epoch().count()) * 1000;
  }

  std::unique_ptr<CongestionControl> algorithm_;
  LimitCheck check_;
  SendLimits limits_;
  std::uint64_t burst_bytes_;
  std::uint64_t receiver_bytes_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
  Time delivered_time_{};
  std::uint64_t next_send_ps_ = 0;
  Rate scaled_rate_{};
  std::uint64_t scaled_ps_per_byte_ = 0;
  std::uint64_t catch_up_ps_ = 0;
};

}  // namespace spindrift
