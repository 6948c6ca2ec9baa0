#pragma once
// The module's side of the border: a PacketIo behind the table of provider_module.h.
#include <memory>

#include "spindrift/provider.h"
#include "spindrift/result.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// Functions over a PacketIo*; `self` is one.
ModulePacketIo packet_io_functions();

// Reports the error, and that memory ran out, through `sink`.
void report(const ModuleErrorSink& sink, const Error& error);

}  // namespace spindrift
