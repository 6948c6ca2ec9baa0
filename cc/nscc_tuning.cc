#include "cc/nscc_tuning.h"

#include "cc/filters.h"

namespace spindrift {
namespace {

// The network the constants were tuned for: 100 Gb/s, 12 us.
constexpr double kReferenceBdp = 150'000;
constexpr double kReferenceRttUs = 12;
constexpr std::uint64_t kReferenceBps = 100'000'000'000;

constexpr std::string_view kTable = "UE specification table 3-76";

double chosen_or(double chosen, double derived) {
  return chosen > 0 ? chosen : derived;
}

}  // namespace

const ParameterInfo kNsccParameters[kNsccParameterCount] = {
    {.name = "base_rtt_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e7,
     .help = "config_base_rtt: RTT of an idle network; 0: as the handshake measured it",
     .source = kTable},
    {.name = "base_rtt_floor_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e7,
     .help = "shorter RTT samples count as this; 0: what the provider says its hosts add",
     .source = "own: software endpoints have a few RTTs far below their usual one"},
    {.name = "has_trimming",
     .unit = "",
     .default_value = 0,
     .min = 0,
     .max = 1,
     .help = "1: switches trim packets instead of dropping them",
     .source = kTable},
    {.name = "target_delay_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e7,
     .help = "target_qdelay; 0: the base RTT, or 0.75 of it with trimming",
     .source = kTable},
    {.name = "max_window_bdp",
     .unit = "BDP",
     .default_value = 1.5,
     .min = 0.1,
     .max = 1000,
     .help = "largest and first window in bandwidth-delay products",
     .source = kTable},
    {.name = "alpha_bytes_per_us",
     .unit = "bytes/us",
     .default_value = 0,
     .min = 0,
     .max = 1e9,
     .help = "proportional increase; 0: 4 MTU x scaling_a x scaling_b / target delay",
     .source = kTable},
    {.name = "fair_increase_bytes",
     .unit = "bytes",
     .default_value = 0,
     .min = 0,
     .max = 1e9,
     .help = "fi: increase per window above target without marks; 0: 5 MTU x scaling_a",
     .source = kTable},
    {.name = "fast_increase_scale",
     .unit = "",
     .default_value = 0,
     .min = 0,
     .max = 1e3,
     .help = "fi_scale: bytes gained per byte received without delay; 0: 0.25 x scaling_a",
     .source = kTable},
    {.name = "fast_delay_us",
     .unit = "us",
     .default_value = 1,
     .min = 0,
     .max = 1e6,
     .help = "delay below this counts as none",
     .source = "uet-htsim; the specification leaves it open"},
    {.name = "eta_bytes",
     .unit = "bytes",
     .default_value = 0,
     .min = 0,
     .max = 1e9,
     .help = "increase per adjustment period; 0: 0.15 MTU x scaling_a",
     .source = kTable},
    {.name = "gamma",
     .unit = "",
     .default_value = 0.8,
     .min = 0.001,
     .max = 1,
     .help = "strength of the multiplicative decrease",
     .source = kTable},
    {.name = "max_md_jump",
     .unit = "",
     .default_value = 0.5,
     .min = 0.01,
     .max = 0.999,
     .help = "one multiplicative decrease leaves at least this share of the window",
     .source = kTable},
    {.name = "has_quick_adapt",
     .unit = "",
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "0: disable_quick_adapt",
     .source = kTable},
    {.name = "quick_adapt_gate",
     .unit = "",
     .default_value = 3,
     .min = 0,
     .max = 16,
     .help = "qa_gate: quick adapt acts when less than the largest window / 2^gate arrived",
     .source = kTable},
    {.name = "quick_adapt_delay_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e9,
     .help = "qa_threshold; 0: 4 target delays, or none with trimming",
     .source = kTable},
    {.name = "adjust_bytes",
     .unit = "bytes",
     .default_value = 0,
     .min = 0,
     .max = 1e12,
     .help = "bytes received between adjustments of the window; 0: 8 MTU",
     .source = kTable},
    {.name = "adjust_period_us",
     .unit = "us",
     .default_value = 0,
     .min = 0,
     .max = 1e7,
     .help = "time between adjustments of the window; 0: the base RTT",
     .source = kTable},
    {.name = "delay_gain",
     .unit = "",
     .default_value = 0,
     .min = 0,
     .max = 1,
     .help = "weight of one sample in the average delay; 0: its share of the window",
     .source = "own: the specification asks for a mean over about one RTT"},
};

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
