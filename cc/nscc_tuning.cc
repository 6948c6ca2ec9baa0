#include "cc/nscc_tuning.h"

#include "cc/filters.h"

namespace spindrift {
namespace {

// The network the constants were tuned for: 100 Gb/s, 12 us.
constexpr double kReferenceBdp = 150'000;
constexpr double kReferenceRttUs = 12;
constexpr std::uint64_t kReferenceBps = 100'000'000'000;

double chosen_or(double chosen, double derived) {
  return chosen > 0 ? chosen : derived;
}

}  // namespace

NsccChosen chosen_from(std::span<const double> values) {
  return {
      .base_rtt_us = values[0],
      .base_rtt_floor_us = values[1],
      .has_trimming = values[2] >= 0.5,
      .target_delay_us = values[3],
      .max_window_bdp = values[4],
      .alpha_bytes_per_us = values[5],
      .fair_increase_bytes = values[6],
      .fast_increase_scale = values[7],
      .fast_delay_us = values[8],
      .eta_bytes = values[9],
      .gamma = values[10],
      .max_md_jump = values[11],
      .has_quick_adapt = values[12] >= 0.5,
      .quick_adapt_gate = values[13],
      .quick_adapt_delay_us = values[14],
      .adjust_bytes = values[15],
      .adjust_period_us = values[16],
      .delay_gain = values[17],
  };
}

NsccTuning derive(const NsccChosen& chosen, const FlowInfo& flow) {
  NsccTuning tuning;
  const double measured_us = flow.base_rtt > Duration{} ? to_us(flow.base_rtt) : kReferenceRttUs;
  const double floor_us = chosen_or(chosen.base_rtt_floor_us, to_us(flow.host_latency));
  const double base_rtt_us = std::max(chosen_or(chosen.base_rtt_us, measured_us), floor_us);
  tuning.config_base_rtt = std::max(from_us(base_rtt_us), Duration{1});
  tuning.base_rtt_floor = from_us(floor_us);
  tuning.link_rate =
      flow.link_rate.is_unlimited() ? Rate::bits_per_second(kReferenceBps) : flow.link_rate;
  tuning.mtu = std::max<double>(1, flow.mtu_bytes);
  tuning.window_cap = std::max(window_cap_bytes(flow), tuning.mtu);
  tuning.target_us =
      chosen_or(chosen.target_delay_us, (chosen.has_trimming ? 0.75 : 1.0) * base_rtt_us);
  tuning.max_window_bdp = chosen.max_window_bdp;

  const double scaling_a = bdp_bytes(tuning.link_rate, tuning.config_base_rtt) / kReferenceBdp;
  const double scaling_b = tuning.target_us / kReferenceRttUs;
  tuning.alpha = chosen_or(chosen.alpha_bytes_per_us,
                           4 * scaling_a * scaling_b * tuning.mtu / tuning.target_us);
  tuning.fair_increase = chosen_or(chosen.fair_increase_bytes, 5 * tuning.mtu * scaling_a);
  tuning.fast_scale = chosen_or(chosen.fast_increase_scale, 0.25 * scaling_a);
  tuning.fast_delay_us = chosen.fast_delay_us;
  tuning.eta = chosen_or(chosen.eta_bytes, 0.15 * tuning.mtu * scaling_a);
  tuning.gamma = chosen.gamma;
  tuning.max_md_jump = chosen.max_md_jump;
  tuning.has_quick_adapt = chosen.has_quick_adapt;
  tuning.quick_adapt_divisor = std::exp2(chosen.quick_adapt_gate);
  tuning.quick_adapt_delay_us =
      chosen_or(chosen.quick_adapt_delay_us, chosen.has_trimming ? kHuge : 4 * tuning.target_us);
  tuning.adjust_bytes = chosen_or(chosen.adjust_bytes, 8 * tuning.mtu);
  tuning.adjust_period =
      chosen.adjust_period_us > 0 ? from_us(chosen.adjust_period_us) : tuning.config_base_rtt;
  tuning.delay_gain = chosen.delay_gain;
  return tuning;
}

}  // namespace spindrift
