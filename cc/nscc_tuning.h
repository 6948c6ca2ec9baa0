#pragma once
// The parameters of NSCC (specification table 3-76, uet.md B.2), as chosen and as derived from a
// flow.
#include <span>

#include "spindrift/congestion_control.h"

#include "cc/nscc_parameters.h"

namespace spindrift {

// As the user chose them; 0 means "derive" where kNsccParameters says so.
struct NsccChosen {
  double base_rtt_us = 0;
  double base_rtt_floor_us = 0;
  bool has_trimming = false;
  double target_delay_us = 0;
  double max_window_bdp = 0;
  double alpha_bytes_per_us = 0;
  double fair_increase_bytes = 0;
  double fast_increase_scale = 0;
  double fast_delay_us = 0;
  double eta_bytes = 0;
  double gamma = 0;
  double max_md_jump = 0;
  bool has_quick_adapt = true;
  double quick_adapt_gate = 0;
  double quick_adapt_delay_us = 0;
  double adjust_bytes = 0;
  double adjust_period_us = 0;
  double delay_gain = 0;
};

// All in bytes and microseconds, ready for use.
struct NsccTuning {
  Duration config_base_rtt{};
  Duration base_rtt_floor{};
  Rate link_rate{};
  double mtu = 0;
  double window_cap = 0;
  double target_us = 0;
  double max_window_bdp = 0;
  double alpha = 0;          // bytes per us
  double fair_increase = 0;  // fi
  double fast_scale = 0;     // fi_scale
  double fast_delay_us = 0;
  double eta = 0;
  double gamma = 0;
  double max_md_jump = 0;
  double quick_adapt_divisor = 0;  // 2^qa_gate
  double quick_adapt_delay_us = 0;
  double adjust_bytes = 0;
  Duration adjust_period{};
  double delay_gain = 0;  // zero: by bytes
  bool has_quick_adapt = true;
};

// `values` run parallel to kNsccParameters.
NsccChosen chosen_from(std::span<const double> values);
NsccTuning derive(const NsccChosen& chosen, const FlowInfo& flow);

}  // namespace spindrift
