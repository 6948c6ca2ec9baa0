#pragma once
// Words for the user, through NCCL's logger alone: nothing is written anywhere before it is known.
#include <string>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

void set_logger(Logger logger);
void warn(const std::string& sentence);
// `flags` choose the subsystem that NCCL_DEBUG_SUBSYS filters by.
void inform(unsigned long flags, const std::string& sentence);

}  // namespace spindrift::nccl
