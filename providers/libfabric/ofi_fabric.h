#pragma once
// Messages and reads over libfabric's reliable datagram endpoints (FI_EP_RDM). Part of the module
// libspindrift-ofi.so, which alone links libfabric.
#include <memory>

#include "spindrift/message_fabric.h"
#include "spindrift/result.h"

#include "providers/libfabric/ofi_options.h"

namespace spindrift {

Result<std::unique_ptr<MessageFabric>> open_ofi(const OfiOptions& options);

// ok, or why libfabric offers nothing here.
Status probe_ofi();

}  // namespace spindrift
