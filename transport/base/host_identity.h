#pragma once
// Which host this is: equal for all processes of one host, different between hosts.
#include <cstdint>
#include <string_view>

namespace spindrift {

// Hash of `forced`; when empty, of SPINDRIFT_HOST_ID when set, else of the boot id and the machine
// id.
std::uint64_t host_identity(std::string_view forced);

}  // namespace spindrift
