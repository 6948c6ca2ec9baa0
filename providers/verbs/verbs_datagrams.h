#pragma once
// PacketIo over UD queue pairs: one path, and packets up to the MTU of the port. Part of the module
// libspindrift-verbs.so.
#include <memory>

#include "spindrift/provider.h"

#include "providers/verbs/verbs_options.h"

namespace spindrift {

// Rails are added by the caller.
Result<std::unique_ptr<PacketIo>> open_verbs_datagrams(const VerbsOptions& options);

}  // namespace spindrift
