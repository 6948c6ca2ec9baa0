#pragma once
// PacketIo over UDP sockets: one receive socket per rail and one send socket per entropy, GSO and
// GRO, ECN in both directions, the network's error messages. Linux.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/config.h"
#include "spindrift/provider.h"

namespace spindrift {

// Scheme "udp". Opening prints what warn_about_udp() says on stderr.
const ProviderInfo& udp_provider();

Result<std::unique_ptr<PacketIo>> open_udp(const UdpOptions& options);

// What the system's settings take away from these options, one sentence each, with the setting to
// change. Empty: nothing.
std::vector<std::string> warn_about_udp(const UdpOptions& options);

}  // namespace spindrift
