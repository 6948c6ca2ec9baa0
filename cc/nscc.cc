// NSCC, the window algorithm of Ultra Ethernet (specification 3.6.13; uet.md B.2). One window in
// bytes over all paths, steered by ECN marks and queueing delay. The numbered steps are those of
// uet.md B.2; "in flight" is what the transport measured.
//
// Lower bound: one packet (mtu_bytes). It does not pace.
#include "cc/algorithms.h"
#include "cc/filters.h"
#include "cc/nscc_tuning.h"

namespace spindrift {
namespace {

// Where no gain is chosen, delay is averaged by bytes: a window's worth, about one RTT. Lone
// packets of a large window still count a little.
constexpr double kGainMin = 1.0 / 256;

class Nscc final : public CongestionControl {
 public:
  Nscc(const FlowInfo& flow, std::span<const double> values)
      : chosen_(chosen_from(values)),
        flow_(flow),
        tuning_(derive(chosen_, flow)),
        base_rtt_(tuning_.config_base_rtt),
        max_window_(max_window()),
        window_(max_window_),
        last_adjust_(flow.now),
        last_decrease_(flow.now) {}

  SendLimits initial() const override { return limits(); }
  SendLimits on_ack(const AckEvent& event) override {
    process_ack(event);
    return finish();
  }
  SendLimits on_loss(const LossEvent& event) override;
  SendLimits on_signal(Time now, const Signal& signal) override;
  void describe(StateWriter& out) const override;

 private:
  struct Delay {
    double us = 0;
    bool is_marked = false;
  };

  void process_ack(const AckEvent& event);
  bool obey_receiver(const AckEvent& event, double received);
  double measure_delay_us(const AckEvent& event, double received);
  void average(double delay_us, double bytes);
  void react(Time now, Delay delay, double received, bool is_receiver_limited);
  void adjust(Time now);
  bool fast_increase(double delay_us, double received);
  void multiplicative_decrease(Time now);
  bool quick_adapt(Time now, Delay delay, double in_flight, bool is_loss);
  bool resize_to_achieved(Time now, double delay_us, double in_flight, bool is_loss);
  void change_path(const PathChanged& path);

  double max_window() const {
    const double bdp = bdp_bytes(tuning_.link_rate, base_rtt_);
    return std::clamp(tuning_.max_window_bdp * bdp, tuning_.mtu, tuning_.window_cap);
  }
  void set_window(double bytes) { window_ = std::max(bytes, tuning_.mtu); }
  SendLimits limits() const { return {.window_bytes = static_cast<std::uint64_t>(window_)}; }
  SendLimits finish() {
    window_ = std::clamp(window_, tuning_.mtu, max_window_);
    return limits();
  }

