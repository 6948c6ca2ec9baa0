#pragma once
// The module's side of the border: a MessageFabric behind the table of provider_module.h.
#include "providers/module/provider_module.h"

namespace spindrift {

// Functions over a MessageFabric*; `self` is one.
ModuleMessageFabric message_fabric_functions();

}  // namespace spindrift
