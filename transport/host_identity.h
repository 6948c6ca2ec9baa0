#pragma once
// Which host this is: equal for all processes of one host, different between hosts.
#include <cstdint>

namespace spindrift {

// Hash of SPINDRIFT_HOST_ID when set, else of the boot id and the machine id.
std::uint64_t host_identity();

}  // namespace spindrift
