#pragma once
// What this host's network configuration says: addresses, routes, MTU, link speed. Set-up only.
// Internal to providers/udp.
#include <cstdint>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

// Addresses of interfaces that are up, loopback included. Link-local IPv6 addresses are left out
// unless there is nothing else: they mean something only together with an interface.
std::vector<NetAddress> local_addresses(std::uint8_t family);
// Port 0.
Result<NetAddress> source_address_for(const NetAddress& remote);
// Largest UDP payload from `local` to `remote` by the route's MTU.
std::uint32_t route_max_packet_bytes(const NetAddress& local, const NetAddress& remote);
// Zero: unknown (virtual interfaces claim figures that mean nothing).
Rate link_rate_of(const NetAddress& local);

inline constexpr std::uint32_t kMaxUdpPayloadBytes = 65507;

}  // namespace spindrift
