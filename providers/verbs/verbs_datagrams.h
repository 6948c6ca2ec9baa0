#pragma once
// PacketIo over UD queue pairs, which have one path, or over UC queue pairs, each of which is one.
// Packets have up to the MTU of the port. Part of the module libspindrift-verbs.so.
#include <memory>

#include "spindrift/provider.h"

#include "providers/verbs/verbs_options.h"

namespace spindrift {

// Rails are added by the caller.
Result<std::unique_ptr<PacketIo>> open_verbs_datagrams(const VerbsOptions& options);

}  // namespace spindrift
