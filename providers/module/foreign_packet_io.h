#pragma once
// The library's side of the border: a PacketIo whose functions are those of a module. Internal to
// providers/module.
#include <memory>

#include "spindrift/provider.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// Over what the module's `open` gave.
std::unique_ptr<PacketIo> make_foreign_packet_io(const ProviderModule& module, void* self);

}  // namespace spindrift
