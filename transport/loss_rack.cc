// Time alone: the slowest live path had its time and a reordering window since the packet was sent
// (after RFC 8985, RACK, with one window over all paths).
#include "transport/loss_rules.h"

namespace spindrift {
namespace {

constexpr LossRule kRule{.on_ack = nullptr, .patience = &reorder_patience};

}  // namespace

const LossRuleInfo kRackLossRule{
    .name = "rack",
    .summary = "something sent later arrived and the slowest path had its time (after RFC 8985)",
    .rule = &kRule};

}  // namespace spindrift
