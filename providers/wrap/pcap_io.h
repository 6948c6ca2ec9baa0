#pragma once
// A PacketIo that writes what passes through the PacketIo it owns, in both directions, to a capture
// file that Wireshark opens. The IP and UDP headers are made up from what is known: addresses,
// ports, DSCP and ECN are true, except that a packet sent shows 49152 + entropy as its source port,
// which the provider alone knows.
#include <memory>
#include <string>

#include "spindrift/provider.h"
#include "spindrift/result.h"

namespace spindrift {

// Time stamps are the provider's own clock, moved to the date at which the wrapper was made; with
// `has_date` false they are left as they are, so that runs in virtual time repeat byte for byte.
// A file that can no longer be written ends the capture with one sentence on stderr and leaves the
// traffic alone.
Result<std::unique_ptr<PacketIo>> wrap_with_capture(std::unique_ptr<PacketIo> inner,
                                                    const std::string& path, bool has_date = true);

}  // namespace spindrift
