// Patience: only the retransmission timeout of a packet tells. The least that works, for
// comparison.
#include "transport/loss_rules.h"

namespace spindrift {
namespace {

constexpr LossRule kRule{.on_ack = nullptr, .patience = &current_rto};

}  // namespace

const LossRuleInfo kTimeoutLossRule{
    .name = "timeout",
    .summary = "something sent later arrived and a whole retransmission timeout passed",
    .rule = &kRule};

}  // namespace spindrift
