#pragma once
// Rules that decide which packets are lost. They work on the transport's own records, so they are
// written inside it (transport/loss_*.cc); here is what a registry says of them.
#include <string_view>

namespace spindrift {

struct LossRule;  // transport/loss_rules.h

struct LossRuleInfo {
  std::string_view name;
  std::string_view summary;
  const LossRule* rule = nullptr;
};

}  // namespace spindrift
