#pragma once
// Endpoints over two DPDK devices that are joined by memif, in this process. The module is loaded
// as users load it; addresses are resolved by ARP. Endpoints beyond the second share the two
// devices.
#include "tests/contract/endpoint_world.h"

namespace spindrift {

WorldFactory dpdk_world();

}  // namespace spindrift
