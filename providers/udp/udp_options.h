#pragma once
// What a udp:// URL may set.
#include "spindrift/address.h"
#include "spindrift/config.h"
#include "spindrift/result.h"

namespace spindrift {

// "?gso=0&gro=0&rcvbuf=BYTES&sndbuf=BYTES"
Result<UdpOptions> parse_udp_options(const Url& url);

// Adds to `url` what it does not say itself.
void add_udp_options(const UdpOptions& options, Url& url);

}  // namespace spindrift
