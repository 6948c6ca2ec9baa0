#pragma once
// PacketIo over DPDK ports: frames built and read here, in user space. Part of the module
// libspindrift-dpdk.so, which alone links DPDK.
#include <memory>
#include <span>

#include "spindrift/provider.h"

#include "providers/dpdk/device_options.h"

namespace spindrift {

// Starts DPDK when it is not running yet. Rails are added by the caller.
Result<std::unique_ptr<PacketIo>> open_dpdk(std::span<const DeviceOptions> devices);

}  // namespace spindrift