  NsccChosen chosen_;
  FlowInfo flow_;
  NsccTuning tuning_;
  Duration base_rtt_;
  double max_window_;
  double window_;
  double saved_window_ = 0;
  double average_delay_us_ = 0;
  double increase_bytes2_ = 0;  // inc_bytes: divided by the window it becomes bytes
  double received_bytes_ = 0;   // since the last adjustment
  double achieved_bytes_ = 0;   // since the last quick-adapt check
  double fast_bytes_ = 0;       // fi_count
  double bytes_to_ignore_ = 0;
  double bytes_ignored_ = 0;
  Time last_adjust_;
  Time last_decrease_;
  Time quick_adapt_end_{};
  std::uint64_t quick_adapts_ = 0;
  std::uint64_t decreases_ = 0;
  bool has_quick_adapt_end_ = false;
  bool triggers_quick_adapt_ = false;
  bool is_fast_ = false;
  bool has_average_ = false;
};

void Nscc::process_ack(const AckEvent& event) {
  const double received = bytes_of(event.received_bytes);  // step 1
  bytes_ignored_ += received;
  received_bytes_ += received;
  achieved_bytes_ += received;
  const bool is_receiver_limited = obey_receiver(event, received);  // step 3
  if (event.rtt <= Duration{}) return;                              // step 2, judged before
  const Delay delay{.us = measure_delay_us(event, received), .is_marked = event.is_marked};
  if (quick_adapt(event.now, delay, bytes_of(event.in_flight_bytes), false)) return;
  react(event.now, delay, received, is_receiver_limited);
  adjust(event.now);
}

// Step 3, destination flow control: the penalty is in 1/128 of the bytes just received.
bool Nscc::obey_receiver(const AckEvent& event, double received) {
  if (event.receiver_penalty > 0) {
    if (saved_window_ <= 0) saved_window_ = window_;
    window_ = std::min(window_, bytes_of(event.in_flight_bytes));
    set_window(window_ - std::floor(event.receiver_penalty * received / 128));
    return true;
  }
  if (event.restores_window && saved_window_ > 0) {
    window_ = std::min(saved_window_, max_window_);
    saved_window_ = 0;
  }
  return false;
}

// Step 4.
double Nscc::measure_delay_us(const AckEvent& event, double received) {
  const Duration rtt = std::max(event.rtt, tuning_.base_rtt_floor);
  if (rtt < base_rtt_) {
    base_rtt_ = rtt;
    max_window_ = max_window();
  }
  const double delay_us = to_us(rtt - base_rtt_);
  average(delay_us, received);
  return delay_us;
}

void Nscc::average(double delay_us, double bytes) {
  if (!has_average_) {
    average_delay_us_ = delay_us;
    has_average_ = true;
    return;
  }
  const double gain =
      tuning_.delay_gain > 0 ? tuning_.delay_gain : std::clamp(bytes / window_, kGainMin, 1.0);
  average_delay_us_ += gain * (delay_us - average_delay_us_);
}

// Step 6: four cases by mark and delay.
void Nscc::react(Time now, Delay delay, double received, bool is_receiver_limited) {
  const bool is_above_target = delay.us >= tuning_.target_us;
  if (delay.is_marked) {
    // A mark with little delay is one path's trouble: left to the path policy.
    if (is_above_target) multiplicative_decrease(now);
    return;
  }
  if (is_receiver_limited) return;
  if (is_above_target) {
    increase_bytes2_ += tuning_.fair_increase * received;
  } else if (!fast_increase(delay.us, received)) {
    increase_bytes2_ += tuning_.alpha * received * (tuning_.target_us - delay.us);
  }
}

// Step 7.
void Nscc::adjust(Time now) {
  const bool is_period_over = now - last_adjust_ >= tuning_.adjust_period;
  if (!is_period_over && received_bytes_ <= tuning_.adjust_bytes) return;
  window_ += increase_bytes2_ / window_;
  if (is_period_over) {
    window_ += tuning_.eta;
    last_adjust_ = now;
  }
  increase_bytes2_ = 0;
  received_bytes_ = 0;
}

bool Nscc::fast_increase(double delay_us, double received) {
  if (delay_us < tuning_.fast_delay_us) {
    fast_bytes_ += received;
    if (is_fast_ || fast_bytes_ > window_) {
      window_ = std::min(window_ + received * tuning_.fast_scale, max_window_);
      is_fast_ = true;
      return true;
    }
  } else {
    fast_bytes_ = 0;
  }
  is_fast_ = false;
  return false;
}

void Nscc::multiplicative_decrease(Time now) {
  is_fast_ = false;
  fast_bytes_ = 0;
  const bool is_too_soon = now - last_decrease_ <= base_rtt_;
  if (average_delay_us_ <= tuning_.target_us || is_too_soon) return;
  const double excess = (average_delay_us_ - tuning_.target_us) / average_delay_us_;
  set_window(window_ * std::max(1 - tuning_.gamma * excess, tuning_.max_md_jump));
  last_decrease_ = now;
  ++decreases_;
}

// Step 5. True: this event was handled, nothing else may move the window.
bool Nscc::quick_adapt(Time now, Delay delay, double in_flight, bool is_loss) {
  if (!tuning_.has_quick_adapt) return false;
  const bool is_old_news = bytes_ignored_ < bytes_to_ignore_ && delay.is_marked;
  const bool is_handled = is_old_news || resize_to_achieved(now, delay.us, in_flight, is_loss);
  if (is_handled) {
    increase_bytes2_ = 0;
    received_bytes_ = 0;
  }
  return is_handled;
}

// Once per RTT at target: far less got through than the window promised, so the window becomes what
// got through.
bool Nscc::resize_to_achieved(Time now, double delay_us, double in_flight, bool is_loss) {
  if (has_quick_adapt_end_ && now < quick_adapt_end_) return false;
  const bool has_loss = triggers_quick_adapt_ || is_loss;
  const bool is_severe = has_loss || delay_us > tuning_.quick_adapt_delay_us;
  const bool adapts = has_quick_adapt_end_ && is_severe &&
                      achieved_bytes_ < max_window_ / tuning_.quick_adapt_divisor;
  if (adapts) {
    // After trims, which take their size off the window one by one, this may also raise it. For
    // delay alone we only shrink, other than the specification: the last bytes of a draining queue
    // would lift a window that marks have just brought down.
    set_window(has_loss ? achieved_bytes_ : std::min(achieved_bytes_, window_));
    bytes_to_ignore_ = in_flight;
    bytes_ignored_ = 0;
    triggers_quick_adapt_ = false;
    ++quick_adapts_;
  }
  achieved_bytes_ = 0;
  quick_adapt_end_ = after(now, base_rtt_ + from_us(tuning_.target_us));
  has_quick_adapt_end_ = true;
  return adapts;
}

SendLimits Nscc::on_loss(const LossEvent& event) {
  const double lost = bytes_of(event.lost_bytes);
  bytes_ignored_ += lost;
  switch (event.cause) {
    // Without receiver credits a trim at the last hop counts like any other.
    case LossCause::kTrimmed:
    case LossCause::kTrimmedLastHop: {
      average(to_us(tuning_.config_base_rtt), lost);
      triggers_quick_adapt_ = true;
      const double in_flight = bytes_of(event.in_flight_bytes);
      if (!quick_adapt(event.now, {.us = 0, .is_marked = true}, in_flight, true)) {
        set_window(window_ - lost);
      }
      break;
    }
    case LossCause::kReordered:
    case LossCause::kTimeout:
      set_window(window_ - lost);
      break;
  }
  return finish();
}

SendLimits Nscc::on_signal(Time, const Signal& signal) {
  if (const auto* path = std::get_if<PathChanged>(&signal)) {
    change_path(*path);
  } else if (const auto* spurious = std::get_if<LossWasSpurious>(&signal)) {
    window_ += bytes_of(spurious->bytes);  // what the inferred loss had taken
  }
  return finish();
}

void Nscc::change_path(const PathChanged& path) {
  flow_.base_rtt = path.base_rtt;
  flow_.link_rate = path.link_rate;
  tuning_ = derive(chosen_, flow_);
  base_rtt_ = tuning_.config_base_rtt;
  max_window_ = max_window();
}

void Nscc::describe(StateWriter& out) const {
  out.field("window_bytes", window_);
  out.field("max_window_bytes", max_window_);
  out.field("saved_window_bytes", saved_window_);
  out.field("base_rtt_us", to_us(base_rtt_));
  out.field("average_delay_us", average_delay_us_);
  out.field("pending_increase_bytes2", increase_bytes2_);
  out.field("achieved_bytes", achieved_bytes_);
  out.field("bytes_to_ignore", bytes_to_ignore_);
  out.field("bytes_ignored", bytes_ignored_);
  out.field("is_fast", is_fast_ ? 1 : 0);
  out.field("decreases", static_cast<double>(decreases_));
  out.field("quick_adapts", static_cast<double>(quick_adapts_));
  out.field("target_delay_us", tuning_.target_us);
  out.field("alpha_bytes_per_us", tuning_.alpha);
  out.field("fair_increase_bytes", tuning_.fair_increase);
  out.field("fast_increase_scale", tuning_.fast_scale);
  out.field("eta_bytes", tuning_.eta);
  out.field("quick_adapt_gate_bytes", max_window_ / tuning_.quick_adapt_divisor);
  out.field("quick_adapt_delay_us", tuning_.quick_adapt_delay_us);
  out.field("quick_adapt_window_us", to_us(base_rtt_) + tuning_.target_us);
}

std::unique_ptr<CongestionControl> make(const FlowInfo& flow, std::span<const double> values) {
  return std::make_unique<Nscc>(flow, values);
}

}  // namespace

const CcInfo kNscc{
    .name = "nscc",
    .summary =
        "window by ECN marks and queueing delay, the sender-based algorithm of Ultra Ethernet",
    .traits = {.needs_ecn = true},
    .parameters = kNsccParameters,
    .make = &make,
};

}  // namespace spindrift
