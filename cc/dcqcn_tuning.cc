#include "cc/dcqcn_tuning.h"

#include <array>
#include <bit>

#include "cc/filters.h"

namespace spindrift {
namespace {

constexpr double kHyperFactor = 10;

constexpr std::string_view kPaper = "SIGCOMM 2015, deployed parameters";

// One set, in the order of kDcqcnParameters.
struct Values {
  double g;
  double alpha_period_us;
  double alpha_by_period;
  double initial_alpha;
  double notification_spacing_us;
  double cut_period_us;
  double clamps_target;
  double timer_us;
  double byte_counter_bytes;
  double fast_recovery_stages;
  double rate_ai_mbps;
  double rate_hai_mbps;
  double hyper_grows;
  double rate_min_mbps;
  double keeps_marks;
  double cuts_on_loss;
};

constexpr Values kPaperSet{
    .g = 1.0 / 256,
    .alpha_period_us = 55,
    .alpha_by_period = 0,
    .initial_alpha = 1,
    .notification_spacing_us = 50,
    .cut_period_us = 0,
    .clamps_target = 1,
    .timer_us = 55,
    .byte_counter_bytes = 10e6,
    .fast_recovery_stages = 5,
    .rate_ai_mbps = 40,
    .rate_hai_mbps = 0,
    .hyper_grows = 1,
    .rate_min_mbps = 40,
    .keeps_marks = 1,
    .cuts_on_loss = 1,
};

constexpr Values kMlx5Set{
    .g = 5.0 / 1024,
    .alpha_period_us = 1,
    .alpha_by_period = 1,
    .initial_alpha = 1023.0 / 1024,
    .notification_spacing_us = 4,
    .cut_period_us = 4,
    .clamps_target = 0,
    .timer_us = 300,
    .byte_counter_bytes = 32767 * 64,
    .fast_recovery_stages = 1,
    .rate_ai_mbps = 5,
    .rate_hai_mbps = 50,
    .hyper_grows = 1,
    .rate_min_mbps = 1,
    .keeps_marks = 0,
    .cuts_on_loss = 1,
};

constexpr Values kNs3Set{
    .g = 1.0 / 256,
    .alpha_period_us = 1,
    .alpha_by_period = 1,
    .initial_alpha = 1,
    .notification_spacing_us = 0,
    .cut_period_us = 4,
    .clamps_target = 0,
    .timer_us = 300,
    .byte_counter_bytes = 0,
    .fast_recovery_stages = 1,
    .rate_ai_mbps = 5,
    .rate_hai_mbps = 50,
    .hyper_grows = 0,
    .rate_min_mbps = 100,
    .keeps_marks = 0,
    .cuts_on_loss = 1,
};

using List = std::array<double, kDcqcnParameterCount>;
static_assert(sizeof(Values) == sizeof(List));
constexpr List kPaperValues = std::bit_cast<List>(kPaperSet);
constexpr List kMlx5Values = std::bit_cast<List>(kMlx5Set);
constexpr List kNs3Values = std::bit_cast<List>(kNs3Set);

}  // namespace

const ParameterInfo kDcqcnParameters[kDcqcnParameterCount] = {
    {.name = "g",
     .unit = "",
     .default_value = kPaperSet.g,
     .min = 1e-6,
     .max = 1,
     .help = "weight of one notification in alpha",
     .source = kPaper},
    {.name = "alpha_period_us",
     .unit = "us",
     .default_value = kPaperSet.alpha_period_us,
     .min = 1,
     .max = 1e6,
     .help = "K: alpha decays once per such period without a notification",
     .source = kPaper},
    {.name = "alpha_by_period",
     .unit = "",
     .default_value = kPaperSet.alpha_by_period,
     .min = 0,
     .max = 1,
     .help =
         "0: each notification raises alpha; 1: each period with one does, from the first one on",
     .source = "1: mlx5 firmware (dce_tcp_rtt)"},
    {.name = "initial_alpha",
     .unit = "",
     .default_value = kPaperSet.initial_alpha,
     .min = 0,
     .max = 1,
     .help = "alpha of a new flow",
     .source = kPaper},
    {.name = "notification_spacing_us",
     .unit = "us",
     .default_value = kPaperSet.notification_spacing_us,
     .min = 0,
     .max = 1e6,
     .help = "N: marks closer together are one notification",
     .source = kPaper},
    {.name = "cut_period_us",
     .unit = "us",
     .default_value = kPaperSet.cut_period_us,
     .min = 0,
     .max = 1e6,
     .help = "least time between two cuts; a notification in between waits for its end",
     .source = "0: SIGCOMM 2015; others: mlx5 firmware (rate_reduce_monitor_period)"},
    {.name = "clamps_target",
     .unit = "",
     .default_value = kPaperSet.clamps_target,
     .min = 0,
     .max = 1,
     .help = "1: every cut sets the target rate; 0: only one with an increase before it does",
     .source = "1: SIGCOMM 2015; 0: mlx5 firmware (clamp_tgt_rate)"},
    {.name = "timer_us",
     .unit = "us",
     .default_value = kPaperSet.timer_us,
     .min = 1,
     .max = 1e6,
     .help = "T: time between rate increases",
     .source = kPaper},
    {.name = "byte_counter_bytes",
     .unit = "bytes",
     .default_value = kPaperSet.byte_counter_bytes,
     .min = 0,
     .max = 1e12,
     .help = "B: acknowledged bytes between rate increases; 0: none, stages are the timer's",
     .source = kPaper},
    {.name = "fast_recovery_stages",
     .unit = "",
     .default_value = kPaperSet.fast_recovery_stages,
     .min = 1,
     .max = 100,
     .help = "F: increases after a cut before the target rate itself rises",
     .source = kPaper},
    {.name = "rate_ai_mbps",
     .unit = "Mb/s",
     .default_value = kPaperSet.rate_ai_mbps,
     .min = 0.001,
     .max = 1e6,
     .help = "R_AI: additive step of the target rate",
     .source = kPaper},
    {.name = "rate_hai_mbps",
     .unit = "Mb/s",
     .default_value = kPaperSet.rate_hai_mbps,
     .min = 0,
     .max = 1e6,
     .help = "R_HAI: hyper step of the target rate; 0: ten times the additive step",
     .source = "ratio of the mlx5 firmware defaults; the paper gives no number"},
    {.name = "hyper_grows",
     .unit = "",
     .default_value = kPaperSet.hyper_grows,
     .min = 0,
     .max = 1,
     .help = "1: the i-th hyper step is i R_HAI; 0: each is R_HAI",
     .source = "1: SIGCOMM 2015; 0: ns-3 model of HPCC"},
    {.name = "rate_min_mbps",
     .unit = "Mb/s",
     .default_value = kPaperSet.rate_min_mbps,
     .min = 1,
     .max = 1e6,
     .help = "the rate is never cut below this",
     .source = kPaper},
    {.name = "keeps_marks",
     .unit = "",
     .default_value = kPaperSet.keeps_marks,
     .min = 0,
     .max = 1,
     .help = "1: marks within the spacing are told of at its end; 0: they are forgotten",
     .source = "1: SIGCOMM 2015, figure 6; 0: a plain limit, as NICs are described"},
    {.name = "cuts_on_loss",
     .unit = "",
     .default_value = kPaperSet.cuts_on_loss,
     .min = 0,
     .max = 1,
     .help = "1: a loss counts as a notification, at most one per 50 us; 0: losses are ignored",
     .source = "own: the paper assumes a lossless network, ours may drop"},
};

const ParameterSet kDcqcnSets[kDcqcnSetCount] = {
    {.name = "paper",
     .summary = "as deployed by the authors",
     .values = kPaperValues,
     .source = "SIGCOMM 2015"},
    {.name = "mlx5",
     .summary = "defaults of the firmware of mlx5 NICs",
     .values = kMlx5Values,
     .source = "NVIDIA DOCA 3.4, DCQCN parameters; timer, byte counter, F and steps as reported"},
    {.name = "ns3",
     .summary = "the ns-3 model of HPCC, timer only",
     .values = kNs3Values,
     .source = "rdma-hw.cc of alibaba-edu/High-Precision-Congestion-Control"},
};

DcqcnTuning dcqcn_tuning(std::span<const double> values) {
  return {
      .g = values[0],
      .alpha_period = from_us(values[1]),
      .alpha_by_period = values[2] >= 0.5,
      .initial_alpha = values[3],
      .notification_spacing = from_us(values[4]),
      .cut_period = from_us(values[5]),
      .clamps_target = values[6] >= 0.5,
      .timer = from_us(values[7]),
      .byte_counter = values[8],
      .fast_recovery_stages = static_cast<std::uint64_t>(values[9]),
      .rate_ai_bps = values[10] * 1e6,
      .rate_hai_bps = (values[11] > 0 ? values[11] : kHyperFactor * values[10]) * 1e6,
      .hyper_grows = values[12] >= 0.5,
      .rate_min_bps = values[13] * 1e6,
      .keeps_marks = values[14] >= 0.5,
      .cuts_on_loss = values[15] >= 0.5,
  };
}

}  // namespace spindrift
