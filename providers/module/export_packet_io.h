#pragma once
// The module's side of the border: a PacketIo behind the table of provider_module.h.
#include "providers/module/provider_module.h"

namespace spindrift {

// Functions over a PacketIo*; `self` is one.
ModulePacketIo packet_io_functions();

}  // namespace spindrift
