#pragma once
// The parameters of DCQCN and the sets that go by a name: the paper's, those of the firmware of
// mlx5 NICs, those of the ns-3 model that most papers since have used (uet.md C.1).
#include <span>

#include "spindrift/congestion_control.h"

namespace spindrift {

// In the order of kDcqcnParameters.
struct DcqcnTuning {
  double g = 0;
  Duration alpha_period{};
  bool alpha_by_period = false;
  double initial_alpha = 0;
  Duration notification_spacing{};
  Duration cut_period{};
  bool clamps_target = true;
  Duration timer{};
  double byte_counter = 0;  // zero: none
  std::uint64_t fast_recovery_stages = 0;
  double rate_ai_bps = 0;
  double rate_hai_bps = 0;
  bool hyper_grows = true;
  double rate_min_bps = 0;
  bool keeps_marks = true;
  bool cuts_on_loss = true;
};

inline constexpr std::size_t kDcqcnParameterCount = 16;
extern const ParameterInfo kDcqcnParameters[kDcqcnParameterCount];
inline constexpr std::size_t kDcqcnSetCount = 3;
extern const ParameterSet kDcqcnSets[kDcqcnSetCount];

// `values` run parallel to kDcqcnParameters.
DcqcnTuning dcqcn_tuning(std::span<const double> values);

}  // namespace spindrift
