#pragma once
// The addresses of this host.
#include <string>
#include <vector>

#include "spindrift/address.h"

namespace spindrift::collectives {

// Of all interfaces that are up: IPv4 before IPv6, those of container bridges last, no link-local
// ones. Loopback addresses only with `has_loopback`.
std::vector<NetAddress> own_addresses(bool has_loopback);

}  // namespace spindrift::collectives
